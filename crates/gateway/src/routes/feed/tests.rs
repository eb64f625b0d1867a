//! Routes that change, from made-up sources and from real files.

use std::fs;
use std::time::Instant;

use http::Method;
use tidegate_sources::{FileSource, Next, StoredText};
use tidegate_testkit::{Backend, Certificates, Proxy};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{sleep, timeout};

use super::*;
use crate::upstream::Failure;

const PATIENCE: Duration = tidegate_testkit::wait::HANG_LIMIT;

/// A source that says what a test has it say.
struct Said {
    events: UnboundedReceiver<Event>,
}

impl RuleSource for Said {
    fn next(&mut self) -> Next<'_> {
        Box::pin(async {
            match self.events.recv().await {
                Some(event) => event,
                None => std::future::pending().await,
            }
        })
    }
}

fn source() -> (UnboundedSender<Event>, RoutesFeed) {
    let (say, events) = unbounded_channel();
    (say, RoutesFeed::watch(Box::new(Said { events })))
}

fn loaded(version: u64, texts: &[&str]) -> Event {
    let name = |index| format!("{index}.yaml");
    let documents = (1..).zip(texts).map(|(index, text)| StoredText::new(name(index), version, *text));
    Event::Loaded(Snapshot { version, stamp: version, apart: false, documents: documents.collect() })
}

async fn start(feed: RoutesFeed) -> (LiveRoutes, UnboundedReceiver<RoutesNews>) {
    let (tell, news) = unbounded_channel();
    let live = feed.start(move |news| drop(tell.send(news))).await.unwrap();
    (live, news)
}

async fn next(news: &mut UnboundedReceiver<RoutesNews>) -> RoutesNews {
    timeout(PATIENCE, news.recv()).await.unwrap().unwrap()
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("waited in vain until {what}"));
}

fn target(live: &LiveRoutes, path: &str) -> Option<String> {
    live.load().find(None, &Method::GET, path).map(|route| route.group().name().to_owned())
}

#[tokio::test]
async fn the_first_routes_must_be_good() {
    for event in [
        loaded(1, &["routes: ["]),
        loaded(1, &[]),
        loaded(1, &["routes: [{upstream: nobody}]"]),
        Event::Failed("no such file; create it".to_owned()),
    ] {
        let (say, feed) = source();
        say.send(event).unwrap();
        assert!(!feed.start(|_| {}).await.unwrap_err().lines().is_empty());
    }
}

#[tokio::test]
async fn bad_routes_change_nothing() {
    let (say, feed) = source();
    say.send(loaded(1, &["routes: [{upstream: api}]", "upstreams: {api: {servers: http://a}}"])).unwrap();
    let (live, mut news) = start(feed).await;
    assert_eq!(target(&live, "/").as_deref(), Some("api"));
    for event in [
        loaded(2, &["routes: [{upstream: api}]"]),
        Event::Failed("gone".to_owned()),
        Event::Loaded(Snapshot {
            version: 3,
            stamp: 3,
            apart: true,
            documents: vec![StoredText { name: "x".to_owned(), text: Err("no text".to_owned()), version: 3 }],
        }),
    ] {
        say.send(event).unwrap();
        let RoutesNews::Unchanged { problems } = next(&mut news).await else { panic!("it was used") };
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(target(&live, "/").as_deref(), Some("api"));
    }
    say.send(loaded(4, &["routes: [{path: /b, upstream: http://b}]"])).unwrap();
    assert_eq!(next(&mut news).await, RoutesNews::InForce { version: 4 });
    assert_eq!((target(&live, "/"), target(&live, "/b").as_deref()), (None, Some("http://b")));
}

#[tokio::test]
async fn what_is_known_of_servers_survives_changes() {
    let text = |extra| {
        format!(
            "upstreams: {{api: {{servers: [http://a, http://b{extra}], passive: {{failures: 1, for: 1h}}}}}}\n\
             routes: [{{upstream: api}}]"
        )
    };
    let (say, feed) = source();
    say.send(loaded(1, &[&text("")])).unwrap();
    let (live, mut news) = start(feed).await;
    let now = Instant::now();
    let mut ticket = live.load().group("api").unwrap().pick(now, &[]).unwrap();
    ticket.failed(Failure::Connect, now);
    let url = ticket.origin().to_string();
    say.send(loaded(2, &[&text(", http://c")])).unwrap();
    assert_eq!(next(&mut news).await, RoutesNews::InForce { version: 2 });
    let servers = live.load().group("api").unwrap().servers(now);
    assert_eq!(servers.len(), 3);
    for server in servers {
        assert_eq!(server.aside_until.is_some(), server.url == url, "{server:?}");
    }
}

