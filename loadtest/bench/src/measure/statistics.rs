//! Quantiles, and intervals for what differs between two policies on the same traces.
//!
//! Runs are compared seed by seed: the percentile of one policy varies by tens of per cent between seeds, its ratio to
//! that of another on the same trace by a few.

use serde::{Deserialize, Serialize};

use super::student;

/// Confidence of an interval where none is named.
pub const CONFIDENCE: f64 = 0.95;

/// Confidence of an interval that has to lie within two bounds to show equivalence: each bound is then excluded with 95 %
/// (two one-sided tests; Schuirmann, 1987).
pub const EQUIVALENCE: f64 = 0.9;

/// The value below which `share` of the sorted values lie, with linear interpolation between neighbours; 0 for none.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = share.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// A mean with its interval over seeds, of 95 % where no other confidence is named. One seed has no interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Mean.
    pub mean: f64,
    /// Lower end.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

impl Interval {
    /// Both ends.
    pub fn ends(self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }
}

/// Mean and 95 % t interval of values that are independent and roughly normal.
pub fn interval(values: &[f64]) -> Interval {
    Sample::of(values).interval(CONFIDENCE)
}

/// How many times `ours` is `theirs`, over pairs of the same seed: the geometric mean of the ratios with a t interval in
/// logarithms. `None` when a value is not positive.
pub fn paired_ratio(ours: &[f64], theirs: &[f64], confidence: f64) -> Option<Interval> {
    Some(PairedRatio::of(ours, theirs)?.interval(confidence))
}

/// The ratio of pairs of the same seed, for tests that need more than one interval.
#[derive(Clone, Copy, Debug)]
pub struct PairedRatio {
    logs: Sample,
}

impl PairedRatio {
    /// How many times `ours` is `theirs`. `None` when a value is not positive.
    pub fn of(ours: &[f64], theirs: &[f64]) -> Option<Self> {
        let logs: Vec<f64> = ours.iter().zip(theirs).map(|(our, their)| (our / their).ln()).collect();
        let is_sound = !logs.is_empty() && logs.iter().all(|log| log.is_finite());
        is_sound.then(|| Self { logs: Sample::of(&logs) })
    }

    /// Geometric mean, with an interval unless there is only one pair.
    pub fn interval(self, confidence: f64) -> Interval {
        let Interval { mean, low, high } = self.logs.interval(confidence);
        Interval { mean: mean.exp(), low: low.map(f64::exp), high: high.map(f64::exp) }
    }

    /// Chance of such a ratio, or of a smaller one, if it were `least` or more in truth; `None` for only one pair.
    pub fn p_of_at_least(self, least: f64) -> Option<f64> {
        let Sample { mean, error, degrees } = self.logs;
        let below = mean - least.ln();
        Some(match error? {
            error if error > 0.0 => student::below(below / error, degrees),
            // All pairs are equal.
            _ if below < 0.0 => 0.0,
            _ => 1.0,
        })
    }
}

/// One of several tests that are made together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Corrected {
    /// Its p value, corrected for the number of tests.
    pub p: f64,
    /// Tests among which it is made: all but those of a smaller p value.
    pub among: usize,
}

/// Corrects p values so that the chance of one wrong claim among all is kept (Holm, 1979), whatever the tests have to do with
/// each other.
pub fn holm(p_values: &[f64]) -> Vec<Corrected> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|one, other| p_values[*one].total_cmp(&p_values[*other]));
    let mut corrected = vec![Corrected { p: 0.0, among: 0 }; p_values.len()];
    let mut largest = 0.0_f64;
    for (rank, place) in order.into_iter().enumerate() {
        let among = p_values.len() - rank;
        // No claim is made before all that are more certain.
        largest = largest.max((p_values[place] * among as f64).min(1.0));
        corrected[place] = Corrected { p: largest, among };
    }
    corrected
}

/// A mean, its standard error, which one value has not, and the degrees of freedom of that.
#[derive(Clone, Copy, Debug)]
struct Sample {
    mean: f64,
    error: Option<f64>,
    degrees: usize,
}

impl Sample {
    fn of(values: &[f64]) -> Self {
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let error = (values.len() > 1).then(|| (squares / (count - 1.0) / count).sqrt());
        Self { mean, error, degrees: values.len().saturating_sub(1) }
    }

