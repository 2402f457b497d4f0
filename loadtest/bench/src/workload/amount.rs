//! How many tokens, or seconds: a distribution as a scenario names it.
//!
//! Shapes are those that published statistics of real traffic are given in; nothing is drawn outside `least..most`, by
//! clipping and not by drawing again, as those statistics do.

use serde::{Deserialize, Serialize};

use super::random::Random;
use crate::limits::{AMOUNT, POSITIVE_AMOUNT, SHARE};
use spillway_sim::Problems;

/// A distribution of non-negative numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Amount {
    /// Always the same.
    Fixed(f64),
    /// Its logarithm is normal; `median` is e to the mean of that.
    Lognormal {
        /// Half of the draws are below.
        median: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
        /// No less than this.
        #[serde(default)]
        least: f64,
        /// No more than this.
        #[serde(default = "unbounded")]
        most: f64,
    },
    /// Normal.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        deviation: f64,
        /// No less than this.
        #[serde(default)]
        least: f64,
        /// No more than this.
        #[serde(default = "unbounded")]
        most: f64,
    },
    /// Exponential.
    Exponential {
        /// Mean.
        mean: f64,
        /// No less than this.
        #[serde(default)]
        least: f64,
        /// No more than this.
        #[serde(default = "unbounded")]
        most: f64,
    },
    /// One of several, each with its share of the draws.
    Mix(Vec<Part>),
}

/// A part of a mixture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Its share, relative to the others.
    pub share: f64,
    /// What it draws.
    pub of: Amount,
}

const fn unbounded() -> f64 {
    *AMOUNT.end()
}

impl Amount {
    /// One draw.
    pub fn draw(&self, random: &mut Random) -> f64 {
        match self {
            Self::Fixed(value) => *value,
            Self::Lognormal { median, sigma, least, most } => {
                (median * (sigma * random.normal()).exp()).clamp(*least, *most)
            }
            Self::Normal { mean, deviation, least, most } => (mean + deviation * random.normal()).clamp(*least, *most),
            Self::Exponential { mean, least, most } => random.exponential(*mean).clamp(*least, *most),
            Self::Mix(parts) => {
                let mut place = random.unit() * parts.iter().map(|part| part.share).sum::<f64>();
                for part in parts {
                    place -= part.share;
                    if place < 0.0 {
                        return part.of.draw(random);
                    }
                }
                parts.last().map_or(0.0, |part| part.of.draw(random))
            }
        }
    }

    /// One draw in whole tokens, at least one.
    pub fn tokens(&self, random: &mut Random) -> u32 {
        self.draw(random).round().clamp(1.0, f64::from(u32::MAX)) as u32
    }

    /// Its mean, but for what clipping moves.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Fixed(value) => *value,
            Self::Lognormal { median, sigma, least, most } => {
                (median * (sigma * sigma / 2.0).exp()).clamp(*least, *most)
            }
            Self::Normal { mean, least, most, .. } | Self::Exponential { mean, least, most } => {
                mean.clamp(*least, *most)
            }
            Self::Mix(parts) => {
                let shares: f64 = parts.iter().map(|part| part.share).sum();
                parts.iter().map(|part| part.of.mean() * part.share / shares).sum()
            }
        }
    }

    /// Says what is wrong with it.
    pub fn check(&self, problems: &mut Problems) {
        match self {
            Self::Fixed(value) => problems.range("fixed", *value, AMOUNT),
            Self::Lognormal { median, sigma, least, most } => problems.inside("lognormal", |problems| {
                problems.range("median", *median, POSITIVE_AMOUNT);
                problems.range("sigma", *sigma, 0.0..=5.0);
                bounds(*least, *most, problems);
            }),
            Self::Normal { mean, deviation, least, most } => problems.inside("normal", |problems| {
                problems.range("mean", *mean, POSITIVE_AMOUNT);
                problems.range("deviation", *deviation, AMOUNT);
                bounds(*least, *most, problems);
            }),
            Self::Exponential { mean, least, most } => problems.inside("exponential", |problems| {
                problems.range("mean", *mean, POSITIVE_AMOUNT);
                bounds(*least, *most, problems);
            }),
            Self::Mix(parts) if parts.is_empty() => problems.add("mix", "has no part"),
            Self::Mix(parts) => problems.each("mix", parts, |part, problems| {
                problems.range("share", part.share, SHARE);
                problems.inside("of", |problems| part.of.check(problems));
            }),
        }
    }
}

