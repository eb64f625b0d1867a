//! What was admitted without the store, and is not yet known to it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use parking_lot::Mutex;
use smallvec::SmallVec;
use tidegate_core::{Action, Key, Operation, Quota, RequestId, Span, Tag, Take, Timestamp};

use crate::memory::MAX_MEMORY;

/// The most keys that are remembered. What is admitted beyond them is never settled.
const MAX_KEYS: usize = 1_000_000;

/// The most payments of a key that are out, or of which nobody knows whether they were made. No others are begun before that is known.
const MAX_UNSURE: usize = 4;

/// How many locks there are.
const STRIPES: usize = 64;

/// Debts by key. Keys are fingerprints, which nobody can choose.
type Debts = HashMap<[u64; 2], Owed, FixedState>;

/// All debts.
#[derive(Debug)]
pub(super) struct Ledger {
    stripes: Box<[Mutex<Debts>]>,
    /// How many there are, so that nobody has to look for one where there is none.
    count: AtomicUsize,
    /// How many keys there are in each part of the store.
    parts: [AtomicUsize; 64],
    /// What names payments, together with their number: drawn anew each time a node starts.
    epoch: u64,
    next: AtomicU64,
    admitted: AtomicU64,
    settled: AtomicU64,
    forgiven: AtomicU64,
}

/// What a node has admitted without the store, and what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// How much was admitted.
    pub admitted: u64,
    /// How much of it the store was told.
    pub settled: u64,
    /// How much of it the store need not know any more, because waiting has given it back.
    pub forgiven: u64,
}

/// What is owed for one key.
#[derive(Clone, Debug)]
struct Owed {
    rule_id: Box<str>,
    tag: Tag,
    quota: Quota,
    /// The share of it by which it was counted here.
    counted_by: Quota,
    part: u8,
    /// What was admitted and is in no payment.
    admitted: u64,
    /// Payments that may have been made.
    unsure: SmallVec<[Payment; 1]>,
    /// How many payments are out.
    out: usize,
    /// Whether a payment is about to leave: until it has left, what overtakes it would find too much.
    leaving: bool,
}

/// One payment: made once, however often it is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Payment {
    id: RequestId,
    cost: u64,
    /// When it was first tried.
    made: Timestamp,
}

/// The payments of one key that are to be made now.
#[derive(Debug)]
pub(super) struct Bill {
    rule_id: Box<str>,
    tag: Tag,
    quota: Quota,
    fingerprint: [u64; 2],
    payments: SmallVec<[Payment; 2]>,
}

impl Bill {
    /// What to ask of the store, one operation for each payment.
    pub(super) fn operations(&self) -> impl Iterator<Item = Operation<'_>> {
        let key = Key::new(&self.rule_id, self.quota.algorithm(), self.tag);
        self.payments.iter().map(move |payment| {
            let take = Take::new(key, self.quota, payment.cost);
            Operation { take: Take { request_id: Some(payment.id), ..take }, action: Action::Charge }
        })
    }

    pub(super) fn len(&self) -> usize {
        self.payments.len()
    }
}

/// How things stand with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The store knows all of it, or is about to.
    Even,
    /// The store has to be told something first.
    Owing,
    /// The store is just being told.
    Leaving,
}

/// What became of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paid {
    Yes,
    /// Certainly not.
    No,
    Perhaps,
}

impl Ledger {
    pub(super) fn new(epoch: u64) -> Self {
        Self {
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            count: AtomicUsize::new(0),
            parts: [const { AtomicUsize::new(0) }; 64],
            epoch,
            next: AtomicU64::new(0),
            admitted: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            forgiven: AtomicU64::new(0),
        }
    }

    /// For how many keys something is owed, or being paid.
    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The parts of the store to which something is owed, a bit each.
    pub(super) fn parts(&self) -> u64 {
        let owing = |part: &usize| self.parts[*part].load(Ordering::Relaxed) > 0;
        (0..64).filter(owing).fold(0, |mask, part| mask | 1 << part)
    }

