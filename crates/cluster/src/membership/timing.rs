//! How often nodes look after each other, and how soon they give each other up.

use std::num::{NonZeroU8, NonZeroUsize};
use std::time::Duration;

use foca::{Config, PeriodicParams};

/// How often nodes look after each other. As it is by default, for a fleet in one zone: who has died is given up some 2 to
/// 3 s later, and a network that loses every tenth packet makes nobody give up who lives, not for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How often each node asks another whether it is there.
    pub probe_every: Duration,
    /// How long until others are asked to ask. Much shorter than `probe_every`, so that they can.
    pub answer_within: Duration,
    /// How long whoever did not answer has to say that it is there.
    pub suspect_for: Duration,
    /// How often news is passed on.
    pub gossip_every: Duration,
    /// How often those who are not known yet, or lost, are told hello.
    pub hello_every: Duration,
    /// How often each node repeats how it is doing.
    pub standing_every: Duration,
    /// How long whoever was given up without a goodbye is taken to be counting still.
    pub lost_for: Duration,
    /// How often the names of peers are looked up.
    pub resolve_every: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            probe_every: Duration::from_millis(400),
            answer_within: Duration::from_millis(150),
            suspect_for: Duration::from_millis(1500),
            gossip_every: Duration::from_millis(200),
            hello_every: Duration::from_secs(1),
            standing_every: Duration::from_secs(1),
            lost_for: Duration::from_secs(600),
            resolve_every: Duration::from_secs(10),
        }
    }
}

/// What a packet may hold before it is sealed, so that it fits into any network's after that.
pub(super) const PACKET: usize = 1100;

/// How many are told news, or asked to ask another, at a time.
const FEW: NonZeroUsize = NonZeroUsize::new(3).unwrap();

const ONE: NonZeroUsize = NonZeroUsize::new(1).unwrap();

impl Timing {
    pub(super) fn config(&self) -> Config {
        Config {
            probe_period: self.probe_every,
            probe_rtt: self.answer_within,
            num_indirect_probes: FEW,
            max_transmissions: NonZeroU8::new(10).unwrap_or(NonZeroU8::MIN),
            suspect_to_down_after: self.suspect_for,
            remove_down_after: Some(self.lost_for),
            max_packet_size: NonZeroUsize::new(PACKET).unwrap_or(NonZeroUsize::MIN),
            notify_down_members: true,
            // In a large fleet a packet does not hold all members: whoever is new asks around for the rest.
            periodic_announce: Some(PeriodicParams { frequency: 5 * self.hello_every, num_members: ONE }),
            // Ours, which goes on when nobody is left.
            periodic_announce_to_down_members: None,
            periodic_gossip: Some(PeriodicParams { frequency: self.gossip_every, num_members: FEW }),
        }
    }
}
