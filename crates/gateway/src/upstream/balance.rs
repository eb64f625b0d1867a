//! Whose turn it is.

/// Turns by weight, spread evenly: with weights 3 and 1 it is a a b a, not a a a b.
///
/// At each turn everybody who can be picked gains its weight; whoever has most is picked and pays what all have gained.
#[derive(Debug)]
pub(super) struct Turns {
    credit: Vec<i64>,
}

impl Turns {
    pub(super) fn new(servers: usize) -> Self {
        Self { credit: vec![0; servers] }
    }

    /// The next of those that `weight` has one for.
    pub(super) fn next(&mut self, weight: impl Fn(usize) -> Option<u32>) -> Option<usize> {
        let mut total = 0;
        let mut best: Option<(usize, i64)> = None;
        for (index, credit) in self.credit.iter_mut().enumerate() {
            let Some(weight) = weight(index).map(i64::from) else { continue };
            *credit = credit.saturating_add(weight);
            total += weight;
            if best.is_none_or(|(_, most)| *credit > most) {
                best = Some((index, *credit));
            }
        }
        let (index, _) = best?;
        self.credit[index] = self.credit[index].saturating_sub(total);
        Some(index)
    }
}

/// The one with the least under way for its weight, of those that `load` has something for (requests and weight);
/// `start` says who is looked at first, and so who gets it among equals.
pub(super) fn least(
    servers: usize,
    start: usize,
    load: impl Fn(usize) -> Option<(usize, u32)>,
) -> Option<usize> {
    let mut best: Option<(usize, u128, u128)> = None;
    for offset in 0..servers {
        let index = (start % servers + offset) % servers;
        let Some((requests, weight)) = load(index) else { continue };
        // With the one to come, so that weights tell even when nothing is under way.
        let (requests, weight) = (requests as u128 + 1, u128::from(weight));
        if best.is_none_or(|(_, least, of)| requests * of < least * weight) {
            best = Some((index, requests, weight));
        }
    }
    best.map(|(index, ..)| index)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn turns_are_spread() {
        let mut turns = Turns::new(2);
        let order: Vec<_> = (0..8).map(|_| turns.next(|index| Some([3, 1][index])).unwrap()).collect();
        assert_eq!(order, [0, 0, 1, 0, 0, 0, 1, 0]);
        assert_eq!(turns.next(|_| None), None);
    }

    proptest! {
        /// Over as many turns as all weights together, everybody has as many as its weight; who is out gets none.
        #[test]
        fn weights_are_kept_exactly(weights in prop::collection::vec(prop::option::of(1..20u32), 1..8)) {
            let total: u32 = weights.iter().flatten().sum();
            let mut turns = Turns::new(weights.len());
            for _ in 0..3 {
                let mut got = vec![0; weights.len()];
                for _ in 0..total {
                    got[turns.next(|index| weights[index]).unwrap()] += 1;
                }
                let expected: Vec<u32> = weights.iter().map(|weight| weight.unwrap_or(0)).collect();
                prop_assert_eq!(got, expected);
            }
            if total == 0 {
                prop_assert_eq!(turns.next(|index| weights[index]), None);
            }
        }

        #[test]
        fn the_least_is_least(
            loads in prop::collection::vec(prop::option::of((0..50usize, 1..5u32)), 1..10),
            start: usize,
        ) {
            match least(loads.len(), start, |index| loads[index]) {
                None => prop_assert!(loads.iter().all(Option::is_none)),
                Some(index) => {
                    let (requests, weight) = loads[index].unwrap();
                    for (other, share) in loads.iter().flatten() {
                        prop_assert!((requests as u64 + 1) * u64::from(*share) <= (*other as u64 + 1) * u64::from(weight));
                    }
                }
            }
        }

        /// Equals take turns.
        #[test]
        fn equals_take_turns(servers in 1..10usize, start in 0..1_000usize) {
            prop_assert_eq!(least(servers, start, |_| Some((7, 1))), Some(start % servers));
        }
    }
}
