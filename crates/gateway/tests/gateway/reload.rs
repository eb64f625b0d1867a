//! Routes and rules that change while requests go on.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tempfile::TempDir;
use tidegate_gateway::{Gateway, RoutesFeed};
use tidegate_server::RulesFeed;
use tidegate_sources::FileSource;
use tidegate_testkit::Scripted;

use crate::client::{Client, says, until};
use crate::support::{GENEROUS, Running, Setup};

fn routes_to(backend: &Scripted) -> String {
    format!("routes: [{{upstream: 'http://{}'}}]\n", backend.address())
}

/// Writes as editors and configuration management do: all or nothing.
pub(crate) fn put(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, path).unwrap();
}

/// A gateway that follows two files.
pub(crate) async fn following(folder: &TempDir) -> Running {
    let [rules, routes] = ["rules.yaml", "routes.yaml"].map(|name| FileSource::new(folder.path().join(name)));
    let Setup { gateway, node, .. } = Setup::to(&[([127, 0, 0, 1], 1).into()]);
    let gateway = Gateway::bind(gateway, node, RulesFeed::watch(rules), RoutesFeed::watch(Box::new(routes)));
    Running::of(gateway.await.unwrap())
}

#[tokio::test]
async fn changes_under_load_lose_nothing() {
    let (one, two) = (Scripted::http(|_| async { says("one") }), Scripted::http(|_| async { says("two") }));
    let folder = TempDir::new().unwrap();
    let (rules, routes) = (folder.path().join("rules.yaml"), folder.path().join("routes.yaml"));
    put(&rules, GENEROUS);
    put(&routes, &routes_to(&one));
    let gateway = following(&folder).await;
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..6)
        .map(|client| {
            let (at, stop, answered) = (gateway.at.listen, Arc::clone(&stop), Arc::clone(&answered));
            tokio::spawn(async move {
                let mut connection =
                    if client % 2 == 0 { Client::http1(at).await } else { Client::http2(at).await };
                while !stop.load(Ordering::Relaxed) {
                    let told = connection.get("/").await;
                    assert_eq!(told.status, 200, "{told:?}");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for round in 0..6 {
        let (to, word) = if round % 2 == 0 { (&two, "two") } else { (&one, "one") };
        put(&routes, &routes_to(to));
        put(&rules, &GENEROUS.replace("1000000", &(2_000_000 + round).to_string()));
        until("they are in force", async || {
            let told = gateway.get("/").await;
            let limit = (2_000_000 + round).to_string();
            (told.body == word && told.header("x-ratelimit-limit") == Some(&limit)).then_some(())
        })
        .await;
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    assert!(answered.load(Ordering::Relaxed) > 100);
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_used_changes_nothing_and_is_told() {
    let (one, two) = (Scripted::http(|_| async { says("one") }), Scripted::http(|_| async { says("two") }));
    let folder = TempDir::new().unwrap();
    let routes = folder.path().join("routes.yaml");
    put(&folder.path().join("rules.yaml"), GENEROUS);
    put(&routes, &routes_to(&one));
    let gateway = following(&folder).await;
    assert_eq!(gateway.get("/").await.body, "one");
    let bad = "routes:\n  - upstream: nowhere\n  - {upstream: 'http://a', retires: 1}\n";
    put(&routes, bad);
    let reasons = until("it is told", async || {
        let health = gateway.admin("/health").await.json();
        Some(health["reasons"].to_string()).filter(|reasons| reasons.contains("routes not loaded"))
    })
    .await;
    assert!(reasons.contains("routes.yaml:3") && reasons.contains("retires"), "{reasons}");
    assert_eq!(gateway.get("/").await.body, "one");
    put(&routes, &routes_to(&two));
    until("the trouble is over", async || {
        (gateway.admin("/health").await.json()["reasons"] == serde_json::json!([])).then_some(())
    })
    .await;
    assert_eq!(gateway.get("/").await.body, "two");
    gateway.stop().await.unwrap();
}
