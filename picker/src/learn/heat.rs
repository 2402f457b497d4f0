//! Which adapters are asked for, and how much of the traffic each has.

use std::collections::HashMap;
use std::sync::Arc;

/// Requests that count: about the last thousand of the pool. Enough to tell an adapter of one per cent from one of two, few
/// enough that a new one is seen within minutes.
const WINDOW: f64 = 1_000.0;

/// Weight below which an adapter is forgotten: that of one request three windows ago.
const LEAST: f64 = 0.05;

/// Requests between two looks for adapters to forget.
const SWEEP: u64 = 256;

/// Weights of adapters, which fade with each request of the pool.
#[derive(Debug, Default)]
pub(crate) struct Heat {
    /// Weight, and the requests there had been when it was right.
    adapters: HashMap<Arc<str>, (f64, u64)>,
    requests: u64,
}

impl Heat {
    /// A request came, of an adapter or of none.
    pub(crate) fn observe(&mut self, adapter: Option<&Arc<str>>) {
        self.requests += 1;
        let now = self.requests;
        if let Some(adapter) = adapter {
            let heat = self.adapters.entry(adapter.clone()).or_insert((0.0, now));
            *heat = (faded(*heat, now) + 1.0, now);
        }
        if now.is_multiple_of(SWEEP) {
            self.adapters.retain(|_, heat| faded(*heat, now) >= LEAST);
        }
    }

    /// The adapter's share of the requests that count, 0 to 1.
    pub(crate) fn share(&self, adapter: &str) -> f64 {
        let weight = self.adapters.get(adapter).map_or(0.0, |heat| faded(*heat, self.requests));
        let all = WINDOW * -(-(self.requests as f64) / WINDOW).exp_m1();
        if all > 0.0 { (weight / all).min(1.0) } else { 0.0 }
    }

    /// Adapters that are asked for.
    pub(crate) fn adapters(&self) -> usize {
        self.adapters.len()
    }
}

fn faded((weight, at): (f64, u64), now: u64) -> f64 {
    weight * (-((now - at) as f64) / WINDOW).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_that_of_the_last_thousand_requests() {
        let mut heat = Heat::default();
        let [a, b] = ["a", "b"].map(Arc::from);
        for i in 0..4_000 {
            heat.observe([Some(&a), Some(&b), Some(&a), None][i % 4]);
        }
        assert!((heat.share("a") - 0.5).abs() < 0.01 && (heat.share("b") - 0.25).abs() < 0.01);
        for _ in 0..10_000 {
            heat.observe(Some(&b));
        }
        assert!(heat.share("b") > 0.95 && heat.share("a") < 1e-3);
        assert_eq!(heat.adapters(), 1, "what is not asked for any more is forgotten");
    }

    #[test]
    fn the_first_requests_are_a_whole() {
        let mut heat = Heat::default();
        assert!(heat.share("a").abs() < 1e-12);
        heat.observe(Some(&Arc::from("a")));
        assert!((heat.share("a") - 1.0).abs() < 0.01, "{}", heat.share("a"));
    }
}
