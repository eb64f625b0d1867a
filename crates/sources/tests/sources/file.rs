//! Files as people, editors and Kubernetes change them.
#![cfg(unix)]

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use tempfile::TempDir;
use tidegate_sources::{Event, FileSource, RuleSource, Snapshot};
use tokio::time::{sleep, timeout};

const DEADLINE: Duration = tidegate_testkit::wait::HANG_LIMIT;

/// A source and the folder it reads from.
struct Scene {
    folder: TempDir,
    source: FileSource,
}

impl Scene {
    /// A source of `name` in a new folder, after `prepare` has put things there.
    fn new(name: &str, prepare: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path());
        let source = FileSource::new(folder.path().join(name));
        Self { folder, source }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    async fn next(&mut self) -> Event {
        timeout(DEADLINE, self.source.next()).await.expect("an event before the deadline")
    }

    async fn loaded(&mut self) -> Snapshot {
        match self.next().await {
            Event::Loaded(snapshot) => snapshot,
            Event::Failed(why) => panic!("failed: {why}"),
        }
    }

    async fn failed(&mut self) -> String {
        match self.next().await {
            Event::Failed(why) => why,
            Event::Loaded(snapshot) => panic!("loaded: {snapshot:?}"),
        }
    }

    /// The next event must be this one text at this version.
    async fn expect(&mut self, version: u64, text: &str) {
        let snapshot = self.loaded().await;
        assert_eq!(texts(&snapshot), [text]);
        assert_eq!(snapshot.version, version);
    }
}

fn texts(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.documents.iter().map(|document| document.text.as_deref().unwrap()).collect()
}

/// The file names of a snapshot's documents.
fn names(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.documents.iter().map(|document| document.name.rsplit('/').next().unwrap()).collect()
}

fn one(folder: &Path) {
    fs::write(folder.join("rules.yaml"), "one").unwrap();
}

#[tokio::test]
async fn a_rewritten_file_is_loaded_again() {
    let mut scene = Scene::new("rules.yaml", one);
    scene.expect(1, "one").await;
    scene.write("rules.yaml", "two");
    scene.expect(2, "two").await;
    scene.write("rules.yaml", "six");
    scene.expect(3, "six").await;
}

/// A busy machine may hold up any one change, but not all of them.
#[tokio::test]
async fn a_change_is_told_within_a_second() {
    let mut scene = Scene::new("rules.yaml", one);
    scene.expect(1, "one").await;
    let mut fastest = DEADLINE;
    for version in 2..6 {
        let text = format!("version {version}");
        scene.write("rules.yaml", &text);
        let written = Instant::now();
        scene.expect(version, &text).await;
        fastest = fastest.min(written.elapsed());
    }
    assert!(fastest < Duration::from_secs(1), "{fastest:?}");
}

#[tokio::test]
async fn a_file_is_named_as_it_was_given() {
    let mut scene = Scene::new("rules.yaml", one);
    let snapshot = scene.loaded().await;
    assert_eq!(snapshot.documents[0].name, scene.path("rules.yaml").display().to_string());
}

#[tokio::test]
async fn a_replaced_file_is_loaded_again() {
    let mut scene = Scene::new("rules.yaml", one);
    scene.expect(1, "one").await;
    for (version, text) in [(2, "two"), (3, "three")] {
        scene.write(".rules.yaml.tmp", text);
        fs::rename(scene.path(".rules.yaml.tmp"), scene.path("rules.yaml")).unwrap();
        scene.expect(version, text).await;
    }
    // Some move the old one away first, and write the new one in its place.
    fs::rename(scene.path("rules.yaml"), scene.path("rules.yaml~")).unwrap();
    scene.write("rules.yaml", "four");
    scene.expect(4, "four").await;
}

/// `rules.yaml → ..data/rules.yaml` and `..data → ..2026_1`, which is swapped for a new link.
#[tokio::test]
async fn a_kubernetes_mount_is_followed() {
    let publish = |folder: &Path, generation: &str, text: &str| {
        fs::create_dir(folder.join(generation)).unwrap();
        fs::write(folder.join(generation).join("rules.yaml"), text).unwrap();
        symlink(generation, folder.join("..data_tmp")).unwrap();
        fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    };
    let mount = |folder: &Path| {
        publish(folder, "..2026_1", "one");
        symlink("..data/rules.yaml", folder.join("rules.yaml")).unwrap();
    };
    for whole_folder in [false, true] {
        let mut scene = Scene::new(if whole_folder { "" } else { "rules.yaml" }, mount);
        scene.expect(1, "one").await;
        publish(scene.folder.path(), "..2026_2", "two");
        fs::remove_dir_all(scene.path("..2026_1")).unwrap();
        scene.expect(2, "two").await;
        publish(scene.folder.path(), "..2026_3", "six");
        fs::remove_dir_all(scene.path("..2026_2")).unwrap();
        scene.expect(3, "six").await;
    }
}

