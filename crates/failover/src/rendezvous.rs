//! The owner of a key: rendezvous hashing of its tag over the members that take part.
//!
//! Names are hashed rather than processes, so that a restart moves no keys.

use tidegate_core::Tag;

use crate::pid::{Pid, mix};

/// Returns the owner of what is counted under `tag`.
pub(crate) fn owner(tag: Tag, alive: &[Pid]) -> Option<Pid> {
    alive.iter().copied().max_by_key(|pid| weight(tag, *pid))
}

/// Returns the process that will own `tag` once its owner is gone.
pub(crate) fn heir(tag: Tag, alive: &[Pid]) -> Option<Pid> {
    let owner = owner(tag, alive);
    alive.iter().copied().filter(|pid| Some(*pid) != owner).max_by_key(|pid| weight(tag, *pid))
}

fn weight(tag: Tag, pid: Pid) -> (u64, Pid) {
    let [high, low] = tag.bits();
    (mix(high ^ mix(low ^ mix(pid.name.0))), pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pid::NodeName;

    #[test]
    fn only_the_keys_of_a_lost_member_move_and_they_move_to_its_heir() {
        let all: Vec<Pid> = (1..=5).map(|name| Pid::new(NodeName(name), 1, 0)).collect();
        let mut owned = [0; 5];
        for number in 0..1_000 {
            let tag = Tag::from_bits([number, number * 31]);
            let before = owner(tag, &all).unwrap();
            owned[usize::try_from(before.name.0).unwrap() - 1] += 1;
            let rest: Vec<Pid> = all.iter().copied().filter(|pid| *pid != before).collect();
            assert_eq!(owner(tag, &rest), heir(tag, &all));
            let without_first = owner(tag, &all[1..]).unwrap();
            assert!(before == all[0] || before == without_first);
        }
        assert!(owned.iter().all(|&keys| keys > 130), "{owned:?}");
    }
}
