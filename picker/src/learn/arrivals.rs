//! How many requests come per second.

use crate::time::Time;

/// Seconds over which arrivals are averaged. Long enough to see through the clumps of a steady stream, short enough to
/// follow a burst that is worth another route.
const WINDOW: f64 = 10.0;

/// Seconds a first look takes at least: the first two requests of the day are no rate.
const MIN_AGE: f64 = 1.0;

/// Exponentially weighted arrival rate.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArrivalRate {
    /// Arrivals so far, each faded by its age.
    count: f64,
    /// The window as far as it has been watched: 0 at the first arrival, 1 in the end.
    seen: f64,
    last: Option<Time>,
}

impl ArrivalRate {
    /// Takes an arrival.
    pub fn observe(&mut self, now: Time) {
        (self.count, self.seen) = self.faded(now);
        self.count += 1.0;
        self.last = self.last.max(Some(now));
    }

    /// Arrivals per second; 0 before the first.
    pub fn per_second(&self, now: Time) -> f64 {
        let (count, seen) = self.faded(now);
        let least = 1.0 - (-MIN_AGE / WINDOW).exp();
        count / (WINDOW * seen.max(least))
    }

    fn faded(&self, now: Time) -> (f64, f64) {
        let Some(last) = self.last else {
            return (0.0, 0.0);
        };
        let kept = (-now.since(last).as_secs_f64() / WINDOW).exp();
        (self.count * kept, 1.0 - (1.0 - self.seen) * kept)
    }
}