#[tokio::test]
async fn the_target_of_a_link_is_watched_where_it_is() {
    let elsewhere = tempfile::tempdir().unwrap();
    let target = elsewhere.path().join("real.yaml");
    fs::write(&target, "one").unwrap();
    let mut scene = Scene::new("rules.yaml", |folder| symlink(&target, folder.join("rules.yaml")).unwrap());
    scene.expect(1, "one").await;
    fs::write(&target, "two").unwrap();
    scene.expect(2, "two").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_written_in_parts_is_loaded_whole() {
    let mut scene = Scene::new("rules.yaml", one);
    scene.expect(1, "one").await;
    let path = scene.path("rules.yaml");
    let parts: Vec<String> = (0..20).map(|number| format!("part {number}\n")).collect();
    let whole = parts.concat();
    let writer = tokio::spawn(async move {
        let mut file = File::create(&path).unwrap();
        for part in parts {
            file.write_all(part.as_bytes()).unwrap();
            sleep(Duration::from_millis(10)).await;
        }
    });
    // A writer that is held up for long may be caught in the middle; what matters is that it passes.
    loop {
        let snapshot = scene.loaded().await;
        if texts(&snapshot) == [&*whole] {
            break;
        }
    }
    writer.await.unwrap();
}

#[tokio::test]
async fn a_deleted_file_fails_until_it_returns() {
    let mut scene = Scene::new("rules.yaml", one);
    scene.expect(1, "one").await;
    fs::remove_file(scene.path("rules.yaml")).unwrap();
    let why = scene.failed().await;
    assert!(why.ends_with("rules.yaml is not there; create it or name another"), "{why}");
    // The same content again: whoever heard of the failure must hear that it is over.
    scene.write("rules.yaml", "one");
    scene.expect(2, "one").await;
}

#[tokio::test]
async fn a_path_may_come_into_being_later() {
    let mut scene = Scene::new("later/rules.yaml", |_| {});
    assert!(scene.failed().await.contains("is not there"));
    fs::create_dir(scene.path("later")).unwrap();
    scene.write("later/rules.yaml", "one");
    scene.expect(1, "one").await;
    scene.write("later/rules.yaml", "two");
    scene.expect(2, "two").await;
}

#[tokio::test]
async fn a_touch_is_no_change() {
    let mut scene = Scene::new("rules.yaml", one);
    scene.expect(1, "one").await;
    File::open(scene.path("rules.yaml")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    scene.write("rules.yaml", "one");
    scene.write("unrelated.txt", "x");
    scene.write("rules.yaml", "two");
    // Had the touch been an event, this would be version 3.
    scene.expect(2, "two").await;
}

#[tokio::test]
async fn a_folder_is_all_its_files_in_order() {
    let mut scene = Scene::new("", |folder| {
        for (name, text) in
            [("b.yaml", "b"), ("a.json", "a"), ("c.yml", "c"), ("note.txt", "-"), (".d.yaml", "-")]
        {
            fs::write(folder.join(name), text).unwrap();
        }
        fs::create_dir(folder.join("sub.yaml")).unwrap();
    });
    let snapshot = scene.loaded().await;
    assert_eq!(names(&snapshot), ["a.json", "b.yaml", "c.yml"]);
    assert_eq!(texts(&snapshot), ["a", "b", "c"]);
    scene.write("aa.yaml", "aa");
    assert_eq!(names(&scene.loaded().await), ["a.json", "aa.yaml", "b.yaml", "c.yml"]);
    fs::remove_file(scene.path("b.yaml")).unwrap();
    assert_eq!(names(&scene.loaded().await), ["a.json", "aa.yaml", "c.yml"]);
    scene.write("c.yml", "see");
    assert_eq!(texts(&scene.loaded().await), ["a", "aa", "see"]);
    fs::rename(scene.path("a.json"), scene.path("z.json")).unwrap();
    assert_eq!(names(&scene.loaded().await), ["aa.yaml", "c.yml", "z.json"]);
}

#[tokio::test]
async fn an_empty_folder_is_a_failure() {
    let mut scene = Scene::new("", |_| {});
    assert!(scene.failed().await.contains("holds no *.yaml"));
    one(scene.folder.path());
    scene.expect(1, "one").await;
}

#[tokio::test]
async fn a_name_with_control_characters_is_refused() {
    let write = |folder: &Path| {
        fs::write(folder.join("good.yaml"), "a").unwrap();
        fs::write(folder.join("b\u{1b}[2J\n.yaml"), "b").unwrap();
    };
    let mut scene = Scene::new(".", write);
    let why = scene.failed().await;
    assert!(why.contains("b\\u{1b}[2J\\n.yaml` has control characters"), "{why}");
}

#[tokio::test]
async fn what_cannot_be_read_says_why() {
    let mut scene = Scene::new("rules.yaml", |folder| {
        fs::write(folder.join("rules.yaml"), b"rules:\n  - \xff").unwrap();
    });
    let why = scene.failed().await;
    assert!(why.ends_with("rules.yaml:2:5: byte 0xff is not UTF-8; save the text as UTF-8"), "{why}");

    File::create(scene.path("rules.yaml")).unwrap().set_len(65 * 1024 * 1024).unwrap();
    let why = scene.failed().await;
    assert!(why.ends_with("makes the rules larger than 64 MiB; use fewer or shorter rules"), "{why}");

    fs::remove_file(scene.path("rules.yaml")).unwrap();
    symlink("nowhere", scene.path("rules.yaml")).unwrap();
    let why = scene.failed().await;
    assert!(why.ends_with("is a link to something that is not there; point it at the rules"), "{why}");

    fs::remove_file(scene.path("rules.yaml")).unwrap();
    symlink("/dev/null", scene.path("rules.yaml")).unwrap();
    assert!(scene.failed().await.ends_with("is not a regular file; name a file or a folder"));
}

fn set_time(path: &Path, micros: u64) {
    let time = UNIX_EPOCH + Duration::from_micros(micros);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// Puts a file with this time in place, as copying with times does.
fn put(scene: &Scene, name: &str, text: &str, micros: u64) {
    scene.write(".new", text);
    set_time(&scene.path(".new"), micros);
    fs::rename(scene.path(".new"), scene.path(name)).unwrap();
}

/// 2024-01-01T00:00:00Z and a bit, in microseconds.
const WRITTEN: u64 = 1_704_067_200_000_007;

#[tokio::test]
async fn the_stamp_is_when_a_file_was_modified() {
    let mut scene = Scene::new("rules.yaml", |_| {});
    put(&scene, "rules.yaml", "one", WRITTEN);
    assert_eq!(scene.loaded().await.stamp, WRITTEN);
    put(&scene, "rules.yaml", "two", WRITTEN + 5);
    assert_eq!(scene.loaded().await.stamp, WRITTEN + 5);
    put(&scene, "rules.yaml", "backup", WRITTEN - 1_000_000);
    let restored = scene.loaded().await;
    assert_eq!(texts(&restored), ["backup"]);
    assert_eq!((restored.version, restored.stamp), (3, WRITTEN + 6), "what is put back is news");

    let mut another = FileSource::new(scene.path("rules.yaml"));
    let Event::Loaded(fresh) = timeout(DEADLINE, another.next()).await.unwrap() else { panic!("failed") };
    assert_eq!((fresh.version, fresh.stamp), (1, WRITTEN - 1_000_000), "whoever starts later counts anew");
}

#[tokio::test]
async fn a_date_in_the_future_is_now() {
    let mut scene = Scene::new("rules.yaml", |_| {});
    put(&scene, "rules.yaml", "one", 40 * WRITTEN);
    let stamp = scene.loaded().await.stamp;
    assert!(WRITTEN < stamp && stamp < 2 * WRITTEN, "{stamp}");
}

#[tokio::test]
async fn the_stamp_of_a_folder_is_the_newest() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules");
    fs::create_dir(&rules).unwrap();
    for (name, micros) in [("a.yaml", WRITTEN), ("b.yaml", WRITTEN + 9), ("c.yaml", WRITTEN + 3)] {
        fs::write(rules.join(name), name).unwrap();
        set_time(&rules.join(name), micros);
    }
    File::open(&rules).unwrap().set_modified(UNIX_EPOCH).unwrap();
    let mut source = FileSource::new(&rules);
    let mut next = async || match timeout(DEADLINE, source.next()).await.unwrap() {
        Event::Loaded(snapshot) => snapshot,
        Event::Failed(why) => panic!("failed: {why}"),
    };
    assert_eq!(next().await.stamp, WRITTEN + 9);
    fs::remove_file(rules.join("b.yaml")).unwrap();
    let shrunk = next().await;
    assert_eq!(names(&shrunk), ["a.yaml", "c.yaml"]);
    assert!(shrunk.stamp > WRITTEN + 1_000_000, "taking a file away is newer than the files");
}

/// The threads of this process that watch files.
#[cfg(target_os = "linux")]
fn watching_threads() -> usize {
    let named =
        |entry: std::io::Result<fs::DirEntry>| fs::read_to_string(entry.ok()?.path().join("comm")).ok();
    fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(named)
        .filter(|name| name.starts_with("notify"))
        .count()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_dropped_source_leaves_no_thread() {
    let folder = tempfile::tempdir().unwrap();
    one(folder.path());
    for _ in 0..50 {
        let mut source = FileSource::new(folder.path().join("rules.yaml"));
        // Long enough to look once and to start watching.
        timeout(Duration::from_millis(10), source.next()).await.ok();
    }
    // Other tests have their own sources at the same time; fifty more would stand out.
    timeout(DEADLINE, async {
        while watching_threads() > 40 {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the threads end");
}
