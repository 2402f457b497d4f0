//! A histogram with fixed buckets, as a metrics page shows it.
//!
//! Counts are kept per bucket and summed when read, so an observation touches one of them.

/// Counts of observations per bucket, their sum and number.
#[derive(Clone, Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
    count: u64,
}

impl Histogram {
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len()], sum: 0.0, count: 0 }
    }

    pub(super) fn observe(&mut self, value: f64) {
        if let Some(place) = self.bounds.iter().position(|&bound| value <= bound) {
            self.counts[place] += 1;
        }
        self.sum += value;
        self.count += 1;
    }

    /// Upper bounds with the number of observations up to each; `+Inf` is [`Histogram::count`].
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.bounds.iter().zip(&self.counts).scan(0, |total, (&bound, &count)| {
            *total += count;
            Some((bound, *total))
        })
    }

    /// Sum of all observations.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// Number of observations.
    pub fn count(&self) -> u64 {
        self.count
    }
}
