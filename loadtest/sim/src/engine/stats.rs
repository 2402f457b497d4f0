//! What the engine counts, in the units and at the moments vLLM does.
//!
//! Gauges are a copy made at the end of each step, so between steps they are stale on purpose; the engine's own
//! accessors are live.

use std::sync::Arc;
use std::time::Duration;

use super::sequence::Sequence;
use super::{Finish, Histogram};

const TTFT_S: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
];
const TOKEN_S: &[f64] =
    &[0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];
const REQUEST_S: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
];
const STEP_TOKENS: &[f64] = &[1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];
const CHOICES: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0];
const PREEMPTIONS: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0];

/// Gauges as of the end of the last step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gauges {
    /// Sequences in the batch.
    pub running: usize,
    /// Sequences waiting for room.
    pub waiting_capacity: usize,
    /// Sequences passed over because of their adapter.
    pub waiting_deferred: usize,
    /// Referenced blocks over usable blocks, 0 to 1.
    pub kv_usage: f64,
}

/// One series of the adapter gauge: a pair of name lists and when it was last true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterSeries {
    /// Adapters with a running sequence, comma-joined, in order of first appearance.
    pub running: String,
    /// Adapters with a waiting sequence, likewise.
    pub waiting: String,
    /// Model time of the last step that had this pair.
    pub set_at: Duration,
}

/// Counters and histograms since the start or the last reset.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each is the vLLM family of its name, whose HELP text the metrics page carries")]
pub struct Stats {
    pub gauges: Gauges,
    pub adapters: Vec<AdapterSeries>,
    pub prefix_queries: u64,
    pub prefix_hits: u64,
    pub prompt_tokens: u64,
    pub prompt_tokens_cached: u64,
    pub generation_tokens: u64,
    pub preemptions: u64,
    pub finished_stop: u64,
    pub finished_length: u64,
    pub aborted: u64,
    pub steps: u64,
    pub request_prompt_tokens: Histogram,
    pub request_generation_tokens: Histogram,
    pub iteration_tokens: Histogram,
    pub max_num_generation_tokens: Histogram,
    pub params_n: Histogram,
    pub params_max_tokens: Histogram,
    pub time_to_first_token: Histogram,
    pub inter_token_latency: Histogram,
    pub time_per_output_token: Histogram,
    pub e2e_latency: Histogram,
    pub queue_time: Histogram,
    pub inference_time: Histogram,
    pub prefill_time: Histogram,
    pub decode_time: Histogram,
    pub num_preemptions: Histogram,
    pub kv_computed_tokens: Histogram,
}

impl Stats {
    /// Nothing counted yet. The buckets of token counts end at `max_model_len`.
    pub(super) fn new(max_model_len: usize) -> Self {
        let tokens = || Histogram::of_tokens(max_model_len);
        let request_s = || Histogram::new(REQUEST_S);
        Self {
            gauges: Gauges::default(),
            adapters: Vec::new(),
            prefix_queries: 0,
            prefix_hits: 0,
            prompt_tokens: 0,
            prompt_tokens_cached: 0,
            generation_tokens: 0,
            preemptions: 0,
            finished_stop: 0,
            finished_length: 0,
            aborted: 0,
            steps: 0,
            request_prompt_tokens: tokens(),
            request_generation_tokens: tokens(),
            iteration_tokens: Histogram::new(STEP_TOKENS),
            max_num_generation_tokens: tokens(),
            params_n: Histogram::new(CHOICES),
            params_max_tokens: tokens(),
            time_to_first_token: Histogram::new(TTFT_S),
            inter_token_latency: Histogram::new(TOKEN_S),
            time_per_output_token: Histogram::new(TOKEN_S),
            e2e_latency: request_s(),
            queue_time: request_s(),
            inference_time: request_s(),
            prefill_time: request_s(),
            decode_time: request_s(),
            num_preemptions: Histogram::new(PREEMPTIONS),
            kv_computed_tokens: tokens(),
        }
    }

    /// Sequences that ran to their end.
    pub fn completed(&self) -> u64 {
        self.finished_stop + self.finished_length
    }

    /// Counts an output token of `sequence` at `now`; its times are those before this token.
    pub(super) fn token(&mut self, sequence: &Sequence, now: Duration) {
        self.generation_tokens += 1;
        if sequence.first_token.is_some() {
            self.inter_token_latency.observe(now.saturating_sub(sequence.last_token).as_secs_f64());
        } else {
            self.time_to_first_token.observe(now.saturating_sub(sequence.arrived).as_secs_f64());
            self.prompt_tokens += sequence.prompt as u64;
            self.prompt_tokens_cached += sequence.cached as u64;
        }
    }

    /// Counts a sequence that ended at `now` with its last token emitted.
    pub(super) fn finish(&mut self, sequence: &Sequence, finish: Finish, now: Duration) {
        match finish {
            Finish::Stop => self.finished_stop += 1,
            Finish::Length => self.finished_length += 1,
        }
        let scheduled = sequence.scheduled.unwrap_or(now);
        let first = sequence.first_token.unwrap_or(now);
        let generated = f64::from(sequence.generated());
        let seconds = |later: Duration, earlier| later.saturating_sub(earlier).as_secs_f64();
        self.request_prompt_tokens.observe(sequence.prompt as f64);
        self.request_generation_tokens.observe(generated);
        self.max_num_generation_tokens.observe(generated);
        self.params_max_tokens.observe(sequence.max_tokens.into());
        self.e2e_latency.observe(seconds(now, sequence.arrived));
        self.queue_time.observe(seconds(scheduled, sequence.queued));
        self.inference_time.observe(seconds(now, scheduled));
        self.prefill_time.observe(seconds(first, scheduled));
        self.decode_time.observe(seconds(now, first));
        if sequence.generated() > 1 {
            self.time_per_output_token.observe(seconds(now, first) / (generated - 1.0));
        }
        self.num_preemptions.observe(sequence.preemptions.into());
        self.kv_computed_tokens.observe((sequence.prompt - sequence.cached) as f64);
    }

    /// Marks the pair of adapter lists as true at `now`.
    pub(super) fn set_adapters(&mut self, running: String, waiting: String, now: Duration) {
        let known = self.adapters.iter_mut().find(|series| series.running == running && series.waiting == waiting);
        match known {
            Some(series) => series.set_at = now,
            None => self.adapters.push(AdapterSeries { running, waiting, set_at: now }),
        }
    }
}

/// Names in order of first appearance, comma-joined.
pub(super) fn joined<'a>(names: impl Iterator<Item = &'a Arc<str>>) -> String {
    let mut distinct: Vec<&str> = Vec::new();
    for name in names {
        if !distinct.contains(&&**name) {
            distinct.push(name);
        }
    }
    distinct.join(",")
}
