//! `/metrics`: the page as the copied server writes it, and the ways in which it can go wrong.
//!
//! A page is 20 kB of text made anew for each scrape; nothing of it is kept between scrapes.

mod llamacpp;
mod page;
mod vllm;

use hyper::StatusCode;

use super::reply::{Answer, empty, json, text, with_type};
use super::shared::Shared;
use crate::fault::{FaultKind, MetricsMode};

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The page without faults.
pub(super) fn page(shared: &Shared) -> String {
    if shared.is_llama_cpp() { llamacpp::page(shared) } else { vllm::page(shared) }
}

/// Answers a scrape.
pub(super) async fn answer(shared: &Shared) -> Answer {
    let strike = shared.faults.strike(FaultKind::Metrics, "/metrics", |_| true);
    let whole = |page: String| with_type(StatusCode::OK, CONTENT_TYPE, page);
    let Some(strike) = strike else {
        return whole(page(shared));
    };
    match strike.fault.mode.unwrap_or(MetricsMode::Error) {
        MetricsMode::NotFound => json(StatusCode::NOT_FOUND, r#"{"detail":"Not Found"}"#),
        MetricsMode::Error => text(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error"),
        MetricsMode::Frozen => whole(shared.frozen_page().unwrap_or_else(|| page(shared))),
        MetricsMode::Garbage => {
            whole("<html>\0{{{ no metrics \u{fffd} here }}} = = 1 2 3\nvllm:num_requests{ 7\n".to_owned())
        }
        MetricsMode::Empty => empty(StatusCode::OK),
        MetricsMode::Nan => whole(with_nan(&page(shared))),
        MetricsMode::Missing => whole(without(&page(shared))),
        MetricsMode::OldNames => whole(with_old_names(&page(shared))),
        MetricsMode::Json => json(StatusCode::OK, "[]"),
        MetricsMode::Slow => {
            tokio::time::sleep(strike.fault.delay(5_000)).await;
            whole(page(shared))
        }
        MetricsMode::Hang => {
            shared.faults.released(&strike).await;
            whole(page(shared))
        }
    }
}

/// Gauges a router reads; the rest of the page stays.
const GAUGES: [&str; 6] = [
    "vllm:num_requests_running{",
    "vllm:num_requests_waiting{",
    "vllm:num_requests_waiting_by_reason{",
    "vllm:kv_cache_usage_perc{",
    "llamacpp:requests_processing ",
    "llamacpp:requests_deferred ",
];

fn is_gauge(line: &str) -> bool {
    GAUGES.iter().any(|name| line.starts_with(name))
}

fn with_nan(page: &str) -> String {
    lines(page, |line| match line.rsplit_once(' ') {
        Some((series, _)) if is_gauge(line) => Some(format!("{series} NaN")),
        _ => Some(line.to_owned()),
    })
}

fn without(page: &str) -> String {
    lines(page, |line| {
        let of_gauge = GAUGES.iter().any(|name| {
            let name = name.trim_end_matches(['{', ' ']);
            line.split_whitespace().nth(2) == Some(name) && line.starts_with('#')
        });
        (!is_gauge(line) && !of_gauge).then(|| line.to_owned())
    })
}

fn with_old_names(page: &str) -> String {
    let renamed = page
        .replace("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
        .replace("vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries")
        .replace("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits")
        .replace("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds");
    lines(&renamed, |line| (!line.contains("_by_reason")).then(|| line.to_owned()))
}

fn lines(page: &str, change: impl Fn(&str) -> Option<String>) -> String {
    page.lines().filter_map(change).fold(String::with_capacity(page.len()), |mut all, line| {
        all.push_str(&line);
        all.push('\n');
        all
    })
}
