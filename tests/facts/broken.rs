//! Pages that cannot be had or read, or that stand still.

use std::time::{Duration, Instant};

use http::Method;
use spillway_sim::{Fault, MetricsMode, Server};

use super::{STALE_AFTER, answers, fact, known};
use crate::harness::{Gateway, chat, config_for, eventually, sims};

/// A timeout of one second runs beside the age; the rest is for a busy machine.
const SOON: Duration = Duration::from_secs(4);

async fn freshness(gateway: &Gateway, endpoint: &str) -> String {
    let pools = gateway.admin(Method::GET, "/pools", "").await.expect(200).json();
    let endpoints = pools["main"]["endpoints"].as_array().unwrap();
    let one = endpoints.iter().find(|one| one["id"] == endpoint).unwrap();
    one["freshness"].as_str().unwrap().to_owned()
}

/// Waits until the facts of `endpoint` are said to be `wanted`.
async fn becomes(gateway: &Gateway, endpoint: &str, wanted: &str) {
    let what = format!("{endpoint} is {wanted}");
    eventually(&what, async || (freshness(gateway, endpoint).await == wanted).then_some(())).await;
}

async fn assert_serves_without(gateway: &Gateway, broken: &Server, why: &str) {
    let url = broken.url();
    let seen = known(gateway, &url).await;
    for name in ["queued", "running", "kv_usage"] {
        assert_eq!(fact(&seen, name)["unknown"], why, "{seen:#}");
        assert!(fact(&seen, name)["value"].is_null(), "unknown is not a number: {seen:#}");
    }
    assert!(seen["removed_by"].is_null(), "the endpoint is out of service: {seen:#}");
    let answers = answers(gateway, 8).await;
    assert_eq!(answers.len(), 2, "both endpoints serve: {answers:?}");
    assert_eq!(gateway.metric("spillway_endpoint_state", &[("endpoint", &url), ("state", "healthy")]).await, 1.0);
}

#[tokio::test]
async fn an_endpoint_without_a_page_serves() {
    let sims = sims(2).await;
    sims[1].fault(Fault::metrics(MetricsMode::NotFound));
    let gateway = Gateway::start(&config_for(&sims).with("policy: least_request")).await;
    assert_serves_without(&gateway, &sims[1], "never scraped").await;
    assert_eq!(freshness(&gateway, &sims[0].url()).await, "fresh");
    let errors = async || {
        let errors = gateway.metric("spillway_scrape_errors_total", &[("endpoint", &sims[1].url())]).await;
        (errors >= 5.0).then_some(())
    };
    eventually("failed scrapes are counted", errors).await;
    let url = sims[1].url();
    let said = gateway.events().iter().filter(|line| line.contains("WARN") && line.contains(&url)).count();
    assert_eq!(said, 1, "an outage is news once: {:#?}", gateway.events());
}

#[tokio::test]
async fn a_fleet_without_pages_serves_evenly() {
    let sims = sims(2).await;
    for sim in &sims {
        sim.fault(Fault::metrics(MetricsMode::NotFound));
    }
    let gateway = Gateway::start(&config_for(&sims)).await;
    let answers = answers(&gateway, 20).await;
    assert!(answers.values().all(|count| *count >= 4), "in flight alone spreads requests: {answers:?}");
}

#[tokio::test]
async fn a_page_that_breaks_leaves_the_decision_and_comes_back() {
    let modes = [
        MetricsMode::NotFound,
        MetricsMode::Error,
        MetricsMode::Garbage,
        MetricsMode::Empty,
        MetricsMode::Json,
        MetricsMode::Hang,
    ];
    let runs = modes.map(|mode| async move {
        let sims = sims(2).await;
        let gateway =
            Gateway::start(&config_for(&sims).with("policy: least_request").with("scrape: {interval: 100ms}")).await;
        let url = sims[1].url();
        becomes(&gateway, &url, "fresh").await;
        let broke = Instant::now();
        sims[1].fault(Fault::metrics(mode));
        becomes(&gateway, &url, "stale").await;
        let took = broke.elapsed();
        println!("{mode:?}: unknown after {took:?}");
        assert!(took < STALE_AFTER + SOON, "{mode:?}: still believed after {took:?}");
        assert_serves_without(&gateway, &sims[1], "stale").await;
        sims[1].clear();
        becomes(&gateway, &url, "fresh").await;
        assert_eq!(fact(&known(&gateway, &url).await, "queued")["value"], 0.0, "{mode:?}");
    });
    futures_util::future::join_all(runs).await;
}

#[tokio::test]
async fn a_page_that_stands_still_while_its_endpoint_works_is_not_believed() {
    let sims = sims(2).await;
    let gateway = Gateway::start(&config_for(&sims).with("policy: round_robin")).await;
    let url = sims[1].url();
    becomes(&gateway, &url, "fresh").await;
    sims[1].fault(Fault::metrics(MetricsMode::Frozen));
    let frozen = async || {
        gateway.post("/v1/chat/completions", chat("hello")).await.expect(200);
        (freshness(&gateway, &url).await == "frozen").then_some(())
    };
    eventually("the page counts as frozen", frozen).await;
    assert_serves_without(&gateway, &sims[1], "frozen").await;
    assert_eq!(freshness(&gateway, &sims[0].url()).await, "fresh", "the page that moves is believed");
    sims[1].clear();
    // The page moves again with the next thing that happens there.
    let thawed = async || {
        gateway.post("/v1/chat/completions", chat("hello")).await.expect(200);
        (freshness(&gateway, &url).await == "fresh").then_some(())
    };
    eventually("a page that moves is believed again", thawed).await;
}

#[tokio::test]
async fn an_idle_page_is_not_frozen() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let url = sims[0].url();
    gateway.post("/v1/chat/completions", chat("hello")).await.expect(200);
    gateway.assert_idle().await;
    // Idle for as many scrapes as would freeze it, and then some.
    let began = Instant::now();
    while began.elapsed() < STALE_AFTER + Duration::from_millis(500) {
        assert_eq!(freshness(&gateway, &url).await, "fresh", "after {:?}", began.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
