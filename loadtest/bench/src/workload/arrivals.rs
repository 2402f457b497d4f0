//! When requests are sent: times fixed before the run, so that a slow server cannot slow its own load down.
//!
//! Closed loops are the exception by nature. They say what a fleet can do, and never alone how long anybody waits.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::amount::Amount;
use super::random::Random;

/// How requests, or first turns of conversations, arrive. Rates are per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Arrivals {
    /// Evenly spaced.
    Even(f64),
    /// Independent: exponential gaps.
    Poisson(f64),
    /// Gamma gaps.
    Gamma {
        /// Mean rate.
        rate: f64,
        /// Coefficient of variation of the gaps; 1 is Poisson.
        cv: f64,
    },
    /// Weibull gaps: another shape of burstiness for the same mean.
    Weibull {
        /// Mean rate.
        rate: f64,
        /// Shape; below 1 is burstier than Poisson.
        shape: f64,
    },
    /// A Poisson process whose rate switches between two values, after exponential times.
    OnOff {
        /// Mean rate of the whole.
        rate: f64,
        /// How many times higher the rate is while on.
        ratio: f64,
        /// Mean time on, seconds.
        on: f64,
        /// Mean time off, seconds.
        off: f64,
    },
    /// A Poisson process with bursts at fixed times.
    Square {
        /// Rate during a burst.
        burst: f64,
        /// Rate between bursts.
        base: f64,
        /// Length of a burst, seconds.
        on: f64,
        /// From the start of one burst to the next, seconds.
        every: f64,
    },
    /// A Poisson process whose rate follows a sine.
    Diurnal {
        /// Mean rate.
        rate: f64,
        /// Part of the mean by which it swings, 0 to 1.
        swing: f64,
        /// Length of a day, seconds.
        period: f64,
    },
    /// Users who each wait for an answer, think, and ask again.
    Closed {
        /// How many.
        users: u32,
        /// Time between an answer and the next question, seconds.
        think: Amount,
        /// Most requests of one user within the run.
        requests: u32,
    },
}

impl Arrivals {
    /// Send times before `horizon`, in order; of a closed loop, the time of each user's first request, spread over a
    /// second so that they do not all begin at once.
    pub fn times(&self, horizon: Duration, random: &mut Random) -> Vec<Duration> {
        let end = horizon.as_secs_f64();
        let mut times = Vec::new();
        match self {
            Self::Even(rate) => renewal(end, &mut times, || 1.0 / rate),
            Self::Poisson(rate) => renewal(end, &mut times, || random.exponential(1.0 / rate)),
            Self::Gamma { rate, cv } => renewal(end, &mut times, || random.gamma(1.0 / (cv * cv), 1.0 / rate)),
            Self::Weibull { rate, shape } => {
                let scale = 1.0 / (rate * gamma_function(1.0 + 1.0 / shape));
                renewal(end, &mut times, || scale * random.exponential(1.0).powf(1.0 / shape));
            }
            Self::OnOff { rate, ratio, on, off } => {
                let share = on / (on + off);
                let low = rate / (share * ratio + 1.0 - share);
                let mut at = 0.0;
                let mut is_on = random.unit() < share;
                while at < end {
                    let until = (at + random.exponential(if is_on { *on } else { *off })).min(end);
                    poisson(at, until, if is_on { low * ratio } else { low }, random, &mut times);
                    (at, is_on) = (until, !is_on);
                }
            }
            Self::Square { burst, base, on, every } => {
                let mut at = 0.0;
                while at < end {
                    poisson(at, (at + on).min(end), *burst, random, &mut times);
                    poisson((at + on).min(end), (at + every).min(end), *base, random, &mut times);
                    at += every;
                }
            }
            Self::Diurnal { rate, swing, period } => {
                // Thinning: draw at the peak rate, keep in proportion.
                let peak = rate * (1.0 + swing);
                let mut candidates = Vec::new();
                poisson(0.0, end, peak, random, &mut candidates);
                times.extend(candidates.into_iter().filter(|at| {
                    let now = rate * (1.0 + swing * (std::f64::consts::TAU * at / period).sin());
                    random.unit() < now / peak
                }));
            }
            Self::Closed { users, .. } => {
                times.extend((0..*users).map(|user| f64::from(user) / f64::from((*users).max(1))));
            }
        }
        times.into_iter().map(Duration::from_secs_f64).collect()
    }

    /// Requests per second asked for; `None` for a closed loop.
    pub fn rate(&self) -> Option<f64> {
        Some(match self {
            Self::Even(rate)
            | Self::Poisson(rate)
            | Self::Gamma { rate, .. }
            | Self::Weibull { rate, .. }
            | Self::OnOff { rate, .. }
            | Self::Diurnal { rate, .. } => *rate,
            Self::Square { burst, base, on, every } => (burst * on + base * (every - on)) / every,
            Self::Closed { .. } => return None,
        })
    }

