//! Counts what is in flight at one endpoint: requests, and their load in request equivalents.
//!
//! Both live in one word, so that reserving is a single compare-and-add against the bounds of the decision. A count read
//! first and added to later would let two threads through the same gap.

pub(crate) mod work;

use std::sync::atomic::{AtomicU64, Ordering};

/// Load units in one request equivalent. Integers, so that what is added is exactly what is later taken away.
pub(crate) const UNIT: u32 = 1_000;

/// Load of a stream past its first token: a quarter of a mean prefill. It occupies the engine lightly but for long.
pub(crate) const DECODE: u32 = UNIT / 4;

/// Bounds of a prefill's size in load units: below a quarter it costs what a decode does, and above eight the estimate is
/// more likely wrong than the request eight times the mean.
const SIZE_RANGE: (f64, f64) = (0.25, 8.0);

/// Requests in flight and their load, changed together.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Requests in the high half, load in the low half. The load stays far below 2^32: it would take half a million
    /// prefills of the largest size at one endpoint.
    packed: AtomicU64,
}

/// What a ledger held at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// Requests.
    pub(crate) requests: u32,
    /// Load units.
    pub(crate) units: u32,
}

/// Load units of a prefill of `uncached` tokens where the mean request has `mean` of them.
pub(crate) fn size(uncached: f64, mean: f64) -> u32 {
    let relative = if mean > 0.0 { uncached / mean } else { 1.0 };
    (relative.clamp(SIZE_RANGE.0, SIZE_RANGE.1) * f64::from(UNIT)) as u32
}

impl Load {
    const fn pack(self) -> u64 {
        (self.requests as u64) << 32 | self.units as u64
    }

    const fn unpack(packed: u64) -> Self {
        Self { requests: (packed >> 32) as u32, units: packed as u32 }
    }
}

impl Ledger {
    pub(crate) fn load(&self) -> Load {
        Load::unpack(self.packed.load(Ordering::Acquire))
    }

    /// Adds one request of `size` units, unless that would pass either part of `bound`. True when added.
    pub(crate) fn reserve(&self, size: u32, bound: Load) -> bool {
        self.packed
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |packed| {
                let held = Load::unpack(packed);
                let next = Load { requests: held.requests.checked_add(1)?, units: held.units.checked_add(size)? };
                (next.requests <= bound.requests && next.units <= bound.units).then(|| next.pack())
            })
            .is_ok()
    }

    /// A request of `from` units has become one of `to` units.
    pub(crate) fn resize(&self, from: u32, to: u32) {
        // Two's complement on the whole word: the low half cannot borrow, since `from` is part of it.
        self.packed.fetch_add(u64::from(to).wrapping_sub(u64::from(from)), Ordering::AcqRel);
    }

    /// A request of `size` units has ended.
    pub(crate) fn release(&self, size: u32) {
        self.packed.fetch_sub(Load { requests: 1, units: size }.pack(), Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_BOUND: Load = Load { requests: u32::MAX, units: u32::MAX };

    #[test]
    fn what_was_added_is_taken_away() {
        let ledger = Ledger::default();
        assert!(ledger.reserve(8_000, NO_BOUND));
        assert!(ledger.reserve(250, NO_BOUND));
        ledger.resize(8_000, DECODE);
        assert_eq!(ledger.load(), Load { requests: 2, units: 500 });
        ledger.resize(250, 8_000);
        ledger.release(8_000);
        ledger.release(DECODE);
        assert_eq!(ledger.load(), Load::default(), "an idle endpoint must count nothing");
    }

    #[test]
    fn a_bound_holds_in_requests_and_in_units() {
        let ledger = Ledger::default();
        assert!(!ledger.reserve(1_001, Load { requests: 1, units: 1_000 }), "over the units");
        assert!(ledger.reserve(1_000, Load { requests: 1, units: 1_000 }), "exactly the bound is allowed");
        assert!(!ledger.reserve(0, Load { requests: 1, units: u32::MAX }), "over the requests");
    }

    #[test]
    fn sizes_are_relative_to_the_mean_and_clipped() {
        assert_eq!(size(500.0, 500.0), UNIT);
        assert_eq!(size(0.0, 500.0), UNIT / 4);
        assert_eq!(size(1e9, 500.0), 8 * UNIT);
        assert_eq!(size(700.0, 0.0), UNIT, "without a mean every request counts one");
    }

    #[test]
    fn threads_never_pass_the_bound_together() {
        let ledger = Ledger::default();
        let bound = Load { requests: 100, units: u32::MAX };
        let granted: usize = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| (0..100).filter(|_| ledger.reserve(1, bound)).count())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(granted, 100, "400 tries against a bound of 100");
        assert_eq!(ledger.load(), Load { requests: 100, units: 100 });
    }
}
