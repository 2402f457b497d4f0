//! One run in a row of figures.
//!
//! Only requests sent after the warm-up count, those that never got an answer included.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Outcome;
use super::statistics::quantile;

/// What a user is promised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    /// Most time to first token.
    pub ttft: Duration,
    /// Most time per token after it, on the average of a request.
    pub tpot: Duration,
}

impl Default for Objective {
    /// A second to the first token, then a pace faster than anyone reads.
    fn default() -> Self {
        Self { ttft: Duration::from_secs(1), tpot: Duration::from_millis(100) }
    }
}

/// The part of a run that counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// End of the warm-up.
    pub from: Duration,
    /// End of the run.
    pub until: Duration,
}

/// Figures of one run. Times in seconds, shares in 0 to 1, rates per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each is what its name says of the unit above")]
pub struct Summary {
    pub requests: usize,
    pub completed: usize,
    pub refused: usize,
    pub ttft_mean: f64,
    pub ttft_p50: f64,
    pub ttft_p90: f64,
    pub ttft_p95: f64,
    pub ttft_p99: f64,
    pub tpot_p50: f64,
    pub tpot_p95: f64,
    pub tpot_p99: f64,
    pub gap_p99: f64,
    pub e2e_mean: f64,
    pub e2e_p50: f64,
    pub e2e_p95: f64,
    pub e2e_p99: f64,
    pub request_rate: f64,
    pub token_rate: f64,
    pub goodput: f64,
    pub hit_rate: f64,
    pub share_least: f64,
    pub share_most: f64,
    pub work_least: f64,
    pub work_most: f64,
    pub peak_in_flight: usize,
    pub preemptions: u64,
    pub adapter_loads: u64,
    pub decision_p50_us: f64,
    pub decision_p99_us: f64,
}

/// What servers counted in the window, all together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// Output tokens.
    pub output: u64,
    /// Prompt tokens looked up in prefix caches.
    pub queries: u64,
    /// Prompt tokens found there.
    pub hits: u64,
    /// Preemptions.
    pub preemptions: u64,
    /// Loads of adapters.
    pub adapter_loads: u64,
    /// Most requests at one server at once.
    pub peak_in_flight: usize,
}

