//! Keys in a real etcd, which crashes, hangs and forgets.

use tidegate_sources::{EtcdSource, Event};
use tidegate_testkit::{Certificates, Etcd, Port};
use tokio::time::timeout;

use crate::scene::{DEADLINE, Scene, bad_among_two, names, texts};

fn open(url: &str) -> Scene {
    Scene::new(EtcdSource::new(url.parse().unwrap()))
}

/// A source that reads `t` in an etcd in which `t/rules/a` is `one`.
async fn with_one(etcd: &Etcd) -> Scene {
    etcd.put("t/rules/a", "one");
    let mut scene = open(&url(etcd));
    assert_eq!(texts(&scene.loaded().await), ["one"]);
    scene
}

fn url(etcd: &Etcd) -> String {
    format!("etcd://{}/t", etcd.address())
}

#[tokio::test]
async fn all_documents_are_told_at_once_and_after_every_change() {
    let etcd = Etcd::start();
    for (key, value) in
        [("t/rules/b", "4"), ("t/rules/a", "3"), ("t/documents/main", "2"), ("t", "1"), ("tt", "x")]
    {
        etcd.put(key, value);
    }
    let mut scene = open(&url(&etcd));
    let first = scene.loaded().await;
    assert_eq!(names(&first), ["t", "t/documents/main", "t/rules/a", "t/rules/b"]);
    assert_eq!(texts(&first), ["1", "2", "3", "4"]);
    assert_eq!(first.version, etcd.revision());

    etcd.put("t/history/a", "of no interest");
    etcd.put("t-other/rules/a", "of no interest");
    etcd.put("t/rules/c", "5");
    let second = scene.loaded().await;
    assert_eq!((texts(&second), second.version), (vec!["1", "2", "3", "4", "5"], etcd.revision()));
    etcd.put("t/rules/a", "33");
    assert_eq!(texts(&scene.loaded().await), ["1", "2", "33", "4", "5"]);
    etcd.delete("t");
    let last = scene.loaded().await;
    assert_eq!((texts(&last), last.version), (vec!["2", "33", "4", "5"], etcd.revision()));
}

#[tokio::test]
async fn what_changes_together_is_told_together() {
    let etcd = Etcd::start();
    let mut scene = with_one(&etcd).await;
    etcd.control(&["txn"], "\nput t/rules/a two\nput t/rules/b three\nput t four\n\n\n");
    assert_eq!(texts(&scene.loaded().await), ["four", "two", "three"]);
}

#[tokio::test]
async fn many_keys_are_read_in_parts() {
    let etcd = Etcd::start();
    let keys: Vec<String> = (0..2_300).map(|key| format!("t/rules/{key:05}")).collect();
    for some in keys.chunks(100) {
        let puts: String = some.iter().map(|key| format!("put {key} 1\n")).collect();
        etcd.control(&["txn"], format!("\n{puts}\n\n"));
    }
    assert_eq!(names(&open(&url(&etcd)).loaded().await), keys);
}

/// Whoever waits for several things at once drops the future again and again.
#[tokio::test]
async fn giving_up_waiting_loses_nothing() {
    let etcd = Etcd::start();
    let mut scene = with_one(&etcd).await;
    for text in ["two", "three"] {
        etcd.put("t/rules/a", text);
        let event = timeout(DEADLINE, async {
            loop {
                tokio::select! {
                    biased;
                    event = scene.source.next() => return event,
                    () = tokio::task::yield_now() => {}
                }
            }
        });
        let Event::Loaded(snapshot) = event.await.unwrap() else { panic!("failed") };
        assert_eq!(texts(&snapshot), [text]);
    }
}

/// What nobody waited for is told as it is in the end.
#[tokio::test]
async fn a_slow_listener_ends_with_the_latest() {
    let etcd = Etcd::start();
    let mut scene = with_one(&etcd).await;
    for count in 0..20 {
        etcd.put("t/rules/a", count.to_string());
    }
    let mut told = 0;
    while texts(&scene.loaded().await) != ["19"] {
        told += 1;
        assert!(told < 20, "each change is told once at most");
    }
}

#[tokio::test]
async fn a_crash_is_told_once_and_what_changed_meanwhile_is_found() {
    let etcd = Etcd::start();
    let mut scene = with_one(&etcd).await;
    etcd.kill();
    let why = scene.failed().await;
    assert!(why.contains(&etcd.address().to_string()) && why.contains("see that it runs"), "{why}");
    etcd.restart();
    let back = scene.loaded().await;
    assert_eq!(texts(&back), ["one"], "told again although nothing changed");

    etcd.kill();
    scene.failed().await;
    // Whichever is first, the source or the change: it ends with the change.
    etcd.restart();
    etcd.put("t/rules/a", "two");
    while texts(&scene.loaded().await) != ["two"] {}
    etcd.delete("t/rules/a");
    assert!(scene.failed().await.contains("no rules under t"));
}

#[tokio::test]
async fn a_hang_is_noticed_and_survived() {
    let etcd = Etcd::start();
    let mut scene = with_one(&etcd).await;
    etcd.pause();
    let why = scene.failed().await;
    assert!(why.contains("see that it runs"), "{why}");
    etcd.resume();
    assert_eq!(texts(&scene.loaded().await), ["one"]);
    etcd.put("t/rules/a", "two");
    assert_eq!(texts(&scene.loaded().await), ["two"]);
}

