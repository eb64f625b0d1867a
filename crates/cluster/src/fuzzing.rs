//! What fuzz targets call: readers of bytes that other nodes send.

use std::sync::Arc;

use tidegate_core::Timestamp;
use tidegate_store::peers::NodeId;

use crate::calls::message::{Shape, read_answers, read_batch};
use crate::{Keyring, Machine, Member, Opener, Purpose, Timing};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// More than a node has to say to one packet.
const MOST_ANSWERS: usize = 64;

/// Takes the bytes for a sealed packet, an opened one, a call and an answer.
pub fn packet(bytes: &[u8]) {
    if let Ok(keyring) = Keyring::parse("0123456789abcdef0123456789abcdef") {
        let opened = Opener::new(keyring.shared()).open(Purpose::Gossip, &[], bytes, NOW);
        assert!(opened.is_err(), "nobody has sealed this");
    }
    let mut machine = Machine::new(me(), Timing::default(), 7, NOW);
    machine.receive(bytes, NOW);
    assert!(machine.packets().len() <= MOST_ANSWERS, "one packet makes it talk without end");
    assert!(machine.members().len() <= MOST_ANSWERS, "one packet brings any number of members");
    machine.tick(machine.next_tick());
    read_batch(bytes).ok();
    read_answers(bytes, &[Shape::Outcomes(1), Shape::Known(1)]).ok();
}

fn me() -> Member {
    Member {
        name: Arc::from("me"),
        address: ([127, 0, 0, 1], 8083).into(),
        node: NodeId(7),
        incarnation: NOW.as_millis(),
    }
}
