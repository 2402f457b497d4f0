//! Series of the metrics page come and go with the configuration.

use http::Method;
use spillway_sim::{Fault, FaultKind, MetricsMode};

use crate::harness::{Config, Events, Gateway, chat, config_for, eventually, post, sims, streamed};

const CHAT: &str = "/v1/chat/completions";

async fn page(gateway: &Gateway) -> String {
    gateway.metrics_port("/metrics").await.unwrap().expect(200).text()
}

#[tokio::test]
async fn series_of_gone_endpoints_disappear() {
    let sims = sims(2).await;
    // A series of each kind: picks, scrape errors, broken streams, and all gauges.
    sims[1].fault(Fault::metrics(MetricsMode::NotFound));
    let gateway = Gateway::start(&config_for(&sims).with("policy: round_robin")).await;
    for _ in 0..4 {
        gateway.post(CHAT, chat("hello")).await.expect(200);
    }
    sims[1].fault(Fault { count: Some(1), ..Fault::new(FaultKind::CrashMidstream) });
    for _ in 0..2 {
        let mut client = gateway.h1().await;
        Events::of(client.send(post(CHAT, streamed("hello", 5))).await.unwrap()).rest().await;
    }
    let broken = async || (gateway.metric("spillway_broken_streams_total", &[]).await == 1.0).then_some(());
    eventually("the broken stream is counted", broken).await;
    let gone = sims[1].url();
    let before = page(&gateway).await;
    for name in ["picks_total", "scrape_errors_total", "broken_streams_total", "in_flight", "endpoint_state"] {
        let is_it = |line: &&str| line.starts_with(&format!("spillway_{name}{{")) && line.contains(&gone);
        assert!(before.lines().any(|line| is_it(&line)), "no {name} of {gone} in\n{before}");
    }
    gateway.rewrite(&config_for(&sims[..1]).with("policy: round_robin"));
    gateway.admin(Method::POST, "/reload", "").await.expect(200);
    let after = page(&gateway).await;
    assert!(
        !after.contains(&gone),
        "left behind: {:#?}",
        after.lines().filter(|line| line.contains(&gone)).collect::<Vec<_>>()
    );
    assert!(after.contains(&sims[0].url()), "the others stay");
}

#[tokio::test]
async fn they_stay_away_whatever_was_under_way() {
    let sims = sims(3).await;
    for sim in &sims[1..] {
        sim.fault(Fault::metrics(MetricsMode::NotFound));
    }
    let gateway = Gateway::start(&config_for(&sims[..1])).await;
    // A scrape or a request that ends just after the reload must not bring a series back.
    for turn in 0..20 {
        let with = &sims[1 + turn % 2];
        gateway.rewrite(
            &config_for(&sims[..1]).endpoint(&with.url()).with("policy: round_robin").with("scrape: {interval: 5ms}"),
        );
        gateway.admin(Method::POST, "/reload", "").await.expect(200);
        let failing = async || {
            gateway.post(CHAT, chat("hello")).await.expect(200);
            let errors = gateway.metric("spillway_scrape_errors_total", &[("endpoint", &with.url())]).await;
            (errors > 0.0).then_some(())
        };
        eventually("a scrape has failed", failing).await;
    }
    gateway.rewrite(&config_for(&sims[..1]));
    gateway.admin(Method::POST, "/reload", "").await.expect(200);
    let page = page(&gateway).await;
    for gone in &sims[1..] {
        let left: Vec<_> = page.lines().filter(|line| line.contains(&gone.url())).collect();
        assert!(left.is_empty(), "{left:#?}");
    }
}

#[tokio::test]
async fn an_endpoint_in_two_pools_leaves_only_the_one_it_was_taken_from() {
    let sims = sims(2).await;
    let models = "models: [{name: one, pool: one, model: sim-model}, {name: two, pool: two, model: sim-model}]";
    let gateway = Gateway::start(&Config::default().pool("one", &sims).pool("two", &sims).top(models)).await;
    gateway.rewrite(&Config::default().pool("one", &sims[..1]).pool("two", &sims).top(models));
    gateway.admin(Method::POST, "/reload", "").await.expect(200);
    let labels = |pool: &'static str| [("pool", pool), ("state", "healthy")];
    assert_eq!(gateway.metric("spillway_endpoint_state", &labels("one")).await, 1.0);
    assert_eq!(gateway.metric("spillway_endpoint_state", &labels("two")).await, 2.0);
}

#[tokio::test]
async fn the_hash_tells_configurations_apart_and_nothing_else() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let hash = async || gateway.metric("spillway_config_hash", &[]).await;
    let first = hash().await;
    assert!(first > 0.0 && first.fract() == 0.0, "{first}");
    let shown = gateway.admin(Method::GET, "/config", "").await.expect(200).json();
    assert_eq!(shown["hash"].as_f64().unwrap(), first);
    // The default, written out, with a comment: the same configuration.
    gateway.rewrite(&config_for(&sims).with("policy: adaptive # as before"));
    assert_eq!(gateway.admin(Method::POST, "/reload", "").await.expect(200).json()["result"], "unchanged");
    assert_eq!(hash().await, first);
    gateway.rewrite(&config_for(&sims).with("policy: ring"));
    gateway.admin(Method::POST, "/reload", "").await.expect(200);
    assert_ne!(hash().await, first);
}
