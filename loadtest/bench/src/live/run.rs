//! One arm once: servers and what stands before them started anew, the trace played, and what came of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::Serialize;
use tokio::time::sleep_until;

use super::arm::Arm;
use super::fleet::{Servers, configs};
use super::front::Setting;
use super::load::Load;
use super::machine::{Busy, Spent};
use super::overhead::{self, Overhead};
use super::seen::{Scale, Seen, peak_in_flight};
use crate::matrix;
use crate::measure::statistics::quantile;
use crate::measure::{Counted, Objective, Summary, Window};
use crate::scenario::Scenario;
use crate::virtual_time::Counters;

/// Time between the last preparation and the first request.
const PAUSE: Duration = Duration::from_millis(300);
/// How late requests may be sent, 99th percentile.
const MOST_LAG: f64 = 1e-3;
/// How much of the two cores may be busy with the run.
const MOST_BUSY: f64 = 0.7 * 2.0;

/// What is played, whatever the arm.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) scenario: Scenario,
    pub(super) load: Load,
    pub(super) setting: Setting,
    pub(super) seed: u64,
    /// Output tokens in one event of a stream.
    pub(super) interval: u32,
}

/// How late requests were sent, seconds by the clock.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Lag {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

/// What came of one arm once.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Played {
    pub(super) arm: String,
    pub(super) repetition: usize,
    /// Which attempt it is, from 1; those before were not valid.
    pub(super) attempt: usize,
    pub(super) overhead: Overhead,
    /// Figures in model time, with what the gateway adds counted once.
    pub(super) summary: Summary,
    /// The same without that correction.
    pub(super) uncorrected: Summary,
    pub(super) lag: Lag,
    pub(super) busy: Busy,
    /// Requests that failed, by why; those broken off at the end are not among them.
    pub(super) failures: BTreeMap<String, usize>,
    /// Why the run says nothing; empty for a valid one.
    pub(super) problems: Vec<String>,
}

impl Session {
    /// Plays an arm once.
    pub(super) async fn play(&self, arm: &Arm, repetition: usize) -> Result<Played> {
        let scale = self.setting.scale;
        let configs = configs(&self.scenario, self.seed, scale, self.interval);
        let body = self.load.typical().context("the trace has no request")?;
        let first = configs.first().context("the fleet has no server")?.clone();
        let overhead = overhead::of(arm, &self.setting, first, body).await?;

        let mut servers = Servers::start(configs, true).await?;
        let weights = matrix::endpoints(&self.scenario).into_iter().map(|endpoint| endpoint.weight);
        let weighted: Vec<_> = servers.addresses().into_iter().zip(weights).collect();
        let front = self.setting.start(arm, &weighted).await?;
        let (clients, deal) = front.clients();
        let clients: Vec<_> = clients.into_iter().map(Arc::new).collect();
        let between = front.ids();

        let origin = Instant::now() + PAUSE;
        servers.begin(&self.scenario.faults, origin);
        let at_start = async {
            sleep_until(origin.into()).await;
            Spent::now(&between)
        };
        let warm = async {
            sleep_until((origin + self.warm_up().div_f64(scale)).into()).await;
            servers.counters().await
        };
        let (seen, spent, before) = tokio::join!(self.load.play(&clients, deal, origin, scale), at_start, warm);
        let busy = Spent::now(&between).since(spent, origin.elapsed());
        let (before, after) = (before?, servers.counters().await?);

        let overhead_once = Duration::from_secs_f64(overhead.added);
        let scale = Scale { origin, factor: scale, overhead: overhead_once };
        let uncorrected = Scale { overhead: Duration::ZERO, ..scale };
        let lag = lag(&seen);
        Ok(Played {
            arm: arm.to_string(),
            repetition,
            attempt: 1,
            overhead,
            summary: self.summary(&seen, scale, before, after),
            uncorrected: self.summary(&seen, uncorrected, before, after),
            failures: failures(&seen),
            problems: problems(lag, busy),
            lag,
            busy,
        })
    }

    /// End of the warm-up, model time.
    fn warm_up(&self) -> Duration {
        self.load.trace().horizon.mul_f64(self.scenario.warm_up)
    }

    fn summary(&self, seen: &[Seen], scale: Scale, before: Counters, after: Counters) -> Summary {
        let outcomes: Vec<_> = seen.iter().map(|seen| scale.outcome(seen, self.interval)).collect();
        let counted = Counted {
            output: after.output - before.output,
            queries: after.queries - before.queries,
            hits: after.hits - before.hits,
            preemptions: after.preemptions - before.preemptions,
            peak_in_flight: peak_in_flight(seen),
            // What no page of a real server counts stays 0.
            ..Counted::default()
        };
        let trace = self.load.trace();
        let window = Window { from: self.warm_up(), until: trace.horizon };
        let tokens = |request: usize| trace.prompt_tokens(&trace.requests[request]);
        Summary::new(&outcomes, window, self.scenario.endpoints(), counted, Objective::default(), tokens)
    }
}

fn lag(seen: &[Seen]) -> Lag {
    let mut lags: Vec<f64> = seen.iter().filter_map(|seen| Some(seen.lag()?.as_secs_f64())).collect();
    lags.sort_by(f64::total_cmp);
    Lag { p50: quantile(&lags, 0.5), p99: quantile(&lags, 0.99), max: quantile(&lags, 1.0) }
}

fn failures(seen: &[Seen]) -> BTreeMap<String, usize> {
    let mut failures = BTreeMap::new();
    for failure in seen.iter().filter_map(|seen| seen.failure.clone()) {
        *failures.entry(failure).or_default() += 1;
    }
    failures
}

/// What makes a run worthless, whatever its figures.
fn problems(lag: Lag, busy: Busy) -> Vec<String> {
    let mut problems = Vec::new();
    if lag.p99 > MOST_LAG {
        problems.push(format!("requests were sent late: p99 {:.2} ms, 1 ms is allowed", lag.p99 * 1e3));
    }
    if busy.load + busy.front > MOST_BUSY {
        let percent = f64::midpoint(busy.load, busy.front) * 100.0;
        problems.push(format!("{percent:.0} % of two cores were busy with the run, 70 % are allowed"));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_sent_late_or_took_too_much_of_the_cores_is_not_valid() {
        let lag = Lag { p50: 1e-5, p99: 9e-4, max: 0.1 };
        let busy = Busy { load: 0.9, front: 0.4, others: 0.5 };
        assert!(problems(lag, busy).is_empty(), "what others do shows as lag, if it matters");
        assert_eq!(problems(Lag { p99: 1.1e-3, ..lag }, busy).len(), 1);
        assert_eq!(problems(Lag { p99: 1.1e-3, ..lag }, Busy { front: 0.6, ..busy }).len(), 2);
    }
}
