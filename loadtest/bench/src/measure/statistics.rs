//! Quantiles, and intervals for what differs between two policies on the same traces.
//!
//! Runs are compared seed by seed: the percentile of one policy varies by tens of per cent between seeds, its ratio to
//! that of another on the same trace by a few.

use serde::{Deserialize, Serialize};

/// The value below which `share` of the sorted values lie, with linear interpolation between neighbours; 0 for none.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = share.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// A mean with its 95 % interval over seeds. One seed has no interval.
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

/// Mean and t interval of values that are independent and roughly normal.
pub fn interval(values: &[f64]) -> Interval {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    let half = (values.len() > 1).then(|| t95(values.len() - 1) * (variance / count).sqrt());
    Interval { mean, low: half.map(|half| mean - half), high: half.map(|half| mean + half) }
}

/// How many times `ours` is `theirs`, over pairs of the same seed: the geometric mean of the ratios with a t interval in
/// logarithms. `None` when a value is not positive.
pub fn paired_ratio(ours: &[f64], theirs: &[f64]) -> Option<Interval> {
    let logs: Vec<f64> = ours.iter().zip(theirs).map(|(our, their)| (our / their).ln()).collect();
    if logs.is_empty() || logs.iter().any(|log| !log.is_finite()) {
        return None;
    }
    let Interval { mean, low, high } = interval(&logs);
    Some(Interval { mean: mean.exp(), low: low.map(f64::exp), high: high.map(f64::exp) })
}

/// Two-sided 95 % quantile of Student's t. Source: any table; past 30 degrees the normal one is near enough.
fn t95(degrees: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    TABLE.get(degrees.saturating_sub(1)).copied().unwrap_or(1.96)
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
        assert_eq!(paired_ratio(&[2.0], &[1.0]).and_then(Interval::ends), None);
    }

    #[test]
    fn pairing_takes_away_what_seeds_have_in_common() {
        // Seeds differ by a factor of ten, policies by a fifth.
        let theirs = [1.0, 10.0, 3.0, 0.5];
        let ours: Vec<f64> = theirs.iter().map(|value| value * 0.8).collect();
        let ratio = paired_ratio(&ours, &theirs).unwrap();
        let narrow = ratio.ends().is_some_and(|(low, high)| high - low < 1e-9);
        assert!((ratio.mean - 0.8).abs() < 1e-9 && narrow, "{ratio:?}");
        assert_eq!(paired_ratio(&[0.0], &[1.0]), None);
    }
}
