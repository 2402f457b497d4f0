//! The families of llama.cpp's server: no labels, integers without a point.

use std::fmt::Write as _;

use super::super::shared::Shared;

pub(super) fn page(shared: &Shared) -> String {
    shared.driver.with_engine(|engine| {
        let stats = engine.stats();
        let (prefill, decode) = (stats.prefill_time.sum(), stats.decode_time.sum());
        let computed = stats.prompt_tokens - stats.prompt_tokens_cached;
        let rate = |tokens: u64, seconds: f64| if seconds > 0.0 { tokens as f64 / seconds } else { 0.0 };
        let busy = rate(stats.generation_tokens, stats.steps as f64);
        let families: [(&str, &str, &str, f64); 15] = [
            ("prompt_tokens_total", "counter", "Prompt tokens computed.", computed as f64),
            (
                "prompt_tokens_cached_total",
                "counter",
                "Prompt tokens from the cache.",
                stats.prompt_tokens_cached as f64,
            ),
            ("prompt_seconds_total", "counter", "Time spent on prompts.", prefill),
            ("tokens_predicted_total", "counter", "Output tokens.", stats.generation_tokens as f64),
            ("tokens_predicted_seconds_total", "counter", "Time spent on output.", decode),
            ("n_decode_total", "counter", "Steps.", stats.steps as f64),
            ("n_tokens_max", "counter", "Longest sequence.", 0.0),
            ("spec_decode_num_draft_tokens_total", "counter", "Draft tokens.", 0.0),
            ("spec_decode_num_accepted_tokens_total", "counter", "Draft tokens accepted.", 0.0),
            ("spec_decode_num_drafts_total", "counter", "Drafts.", 0.0),
            ("prompt_tokens_seconds", "gauge", "Prompt tokens per second.", rate(computed, prefill)),
            ("predicted_tokens_seconds", "gauge", "Output tokens per second.", rate(stats.generation_tokens, decode)),
            ("requests_processing", "gauge", "Requests in slots.", stats.gauges.running as f64),
            (
                "requests_deferred",
                "gauge",
                "Requests in the queue.",
                (stats.gauges.waiting_capacity + stats.gauges.waiting_deferred) as f64,
            ),
            ("n_busy_slots_per_decode", "gauge", "Busy slots per step.", busy),
        ];
        families.iter().fold(String::new(), |mut page, (name, kind, help, value)| {
            // Writing to a string does not fail; `{}` writes whole floats without a point.
            let _ =
                write!(page, "# HELP llamacpp:{name} {help}\n# TYPE llamacpp:{name} {kind}\nllamacpp:{name} {value}\n");
            page
        })
    })
}
