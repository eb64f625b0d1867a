//! Noticing that other nodes come, go and are lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate::cluster::{MemberInfo, State};
use tidegate_core::Timestamp;

use super::journal::{Entry, Kind};
use crate::alerts::Severity;

/// The other nodes as they were when last looked at.
#[derive(Debug, Default)]
pub(crate) struct Members(BTreeMap<Arc<str>, State>);

impl Members {
    /// What has changed since the last look.
    pub(crate) fn look(&mut self, members: &[MemberInfo], at: Timestamp) -> Vec<Entry> {
        let now: BTreeMap<Arc<str>, State> =
            members.iter().map(|info| (Arc::clone(&info.member.name), info.state)).collect();
        let before = std::mem::replace(&mut self.0, now);
        let entry =
            |severity, name: &str, what| Entry::new(at, Kind::Cluster, severity, format!("{name} {what}"));
        let gone = before.keys().filter(|name| !self.0.contains_key(*name));
        let gone = gone.map(|name| entry(Severity::Info, name, "has left"));
        let changed = self.0.iter().filter_map(|(name, state)| {
            let (severity, what) = told(before.get(name).copied(), *state)?;
            Some(entry(severity, name, what))
        });
        changed.chain(gone).collect()
    }
}

/// What is told of a node that was in one state, if it was there, and is in another.
fn told(before: Option<State>, now: State) -> Option<(Severity, &'static str)> {
    match (before, now) {
        (Some(before), now) if before == now => None,
        (None, State::Alive) => Some((Severity::Info, "has joined")),
        (Some(_), State::Alive) => Some((Severity::Info, "is back")),
        (_, State::Suspect) => Some((Severity::Warning, "does not answer")),
        (_, State::Lost) => Some((Severity::Warning, "is lost")),
    }
}

#[cfg(test)]
mod tests {
    use tidegate::cluster::{Member, UNHEARD};
    use tidegate::store::peers::NodeId;

    use super::*;

    fn member((name, state): &(&str, State)) -> MemberInfo {
        let address = ([127, 0, 0, 1], 7).into();
        let member = Member { name: (*name).into(), address, node: NodeId(1), incarnation: 1 };
        MemberInfo { member, state: *state, since: Timestamp::from_millis(0), standing: UNHEARD }
    }

    #[test]
    fn each_change_is_told_once() {
        use State::{Alive, Lost, Suspect};
        let mut members = Members::default();
        let steps = [
            (&[("a", Alive)][..], &["a has joined"][..]),
            (&[("a", Alive), ("b", Alive)], &["b has joined"]),
            (&[("a", Suspect), ("b", Alive)], &["a does not answer"]),
            (&[("a", Suspect), ("b", Alive)], &[]),
            (&[("a", Lost), ("b", Suspect)], &["a is lost", "b does not answer"]),
            (&[("a", Alive), ("b", Alive)], &["a is back", "b is back"]),
            (&[("b", Alive)], &["a has left"]),
        ];
        for (there, expected) in steps {
            let there: Vec<MemberInfo> = there.iter().map(member).collect();
            let told = members.look(&there, Timestamp::from_millis(0));
            let titles: Vec<&str> = told.iter().map(Entry::title).collect();
            assert_eq!(titles, expected);
        }
    }
}
