//! How many tokens, or seconds: a distribution as a scenario names it.
//!
//! Shapes are those that published statistics of real traffic are given in; nothing is drawn outside `least..most`, by
//! clipping and not by drawing again, as those statistics do.

use serde::{Deserialize, Serialize};

use super::random::Random;

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
    f64::MAX
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

    /// What is wrong with it, if anything.
    pub fn check(&self) -> Result<(), String> {
        let bounds = |least: f64, most: f64| {
            if least >= 0.0 && least <= most { Ok(()) } else { Err(format!("bounds {least} to {most} make no range")) }
        };
        let positive = |name: &str, value: f64| {
            if value.is_finite() && value > 0.0 { Ok(()) } else { Err(format!("{name} must be positive, not {value}")) }
        };
        match self {
            Self::Fixed(value) if value.is_finite() && *value >= 0.0 => Ok(()),
            Self::Fixed(value) => Err(format!("fixed must not be negative, but is {value}")),
            Self::Lognormal { median, sigma, least, most } => {
                positive("median", *median).and(positive("sigma", *sigma)).and(bounds(*least, *most))
            }
            Self::Normal { mean, deviation, least, most } => {
                positive("mean", *mean).and(positive("deviation", *deviation)).and(bounds(*least, *most))
            }
            Self::Exponential { mean, least, most } => positive("mean", *mean).and(bounds(*least, *most)),
            Self::Mix(parts) if parts.is_empty() => Err("a mix needs parts".to_owned()),
            Self::Mix(parts) => {
                parts.iter().try_for_each(|part| positive("share", part.share).and_then(|()| part.of.check()))
            }
        }
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
    fn nonsense_is_refused() {
        for amount in [
            Amount::Fixed(-1.0),
            Amount::Mix(Vec::new()),
            Amount::Exponential { mean: 0.0, least: 0.0, most: 1.0 },
            Amount::Normal { mean: 1.0, deviation: 1.0, least: 5.0, most: 2.0 },
        ] {
            assert!(amount.check().is_err(), "{amount:?}");
        }
    }
}
