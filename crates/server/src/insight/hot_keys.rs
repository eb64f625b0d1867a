//! Keys that are asked for very often, found without making anybody wait.
//!
//! All of few decisions are looked at, and one in 64 of many; if the threshold is low, more of them, down to each. Keys are counted
//! in parts by their hash, each behind a lock that is tried and never waited for. Names are made for keys that come twice in a
//! window, which few of a flood of ever new ones do.

use std::fmt::Display;
use std::num::NonZeroU32;
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate::{CheckedDescriptors, Decision, Request, RuleSet};
use tidegate_core::descriptor::{Descriptor, Said};
use tidegate_core::{Path, Secret, Tag, Timestamp};
use tokio::sync::broadcast;

use super::heavy_hitters::{Fingerprint, HeavyHitters};
use super::hot_board::{HotBoard, HotKey, HotKeyEvent, Named, Seen};
use super::name::{self, Described};
use super::sampling::{DECISIONS, Effort};

/// So many decisions of a thread and a tenth of a second are looked at each.
const FEW: u32 = 100;

/// Of how many others one is.
const USUAL_STRIDE: u32 = 64;

/// A key at the threshold is seen so often a second at least, if there are so many requests: enough to tell its rate.
const LEAST_SAMPLES: u32 = 150;

/// In how many parts keys are counted.
const PARTS: usize = 8;

/// How many keys there is room for in each.
const ROOM: usize = 128;

/// How many events wait for whoever is slow to hear of them.
const EVENTS: usize = 256;

/// Finds hot keys.
#[derive(Debug)]
pub(crate) struct HotKeys {
    secret: Secret,
    effort: Effort,
    parts: [Mutex<Part>; PARTS],
    board: Mutex<HotBoard>,
    events: broadcast::Sender<HotKeyEvent>,
}

/// Some of the keys.
#[derive(Debug)]
struct Part {
    /// In this window.
    now: HeavyHitters<Option<Arc<Named>>>,
    /// In the one before, where names are found again.
    before: HeavyHitters<Option<Arc<Named>>>,
}

impl Default for Part {
    fn default() -> Self {
        Self { now: HeavyHitters::new(ROOM), before: HeavyHitters::new(ROOM) }
    }
}

impl HotKeys {
    /// Keys with more than `threshold` requests a second are hot.
    pub(crate) fn new(threshold: NonZeroU32, secret: Secret, now: Timestamp) -> Self {
        Self {
            secret,
            effort: Effort { few: FEW, mean: (threshold.get() / LEAST_SAMPLES).clamp(1, USUAL_STRIDE) },
            parts: Default::default(),
            board: Mutex::new(HotBoard::new(u64::from(threshold.get()), now)),
            events: broadcast::Sender::new(EVENTS),
        }
    }

    /// Takes note of a decision, or of none, as chance has it.
    #[inline]
    pub(crate) fn see(&self, request: &Request<'_>, decision: &Decision, rules: &RuleSet) {
        if let Some(stands_for) = DECISIONS.with(|sampler| sampler.pass(decision.at, self.effort)) {
            self.look_at(request, decision, rules, stands_for);
        }
    }