    pub(super) fn totals(&self) -> Settled {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Settled {
            admitted: read(&self.admitted),
            settled: read(&self.settled),
            forgiven: read(&self.forgiven),
        }
    }

    /// Writes down that a take was admitted, which belongs to a part of the store and was counted here by a share of its quota.
    pub(super) fn add(&self, take: &Take<'_>, counted_by: Quota, part: u8) {
        self.admitted.fetch_add(take.cost, Ordering::Relaxed);
        let fingerprint = take.key.fingerprint();
        let mut debts = self.stripe(fingerprint).lock();
        if self.len() >= MAX_KEYS && !debts.contains_key(&fingerprint) {
            return;
        }
        let owed = debts.entry(fingerprint).or_insert_with(|| {
            self.count.fetch_add(1, Ordering::Relaxed);
            self.parts[usize::from(part) % 64].fetch_add(1, Ordering::Relaxed);
            Owed::new(take, part)
        });
        owed.admitted = owed.admitted.saturating_add(take.cost);
        (owed.quota, owed.counted_by) = (take.quota, counted_by);
    }

    /// Whether the store has to be told something about a key, or is being told.
    pub(super) fn owes(&self, fingerprint: [u64; 2]) -> bool {
        self.len() > 0 && self.stripe(fingerprint).lock().contains_key(&fingerprint)
    }

    /// The share of its quota by which a key is counted here, if the store does not know all of that.
    pub(super) fn counted_by(&self, fingerprint: [u64; 2]) -> Option<Quota> {
        self.stripe(fingerprint).lock().get(&fingerprint).map(|owed| owed.counted_by)
    }

    /// Whether something was admitted of a key that is in no payment.
    pub(super) fn has_unbilled(&self, fingerprint: [u64; 2]) -> bool {
        self.stripe(fingerprint).lock().get(&fingerprint).is_some_and(|owed| owed.admitted > 0)
    }

    pub(super) fn standing(&self, fingerprint: [u64; 2]) -> Standing {
        match self.stripe(fingerprint).lock().get(&fingerprint) {
            Some(owed) if owed.leaving => Standing::Leaving,
            Some(owed) if owed.is_owing() => Standing::Owing,
            _ => Standing::Even,
        }
    }

