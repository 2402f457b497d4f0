//! The metrics page: every line parses, every family is there, and its faults.

use std::collections::BTreeMap;

use hyper::StatusCode;
use spillway_sim::{Config, Fault, Flavor, MetricsMode, Server};

use crate::client::{STREAM, chat, get, post, raw_post, start, start_slow, until};

/// Samples by series (name and labels); panics at a line that is none.
fn parse(page: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line:?}"));
        let name = series.split('{').next().unwrap();
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == ':' || c == '_'), "bad name: {line:?}");
        assert!(!series.contains('{') || series.ends_with("\"}"), "bad labels: {line:?}");
        let value = value.parse().unwrap_or_else(|_| panic!("bad value: {line:?}"));
        assert_eq!(samples.insert(series.to_owned(), value), None, "twice: {series}");
    }
    samples
}

fn value(page: &str, name: &str) -> f64 {
    let series = format!("{name}{{engine=\"0\",model_name=\"sim-model\"}}");
    parse(page).get(&series).copied().unwrap_or_else(|| panic!("no {series} in {page}"))
}

#[tokio::test]
async fn the_page_has_the_families_of_vllm_in_its_order() {
    let config = Config { adapters: vec!["lora-a".to_owned()], ..Config::default() };
    let server = Server::start(config).await.unwrap();
    let page = get(&server, "/metrics").await;
    assert_eq!(page.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let types: Vec<_> = page.text().lines().filter(|line| line.starts_with("# TYPE")).collect();
    let recorded = include_str!("../../fixtures/vllm-metrics-types.txt");
    assert_eq!(types, recorded.lines().collect::<Vec<_>>());
    parse(page.text());
}

#[tokio::test]
async fn counters_and_histograms_agree_with_what_was_served() {
    let server = start().await;
    for _ in 0..3 {
        post(&server, "/v1/completions", format!(r#"{{"prompt":"{}","max_tokens":5}}"#, "x".repeat(256))).await;
    }
    let page = get(&server, "/metrics").await;
    let value = |name| value(page.text(), name);
    assert_eq!(value("vllm:prompt_tokens_total"), 111.0, "three times 256 bytes at 7 a token");
    assert_eq!(value("vllm:prefix_cache_queries_total"), 111.0);
    assert_eq!(value("vllm:prefix_cache_hits_total"), 64.0, "32 of 37 tokens, twice");
    assert_eq!(value("vllm:generation_tokens_total"), 15.0);
    assert_eq!(value("vllm:time_to_first_token_seconds_count"), 3.0);
    assert_eq!(value("vllm:inter_token_latency_seconds_count"), 12.0);
    assert_eq!(value("vllm:iteration_tokens_total_sum"), 111.0 - 64.0 + 15.0);
    let bucket = "vllm:e2e_request_latency_seconds_bucket{engine=\"0\",le=\"+Inf\",model_name=\"sim-model\"}";
    assert_eq!(parse(page.text())[bucket], 3.0);
    assert!(page.text().contains("num_gpu_blocks=\"4096\""));
}

#[tokio::test]
async fn token_buckets_end_at_the_longest_sequence() {
    let server = Server::start(Config { max_model_len: 2_048, ..Config::default() }).await.unwrap();
    let page = get(&server, "/metrics").await;
    let bounds = |family: &str| -> Vec<&str> {
        let lines = page.text().lines().filter(|line| line.starts_with(&format!("vllm:{family}_bucket{{")));
        lines.map(|line| line.split("le=\"").nth(1).unwrap().split('"').next().unwrap()).collect()
    };
    // As recorded from a server of 2,048 tokens.
    let recorded = ["1.0", "2.0", "5.0", "10.0", "20.0", "50.0", "100.0", "200.0", "500.0", "1000.0", "2000.0", "+Inf"];
    for family in [
        "request_prompt_tokens",
        "request_generation_tokens",
        "request_max_num_generation_tokens",
        "request_params_max_tokens",
        "request_prefill_kv_computed_tokens",
    ] {
        assert_eq!(bounds(family), recorded, "{family}");
    }
    assert_eq!(bounds("request_params_n"), ["1.0", "2.0", "5.0", "10.0", "20.0", "+Inf"]);
}

#[tokio::test]
async fn gauges_show_load_and_return_to_zero_when_its_clients_leave() {
    let server = start_slow().await;
    let stream = raw_post(server.addr(), "/v1/chat/completions", &chat(10_000, STREAM)).await;
    until(&server, "tokens", |state| state.tokens_generated > 1).await;
    let page = get(&server, "/metrics").await;
    assert_eq!(value(page.text(), "vllm:num_requests_running"), 1.0);
    assert!(value(page.text(), "vllm:kv_cache_usage_perc") > 0.0);
    drop(stream);
    until(&server, "abort", |state| state.active.is_empty()).await;
    let page = get(&server, "/metrics").await;
    assert_eq!(value(page.text(), "vllm:num_requests_running"), 0.0);
    let aborted = "vllm:request_success_total{engine=\"0\",finished_reason=\"abort\",model_name=\"sim-model\"}";
    assert_eq!(parse(page.text())[aborted], 1.0);
}

#[tokio::test]
async fn adapter_series_pile_up_and_the_newest_is_the_empty_one() {
    let config = Config { adapters: vec!["a".to_owned(), "b".to_owned()], ..Config::default() };
    let server = Server::start(config).await.unwrap();
    for model in ["a", "b"] {
        post(&server, "/v1/chat/completions", chat(3, &format!(r#","model":"{model}""#))).await;
    }
    let samples = parse(get(&server, "/metrics").await.text());
    let mut series: Vec<_> = samples.iter().filter(|(name, _)| name.starts_with("vllm:lora_requests_info")).collect();
    series.sort_by(|a, b| a.1.total_cmp(b.1));
    assert!(series.len() >= 3, "one for a, one for b, one for none: {series:?}");
    let newest = series.last().unwrap().0;
    assert!(newest.contains("running_lora_adapters=\"\",waiting_lora_adapters=\"\""), "{newest}");
}

#[tokio::test]
async fn a_spoiled_page_is_spoiled_as_asked() {
    let server = start().await;
    let scrape = async |mode| {
        server.clear();
        server.fault(Fault::metrics(mode));
        get(&server, "/metrics").await
    };
    assert_eq!(scrape(MetricsMode::NotFound).await.status, StatusCode::NOT_FOUND);
    assert_eq!(scrape(MetricsMode::Error).await.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(scrape(MetricsMode::Empty).await.body.is_empty());
    assert_eq!(scrape(MetricsMode::Json).await.text(), "[]");
    assert!(!scrape(MetricsMode::Garbage).await.text().contains("# TYPE"));
    let nan = scrape(MetricsMode::Nan).await;
    assert!(value(nan.text(), "vllm:num_requests_running").is_nan());
    let missing = scrape(MetricsMode::Missing).await;
    assert!(!missing.text().contains("vllm:num_requests_running") && missing.text().contains("vllm:prompt_tokens"));
    let old = scrape(MetricsMode::OldNames).await;
    assert_eq!(value(old.text(), "vllm:gpu_cache_usage_perc"), 0.0);
    assert!(!old.text().contains("vllm:kv_cache_usage_perc"));
    server.clear();
    parse(get(&server, "/metrics").await.text());
}

#[tokio::test]
async fn a_frozen_page_stays_as_it_was_when_the_fault_came() {
    let server = start().await;
    server.fault(Fault::metrics(MetricsMode::Frozen));
    post(&server, "/v1/chat/completions", chat(3, "")).await;
    assert_eq!(value(get(&server, "/metrics").await.text(), "vllm:generation_tokens_total"), 0.0);
    server.clear();
    assert_eq!(value(get(&server, "/metrics").await.text(), "vllm:generation_tokens_total"), 3.0);
}

#[tokio::test]
async fn llama_cpp_has_its_own_families_without_labels() {
    let server = Server::start(Config { flavor: Flavor::LlamaCpp, ..Config::default() }).await.unwrap();
    post(&server, "/v1/chat/completions", chat(3, "")).await;
    let page = get(&server, "/metrics").await;
    let types =
        |text: &str| text.lines().filter(|line| line.starts_with("# TYPE")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(types(page.text()), types(include_str!("../../fixtures/llamacpp-metrics.txt")));
    assert_eq!(parse(page.text())["llamacpp:tokens_predicted_total"], 3.0);
    assert!(page.text().contains("llamacpp:requests_processing 0\n"), "integers have no point");
}