    fn interval(self, confidence: f64) -> Interval {
        let Self { mean, error, degrees } = self;
        let half = error.map(|error| student::quantile(f64::midpoint(1.0, confidence), degrees) * error);
        Interval { mean, low: half.map(|half| mean - half), high: half.map(|half| mean + half) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::random::Random;

    #[test]
    fn quantiles_of_known_values() {
        let values: Vec<f64> = (0..=100).map(f64::from).collect();
        assert!((quantile(&values, 0.95) - 95.0).abs() < 1e-9);
        assert!((quantile(&[1.0, 2.0], 0.5) - 1.5).abs() < 1e-9);
        assert!((quantile(&[], 0.5)).abs() < 1e-9);
    }

    #[test]
    fn intervals_cover_the_truth_as_often_as_they_say() {
        let mut random = Random::new(1, "coverage");
        let covered = (0..4_000).filter(|_| {
            let values: Vec<f64> = (0..6).map(|_| 5.0 + random.normal()).collect();
            interval(&values).ends().is_some_and(|(low, high)| low <= 5.0 && 5.0 <= high)
        });
        let share = covered.count() as f64 / 4_000.0;
        assert!((share - 0.95).abs() < 0.012, "{share}");
    }

    #[test]
    fn one_seed_has_no_interval() {
        assert_eq!(interval(&[5.0]), Interval { mean: 5.0, low: None, high: None });
        assert_eq!(paired_ratio(&[2.0], &[1.0], CONFIDENCE).and_then(Interval::ends), None);
    }

    #[test]
    fn pairing_takes_away_what_seeds_have_in_common() {
        // Seeds differ by a factor of ten, policies by a fifth.
        let theirs = [1.0, 10.0, 3.0, 0.5];
        let ours: Vec<f64> = theirs.iter().map(|value| value * 0.8).collect();
        let ratio = paired_ratio(&ours, &theirs, CONFIDENCE).unwrap();
        let narrow = ratio.ends().is_some_and(|(low, high)| high - low < 1e-9);
        assert!((ratio.mean - 0.8).abs() < 1e-9 && narrow, "{ratio:?}");
        assert_eq!(paired_ratio(&[0.0], &[1.0], CONFIDENCE), None);
    }

    #[test]
    fn the_interval_of_equivalence_is_the_narrower_one() {
        // Logarithms of the ratios: -0.02, 0, 0.02, 0.04; mean 0.01, standard error 0.01291, t of three degrees 2.353.
        let ours = [-0.02_f64, 0.0, 0.02, 0.04].map(f64::exp);
        let (low, high) = paired_ratio(&ours, &[1.0; 4], EQUIVALENCE).and_then(Interval::ends).unwrap();
        assert!((low.ln() + 0.02038).abs() < 1e-5 && (high.ln() - 0.04038).abs() < 1e-5, "{low} to {high}");
    }

    #[test]
    fn a_ratio_is_tested_against_a_bound() {
        // Mean 0.01, standard error 0.01291, and ln 1.1 is 0.09531: t is -6.608. Of three degrees of freedom the share below t is
        // 1/2 + (x / (1 + x^2) + atan x) / pi for x = t / sqrt 3 = -3.815.
        let ours = [-0.02_f64, 0.0, 0.02, 0.04].map(f64::exp);
        let of = |ours: &[f64], theirs: &[f64]| PairedRatio::of(ours, theirs).unwrap().p_of_at_least(1.1);
        assert!((of(&ours, &[1.0; 4]).unwrap() - 0.00352).abs() < 1e-5, "{:?}", of(&ours, &[1.0; 4]));
        assert_eq!(of(&[1.0], &[1.0]), None, "one seed tests nothing");
        assert_eq!(of(&[1.0, 1.0], &[1.0, 1.0]), Some(0.0));
        assert_eq!(of(&[1.2, 1.2], &[1.0, 1.0]), Some(1.0));
    }

    #[test]
    fn p_values_are_corrected_in_their_order() {
        // 0.005 * 4, 0.01 * 3, 0.03 * 2, and 0.04 * 1, which is not below the one before.
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [(0.03, 3), (0.06, 1), (0.06, 2), (0.02, 4)];
        for (one, (p, among)) in corrected.iter().zip(expected) {
            assert!((one.p - p).abs() < 1e-12 && one.among == among, "{corrected:?}");
        }
        assert!(holm(&[0.6, 0.7]).iter().all(|one| one.p <= 1.0), "a chance is at most one");
    }
}
