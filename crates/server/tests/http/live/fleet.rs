//! `GET /v1/fleet`

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate::cluster::{Cluster, Fleet, Keyring, PeerName, Settings, Timing};
use tidegate::store::Deadline;
use tidegate::store::peers::{Answers, Call, Replied, Reply};
use tidegate_server::{Config, Membership, RulesFeed};

use super::stream::Stream;
use crate::client::{Running, config, eventually, start, start_with};

const RULES: &str = "
rules:
  - {rule_id: each, identifier_type: user_id, algorithm: fixed_window, limit: 2, window: 1h}
";

const ALICE: &str = r#"{"user":"alice","resource":"/"}"#;

async fn join(name: &str, peers: &[&Membership]) -> Membership {
    let peers = peers.iter().map(|peer| peer.fleet().cluster().me().address.to_string());
    let settings = Settings {
        listen: ([127, 0, 0, 1], 0).into(),
        advertise: None,
        name: Some(name.to_owned()),
        peers: peers.map(|peer| peer.parse::<PeerName>().unwrap()).collect(),
        keyring: Keyring::parse("0123456789abcdef0123456789abcdef").unwrap(),
        timing: Timing::default(),
    };
    Membership::new(Arc::new(Fleet::new(Cluster::start(settings).await.unwrap())), None)
}

async fn node(membership: &Membership) -> Running {
    let config = Config { cluster: Some(membership.clone()), ..config() };
    start_with(config, RulesFeed::fixed("rules.yaml", RULES)).await
}

async fn fleet(server: &Running) -> Value {
    server.admin("/v1/fleet").await.json()
}

/// Waits until the fleet, as a node sees it, is as it should be.
async fn seen(server: &Running, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    eventually(what, async || is_so(&fleet(server).await)).await;
    fleet(server).await
}

#[tokio::test]
async fn without_others_there_is_one_node() {
    let server = start(RULES).await;
    server.check(ALICE).await;
    let body = seen(&server, "counted", |body| body["sum"]["totals"]["allowed"] == 1).await;
    let [me] = &body["nodes"].as_array().unwrap()[..] else { panic!("{body}") };
    assert_eq!((&me["name"], &me["address"], &me["me"]), (&Value::Null, &Value::Null, &json!(true)));
    assert_eq!((&me["state"], &me["problem"]), (&json!("alive"), &Value::Null));
    assert_eq!((&body["sum"]["asked"], &body["sum"]["answered"]), (&json!(1), &json!(1)));
    assert_eq!(me["tick"]["state"]["totals"], body["sum"]["totals"]);
}

#[tokio::test]
async fn nodes_are_summed_and_one_that_leaves_is_missed() {
    let first = join("a", &[]).await;
    let second = join("b", &[&first]).await;
    let (a, b) = (node(&first).await, node(&second).await);
    for _ in 0..3 {
        a.check(ALICE).await;
    }
    for _ in 0..4 {
        b.check(ALICE).await;
    }
    let body = seen(&a, "both", |body| body["sum"]["totals"] == json!(totals(4, 3))).await;
    assert_eq!((&body["sum"]["asked"], &body["sum"]["answered"]), (&json!(2), &json!(2)));
    let nodes = body["nodes"].as_array().unwrap();
    let names: Vec<_> = nodes.iter().map(|node| (node["name"].as_str(), node["me"].as_bool())).collect();
    assert_eq!(names, [(Some("a"), Some(true)), (Some("b"), Some(false))]);
    assert_eq!(nodes[0]["tick"]["state"]["totals"], json!(totals(2, 1)));
    assert_eq!(nodes[1]["tick"]["state"]["totals"], json!(totals(2, 2)));
    assert_eq!(nodes[0]["tick"]["state"]["cluster"], json!({"alive": 1, "suspect": 0, "lost": 0}));
    assert_eq!(nodes[1]["address"], second.fleet().cluster().me().address.to_string());
    let refused = |body: &Value, by: &str| body["sum"]["insight"]["refusals"]["5m"][by].clone();
    let thrice = |name: &str| json!([{"name": name, "count": 3, "error": 0}]);
    let body = seen(&a, "alice on both", |body| refused(body, "users") == thrice("alice")).await;
    assert_eq!((refused(&body, "rules"), refused(&body, "tenants")), (thrice("each"), json!([])));
    let by_hour = body["sum"]["insight"]["refusals"]["by_hour"].as_array().unwrap();
    assert_eq!(by_hour.iter().filter_map(Value::as_u64).sum::<u64>(), 3);

    let mut events = Stream::open(a.addresses.admin).await;
    events.until("journal", |journal| has(journal, "b has joined")).await;

    assert!(b.stopped().await.is_ok());
    seen(&a, "without b", |body| body["sum"]["answered"] == 1).await;
    let mut events = Stream::open(a.addresses.admin).await;
    events.until("journal", |journal| has(journal, "b has left")).await;
}