impl Summary {
    /// The figures of a run over `endpoints` servers; `prompt_tokens` are those of a request of the trace.
    pub fn new(
        outcomes: &[Outcome],
        window: Window,
        endpoints: usize,
        counted: Counted,
        objective: Objective,
        prompt_tokens: impl Fn(usize) -> u32,
    ) -> Self {
        let Window { from, until } = window;
        let counts: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.sent >= from).collect();
        let seconds = (until.saturating_sub(from)).as_secs_f64();
        let sorted = |values: Vec<f64>| {
            let mut values = values;
            values.sort_by(f64::total_cmp);
            values
        };
        let ttft = sorted(counts.iter().map(|outcome| outcome.ttft(until).as_secs_f64()).collect());
        let e2e = sorted(counts.iter().map(|outcome| outcome.whole(until).as_secs_f64()).collect());
        let tpot = sorted(counts.iter().filter_map(|outcome| Some(outcome.tpot()?.as_secs_f64())).collect());
        let gaps = sorted(counts.iter().map(|outcome| outcome.longest_gap.as_secs_f64()).collect());
        let decisions = sorted(counts.iter().map(|outcome| outcome.decision.as_secs_f64() * 1e6).collect());
        let mut shares = vec![0.0; endpoints];
        let mut work = vec![0.0; endpoints];
        for outcome in &counts {
            if let Some(endpoint) = outcome.endpoint {
                shares[endpoint] += 1.0;
                work[endpoint] += f64::from(prompt_tokens(outcome.request).saturating_sub(outcome.cached));
                work[endpoint] += f64::from(outcome.tokens);
            }
        }
        let good = |outcome: &&&Outcome| {
            let paced = outcome.tpot().is_none_or(|tpot| tpot <= objective.tpot);
            outcome.completed && outcome.ttft(until) <= objective.ttft && paced
        };
        let ended =
            outcomes.iter().filter(|outcome| outcome.completed && outcome.last.is_some_and(|last| last >= from));
        Self {
            requests: counts.len(),
            completed: counts.iter().filter(|outcome| outcome.completed).count(),
            refused: counts.iter().filter(|outcome| outcome.endpoint.is_none()).count(),
            ttft_mean: mean(&ttft),
            ttft_p50: quantile(&ttft, 0.50),
            ttft_p90: quantile(&ttft, 0.90),
            ttft_p95: quantile(&ttft, 0.95),
            ttft_p99: quantile(&ttft, 0.99),
            tpot_p50: quantile(&tpot, 0.50),
            tpot_p95: quantile(&tpot, 0.95),
            tpot_p99: quantile(&tpot, 0.99),
            gap_p99: quantile(&gaps, 0.99),
            e2e_mean: mean(&e2e),
            e2e_p50: quantile(&e2e, 0.50),
            e2e_p95: quantile(&e2e, 0.95),
            e2e_p99: quantile(&e2e, 0.99),
            request_rate: ended.count() as f64 / seconds,
            token_rate: counted.output as f64 / seconds,
            goodput: counts.iter().filter(good).count() as f64 / counts.len().max(1) as f64,
            hit_rate: counted.hits as f64 / counted.queries.max(1) as f64,
            share_least: least(&shares),
            share_most: most(&shares),
            work_least: least(&work),
            work_most: most(&work),
            peak_in_flight: counted.peak_in_flight,
            preemptions: counted.preemptions,
            adapter_loads: counted.adapter_loads,
            decision_p50_us: quantile(&decisions, 0.50),
            decision_p99_us: quantile(&decisions, 0.99),
        }
    }

    /// A figure by its name; `None` for a name that is not one.
    pub fn figure(&self, name: &str) -> Option<f64> {
        // Through the names that files have, so that there is one list of them.
        serde_json::to_value(self).ok()?.get(name)?.as_f64()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn least(parts: &[f64]) -> f64 {
    parts.iter().copied().fold(f64::INFINITY, f64::min) / parts.iter().sum::<f64>().max(1.0)
}

fn most(parts: &[f64]) -> f64 {
    parts.iter().copied().fold(0.0, f64::max) / parts.iter().sum::<f64>().max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn answered(sent: u64, ttft: u64) -> Outcome {
        let mut outcome = Outcome { endpoint: Some(0), completed: true, ..Outcome::sent(0, ms(sent)) };
        outcome.token(ms(sent + ttft));
        outcome.token(ms(sent + ttft + 50));
        outcome
    }

    fn summary(outcomes: &[Outcome]) -> Summary {
        let window = Window { from: ms(1_000), until: ms(11_000) };
        Summary::new(outcomes, window, 2, Counted::default(), Objective::default(), |_| 10)
    }

    #[test]
    fn what_was_never_answered_has_waited_until_the_end() {
        let lost = Outcome { endpoint: Some(1), ..Outcome::sent(1, ms(2_000)) };
        let summary = summary(&[answered(1_500, 100), lost]);
        assert!((summary.ttft_p99 - 9.0).abs() < 0.2, "{}", summary.ttft_p99);
        assert_eq!((summary.requests, summary.completed), (2, 1));
        assert!((summary.goodput - 0.5).abs() < 1e-9);
    }

    #[test]
    fn the_warm_up_does_not_count() {
        let summary = summary(&[answered(500, 9_000), answered(1_500, 100)]);
        assert_eq!(summary.requests, 1);
        assert!((summary.ttft_p95 - 0.1).abs() < 1e-9);
    }

    #[test]
    fn shares_are_of_requests_and_of_work() {
        let big = Outcome { endpoint: Some(1), tokens: 88, ..Outcome::sent(2, ms(3_000)) };
        let summary = summary(&[answered(1_500, 1), answered(1_600, 1), answered(1_700, 1), big]);
        assert!((summary.share_most - 0.75).abs() < 1e-9 && (summary.share_least - 0.25).abs() < 1e-9);
        assert!((summary.work_most - 98.0 / 134.0).abs() < 1e-9, "{}", summary.work_most);
    }

    #[test]
    fn a_figure_is_found_by_the_name_that_files_have() {
        let summary = summary(&[answered(1_500, 100)]);
        assert_eq!(summary.figure("ttft_p95"), Some(summary.ttft_p95));
        assert_eq!(summary.figure("requests"), Some(1.0));
        assert_eq!(summary.figure("ttft_p96"), None);
    }
}