    /// The same for a decision on what a proxy says about a request.
    #[inline]
    pub(crate) fn see_descriptors(
        &self,
        domain: &str,
        descriptors: &[Descriptor<'_>],
        checked: &CheckedDescriptors,
    ) {
        let at = checked.decision.at;
        if let Some(stands_for) = DECISIONS.with(|sampler| sampler.pass(at, self.effort)) {
            self.look_at_descriptors(domain, descriptors, checked, stands_for);
        }
    }

    #[inline(never)]
    fn look_at_descriptors(
        &self,
        domain: &str,
        descriptors: &[Descriptor<'_>],
        checked: &CheckedDescriptors,
        stands_for: u64,
    ) {
        let rules = checked.rules();
        for (said, descriptor) in checked.said.iter().zip(descriptors) {
            let Said::Verdict(rule, _) = *said else { continue };
            let tag = rules.descriptor_tag(rule, domain, descriptor, &self.secret);
            let rule = &*rules.rule(rule).id;
            self.count(fingerprint(rule, tag), rule, Described(&descriptor.entries), stands_for);
        }
    }

    #[inline(never)]
    fn look_at(&self, request: &Request<'_>, decision: &Decision, rules: &RuleSet, stands_for: u64) {
        let Ok(path) = Path::parse(request.path) else { return };
        for said in &decision.verdicts {
            let Some(identity) = rules.identity(said.rule, request, &path) else { continue };
            let rule = &*rules.rule(said.rule).id;
            self.count(fingerprint(rule, identity.tag(&self.secret)), rule, identity, stands_for);
        }
    }

    fn count(&self, key: Fingerprint, rule: &str, identity: impl Display, weight: u64) {
        let part = usize::from(key.0[1].to_le_bytes()[0]) % PARTS;
        // Whoever is in the way is done before it would matter that this one was not counted.
        let Some(mut part) = self.parts[part].try_lock() else { return };
        let Part { now, before } = &mut *part;
        let counted = now.add(key, weight);
        if counted.value.is_none() && counted.certain() > weight {
            let known = before.get(key).and_then(|before| before.value.clone());
            counted.value = Some(known.unwrap_or_else(|| {
                Arc::new(Named { rule: name::shown(rule).into(), identity: name::shown(identity).into() })
            }));
        }
    }

    /// Ends the window if it is time, and tells what has changed by it. To be called some twenty times a second.
    pub(crate) fn tick(&self, now: Timestamp) {
        let events = {
            let mut board = self.board.lock();
            if board.is_over(now).is_none() {
                return;
            }
            board.turn(now, &self.turn())
        };
        for event in events {
            match &event {
                HotKeyEvent::Hot(key) => {
                    tracing::warn!(rule = &*key.rule, identity = &*key.identity, rate = key.rate, "hot key");
                }
                HotKeyEvent::Cooled(key) => {
                    tracing::info!(
                        rule = &*key.rule,
                        identity = &*key.identity,
                        rate = key.rate,
                        "key cooled down"
                    );
                }
            }
            // Nobody need listen.
            let _ = self.events.send(event);
        }
    }

    /// Starts counting anew, and says what was counted for certain.
    fn turn(&self) -> Vec<Seen> {
        let mut seen = Vec::new();
        for part in &self.parts {
            let mut part = part.lock();
            let Part { now, before } = &mut *part;
            std::mem::swap(now, before);
            now.clear();
            seen.extend(before.iter().filter_map(|counted| {
                let named = Arc::clone(counted.value.as_ref()?);
                Some(Seen { key: counted.key, requests: counted.certain(), named })
            }));
        }
        seen
    }

    /// The keys with most requests of late, hot or not.
    pub(crate) fn top(&self) -> Vec<HotKey> {
        self.board.lock().top().to_vec()
    }

    /// How many keys are hot.
    pub(crate) fn hot(&self) -> usize {
        self.board.lock().hot()
    }

    /// Hears of keys that become hot or cool down from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<HotKeyEvent> {
        self.events.subscribe()
    }

    /// How many keys are remembered.
    #[cfg(test)]
    pub(crate) fn keys(&self) -> usize {
        let of = |part: &Part| part.now.len() + part.before.len();
        self.parts.iter().map(|part| of(&part.lock())).sum()
    }
}

/// A rule and whom it counts. Clients choose neither: rules are the operator's (FNV-1a will do), and tags are keyed hashes.
fn fingerprint(rule: &str, tag: Tag) -> Fingerprint {
    let rule = rule.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let [first, second] = tag.bits();
    Fingerprint([first ^ rule, second ^ rule.rotate_left(32)])
}