    /// What is wrong with it, if anything.
    pub fn check(&self) -> Result<(), String> {
        let all: &[(&str, f64)] = match self {
            Self::Even(rate) | Self::Poisson(rate) => &[("rate", *rate)],
            Self::Gamma { rate, cv } => &[("rate", *rate), ("cv", *cv)],
            Self::Weibull { rate, shape } => &[("rate", *rate), ("shape", *shape)],
            Self::OnOff { rate, ratio, on, off } => &[("rate", *rate), ("ratio", *ratio), ("on", *on), ("off", *off)],
            Self::Square { burst, base, on, every } => {
                &[("burst", *burst), ("base", *base), ("on", *on), ("every - on", *every - *on)]
            }
            Self::Diurnal { rate, swing, period } => {
                &[("rate", *rate), ("period", *period), ("1 - swing", 1.0 + f64::EPSILON - *swing), ("swing", *swing)]
            }
            Self::Closed { users, think, requests } => {
                think.check()?;
                &[("users", f64::from(*users)), ("requests", f64::from(*requests))]
            }
        };
        match all.iter().find(|(_, value)| !value.is_finite() || *value <= 0.0) {
            Some((name, value)) => Err(format!("{name} must be positive, not {value}")),
            None => Ok(()),
        }
    }
}

fn renewal(end: f64, times: &mut Vec<f64>, mut gap: impl FnMut() -> f64) {
    let mut at = gap();
    while at < end {
        times.push(at);
        at += gap();
    }
}

fn poisson(from: f64, until: f64, rate: f64, random: &mut Random, times: &mut Vec<f64>) {
    let mut at = from + random.exponential(1.0 / rate);
    while at < until {
        times.push(at);
        at += random.exponential(1.0 / rate);
    }
}

/// The gamma function for arguments of 1 and above, by Stirling's series at `x + 8`.
fn gamma_function(x: f64) -> f64 {
    let shifted = x + 8.0;
    let series = 1.0 / (12.0 * shifted) - 1.0 / (360.0 * shifted.powi(3)) + 1.0 / (1260.0 * shifted.powi(5));
    let log = (shifted - 0.5) * shifted.ln() - shifted + 0.5 * std::f64::consts::TAU.ln() + series;
    (0..8).fold(log.exp(), |value, step| value / (x + f64::from(step)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn times(arrivals: &Arrivals) -> Vec<f64> {
        let times = arrivals.times(HOUR, &mut Random::new(7, "arrivals"));
        assert!(times.is_sorted() && times.last().is_none_or(|last| *last < HOUR), "in order, and inside the run");
        times.into_iter().map(|at| at.as_secs_f64()).collect()
    }

    fn gap_cv(times: &[f64]) -> f64 {
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        variance.sqrt() / mean
    }

    #[test]
    fn every_process_keeps_its_rate() {
        for arrivals in [
            Arrivals::Even(10.0),
            Arrivals::Poisson(10.0),
            Arrivals::Gamma { rate: 10.0, cv: 3.0 },
            Arrivals::Weibull { rate: 10.0, shape: 0.6 },
            Arrivals::OnOff { rate: 10.0, ratio: 6.0, on: 8.0, off: 24.0 },
            Arrivals::Square { burst: 25.0, base: 5.0, on: 5.0, every: 20.0 },
            Arrivals::Diurnal { rate: 10.0, swing: 0.6, period: 600.0 },
        ] {
            let rate = times(&arrivals).len() as f64 / 3_600.0;
            assert!((rate - 10.0).abs() < 0.7, "{arrivals:?} came at {rate} per second");
        }
    }

    #[test]
    fn gaps_vary_as_asked() {
        let cv = |arrivals| gap_cv(&times(&arrivals));
        assert!(cv(Arrivals::Even(10.0)) < 1e-6);
        assert!((cv(Arrivals::Poisson(10.0)) - 1.0).abs() < 0.03);
        assert!((cv(Arrivals::Gamma { rate: 10.0, cv: 3.0 }) / 3.0 - 1.0).abs() < 0.08);
        assert!(cv(Arrivals::OnOff { rate: 10.0, ratio: 20.0, on: 4.0, off: 36.0 }) > 1.5);
    }

    #[test]
    fn bursts_stand_where_they_should() {
        let times = times(&Arrivals::Square { burst: 5.0, base: 1.5, on: 5.0, every: 20.0 });
        let inside = times.iter().filter(|at| **at % 20.0 < 5.0).count() as f64;
        let share = inside / times.len() as f64;
        assert!((share - 25.0 / 47.5).abs() < 0.02, "{share}");
    }

    #[test]
    fn users_of_a_closed_loop_do_not_begin_at_once() {
        let arrivals = Arrivals::Closed { users: 4, think: Amount::Fixed(8.0), requests: 10 };
        assert_eq!(times(&arrivals), [0.0, 0.25, 0.5, 0.75]);
    }

    #[test]
    fn the_gamma_function_meets_factorials() {
        for (x, expected) in [(1.0, 1.0), (2.0, 1.0), (3.0, 2.0), (5.0, 24.0), (2.5, 1.329_340_388)] {
            assert!((gamma_function(x) / expected - 1.0).abs() < 1e-8, "{x}");
        }
    }
}
