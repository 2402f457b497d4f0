//! Servers other than the simulated ones, by the pages they have.

use http::Method;
use serde_json::Value;

use crate::harness::{Config, Gateway, Scripted, eventually};

const SGLANG: &str = include_str!("../../gateway/fixtures/pages/sglang-dp2-tp2.txt");
const TRTLLM: &str = include_str!("../../gateway/fixtures/pages/trtllm-1.3.txt");
const JSON: &str = include_str!("../../gateway/fixtures/pages/trtllm-json.txt");

/// Where `trtllm-serve` has its page.
const OTHER: &str = "/prometheus/metrics";

/// A gateway before one endpoint, that looks at it often.
async fn gateway(endpoint: &Scripted, setting: &str) -> Gateway {
    let config = Config::default().pool("main", &[]).endpoint(&endpoint.url());
    Gateway::start(&config.with(setting)).await
}

/// Waits until `/pools` says of the one endpoint what `is_it` looks for, and returns it.
async fn wait_for(gateway: &Gateway, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    let look = async || {
        let pools = gateway.admin(Method::GET, "/pools", "").await.expect(200).json();
        let one = pools["main"]["endpoints"][0].clone();
        is_it(&one).then_some(one)
    };
    eventually(what, look).await
}

#[tokio::test]
async fn a_page_of_sglang_is_read_by_engine_and_not_by_rank() {
    for engine in ["engine: auto", "engine: sglang"] {
        let endpoint = Scripted::start().await;
        endpoint.page("/metrics", SGLANG);
        let gateway = gateway(&endpoint, engine).await;
        let seen = wait_for(&gateway, "the page is read", |one| one["freshness"] == "fresh").await;
        assert_eq!(seen["queued"], 5.0, "{engine}: {seen:#}");
        assert_eq!(seen["running"], 8.0, "{engine}: {seen:#}");
        assert_eq!(seen["kv_usage"], 0.81, "{engine}: {seen:#}");
        assert_eq!(seen["kv_tokens"], 130_536.0, "{engine}: {seen:#}");
        let interval = gateway.metric("spillway_scrape_interval_seconds", &[("pool", "main")]).await;
        assert!((0.1..10.0).contains(&interval), "{interval} s between two scrapes of one endpoint");
    }
}

#[tokio::test]
async fn the_page_of_trtllm_serve_is_found_and_the_json_left_alone() {
    let endpoint = Scripted::start().await;
    endpoint.page("/metrics", JSON);
    endpoint.page(OTHER, TRTLLM);
    let gateway = gateway(&endpoint, "scrape: {interval: 20ms}").await;
    let seen = wait_for(&gateway, "the page is found", |one| one["freshness"] == "fresh").await;
    assert_eq!((&seen["queued"], &seen["running"]), (&Value::from(3.0), &Value::from(12.0)), "{seen:#}");
    assert_eq!((&seen["kv_usage"], &seen["kv_tokens"]), (&Value::from(0.31), &Value::from(262_144.0)), "{seen:#}");
    let often = async || (endpoint.asked(OTHER) >= 5).then_some(());
    eventually("the page is read where it is", often).await;
    assert_eq!(endpoint.asked("/metrics"), 1, "reading the statistics takes them from others");
    let url = endpoint.url();
    assert_eq!(gateway.metric("spillway_scrape_errors_total", &[("endpoint", &url)]).await, 0.0, "it was never lost");
    assert_eq!(gateway.metric("spillway_scrape_interval_seconds", &[("pool", "main")]).await, 0.02);

    // Another server takes its place.
    endpoint.page(OTHER, "");
    endpoint.page("/metrics", SGLANG);
    wait_for(&gateway, "the page is looked for where it was configured", |one| one["queued"] == 5.0).await;
    endpoint.page(OTHER, "");
    let often = async || (endpoint.asked("/metrics") >= 5).then_some(());
    eventually("it is read there", often).await;
    assert_eq!(endpoint.asked(OTHER), 0, "nothing asks for another page");
}

#[tokio::test]
async fn json_without_a_page_elsewhere_is_an_unreadable_page() {
    let endpoint = Scripted::start().await;
    endpoint.page("/metrics", JSON);
    endpoint.page(OTHER, "");
    let gateway = gateway(&endpoint, "scrape: {interval: 20ms}").await;
    let often = async || (endpoint.asked("/metrics") >= 10).then_some(());
    eventually("the page is asked for", often).await;
    assert_eq!(endpoint.asked(OTHER), 1, "the other path is looked at once in a while");
    let seen = wait_for(&gateway, "the endpoint is known", |one| one["healthy"] == true).await;
    assert_eq!(seen["freshness"], "never", "{seen:#}");
    let warned = |line: &String| line.contains("metrics page is not readable") && line.contains("json");
    assert!(gateway.events().iter().any(warned), "nobody is told: {:#?}", gateway.events());
}

#[tokio::test]
async fn a_path_of_ones_own_is_the_only_one() {
    let endpoint = Scripted::start().await;
    endpoint.page("/stats", JSON);
    endpoint.page(OTHER, TRTLLM);
    let _gateway = gateway(&endpoint, "scrape: {path: /stats, interval: 20ms}").await;
    let often = async || (endpoint.asked("/stats") >= 5).then_some(());
    eventually("the path is asked for", often).await;
    assert_eq!(endpoint.asked(OTHER), 0);
}
