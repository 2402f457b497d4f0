//! When requests are sent: times fixed before the run, so that a slow server cannot slow its own load down.
//!
//! Closed loops are the exception by nature. They say what a fleet can do, and never alone how long anybody waits.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::amount::Amount;
use super::random::Random;
use super::replay::Replay;
use crate::limits::{POOL, RATE, SHARE, TIME};
use spillway_sim::Problems;

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
    /// What is in a file, which says how long requests are too.
    Replay(Replay),
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
                let [low, high] = two_rates(*rate, *ratio, share);
                let mut at = 0.0;
                let mut is_on = random.unit() < share;
                while at < end {
                    let until = (at + random.exponential(if is_on { *on } else { *off })).min(end);
                    poisson(at, until, if is_on { high } else { low }, random, &mut times);
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
            Self::Replay(replay) => times.extend(replay.before(horizon).map(|(at, _)| at.as_secs_f64())),
            Self::Closed { users, .. } => {
                times.extend((0..*users).map(|user| f64::from(user) / f64::from((*users).max(1))));
            }
        }
        times.into_iter().map(Duration::from_secs_f64).collect()
    }

    /// Requests per second asked for; `None` for a closed loop and a recording.
    pub fn rate(&self) -> Option<f64> {
        Some(match self {
            Self::Even(rate)
            | Self::Poisson(rate)
            | Self::Gamma { rate, .. }
            | Self::Weibull { rate, .. }
            | Self::OnOff { rate, .. }
            | Self::Diurnal { rate, .. } => *rate,
            Self::Square { burst, base, on, every } => (burst * on + base * (every - on)) / every,
            Self::Closed { .. } | Self::Replay(_) => return None,
        })
    }

    /// Requests of a run on the average, where each arrival brings so many.
    pub fn requests(&self, horizon: f64, each: f64) -> f64 {
        match self {
            // A user ends with a whole conversation.
            Self::Closed { users, requests, .. } => f64::from(*users) * (f64::from(*requests) + each - 1.0),
            Self::Replay(replay) => replay.before(Duration::from_secs_f64(horizon)).count() as f64,
            _ => self.rate().unwrap_or_default() * horizon * each,
        }
    }

    /// Says what is wrong with it.
    pub fn check(&self, problems: &mut Problems) {
        match self {
            Self::Even(rate) => problems.range("even", *rate, RATE),
            Self::Poisson(rate) => problems.range("poisson", *rate, RATE),
            Self::Gamma { rate, cv } => problems.inside("gamma", |problems| {
                problems.range("rate", *rate, RATE);
                problems.range("cv", *cv, 0.01..=100.0);
            }),
            Self::Weibull { rate, shape } => problems.inside("weibull", |problems| {
                problems.range("rate", *rate, RATE);
                problems.range("shape", *shape, 0.1..=100.0);
            }),
            Self::OnOff { rate, ratio, on, off } => problems.inside("on_off", |problems| {
                problems.range("rate", *rate, RATE);
                problems.range("ratio", *ratio, SHARE);
                problems.range("on", *on, TIME);
                problems.range("off", *off, TIME);
                if problems.is_empty() {
                    let [low, high] = two_rates(*rate, *ratio, on / (on + off));
                    problems.range(&format!("rate while on, {high:.3}"), high, RATE);
                    problems.range(&format!("rate while off, {low:.3e}"), low, RATE);
                }
            }),
            Self::Square { burst, base, on, every } => problems.inside("square", |problems| {
                problems.range("burst", *burst, RATE);
                problems.range("base", *base, RATE);
                problems.range("on", *on, TIME);
                problems.range("every", *every, TIME);
                if on >= every {
                    problems.add("on", format_args!("{on} must be less than every, {every}"));
                }
            }),
            Self::Diurnal { rate, swing, period } => problems.inside("diurnal", |problems| {
                problems.range("rate", *rate, RATE);
                problems.range("swing", *swing, 0.0..=1.0);
                problems.range("period", *period, TIME);
            }),
            Self::Replay(replay) => problems.inside("replay", |problems| replay.check(problems)),
            Self::Closed { users, think, requests } => problems.inside("closed", |problems| {
                problems.range("users", f64::from(*users), POOL);
                problems.inside("think", |problems| think.check(problems));
                problems.range("requests", f64::from(*requests), POOL);
            }),
        }
    }
}

/// The rates of a process that switches, off and on.
fn two_rates(rate: f64, ratio: f64, share_on: f64) -> [f64; 2] {
    let low = rate / (share_on * ratio + 1.0 - share_on);
    [low, low * ratio]
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
mod tests;
