//! Every metric the gateway keeps, in one table: the doc comment of a field is its HELP text.
//!
//! Labels are bounded by the configuration and by what servers list, never by clients: a name nobody serves is counted
//! under `model=""`. Gauges of endpoints are not kept here; [`crate::admin`] reads them from the pools when scraped, so
//! that series of gone endpoints disappear.

use std::collections::HashMap;

use prometheus::core::{Collector, MetricVec, MetricVecBuilder};
use prometheus::proto::MetricFamily;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};
use spillway_picker::decide::Reason;

use crate::error::Refusal;
use crate::peers::hearer::Verdict;

/// Seconds from a fast cache hit to a prefill that most operators would call broken; steps of about 2 around the SLOs
/// people set (100 ms to 10 s).
const LATENCY: &[f64] =
    &[0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0];

/// Seconds between tokens: a reader notices from about 100 ms on.
const GAP: &[f64] = &[0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Seconds of our own work.
const WORK: &[f64] = &[0.000_005, 0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.005, 0.025, 0.1];

/// Predicted minus measured, in seconds: negative means slower than predicted.
const ERROR: &[f64] =
    &[-10.0, -5.0, -2.0, -1.0, -0.5, -0.2, -0.1, -0.05, -0.02, 0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0];

/// The values of `reason` on `spillway_picks_total`.
const REASONS: [Reason; 7] =
    [Reason::Cost, Reason::Score, Reason::Owner, Reason::Spill, Reason::Rotate, Reason::Random, Reason::Only];

macro_rules! metrics {
    (
        counters { $( #[doc = $chelp:literal] $counter:ident [ $($clabel:literal),* ] )* }
        histograms { $( #[doc = $hhelp:literal] $histogram:ident [ $($hlabel:literal),* ] $buckets:expr; )* }
    ) => {
        /// The families; all carry the prefix `spillway_`.
        pub struct Metrics {
            registry: Registry,
            $( #[doc = $chelp] pub $counter: IntCounterVec, )*
            $( #[doc = $hhelp] pub $histogram: HistogramVec, )*
        }

        impl Metrics {
            fn empty() -> Self {
                let registry = Registry::new();
                $( let $counter = register(&registry, IntCounterVec::new(
                    Opts::new(concat!("spillway_", stringify!($counter)), $chelp.trim()), &[$($clabel),*])); )*
                $( let $histogram = register(&registry, HistogramVec::new(
                    HistogramOpts::new(concat!("spillway_", stringify!($histogram)), $hhelp.trim())
                        .buckets($buckets.to_vec()), &[$($hlabel),*])); )*
                Self { registry, $($counter,)* $($histogram,)* }
            }
        }

        /// Name, labels and help of each family in the table, for the documentation's test.
        pub const FAMILIES: &[(&str, &[&str], &str)] = &[
            $( (concat!("spillway_", stringify!($counter)), &[$($clabel),*], $chelp), )*
            $( (concat!("spillway_", stringify!($histogram)), &[$($hlabel),*], $hhelp), )*
        ];
    };
}

metrics! {
    counters {
        /// Requests by outcome; `code` is the HTTP status sent, 499 when the client left first.
        requests_total["model", "pool", "code"]
        /// Tokens as reported by the servers' usage; `kind` is prompt, cached or completion, `tenant` is empty without API keys.
        tokens_total["model", "tenant", "kind"]
        /// Requests for a name with a split, by the arm they went to; `target` is the name sent on.
        split_requests_total["model", "pool", "target", "code"]
        /// Tokens of such requests; `kind` is prompt, cached or completion.
        split_tokens_total["model", "pool", "target", "kind"]
        /// Picks by endpoint and reason.
        picks_total["pool", "endpoint", "reason"]
        /// Picks by what prefix affinity did: hit, spill, cold or none.
        affinity_total["pool", "result"]
        /// Requests of pools with a trial by arm (try or control) and outcome, like `spillway_requests_total`.
        arm_requests_total["pool", "arm", "code"]
        /// Tokens as reported by the servers' usage, by arm of a trial; `kind` is prompt, cached or completion.
        arm_tokens_total["pool", "arm", "kind"]
        /// Picks by arm of a trial and what prefix affinity did: hit, spill, cold or none.
        arm_affinity_total["pool", "arm", "result"]
        /// Attempts that followed a failed one.
        retries_total["pool", "reason"]
        /// Requests refused by the gateway itself.
        refused_total["reason"]
        /// Streams that broke after their first byte, or told of an error without the code of a 4xx status.
        broken_streams_total["pool", "endpoint"]
        /// Metrics pages that could not be fetched or read.
        scrape_errors_total["pool", "endpoint"]
        /// KV events of the endpoint; `what` is `batches` (applied), `gaps` (between them), `losses` (of batches for good), `stored_blocks`, `removed_blocks`, `clears`, `restarts` (of its process), `skipped` (events of unknown type) or `undecodable` (batches).
        kv_events_total["pool", "endpoint", "what"]
        /// Replays of KV events that were missed or sent before; `result` is filled or failed.
        kv_event_replays_total["pool", "endpoint", "result"]
        /// Looks at DNS that found no endpoint of the pool; those known stay.
        discovery_errors_total["pool"]
        /// Configuration reloads; `result` is applied, rejected or unchanged.
        config_reload_total["result"]
        /// Reloads of the file of API keys; `result` is applied or rejected.
        keys_reload_total["result"]
        /// Requests for the trace file; `result` is written, or dropped where the queue was full or the file could not be written.
        trace_records_total["result"]
        /// Packets between gateways that talk; `direction` is sent or received. `result` is ok, or failed where the network took or gave none; of those received also mac (made without our secret), stale (a clock more than 30 s off), replayed (taken before), version, malformed, own (sent by this process) or excess (of more than a thousand senders).
        peer_packets_total["direction", "result"]
        /// Words for other gateways that were dropped since too many waited.
        peer_words_dropped_total[]
    }
    histograms {
        /// Seconds from the request head to the last response byte.
        request_duration_seconds["model", "pool"] LATENCY;
        /// Seconds from the request head to the first output token (streams only).
        ttft_seconds["model", "pool"] LATENCY;
        /// Seconds from the request head to the first output token of requests for a name with a split, by the arm they went to (streams only).
        split_ttft_seconds["model", "pool", "target"] LATENCY;
        /// Seconds from the request head to the first output token by arm of a trial (streams only).
        arm_ttft_seconds["pool", "arm"] LATENCY;
        /// Seconds between output events of a stream.
        inter_token_seconds["model", "pool"] GAP;
        /// Seconds the picker took to decide.
        pick_seconds["pool"] WORK;
        /// Seconds of a stage of a request: body (until it is whole), scan (hashing included), `first_byte` (attempt start to first response byte).
        stage_seconds["stage"] LATENCY;
        /// Predicted minus measured time to first token, in seconds (streams only).
        predicted_ttft_error_seconds["pool"] ERROR;
    }
}

fn register<C: Collector + Clone + 'static>(registry: &Registry, family: prometheus::Result<C>) -> C {
    let family = family.expect("names and labels in the table are valid");
    registry.register(Box::new(family.clone())).expect("names in the table differ");
    family
}

impl Default for Metrics {
    /// Series whose labels are known from the start are there from the start: what is counted from nothing to one in a
    /// time that an alert looks at would otherwise be no increase.
    fn default() -> Self {
        let metrics = Self::empty();
        for code in Refusal::CODES {
            metrics.refused_total.with_label_values(&[code]);
        }
        for result in ["applied", "rejected", "unchanged"] {
            metrics.config_reload_total.with_label_values(&[result]);
        }
        for result in ["applied", "rejected"] {
            metrics.keys_reload_total.with_label_values(&[result]);
        }
        for result in ["written", "dropped"] {
            metrics.trace_records_total.with_label_values(&[result]);
        }
        for result in ["ok", "failed"] {
            metrics.peer_packets_total.with_label_values(&["sent", result]);
        }
        for result in Verdict::ALL.iter().map(|verdict| verdict.as_str()).chain(["failed"]) {
            metrics.peer_packets_total.with_label_values(&["received", result]);
        }
        metrics.peer_words_dropped_total.with_label_values::<&str>(&[]);
        metrics
    }
}

/// Removes the series with these labels, whatever others they have.
fn forget<B: MetricVecBuilder>(family: &MetricVec<B>, wanted: &[(&str, &str)]) {
    for metric in family.collect().iter().flat_map(MetricFamily::get_metric) {
        let labels: HashMap<&str, &str> =
            metric.get_label().iter().map(|label| (label.name(), label.value())).collect();
        if wanted.iter().all(|(name, value)| labels.get(name) == Some(value)) {
            let _ = family.remove(&labels);
        }
    }
}

impl Metrics {
    /// The registry behind the families.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Removes the series of an endpoint that is gone for good.
    pub fn forget_endpoint(&self, pool: &str, endpoint: &str) {
        for reason in REASONS {
            let _ = self.picks_total.remove_label_values(&[pool, endpoint, reason.as_str()]);
        }
        for family in [&self.broken_streams_total, &self.scrape_errors_total] {
            let _ = family.remove_label_values(&[pool, endpoint]);
        }
        for family in [&self.kv_events_total, &self.kv_event_replays_total] {
            forget(family, &[("pool", pool), ("endpoint", endpoint)]);
        }
    }

    /// Removes the series of an arm of a trial that is over.
    pub fn forget_arm(&self, pool: &str, arm: &str) {
        for family in [&self.arm_requests_total, &self.arm_tokens_total, &self.arm_affinity_total] {
            forget(family, &[("pool", pool), ("arm", arm)]);
        }
        forget(&self.arm_ttft_seconds, &[("pool", pool), ("arm", arm)]);
    }
}
