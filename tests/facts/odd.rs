//! Pages that can be read and do not say everything, or say it in other words.

use http::Method;
use serde_json::Value;
use spillway_sim::{Fault, Flavor, MetricsMode};

use super::{answers, fact, known};
use crate::harness::{Gateway, chat, config_for, eventually, sim_of, sims, wait_until_quiet};

/// Waits until the fact of this name satisfies `is_it`, and returns all.
async fn wait_for(gateway: &Gateway, endpoint: &str, name: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    let look = async || {
        let seen = known(gateway, endpoint).await;
        is_it(fact(&seen, name)).then_some(seen)
    };
    eventually(&format!("{name} of {endpoint} is as it should be"), look).await
}

#[tokio::test]
async fn what_a_page_does_not_say_is_unknown_and_never_zero() {
    for mode in [MetricsMode::Nan, MetricsMode::Missing] {
        let sims = sims(2).await;
        let gateway = Gateway::start(&config_for(&sims).with("policy: least_request")).await;
        let url = sims[1].url();
        wait_for(&gateway, &url, "queued", |fact| fact["value"] == 0.0).await;
        assert_eq!(gateway.metric("spillway_endpoint_scrape_age_seconds", &[("endpoint", &url)]).await.signum(), 1.0);
        sims[1].fault(Fault::metrics(mode));
        let seen = wait_for(&gateway, &url, "queued", |fact| fact["value"].is_null()).await;
        for name in ["queued", "running", "kv_usage"] {
            assert_eq!(fact(&seen, name)["unknown"], "not on the page", "{mode:?}: {seen:#}");
        }
        let page = gateway.metrics_port("/metrics").await.unwrap().expect(200).text();
        for name in ["queued", "running", "kv_usage_ratio"] {
            let series = format!("spillway_endpoint_{name}{{endpoint=\"{url}\"");
            assert!(!page.contains(&series), "{mode:?}: an unknown value was exported as {series}");
        }
        let pools = gateway.admin(Method::GET, "/pools", "").await.expect(200).json();
        assert!(pools["main"]["endpoints"][1]["queued"].is_null(), "{mode:?}: {pools:#}");
        let answers = answers(&gateway, 8).await;
        assert_eq!(answers.len(), 2, "{mode:?}: both endpoints serve: {answers:?}");
    }
}

#[tokio::test]
async fn the_cache_use_of_older_servers_is_read() {
    let sims = sims(1).await;
    sims[0].fault(Fault::metrics(MetricsMode::OldNames));
    let gateway = Gateway::start(&config_for(&sims)).await;
    let seen = known(&gateway, &sims[0].url()).await;
    assert_eq!(fact(&seen, "kv_usage")["value"], 0.0, "{seen:#}");
    assert_eq!(fact(&seen, "queued")["value"], 0.0, "{seen:#}");
}

#[tokio::test]
async fn a_llamacpp_server_is_known_by_its_page() {
    let llama =
        spillway_sim::Config { flavor: Flavor::LlamaCpp, replica: "a".into(), ..spillway_sim::Config::default() };
    let sims = [sim_of(llama).await, sims(2).await.pop().unwrap()];
    let gateway = Gateway::start(&config_for(&sims).with("policy: round_robin")).await;
    for sim in &sims {
        let seen = known(&gateway, &sim.url()).await;
        assert_eq!(fact(&seen, "queued")["value"], 0.0, "{seen:#}");
        assert_eq!(fact(&seen, "running")["value"], 0.0, "{seen:#}");
    }
    let seen = known(&gateway, &sims[0].url()).await;
    assert_eq!(fact(&seen, "kv_usage")["unknown"], "not on the page", "llama.cpp does not tell: {seen:#}");
    assert_eq!(answers(&gateway, 6).await.len(), 2);
}

#[tokio::test]
async fn the_engine_named_in_the_file_is_the_one_that_is_read() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims).with("engine: llamacpp")).await;
    let seen = known(&gateway, &sims[0].url()).await;
    assert!(fact(&seen, "queued")["value"].is_null(), "vLLM's names were read as llama.cpp's: {seen:#}");
    gateway.post("/v1/chat/completions", chat("hello")).await.expect(200);
    wait_until_quiet(&sims).await;
}