#[tokio::test]
async fn one_that_crashes_has_a_problem() {
    let first = join("a", &[]).await;
    let second = join("b", &[&first]).await;
    let (a, b) = (node(&first).await, node(&second).await);
    seen(&a, "both", |body| body["sum"]["answered"] == 2).await;
    b.task.abort();
    drop((b, second));
    let body = seen(&a, "b is missed", |body| body["sum"]["answered"] == 1).await;
    let b = &body["nodes"][1];
    assert_eq!((&b["name"], &b["tick"]), (&json!("b"), &Value::Null));
    assert!(b["problem"].as_str().is_some_and(|problem| !problem.is_empty()), "{b}");
    let body = seen(&a, "b is lost", |body| body["nodes"][1]["state"] == "lost").await;
    assert!(body["nodes"][1]["problem"].as_str().unwrap().starts_with("lost since "), "{body}");
    assert_eq!((&body["sum"]["asked"], &body["sum"]["answered"]), (&json!(1), &json!(1)));
}

/// A node that answers something, or nothing.
struct Mad(Option<Reply>);

impl Answers for Mad {
    fn answer<'a>(&'a self, _: &'a Call, _: Deadline) -> Replied<'a> {
        match &self.0 {
            Some(reply) => Box::pin(std::future::ready(reply.clone())),
            None => Box::pin(std::future::pending()),
        }
    }
}

#[tokio::test]
async fn garbage_is_the_problem_of_whoever_says_it() {
    let first = join("a", &[]).await;
    let a = node(&first).await;
    let look = |said: &[u8]| Some(Reply::Look(said.to_vec()));
    let others = [
        ("b", look(b""), "cannot be read"),
        ("c", look(b"{\"tick\":7}"), "cannot be read"),
        ("d", look(&[0xff; 200_000]), "cannot be read"),
        ("e", Some(Reply::Owes(7)), "may be of a version that does not know"),
        ("f", None, "did not answer within 0.8 s"),
    ];
    let mut mad = Vec::new();
    for (name, said, _) in &others {
        let membership = join(name, &[&first]).await;
        let serving = membership.fleet().serve(Arc::new(Mad(said.clone()))).unwrap();
        mad.push((membership, tokio::spawn(serving)));
    }
    for (name, _, problem) in &others {
        let is_so = |body: &Value| {
            let mut nodes = body["nodes"].as_array().unwrap().iter();
            let node = nodes.find(|node| node["name"] == *name);
            node.and_then(|node| node["problem"].as_str()).is_some_and(|said| said.contains(problem))
        };
        seen(&a, name, is_so).await;
    }
    let body = seen(&a, "all", |body| body["sum"]["asked"] == 6).await;
    assert_eq!(body["sum"]["answered"], 1);
    assert!(body["nodes"][0]["tick"]["state"].is_object(), "{body}");
    mad.into_iter().for_each(|(_, serving)| serving.abort());
}

fn totals(allowed: u64, refused: u64) -> Value {
    json!({"allowed": allowed, "refused": refused, "shadow_refused": 0, "failed_open": 0, "unavailable": 0})
}

fn has(journal: &Value, title: &str) -> bool {
    journal["entries"].as_array().unwrap().iter().any(|entry| entry["title"] == title)
}
