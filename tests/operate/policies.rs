//! Every policy, by name and put together from parts, on the path of real requests.

use std::collections::BTreeMap;

use crate::harness::{Gateway, chat, config_for, eventually, sims};

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
    assert!(policies.len() >= 7, "{policies:?}");
    for policy in policies {
        let gateway = Gateway::start(&config_for(&sims).with(&format!("policy: {policy}"))).await;
        let answers = answers(&gateway).await;
        assert_eq!(answers.len(), 3, "{policy} leaves an endpoint idle: {answers:?}");
        let reasons: &[&str] = match policy {
            "adaptive" => &["cost", "owner"],
            "ring" => &["owner", "spill"],
            "round_robin" => &["rotate"],
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
    let scorers = "queue: 2, running: 1, kv_cache: 2, prefix: 3, lora: 1, in_flight: 1, session: 0.5, expected_ttft: 4";
    for select in ["max", "weighted_random", "power_of_two"] {
        let policy = format!("policy: {{custom: {{filters: [healthy], scorers: {{{scorers}}}, select: {select}}}}}");
        let gateway = Gateway::start(&config_for(&sims).with(&policy)).await;
        let answers = answers(&gateway).await;
        assert_eq!(answers.values().sum::<usize>(), 24, "{select}: {answers:?}");
    }
}

#[tokio::test]
async fn weights_share_turns_in_proportion() {
    let sims = sims(2).await;
    let heavy = format!("{{url: \"{}\", weight: 3}}", sims[1].url());
    let gateway = Gateway::start(&config_for(&sims[..1]).endpoint(&heavy).with("policy: round_robin")).await;
    let answers = answers(&gateway).await;
    assert!((17..=19).contains(&answers["b"]), "three quarters of 24: {answers:?}");
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
