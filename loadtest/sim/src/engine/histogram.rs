//! A histogram with fixed buckets, as a metrics page shows it.
//!
//! Counts are kept per bucket and summed when read, so an observation touches one of them.

use std::borrow::Cow;

/// Counts of observations per bucket, their sum and number.
#[derive(Clone, Debug)]
pub struct Histogram {
    bounds: Cow<'static, [f64]>,
    counts: Vec<u64>,
    sum: f64,
    count: u64,
}

impl Histogram {
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        Self { bounds: Cow::Borrowed(bounds), counts: vec![0; bounds.len()], sum: 0.0, count: 0 }
    }

    /// With the bounds 1, 2, 5, 10, 20, 50 and so on that are not above `most`.
    pub(super) fn of_tokens(most: usize) -> Self {
        let powers = std::iter::successors(Some(1.0), |power| Some(power * 10.0));
        let bounds = powers.flat_map(|power| [power, 2.0 * power, 5.0 * power]);
        let bounds: Vec<f64> = bounds.take_while(|&bound| bound <= most as f64).collect();
        Self { counts: vec![0; bounds.len()], bounds: Cow::Owned(bounds), sum: 0.0, count: 0 }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_tokens_end_at_the_longest_sequence() {
        let ends = |most| Histogram::of_tokens(most).buckets().map(|(bound, _)| bound as u64).collect::<Vec<_>>();
        assert_eq!(ends(2_048), [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000]);
        for (most, last) in [(1, 1), (4, 2), (5, 5), (999, 500), (131_072, 100_000), (1_000_000, 1_000_000)] {
            assert_eq!(ends(most).last(), Some(&last), "{most}");
        }
    }
}
