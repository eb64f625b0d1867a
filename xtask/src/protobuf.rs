//! Compares the committed protobuf code of `crates/wire` with the code that its `proto/` generates, or rewrites it (`cargo xtask bless`).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;

use crate::packages::workspace;

const ROOTS: [&str; 2] = ["envoy/service/ratelimit/v3/rls.proto", "tidegate/v1/limiter.proto"];

#[test]
fn committed_code_is_what_the_protobuf_files_generate() {
    let package = workspace().join("crates/wire");
    let committed = package.join("src/grpc/generated");
    let folder = tempfile::tempdir().unwrap();
    generate(&package.join("proto"), folder.path());
    let generated = read_files(folder.path());
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        for (name, content) in &generated {
            fs::write(committed.join(name), content).unwrap();
        }
    }
    let committed = read_files(&committed);
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&committed), names(&generated), "run `cargo xtask bless`");
    for (name, content) in generated {
        assert!(committed[&name] == content, "{name} is out of date; run `cargo xtask bless`");
    }
}

fn generate(protos: &Path, into: &Path) {
    let descriptors = protox::compile(ROOTS, [protos]).unwrap();
    fs::write(into.join("descriptors.bin"), descriptors.encode_to_vec()).unwrap();
    let mut config = prost_build::Config::new();
    // Maps that keep their order make responses reproducible.
    config.out_dir(into).include_file("protobuf.rs").btree_map(["."]);
    config.compile_fds(descriptors).unwrap();
}

fn read_files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), fs::read(path).unwrap())).collect()
}