#[tokio::test]
async fn checks_run_for_groups_that_are_there() {
    let [first, second] = [Backend::start(), Backend::start()];
    let text = |backend: &Backend| {
        format!(
            "upstreams: {{api: {{servers: http://{}, health: {{path: /, every: 10ms}}}}}}\nroutes: [{{upstream: api}}]",
            backend.address()
        )
    };
    let (say, feed) = source();
    say.send(loaded(1, &[&text(&first)])).unwrap();
    let (live, mut news) = start(feed).await;
    until("the first is asked", || first.requests() > 1).await;
    // The same again: the checks go on.
    let group = Arc::clone(live.load().group("api").unwrap());
    say.send(loaded(2, &[&text(&first)])).unwrap();
    next(&mut news).await;
    assert!(Arc::ptr_eq(live.load().group("api").unwrap(), &group));
    let asked = first.requests();
    until("the first is still asked", || first.requests() > asked + 1).await;
    say.send(loaded(3, &[&text(&second)])).unwrap();
    next(&mut news).await;
    until("the second is asked", || second.requests() > 1).await;
    // One question may have been under way.
    let asked = first.requests();
    let others = second.requests();
    until("the second is asked again and again", || second.requests() > others + 10).await;
    assert!(first.requests() <= asked + 1);
    drop(live);
    // Meanwhile others are asked, so that there was time enough.
    let (_live, _) = start(RoutesFeed::fixed(Routes::read("x", &text(&first)).unwrap())).await;
    let [asked, others] = [&first, &second].map(Backend::requests);
    until("others are asked again and again", || first.requests() > asked + 10).await;
    assert!(second.requests() <= others + 1);
}

#[tokio::test]
async fn fixed_routes_are_checked_too() {
    let backend = Backend::start();
    let proxy = Proxy::start(backend.address());
    let text = format!(
        "upstreams: {{api: {{servers: http://{}, health: {{path: /, every: 10ms}}}}}}\nroutes: [{{upstream: api}}]",
        proxy.address()
    );
    let (live, _) = start(RoutesFeed::fixed(Routes::read("x", &text).unwrap())).await;
    until("it is asked", || backend.requests() > 1).await;
    proxy.cut();
    let is_up = || live.load().groups()[0].servers(Instant::now())[0].healthy;
    until("it is down", || !is_up()).await;
    proxy.heal();
    until("it is up", is_up).await;
}

#[tokio::test]
async fn files_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("routes.yaml");
    fs::write(&path, "routes: [{upstream: http://a}]").unwrap();
    let (live, mut news) = start(RoutesFeed::watch(Box::new(FileSource::new(&path)))).await;
    assert_eq!(target(&live, "/").as_deref(), Some("http://a"));
    fs::write(&path, "routes:\n  - {upsteam: http://b}").unwrap();
    let RoutesNews::Unchanged { problems } = next(&mut news).await else { panic!("it was used") };
    assert!(problems[0].contains("routes.yaml:2:") && problems[0].contains("upsteam"), "{problems:?}");
    assert_eq!(target(&live, "/").as_deref(), Some("http://a"));
    fs::write(&path, "routes: [{upstream: http://b}]").unwrap();
    assert!(matches!(next(&mut news).await, RoutesNews::InForce { .. }));
    assert_eq!(target(&live, "/").as_deref(), Some("http://b"));
}

#[tokio::test]
async fn certificates_are_replaced_without_a_change_of_the_document() {
    let [first, second] = [Certificates::generate(), Certificates::generate()];
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    fs::copy(first.authority(), &ca).unwrap();
    let text = format!(
        "upstreams: {{api: {{servers: https://a, tls: {{ca: {}}}}}, other: {{servers: http://b}}}}\n\
         routes: [{{upstream: api}}]",
        ca.display()
    );
    let (say, feed) = source();
    say.send(loaded(1, &[&text])).unwrap();
    let (live, mut news) = start(RoutesFeed { look: Duration::from_millis(10), ..feed }).await;
    let [api, other] = ["api", "other"].map(|name| Arc::clone(live.load().group(name).unwrap()));
    // What cannot be used changes nothing.
    fs::write(&ca, "half").unwrap();
    fs::copy(second.authority(), &ca).unwrap();
    assert_eq!(next(&mut news).await, RoutesNews::InForce { version: 1 });
    assert!(!Arc::ptr_eq(live.load().group("api").unwrap(), &api));
    assert!(Arc::ptr_eq(live.load().group("other").unwrap(), &other));
    assert_eq!(live.load().group("api").unwrap().has_other_files(), Ok(false));
    assert_eq!(api.has_other_files(), Ok(true));
    fs::write(&ca, "half").unwrap();
    assert!(api.has_other_files().is_err());
}