#[tokio::test]
async fn forgotten_history_is_no_hindrance() {
    let etcd = Etcd::start();
    let proxy = tidegate_testkit::Proxy::start(etcd.address());
    etcd.put("t/rules/a", "one");
    let mut scene = open(&format!("etcd://{}/t", proxy.address()));
    assert_eq!(texts(&scene.loaded().await), ["one"]);
    proxy.cut();
    scene.failed().await;
    for text in ["two", "three", "four"] {
        etcd.put("t/rules/a", text);
    }
    etcd.compact();
    proxy.heal();
    assert_eq!(texts(&scene.loaded().await), ["four"]);
    etcd.put("t/rules/a", "five");
    assert_eq!(texts(&scene.loaded().await), ["five"]);
}

#[tokio::test]
async fn another_server_takes_over() {
    let etcd = Etcd::start();
    etcd.put("t/rules/a", "one");
    let nobody = Port::claim();
    let mut scene = open(&format!("etcd://{},{}/t", nobody.address(), etcd.address()));
    assert_eq!(texts(&scene.loaded().await), ["one"]);
}

#[tokio::test]
async fn what_is_no_text_is_told_as_such_and_harms_no_other() {
    let etcd = Etcd::start();
    let mut scene = with_one(&etcd).await;
    etcd.put("t/rules/b", b"limit: \xff");
    let why = bad_among_two(&scene.loaded().await);
    assert!(why.contains("t/rules/b:1:8") && why.contains("not UTF-8"), "{why}");
    etcd.put("t/rules/b", vec![b' '; 1024 * 1024 + 1]);
    let why = bad_among_two(&scene.loaded().await);
    assert!(why.contains("t/rules/b is larger than 1 MiB"), "{why}");
    etcd.put("t/rules/b", "three");
    assert_eq!(texts(&scene.loaded().await), ["one", "three"]);
    let mut late = open(&url(&etcd));
    etcd.put("t/rules/b", b"\xff");
    assert!(bad_among_two(&late.loaded().await).contains("not UTF-8"), "found at the start, too");
}

#[tokio::test]
async fn nothing_there_is_told_until_something_is() {
    let etcd = Etcd::start();
    let mut scene = open(&url(&etcd));
    let why = scene.failed().await;
    assert!(why.contains("no rules under t") && why.contains("etcdctl put t/rules/ID"), "{why}");
    etcd.put("t/rules/a", "one");
    assert_eq!(texts(&scene.loaded().await), ["one"]);
}

#[tokio::test]
async fn a_wrong_address_is_named() {
    let nobody = Port::claim();
    let why = open(&format!("etcd://{}/t", nobody.address())).failed().await;
    assert!(why.contains(&nobody.address().to_string()) && why.contains("refused"), "{why}");
    let why = open("etcd://no-such-host.invalid/t").failed().await;
    assert!(why.contains("no-such-host.invalid:2379") && why.contains("see that it runs"), "{why}");
}

#[tokio::test]
async fn users_passwords_and_permissions() {
    let etcd = Etcd::start();
    etcd.put("t/rules/a", "one");
    let with = |login: &str| open(&format!("etcd://{login}{}/t", etcd.address()));
    let why = with("ann:secret@").failed().await;
    assert!(why.contains("knows no users"), "{why}");

    for args in [
        &["user", "add", "root:root"][..],
        &["user", "grant-role", "root", "root"],
        &["user", "add", "ann:secret"],
        &["role", "add", "reader"],
        &["user", "grant-role", "ann", "reader"],
        &["auth", "enable"],
    ] {
        etcd.control(args, "");
    }
    let why = with("").failed().await;
    assert!(why.contains("wants to know who asks"), "{why}");
    let why = with("ann:wrong@").failed().await;
    assert!(why.contains("refuses user and password") && !why.contains("wrong"), "{why}");
    let mut ann = with("ann:secret@");
    let why = ann.failed().await;
    assert!(why.contains("grant-permission ROLE read t --prefix=true"), "{why}");
    etcd.control(
        &["--user", "root:root", "role", "grant-permission", "reader", "read", "t", "--prefix=true"],
        "",
    );
    assert_eq!(texts(&ann.loaded().await), ["one"]);
    etcd.control(&["--user", "root:root", "put", "t/rules/a"], "two");
    assert_eq!(texts(&ann.loaded().await), ["two"]);
}

#[tokio::test]
async fn tls_with_certificates() {
    let certificates = Certificates::generate();
    let etcd = Etcd::start_tls(&certificates);
    etcd.put("t/rules/a", "one");
    let (ca, cert, key) =
        (certificates.authority(), certificates.client_certificate(), certificates.client_key());
    let ours = format!("ca={}&cert={}&key={}", ca.display(), cert.display(), key.display());
    let with = |query: &str| open(&format!("etcds://{}/t?{query}", etcd.address()));
    let mut scene = with(&ours);
    assert_eq!(texts(&scene.loaded().await), ["one"]);
    etcd.put("t/rules/a", "two");
    assert_eq!(texts(&scene.loaded().await), ["two"]);
    with(&format!("ca={}", ca.display())).failed().await;
    let why = with("").failed().await;
    assert!(why.contains("certificate"), "{why}");
    let why = with("ca=/nowhere/at/all").failed().await;
    assert!(why.contains("cannot read /nowhere/at/all"), "{why}");
}
