//! Moving a slot to another master, step by step.

use super::{Cluster, SETTLE};
use crate::redis::Redis;
use crate::wait;

/// How many keys [`Migration::finish`] moves at once.
const BATCH: usize = 10;

/// A slot on its way from one master to another.
///
/// Between the steps a test can send what it likes: the source answers for keys it still has and sends
/// clients on with
/// `ASK` for those it no longer has. Unless finished or abandoned, the slot stays between the two.
#[derive(Debug)]
#[must_use = "the slot stays between two masters until the migration is finished or abandoned"]
pub struct Migration<'a> {
    cluster: &'a Cluster,
    slot: u16,
    from: &'a Redis,
    to: &'a Redis,
}

impl Cluster {
    /// Opens a slot's migration to another master; no key has moved yet.
    pub fn start_migration<'a>(&'a self, slot: u16, to: &'a Redis) -> Migration<'a> {
        let migration = Migration { cluster: self, slot, from: self.node_for_slot(slot), to };
        migration.set_slot(to, &["IMPORTING", &id(migration.from)]);
        migration.set_slot(migration.from, &["MIGRATING", &id(to)]);
        migration
    }

    /// Moves a slot with all its keys to another master.
    pub fn migrate_slot(&self, slot: u16, to: &Redis) {
        self.start_migration(slot, to).finish();
    }
}

impl Migration<'_> {
    /// The master that the slot comes from.
    #[must_use]
    pub fn from(&self) -> &Redis {
        self.from
    }

    /// The master that the slot goes to.
    #[must_use]
    pub fn to(&self) -> &Redis {
        self.to
    }

    /// Moves at most so many keys, and says how many it moved: none when none is left.
    pub fn move_keys(&self, most: usize) -> usize {
        let slot = self.slot.to_string();
        let keys: Vec<String> = self.from.query(&["CLUSTER", "GETKEYSINSLOT", &slot, &most.to_string()]);
        if keys.is_empty() {
            return 0;
        }
        let port = self.to.address().port().to_string();
        let mut command = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000"];
        if let Some(login) = self.to.login() {
            command.extend(["AUTH2", &login.user, &login.password]);
        }
        command.push("KEYS");
        command.extend(keys.iter().map(String::as_str));
        self.from.query::<()>(&command);
        keys.len()
    }

    /// Moves the keys that are left, hands the slot over, and waits until all nodes know.
    pub fn finish(self) {
        while self.move_keys(BATCH) > 0 {}
        let owner = id(self.to);
        // The target first: would the source forget the slot before the target has it, nobody had it.
        self.set_slot(self.to, &["NODE", &owner]);
        self.set_slot(self.from, &["NODE", &owner]);
        for master in self.cluster.masters() {
            self.set_slot(master, &["NODE", &owner]);
        }
        wait::until("all nodes know the slot's new owner", SETTLE, || {
            (self.cluster.settled_view()?.owner(self.slot)?.id == owner).then_some(())
        });
    }

    /// Gives up: the slot stays where it was, and keys that have moved already are out of reach there.
    pub fn abandon(self) {
        self.set_slot(self.from, &["STABLE"]);
        self.set_slot(self.to, &["STABLE"]);
    }

    fn set_slot(&self, node: &Redis, what: &[&str]) {
        let slot = self.slot.to_string();
        let command = [&["CLUSTER", "SETSLOT", &slot], what].concat();
        node.query::<()>(&command);
    }
}

fn id(node: &Redis) -> String {
    node.query(&["CLUSTER", "MYID"])
}