fn bounds(least: f64, most: f64, problems: &mut Problems) {
    problems.range("most", most, AMOUNT);
    problems.range("least", least, AMOUNT);
    if least > most {
        problems.add("least", format_args!("{least} is above most, {most}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chat_lengths_have_the_published_moments() {
        // Azure 2023 conversation: mean 1155, p50 1020, p90 2734 of prompt tokens, fitted as ln(6.633, 0.985).
        let amount = Amount::Lognormal { median: 6.633_f64.exp(), sigma: 0.985, least: 16.0, most: 8_000.0 };
        let mut random = Random::new(1, "chat");
        let mut draws: Vec<f64> = (0..100_000).map(|_| amount.draw(&mut random)).collect();
        draws.sort_by(f64::total_cmp);
        let (median, p90) = (draws[50_000], draws[90_000]);
        assert!((median / 760.0 - 1.0).abs() < 0.03, "median {median}");
        assert!((p90 / 2_690.0 - 1.0).abs() < 0.05, "p90 {p90}");
        assert!(draws[0] >= 16.0 && draws[99_999] <= 8_000.0);
    }

    #[test]
    fn a_mix_draws_each_part_in_its_share() {
        let text = "mix: [{share: 9, of: {fixed: 40}}, {share: 1, of: {fixed: 1500}}]";
        let amount: Amount =
            serde_yaml::with::singleton_map_recursive::deserialize(serde_yaml::Deserializer::from_str(text)).unwrap();
        let mut random = Random::new(1, "mix");
        let long = (0..10_000).filter(|_| amount.tokens(&mut random) == 1_500).count();
        assert!((900..1_100).contains(&long), "{long} of 10,000");
    }

    #[test]
    fn an_amount_outside_its_limits_is_refused_with_its_key() {
        for (text, said) in [
            ("fixed: -1", "fixed: must be 0 to 10,000,000"),
            ("fixed: 1e12", "fixed: must be"),
            ("fixed: .nan", "fixed: must be"),
            ("lognormal: {median: 0, sigma: 1}", "lognormal.median: must be"),
            ("lognormal: {median: .inf, sigma: 1}", "lognormal.median: must be"),
            ("lognormal: {median: 1, sigma: 100}", "lognormal.sigma: must be 0 to 5"),
            ("lognormal: {median: 1, sigma: 1, most: 1e300}", "lognormal.most: must be"),
            ("normal: {mean: 1, deviation: -1}", "normal.deviation: must be"),
            ("normal: {mean: 1, deviation: 1, least: 5, most: 2}", "normal.least: 5 is above most, 2"),
            ("exponential: {mean: 0}", "exponential.mean: must be"),
            ("exponential: {mean: 1, least: .nan}", "exponential.least: must be"),
            ("mix: []", "mix: has no part"),
            ("mix: [{share: 0, of: {fixed: 1}}]", "mix[0].share: must be"),
            ("mix: [{share: 1, of: {fixed: .inf}}]", "mix[0].of.fixed: must be"),
        ] {
            let document = serde_yaml::Deserializer::from_str(text);
            let amount: Amount = serde_yaml::with::singleton_map_recursive::deserialize(document).unwrap();
            let mut problems = Problems::default();
            amount.check(&mut problems);
            let found = problems.lines().join("; ");
            assert!(found.contains(said), "{text}: {found:?}");
        }
    }
}
