//! `GET /v1/fleet`: all nodes that know each other, and all of them as one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use bytes::Bytes;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use tidegate::cluster::{Fleet, MemberInfo, State as MemberState};
use tidegate::store::peers::{Call, Peers, Reply as Said};
use tidegate::store::{Deadline, Failure};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::cluster::state;
use super::{Door, InsightBody, Told, rfc3339};
use crate::live::{Look, ModeName, Point, Tick, Totals, sum};
use crate::membership::Membership;
use crate::node::Node;
use crate::reply::{self, Reply};

/// How long others may take to answer.
const PATIENCE: Duration = Duration::from_millis(800);

/// How long what they said is good for.
const GOOD_FOR: Duration = Duration::from_secs(1);

/// All nodes.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FleetBody {
    /// This node first, then the others by name.
    nodes: Vec<FleetNode>,
    /// All that answered, as one.
    sum: FleetSum,
}

/// A node, and what it says of itself.
#[derive(Debug, Serialize, JsonSchema)]
struct FleetNode {
    /// What it is called; null if this node knows of no others.
    name: Option<String>,
    /// Where others reach it; null if this node knows of no others.
    #[schemars(with = "Option<String>")]
    address: Option<SocketAddr>,
    /// Whether it is the one that was asked.
    me: bool,
    /// `alive`, `suspect` (it does not answer, and is not given up yet) or `lost`.
    state: &'static str,
    /// Why nothing is known of it; null if something is.
    problem: Option<String>,
    /// What it says of itself.
    tick: Option<Tick>,
    /// Whom it refuses, to be added up.
    #[serde(skip)]
    told: Option<Told>,
}

/// All nodes that answered, as one.
#[derive(Debug, Serialize, JsonSchema)]
struct FleetSum {
    /// What happened on them.
    point: Point,
    /// Their decisions since each of them started.
    totals: Totals,
    /// Which keys they are asked for most, and whom they refuse, as in `/v1/insight`. Each tells of its first thirty of each kind; what it may
    /// have refused of others is in `count` and in `error`. Names that look alike are one.
    insight: InsightBody,
    /// The worst of their modes.
    mode: ModeName,
    /// How many nodes were asked, with this one.
    asked: usize,
    /// How many of them answered, with this one.
    answered: usize,
}

/// What was found last, which all who ask within a second share.
#[derive(Debug, Default)]
pub(super) struct Round(Mutex<Option<(Instant, Bytes)>>);

pub(super) async fn show(State(door): State<Arc<Door>>) -> Reply {
    // Whoever comes while others are asked waits for the same answers.
    let mut last = door.round.0.lock().await;
    let body = match &*last {
        Some((at, body)) if at.elapsed() < GOOD_FOR => body.clone(),
        _ => {
            let body = Bytes::from(reply::to_json(&ask_all(&door.node).await));
            last.insert((Instant::now(), body)).1.clone()
        }
    };
    reply::text(StatusCode::OK, "application/json", body)
}

async fn ask_all(node: &Node) -> FleetBody {
    let fleet = node.cluster.as_ref().map(Membership::fleet);
    let mut others = match fleet {
        Some(fleet) => ask_others(fleet).await,
        None => Vec::new(),
    };
    others.sort_by(|a, b| a.name.cmp(&b.name));
    let me = fleet.map(|fleet| fleet.cluster().me());
    let me = FleetNode {
        name: me.as_ref().map(|me| me.name.to_string()),
        address: me.as_ref().map(|me| me.address),
        me: true,
        state: state(MemberState::Alive),
        problem: None,
        tick: Some(node.live.now(node)),
        told: Some(Told::of(node)),
    };
    let nodes: Vec<FleetNode> = [me].into_iter().chain(others).collect();
    FleetBody { sum: FleetSum::of(&nodes, node), nodes }
}

impl FleetSum {
    fn of(nodes: &[FleetNode], node: &Node) -> Self {
        let ticks: Vec<&Tick> = nodes.iter().filter_map(|node| node.tick.as_ref()).collect();
        let told = nodes.iter().filter_map(|node| Some((node.tick.as_ref()?, node.told.as_ref()?)));
        let told: Vec<_> = told.map(|(tick, told)| (&*tick.state.hot_keys, told)).collect();
        Self {
            insight: InsightBody::together(&told),
            point: sum::points(ticks.iter().map(|tick| &tick.point), node.live.bounds()),
            totals: sum::totals(ticks.iter().map(|tick| &tick.state.totals)),
            mode: ticks.iter().map(|tick| tick.state.mode).max().unwrap_or_default(),
            asked: nodes.iter().filter(|node| node.state != state(MemberState::Lost)).count(),
            answered: ticks.len(),
        }
    }
}

/// Asks all others at once, but for those that are lost.
async fn ask_others(fleet: &Arc<Fleet>) -> Vec<FleetNode> {
    let deadline = Deadline::after(Instant::now(), PATIENCE);
    let mut asked = JoinSet::new();
    for member in fleet.cluster().members() {
        let fleet = Arc::clone(fleet);
        asked.spawn(async move {
            let said = ask(&fleet, &member, deadline).await;
            let (look, problem) = match said {
                Ok(look) => (Some(look), None),
                Err(problem) => (None, Some(problem)),
            };
            let (tick, told) = look.map(|Look { tick, told }| (tick, told)).unzip();
            FleetNode {
                name: Some(member.member.name.to_string()),
                address: Some(member.member.address),
                me: false,
                state: state(member.state),
                problem,
                tick,
                told,
            }
        });
    }
    asked.join_all().await
}

async fn ask(fleet: &Fleet, member: &MemberInfo, deadline: Deadline) -> Result<Look, String> {
    if member.state == MemberState::Lost {
        return Err(format!("lost since {}", rfc3339(member.since.as_millis())));
    }
    match fleet.call(member.member.node, Call::Look, deadline).await {
        Ok(Said::Look(said)) => read(&said),
        Ok(_) => Err("it answered something else".to_owned()),
        Err(Failure::Deadline) => Err(format!("it did not answer within {} s", PATIENCE.as_secs_f64())),
        Err(Failure::Other) => {
            Err("it cannot say how it is; it may be of a version that does not know how".to_owned())
        }
        Err(failure) => Err(format!("it cannot be asked ({failure})")),
    }
}

/// What another node said, which may be of any version, or gone mad.
fn read(said: &[u8]) -> Result<Look, String> {
    serde_json::from_slice(said)
        .map_err(|_| "what it says cannot be read; it may be of another version".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_look_is_a_problem() {
        for said in
            ["", "{}", "[]", "null", "{\"tick\":{\"point\":{\"at\":-1}}}", "\u{0}", &"[".repeat(100_000)]
        {
            assert!(read(said.as_bytes()).is_err(), "{said:.20}");
        }
    }
}
