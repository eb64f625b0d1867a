//! Replays the corpus: what a fuzzer ever found stays mended.

use std::fs;
use std::path::Path;

use tidegate_fuzz::TARGETS;

#[test]
fn everything_in_the_corpus_is_read() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for target in TARGETS {
        let folder = corpus.join(target.name);
        let mut files: Vec<_> = fs::read_dir(&folder)
            .expect("a folder per target")
            .map(|entry| entry.expect("a file").path())
            .collect();
        files.sort();
        assert!(!files.is_empty(), "{} has no corpus", target.name);
        for file in files {
            println!("{}", file.display());
            (target.run)(&fs::read(&file).expect("a file"));
        }
    }
}