    /// The payments for a key, which whoever asked for them has to make. No more of what was admitted is to be paid
    /// than `gone` says is gone of the counter here at `now`.
    pub(super) fn bill(
        &self,
        fingerprint: [u64; 2],
        now: Timestamp,
        gone: impl FnOnce(&Take<'_>) -> u64,
    ) -> Option<Bill> {
        let mut debts = self.stripe(fingerprint).lock();
        let owed = debts.get_mut(&fingerprint)?;
        if owed.leaving || !owed.is_owing() {
            return None;
        }
        // The store forgets which payments were made: then trying again might pay twice, and it was most likely made.
        let remembered = |payment: &Payment| now.since(payment.made) < memory_of(&owed.quota);
        let (again, made): (SmallVec<[Payment; 2]>, SmallVec<[Payment; 2]>) =
            owed.unsure.drain(..).partition(remembered);
        made.iter().for_each(|payment| self.count_settled(payment));
        let mut payments = again;
        let room = payments.len() + owed.out < MAX_UNSURE;
        let admitted = if room { std::mem::take(&mut owed.admitted) } else { 0 };
        if admitted > 0 {
            let key = Key::new(&owed.rule_id, owed.quota.algorithm(), owed.tag);
            let cost = gone(&Take::new(key, owed.counted_by, 0)).min(admitted);
            self.forgiven.fetch_add(admitted - cost, Ordering::Relaxed);
            if cost > 0 {
                let number = self.next.fetch_add(1, Ordering::Relaxed);
                let id = RequestId::from_bits([self.epoch, number]);
                payments.push(Payment { id, cost, made: now });
            }
        }
        if payments.is_empty() {
            if owed.out == 0 && owed.admitted == 0 {
                self.forget(&mut debts, fingerprint);
            }
            return None;
        }
        owed.out += payments.len();
        owed.leaving = true;
        Some(Bill { rule_id: owed.rule_id.clone(), tag: owed.tag, quota: owed.quota, fingerprint, payments })
    }

    /// Some keys for which something is owed, whichever they are.
    pub(super) fn some(&self, most: usize) -> Vec<[u64; 2]> {
        let mut some = Vec::new();
        for stripe in &self.stripes {
            let debts = stripe.lock();
            let owing = debts.iter().filter(|(_, owed)| owed.is_owing() && !owed.leaving);
            some.extend(owing.map(|(fingerprint, _)| *fingerprint).take(most - some.len()));
        }
        some
    }

    /// The payments of a bill are on their way: what comes after does not overtake them any more.
    pub(super) fn has_left(&self, bill: &Bill) {
        if let Some(owed) = self.stripe(bill.fingerprint).lock().get_mut(&bill.fingerprint) {
            owed.leaving = false;
        }
    }

    /// Takes note of what became of the payments of a bill, in order.
    pub(super) fn resolve(&self, bill: &Bill, paid: impl Iterator<Item = Paid>) {
        let mut debts = self.stripe(bill.fingerprint).lock();
        let Some(owed) = debts.get_mut(&bill.fingerprint) else { return };
        owed.leaving = false;
        for (payment, paid) in bill.payments.iter().zip(paid.chain(std::iter::repeat(Paid::Perhaps))) {
            owed.out = owed.out.saturating_sub(1);
            match paid {
                Paid::No => owed.admitted = owed.admitted.saturating_add(payment.cost),
                Paid::Perhaps => owed.unsure.push(*payment),
                Paid::Yes => self.count_settled(payment),
            }
        }
        if owed.out == 0 && !owed.is_owing() {
            self.forget(&mut debts, bill.fingerprint);
        }
    }

    /// Forgets everything: it is owed to somebody else than was thought.
    pub(super) fn clear(&self) {
        for stripe in &self.stripes {
            let mut debts = stripe.lock();
            let keys: Vec<[u64; 2]> = debts.keys().copied().collect();
            for fingerprint in keys {
                let admitted = debts.get(&fingerprint).map_or(0, |owed| owed.admitted);
                self.forgiven.fetch_add(admitted, Ordering::Relaxed);
                self.forget(&mut debts, fingerprint);
            }
        }
    }

    fn count_settled(&self, payment: &Payment) {
        self.settled.fetch_add(payment.cost, Ordering::Relaxed);
    }

    fn forget(&self, debts: &mut Debts, fingerprint: [u64; 2]) {
        if let Some(owed) = debts.remove(&fingerprint) {
            self.count.fetch_sub(1, Ordering::Relaxed);
            self.parts[usize::from(owed.part) % 64].fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[allow(clippy::cast_possible_truncation, reason = "any bits of the fingerprint will do")]
    fn stripe(&self, fingerprint: [u64; 2]) -> &Mutex<Debts> {
        &self.stripes[fingerprint[0] as usize % STRIPES]
    }
}

/// For how long a store remembers which payments of a key were made.
fn memory_of(quota: &Quota) -> Span {
    quota.window().min(MAX_MEMORY)
}

impl Owed {
    fn new(take: &Take<'_>, part: u8) -> Self {
        Self {
            rule_id: take.key.rule_id.into(),
            tag: take.key.tag,
            quota: take.quota,
            counted_by: take.quota,
            part,
            admitted: 0,
            unsure: SmallVec::new(),
            out: 0,
            leaving: false,
        }
    }

    fn is_owing(&self) -> bool {
        self.admitted > 0 || !self.unsure.is_empty()
    }
}
