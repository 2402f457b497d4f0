//! What a good change does, and what it leaves alone.

use std::time::{Duration, Instant};

use http::Method;
use spillway_sim::{Fault, FaultKind};

use super::traffic::{Traffic, replicas};
use super::{reloaded, reloads, status};
use crate::harness::{Config, End, Events, Gateway, chat, config_for, eventually, post, sims, streamed};

const CHAT: &str = "/v1/chat/completions";

/// What is promised of a change of the file.
const SOON: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alias_moved_to_another_pool_leads_there_within_a_second_and_no_request_fails() {
    let sims = sims(2).await;
    let leads_to = |pool: &str| {
        let models = format!("models: [{{name: chat, pool: {pool}, model: sim-model}}]");
        Config::default().pool("one", &sims[..1]).pool("two", &sims[1..]).top(&models)
    };
    let gateway = Gateway::start(&leads_to("one")).await;
    let traffic = Traffic::start(&gateway, "chat");
    traffic.reaches("a", Instant::now()).await;
    let changed = Instant::now();
    gateway.rewrite(&leads_to("two"));
    traffic.reaches("b", changed).await;
    traffic.passes(changed + SOON).await;
    let sent = traffic.stop().await;
    let last = sent.iter().rev().find(|one| one.reached("a")).unwrap().at;
    let took = last.saturating_duration_since(changed);
    println!("the old rule held for {took:?} after the change; {} requests", sent.len());
    assert!(took < SOON, "the old rule still held {took:?} after the change");
    reloaded(&gateway, "applied").await;
    assert_eq!(reloads(&gateway, "applied").await, 1.0);
    assert_eq!(status(&gateway).await["result"], "applied");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_added_and_one_removed_take_effect_within_a_second_and_no_request_fails() {
    let sims = sims(3).await;
    let gateway = Gateway::start(&config_for(&sims[..2]).with("policy: round_robin")).await;
    let traffic = Traffic::start(&gateway, "sim-model");
    traffic.reaches("a", Instant::now()).await;
    traffic.reaches("b", Instant::now()).await;
    let changed = Instant::now();
    gateway.rewrite(&config_for(&sims[1..]).with("policy: round_robin"));
    traffic.reaches("c", changed).await;
    traffic.passes(changed + SOON).await;
    let after = Instant::now();
    traffic.passes(after + SOON / 4).await;
    let sent = traffic.stop().await;
    let last = sent.iter().rev().find(|one| one.reached("a")).unwrap().at;
    let took = last.saturating_duration_since(changed);
    assert!(took < SOON, "the removed endpoint was still used {took:?} after the change");
    let later = sent.partition_point(|one| one.at < after);
    assert_eq!(replicas(&sent[later..]).into_iter().collect::<Vec<_>>(), ["b", "c"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_reloads_in_a_row_fail_no_request() {
    let sims = sims(3).await;
    let policies = ["round_robin", "adaptive", "round_robin", "ring", "least_request", "hyperpod", "random"];
    let config = |turn: usize| {
        let kept = if turn.is_multiple_of(2) { &sims[..2] } else { &sims[1..] };
        config_for(kept).with(&format!("policy: {}", policies[turn % policies.len()]))
    };
    let gateway = Gateway::start(&config(0)).await;
    let traffic = Traffic::start(&gateway, "sim-model");
    for turn in 1..=30 {
        let before = Instant::now();
        gateway.rewrite(&config(turn));
        gateway.admin(Method::POST, "/reload", "").await.expect(200);
        traffic.passes(before).await;
    }
    let sent = traffic.stop().await;
    assert!(replicas(&sent).len() > 1, "only one endpoint served although the pool kept changing");
    gateway.assert_idle().await;
}

#[tokio::test]
async fn a_pool_that_comes_with_a_reload_serves_its_first_request() {
    let sims = sims(2).await;
    let gateway = Gateway::start(&config_for(&sims[..1])).await;
    // By address and by name: neither may be unknown when the first request comes.
    for (turn, host) in ["127.0.0.1", "localhost"].into_iter().cycle().take(10).enumerate() {
        let endpoint = format!("http://{host}:{}", sims[1].addr().port());
        let models = format!("models: [{{name: chat, pool: new-{turn}, model: sim-model}}]");
        gateway.rewrite(&config_for(&sims[..1]).pool(&format!("new-{turn}"), &[]).endpoint(&endpoint).top(&models));
        gateway.admin(Method::POST, "/reload", "").await.expect(200);
        let answer = gateway.post(CHAT, r#"{"model":"chat","messages":[{"role":"user","content":"hi"}]}"#).await;
        assert_eq!(answer.status, 200, "turn {turn}, {endpoint}: {}", answer.text());
        assert_eq!(answer.header("x-sim-replica"), "b");
    }
}

#[tokio::test]
async fn a_stream_keeps_its_endpoint_when_that_is_removed() {
    let sims = sims(2).await;
    sims[1].fault(Fault { factor: 20.0, ..Fault::new(FaultKind::Slow) });
    let gateway = Gateway::start(&config_for(&sims[1..])).await;
    let mut client = gateway.h1().await;
    let response = client.send(post(CHAT, streamed("hello", 1_000))).await.unwrap();
    let mut events = Events::of(response);
    events.next().await.unwrap();
    gateway.rewrite(&config_for(&sims[..1]));
    gateway.admin(Method::POST, "/reload", "").await.expect(200);
    for _ in 0..5 {
        let answer = gateway.post(CHAT, chat("hello")).await.expect(200);
        assert_eq!(answer.header("x-sim-replica"), "a", "the removed endpoint gets nothing new");
    }
    let alone = async || (gateway.metric("spillway_pool_in_flight", &[("pool", "main")]).await == 1.0).then_some(());
    eventually("the stream alone is in flight", alone).await;
    sims[1].clear();
    let (rest, end) = events.rest().await;
    assert_eq!(end, End::Proper);
    assert_eq!(rest.last().unwrap().data, "[DONE]");
    gateway.assert_idle().await;
}

#[tokio::test]
async fn a_stream_outlives_its_pool() {
    let sims = sims(2).await;
    sims[1].fault(Fault { factor: 20.0, ..Fault::new(FaultKind::Slow) });
    let gateway = Gateway::start(&Config::default().pool("old", &sims[1..])).await;
    let mut client = gateway.h2().await;
    let response = client.send(post(CHAT, streamed("hello", 1_000))).await.unwrap();
    let mut events = Events::of(response);
    events.next().await.unwrap();
    gateway.rewrite(&Config::default().pool("new", &sims[..1]));
    gateway.admin(Method::POST, "/reload", "").await.expect(200);
    assert_eq!(gateway.post(CHAT, chat("hello")).await.expect(200).header("x-sim-replica"), "a");
    sims[1].clear();
    let (rest, end) = events.rest().await;
    assert_eq!((end, rest.last().unwrap().data.as_str()), (End::Proper, "[DONE]"));
    gateway.assert_idle().await;
}

#[tokio::test]
async fn an_endpoint_known_to_be_down_stays_so_over_a_reload() {
    let sims = sims(3).await;
    sims[1].fault(Fault::new(FaultKind::HealthDown));
    let config = |sims: &[spillway_sim::Server]| config_for(sims).with("health: {interval: 50ms}");
    let gateway = Gateway::start(&config(&sims[..2])).await;
    let url = sims[1].url();
    let labels = [("endpoint", &*url), ("state", "down")];
    let down = async || (gateway.metric("spillway_endpoint_state", &labels).await == 1.0).then_some(());
    eventually("the endpoint is known to be down", down).await;
    gateway.rewrite(&config(&sims));
    gateway.admin(Method::POST, "/reload", "").await.expect(200);
    let began = Instant::now();
    while began.elapsed() < SOON {
        assert_eq!(
            gateway.metric("spillway_endpoint_state", &labels).await,
            1.0,
            "forgotten after {:?}",
            began.elapsed()
        );
    }
    sims[1].clear();
    let up = async || (gateway.metric("spillway_endpoint_state", &labels).await == 0.0).then_some(());
    eventually("probes go on after the reload", up).await;
    // The settings in force are those that are followed.
    gateway.rewrite(&config_for(&sims).with("health: {interval: 20ms, path: /nothing, failures: 2}"));
    gateway.admin(Method::POST, "/reload", "").await.expect(200);
    eventually("the new path is probed", down).await;
}

#[tokio::test]
async fn a_pool_that_comes_with_a_reload_takes_no_readiness_away() {
    let sims = sims(2).await;
    sims[1].fault(Fault { path: Some("/".into()), ..Fault::new(FaultKind::Hang) });
    let gateway = Gateway::start(&config_for(&sims[..1])).await;
    gateway.rewrite(&config_for(&sims[..1]).pool("silent", &sims[1..]));
    gateway.admin(Method::POST, "/reload", "").await.expect(200);
    gateway.metrics_port("/readyz").await.unwrap().expect(200);
    gateway.post(CHAT, chat("hello")).await.expect(200);
}

#[tokio::test]
async fn a_change_of_policy_takes_effect_and_forgets_nothing() {
    let sims = sims(2).await;
    let gateway = Gateway::start(&config_for(&sims).with("policy: round_robin")).await;
    gateway.post(CHAT, chat("hello")).await.expect(200);
    assert_eq!(gateway.metric("spillway_picks_total", &[("reason", "rotate")]).await, 1.0);
    gateway.rewrite(&config_for(&sims).with("policy: ring"));
    reloaded(&gateway, "applied").await;
    let pools = gateway.admin(Method::GET, "/pools", "").await.expect(200).json();
    assert_eq!(pools["main"]["policy"], "ring", "{pools}");
    assert_eq!(pools["main"]["endpoints"][0]["freshness"], "fresh", "what was scraped is still known: {pools}");
    gateway.post(CHAT, chat("hello")).await.expect(200);
    assert_eq!(gateway.metric("spillway_picks_total", &[("reason", "owner")]).await, 1.0);
    assert_eq!(gateway.metric("spillway_picks_total", &[("reason", "rotate")]).await, 1.0, "what was counted stays");
}

#[tokio::test]
async fn a_limit_set_by_a_reload_counts_what_is_in_flight_already() {
    let sims = sims(1).await;
    sims[0].fault(Fault { factor: 20.0, ..Fault::new(FaultKind::Slow) });
    let gateway = Gateway::start(&config_for(&sims)).await;
    let mut client = gateway.h1().await;
    let response = client.send(post(CHAT, streamed("hello", 1_000))).await.unwrap();
    gateway.rewrite(&config_for(&sims).with("limits: {in_flight: 1}"));
    gateway.admin(Method::POST, "/reload", "").await.expect(200);
    gateway.post(CHAT, chat("hello")).await.expect(429);
    drop((response, client));
    gateway.assert_idle().await;
    gateway.post(CHAT, chat("hello")).await.expect(200);
}

#[tokio::test]
async fn a_change_under_server_says_that_it_needs_a_restart_and_the_rest_applies() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    gateway.rewrite(&config_for(&sims).server("drain: 7s").limits("body: 1KiB"));
    reloaded(&gateway, "applied").await;
    let status = status(&gateway).await;
    assert_eq!(status["needs_restart"], serde_json::json!(["server.drain"]), "{status}");
    let warned = |line: &String| line.contains("\"WARN\"") && line.contains("server.drain") && line.contains("restart");
    eventually("the log says so", async || gateway.events().iter().any(warned).then_some(())).await;
    gateway.post(CHAT, chat(&"x".repeat(2_000))).await.expect(413);

    gateway.rewrite(&config_for(&sims).limits("body: 1KiB"));
    let status = gateway.admin(Method::POST, "/reload", "").await.expect(200).json();
    assert_eq!(status["needs_restart"], serde_json::json!([]), "taken back: {status}");
}
