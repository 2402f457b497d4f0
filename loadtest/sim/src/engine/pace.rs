//! What becomes of an engine's speed over time: throttled devices, slow neighbours, what is slow until it is warm.
//!
//! It is a function of model time and of work done, asked when a step, a prefill or a gap begins. What has begun is not
//! changed by what comes later, so a run in virtual time and one behind HTTP slow down at the same places.

use std::f64::consts::TAU;
use std::time::Duration;

/// What several faults at once come to at most: a step that has begun ends in its own time, whatever is cleared.
const SLOWEST: f64 = 1e4;

/// Speed faults of one engine; several at once multiply. The default is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pace {
    faults: Vec<Tracked>,
}

/// Something that slows an engine for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpeedFault {
    /// Model time of its beginning.
    pub from: Duration,
    /// Model time of its end; `None` lasts.
    pub until: Option<Duration>,
    /// What it does.
    pub slowness: Slowness,
}

/// How an engine is slowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Slowness {
    /// Everything takes `factor` times as long.
    Slow {
        /// 1 is normal.
        factor: f64,
    },
    /// As a device that grows hot and is throttled.
    Thermal {
        /// Reached at the end of the ramp, in a straight line.
        factor: f64,
        /// Length of the ramp, model time.
        ramp: Duration,
        /// After the ramp it swings between `factor` and 1, once in this model time; `None` stays.
        period: Option<Duration>,
    },
    /// The first steps are slow; in the serial time model, the first prefills.
    FirstSteps {
        /// Of the first one; falls to 1 in a straight line.
        factor: f64,
        /// How many.
        steps: u64,
    },
    /// Everything is slow until some requests have ended.
    FirstRequests {
        /// 1 is normal.
        factor: f64,
        /// How many.
        requests: u64,
    },
    /// Loads of adapters take `factor` times as long; nothing else does.
    AdapterLoads {
        /// 1 is normal.
        factor: f64,
    },
}

/// What an engine has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    /// Steps begun; in the serial time model, prefills.
    pub(super) steps: u64,
    /// Sequences ended.
    pub(super) requests: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Tracked {
    fault: SpeedFault,
    /// Work done before it came into force.
    before: Option<Work>,
}

impl Pace {
    /// A pace with these faults.
    pub fn new(faults: impl IntoIterator<Item = SpeedFault>) -> Self {
        Self { faults: faults.into_iter().map(|fault| Tracked { fault, before: None }).collect() }
    }

    /// The faults, in the order given.
    pub fn faults(&self) -> impl Iterator<Item = &SpeedFault> {
        self.faults.iter().map(|tracked| &tracked.fault)
    }

    /// Goes on counting for faults that `old` has too.
    pub(super) fn continues(&mut self, old: &Self) {
        for tracked in &mut self.faults {
            tracked.before =
                old.faults.iter().find(|other| other.fault == tracked.fault).and_then(|other| other.before);
        }
    }

    /// Counts anew, as after a restart.
    pub(super) fn restart(&mut self) {
        for tracked in &mut self.faults {
            tracked.before = None;
        }
    }

    /// Factor on what begins at `now`, after `work`.
    pub(super) fn factor(&mut self, now: Duration, work: Work) -> f64 {
        let in_force = self.faults.iter_mut().filter(|tracked| tracked.fault.is_in_force(now));
        in_force.map(|tracked| tracked.factor(now, work)).product::<f64>().clamp(0.0, SLOWEST)
    }

    /// Factor on the load of an adapter that begins at `now`.
    pub(super) fn adapter_factor(&self, now: Duration) -> f64 {
        let factors = self.faults().filter(|fault| fault.is_in_force(now)).map(|fault| match fault.slowness {
            Slowness::AdapterLoads { factor } => factor,
            _ => 1.0,
        });
        factors.product::<f64>().clamp(0.0, SLOWEST)
    }
}

impl SpeedFault {
    /// Whether it acts at this model time.
    pub fn is_in_force(&self, now: Duration) -> bool {
        self.from <= now && self.until.is_none_or(|until| now < until)
    }
}

impl Tracked {
    fn factor(&mut self, now: Duration, work: Work) -> f64 {
        let before = *self.before.get_or_insert(work);
        match self.fault.slowness {
            Slowness::Slow { factor } => factor,
            Slowness::Thermal { factor, ramp, period } => {
                let since = now.saturating_sub(self.fault.from);
                1.0 + (factor - 1.0) * heat(since, ramp, period)
            }
            Slowness::FirstSteps { factor, steps } => {
                let done = work.steps - before.steps;
                if done < steps { 1.0 + (factor - 1.0) * (1.0 - done as f64 / steps as f64) } else { 1.0 }
            }
            Slowness::FirstRequests { factor, requests } => {
                if work.requests - before.requests < requests {
                    factor
                } else {
                    1.0
                }
            }
            Slowness::AdapterLoads { .. } => 1.0,
        }
    }
}

/// How hot it is, 0 to 1.
fn heat(since: Duration, ramp: Duration, period: Option<Duration>) -> f64 {
    match (since.checked_sub(ramp), period) {
        (None, _) => since.as_secs_f64() / ramp.as_secs_f64(),
        (Some(after), Some(period)) if !period.is_zero() => {
            let turns = after.as_secs_f64() / period.as_secs_f64();
            f64::midpoint(1.0, (TAU * turns).cos())
        }
        _ => 1.0,
    }
}
