//! Every policy, by name and put together from parts, on the path of real requests.

use std::collections::BTreeMap;

use http::Method;
use serde_json::Value;

use crate::explain::explained;
use crate::harness::{Config, Gateway, chat, config_for, eventually, post, sims, streamed};

const CHAT: &str = "/v1/chat/completions";

/// How often each replica answered twenty-four different questions.
async fn answers(gateway: &Gateway) -> BTreeMap<String, usize> {
    let mut answers = BTreeMap::new();
    for number in 0..24 {
        let answer = gateway.post(CHAT, chat(&format!("question {number}"))).await.expect(200);
        *answers.entry(answer.header("x-sim-replica").to_owned()).or_default() += 1;
    }
    answers
}

#[tokio::test]
async fn every_policy_serves_and_says_why() {
    let sims = sims(3).await;
    let policies: Vec<_> = spillway::Registry::default().policies().collect();
    assert!(policies.len() >= 13, "{policies:?}");
    for policy in policies {
        let gateway = Gateway::start(&config_for(&sims).with(&format!("policy: {policy}"))).await;
        let answers = answers(&gateway).await;
        assert_eq!(answers.len(), 3, "{policy} leaves an endpoint idle: {answers:?}");
        let reasons: &[&str] = match policy {
            "adaptive" | "cache_aware" | "pxbs" => &["cost", "owner"],
            "least_latency" => &["cost"],
            "ring" => &["owner", "spill"],
            "round_robin" | "weighted_round_robin" | "weighted_round_robin_learned" => &["rotate"],
            "random" => &["random"],
            _ => &["score"],
        };
        let mut picks = 0.0;
        for reason in reasons {
            picks += gateway.metric("spillway_picks_total", &[("pool", "main"), ("reason", reason)]).await;
        }
        assert_eq!(picks, 24.0, "{policy}: picks for {reasons:?}");
        if policy == "round_robin" {
            assert!(answers.values().all(|count| *count == 8), "{answers:?}");
        }
    }
}

#[tokio::test]
async fn every_scorer_and_selection_serves() {
    let sims = sims(2).await;
    let registry = spillway::Registry::default();
    let scorers = registry.scorers().map(|scorer| format!("{scorer}: 2")).collect::<Vec<_>>().join(", ");
    for select in ["max", "weighted_random", "power_of_two"] {
        let policy = format!("policy: {{custom: {{filters: [in_service], scorers: {{{scorers}}}, select: {select}}}}}");
        let gateway = Gateway::start(&config_for(&sims).with(&policy)).await;
        let answers = answers(&gateway).await;
        assert_eq!(answers.values().sum::<usize>(), 24, "{select}: {answers:?}");
    }
}

#[tokio::test]
async fn weights_share_turns_in_proportion() {
    let sims = sims(2).await;
    let heavy = format!("{{url: \"{}\", weight: 3}}", sims[1].url());
    let config = config_for(&sims[..1]).endpoint(&heavy);
    let weighted = Gateway::start(&config.clone().with("policy: weighted_round_robin")).await;
    let of_weighted = answers(&weighted).await;
    assert!((17..=19).contains(&of_weighted["b"]), "three quarters of 24: {of_weighted:?}");
    let equal = Gateway::start(&config.with("policy: round_robin")).await;
    let of_equal = answers(&equal).await;
    assert_eq!((of_equal["a"], of_equal["b"]), (12, 12), "round robin does not look at weights");
}

#[tokio::test]
async fn a_dead_endpoint_costs_no_policy_a_request() {
    let mut sims = sims(3).await;
    let dead = sims.pop().unwrap();
    let url = dead.url();
    dead.shutdown().await;
    for policy in spillway::Registry::default().policies() {
        let gateway = Gateway::start(&config_for(&sims).endpoint(&url).with(&format!("policy: {policy}"))).await;
        let answers = answers(&gateway).await;
        assert_eq!(answers.values().sum::<usize>(), 24, "{policy}: {answers:?}");
    }
    let gateway = Gateway::start(&config_for(&sims).endpoint(&url).with("health: {interval: 50ms}")).await;
    let down = async || {
        let down = gateway.metric("spillway_endpoint_state", &[("endpoint", &url), ("state", "down")]).await;
        (down == 1.0).then_some(())
    };
    eventually("the dead endpoint is known to be", down).await;
}

/// The endpoints of the only pool, as operators see them.
async fn endpoints(gateway: &Gateway) -> Vec<Value> {
    let pools = gateway.admin(Method::GET, "/pools", "").await.expect(200).json();
    pools["main"]["endpoints"].as_array().unwrap().clone()
}

#[tokio::test]
async fn every_policy_can_be_changed_to_the_next_without_a_restart() {
    let sims = sims(3).await;
    let plain = config_for(&sims);
    let gateway = Gateway::start(&plain).await;
    let registry = spillway::Registry::default();
    let mut sent = 0.0;
    for policy in registry.policies() {
        gateway.rewrite(&plain.clone().with(&format!("policy: {policy}")));
        gateway.admin(Method::POST, "/reload", "").await.expect(200);
        let mut connection = gateway.h1().await;
        for number in 0..6 {
            let prompt = format!("question {number}");
            let body = if number % 2 == 0 { streamed(&prompt, 2) } else { chat(&prompt) };
            connection.call(post(CHAT, body)).await.expect(200);
            sent += 1.0;
        }
        assert_eq!(explained(&gateway, chat("hello")).await["decision"]["policy"], policy);
        assert_eq!(gateway.metric("spillway_picks_total", &[]).await, sent, "{policy}");
    }
    gateway.assert_idle().await;
    for endpoint in endpoints(&gateway).await {
        assert_eq!(endpoint["outstanding_tokens"], 0, "{endpoint:#}");
    }
}

#[tokio::test]
async fn first_tokens_and_the_round_trip_are_measured() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims).with("policy: least_latency")).await;
    let before = &endpoints(&gateway).await[0];
    assert!(before["latency_seconds"].is_null() && before["round_trip_seconds"].is_null(), "{before:#}");
    gateway.post(CHAT, streamed("hello", 2)).await.expect(200);
    let after = &endpoints(&gateway).await[0];
    let (latency, round_trip) = (after["latency_seconds"].as_f64(), after["round_trip_seconds"].as_f64());
    assert!(latency.is_some_and(|latency| (0.0..10.0).contains(&latency)), "{after:#}");
    // On the loopback; the kernel rounds to microseconds, and no connection is without.
    assert!(round_trip.is_some_and(|trip| trip > 0.0 && trip < 1.0), "{after:#}");
}

#[tokio::test]
async fn the_gateways_zone_comes_from_the_file_and_changes_with_it() {
    let sims = sims(2).await;
    let config = |zone: &str| -> Config {
        let pool = Config::default().top(&format!("zone: {zone}")).pool("main", &[]);
        let pool = pool.with("policy: {custom: {scorers: {locality: 1}}}");
        let endpoint =
            |index: usize, zone: &str| format!("{{url: \"{}\", labels: {{zone: {zone}}}}}", sims[index].url());
        pool.endpoint(&endpoint(0, "a")).endpoint(&endpoint(1, "b"))
    };
    let gateway = Gateway::start(&config("b")).await;
    assert_eq!(explained(&gateway, chat("hello")).await["decision"]["chosen"], sims[1].url());
    gateway.rewrite(&config("a"));
    gateway.admin(Method::POST, "/reload", "").await.expect(200);
    assert_eq!(explained(&gateway, chat("hello")).await["decision"]["chosen"], sims[0].url());
}
