//! What endpoints tell of their caches over ZMQ changes what is believed of them; and nothing breaks when they do not.

use http::Method;
use serde_json::{Value, json};
use spillway_sim::{Fault, FaultKind, Server};

use crate::explain::explained;
use crate::harness::{Config, Gateway, config_for, eventually, fetch, noise, sim_of};

const CHAT: &str = "/v1/chat/completions";

/// A server that publishes; with so many blocks of 16 tokens.
async fn told(replica: &str, blocks: usize) -> Server {
    let mut config =
        spillway_sim::Config { replica: replica.into(), kv_events_port: Some(0), ..spillway_sim::Config::default() };
    config.engine.blocks = blocks;
    sim_of(config).await
}

fn followed(sims: &[Server]) -> Config {
    config_for(sims).with("affinity: {events: auto}")
}

fn prompt(seed: u64, bytes: usize) -> String {
    let text = String::from_utf8(noise(bytes, seed)).unwrap();
    json!({"model": "sim-model", "max_tokens": 2, "messages": [{"role": "user", "content": text}]}).to_string()
}

/// Waits until the events of every endpoint are followed, as they happen.
async fn following(gateway: &Gateway, sims: usize) {
    eventually("events are followed", async || {
        let pools = gateway.admin(Method::GET, "/pools", "").await.json();
        let endpoints = pools["main"]["endpoints"].as_array().unwrap().clone();
        let are = |one: &&Value| one["kv_events"].is_object();
        (endpoints.iter().filter(are).count() == sims).then_some(())
    })
    .await;
}

/// Tokens of a prompt that an endpoint is believed to hold.
async fn believed(gateway: &Gateway, sim: &Server, body: &str) -> f64 {
    let decision = explained(gateway, body.to_owned()).await["decision"].clone();
    let endpoints = decision["endpoints"].as_array().unwrap();
    let one = endpoints.iter().find(|one| one["endpoint"] == sim.url() || one["id"] == sim.url());
    one.unwrap_or_else(|| panic!("{decision:#}"))["cached_tokens"].as_f64().unwrap()
}

async fn events(gateway: &Gateway, what: &str) -> f64 {
    gateway.metric("spillway_kv_events_total", &[("what", what)]).await
}

/// Waits until so many blocks of prompts are held as a fact.
async fn held(gateway: &Gateway, blocks: f64) {
    eventually(&format!("{blocks} blocks are held"), async || {
        (gateway.metric("spillway_endpoint_kv_held_blocks", &[]).await >= blocks).then_some(())
    })
    .await;
}

/// Asks a server itself, past the gateway.
async fn directly(sim: &Server, path: &str, body: String) {
    assert_eq!(fetch(sim.addr(), Method::POST, path, body).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_prefix_that_was_evicted_is_no_longer_preferred() {
    let sims = [told("a", 513).await, told("b", 513).await];
    let gateway = Gateway::start(&followed(&sims)).await;
    following(&gateway, 2).await;
    let body = prompt(1, 8_000);
    let replica = gateway.post(CHAT, body.clone()).await.expect(200).header("x-sim-replica").to_owned();
    held(&gateway, 30.0).await;
    let (holder, other) = if replica == "a" { (&sims[0], &sims[1]) } else { (&sims[1], &sims[0]) };
    assert!(believed(&gateway, holder, &body).await > 1_000.0);
    assert_eq!(believed(&gateway, other, &body).await, 0.0);
    // What others send there, of which this gateway knows nothing.
    for seed in 10..20 {
        directly(holder, CHAT, prompt(seed, 8_000)).await;
    }
    eventually("the belief ended", async || (believed(&gateway, holder, &body).await == 0.0).then_some(())).await;
    assert!(events(&gateway, "removed_blocks").await > 100.0);
    assert_eq!(gateway.metric("spillway_endpoint_kv_held_blocks", &[]).await, 0.0);
    // Asked again, it is computed and held again, wherever that is.
    gateway.post(CHAT, body.clone()).await.expect(200);
    held(&gateway, 30.0).await;
    gateway.assert_idle().await;
}

#[tokio::test]
async fn a_cleared_cache_and_a_restart_are_believed_at_once() {
    let sims = [told("a", 4_097).await];
    let gateway = Gateway::start(&followed(&sims)).await;
    following(&gateway, 1).await;
    let bodies = [prompt(1, 8_000), prompt(2, 6_000)];
    for body in &bodies {
        gateway.post(CHAT, body.clone()).await.expect(200);
    }
    held(&gateway, 50.0).await;
    directly(&sims[0], "/reset_prefix_cache", String::new()).await;
    // An idle engine tells of it with its next step.
    gateway.post(CHAT, bodies[1].clone()).await.expect(200);
    eventually("the clear is believed", async || (believed(&gateway, &sims[0], &bodies[0]).await == 0.0).then_some(()))
        .await;
    held(&gateway, 20.0).await;
    assert!(believed(&gateway, &sims[0], &bodies[1]).await > 1_000.0, "what was stored after it is there");
    assert_eq!((events(&gateway, "clears").await, events(&gateway, "restarts").await), (1.0, 0.0));
    // The process is replaced; nothing else says so, since it answers again at once.
    sims[0].crash(0);
    eventually("the restart is believed", async || {
        (believed(&gateway, &sims[0], &bodies[1]).await == 0.0).then_some(())
    })
    .await;
    assert_eq!(events(&gateway, "restarts").await, 1.0);
    gateway.post(CHAT, bodies[1].clone()).await.expect(200);
    held(&gateway, 20.0).await;
}

#[tokio::test]
async fn batches_that_are_lost_on_the_way_are_replayed() {
    let sims = [told("a", 4_097).await];
    let gateway = Gateway::start(&followed(&sims)).await;
    following(&gateway, 1).await;
    gateway.post(CHAT, prompt(1, 8_000)).await.expect(200);
    held(&gateway, 30.0).await;
    let before = gateway.metric("spillway_kv_event_replays_total", &[("result", "filled")]).await;
    sims[0].fault(Fault { count: Some(1), ..Fault::new(FaultKind::EventsLost) });
    for seed in 2..5 {
        gateway.post(CHAT, prompt(seed, 8_000)).await.expect(200);
    }
    held(&gateway, 120.0).await;
    assert_eq!((events(&gateway, "gaps").await, events(&gateway, "losses").await), (1.0, 0.0));
    assert_eq!(gateway.metric("spillway_kv_event_replays_total", &[("result", "filled")]).await, before + 1.0);
}

#[tokio::test]
async fn without_a_replay_a_gap_leaves_beliefs_as_without_events() {
    let sims = [told("a", 4_097).await];
    let (port, _) = sims[0].kv_events_ports().unwrap();
    let gateway = Gateway::start(&config_for(&sims).with(&format!("affinity: {{events: {{port: {port}}}}}"))).await;
    following(&gateway, 1).await;
    let body = prompt(1, 8_000);
    gateway.post(CHAT, body.clone()).await.expect(200);
    held(&gateway, 30.0).await;
    sims[0].fault(Fault { count: Some(1), ..Fault::new(FaultKind::EventsLost) });
    gateway.post(CHAT, prompt(2, 8_000)).await.expect(200);
    gateway.post(CHAT, prompt(3, 8_000)).await.expect(200);
    eventually("the loss is seen", async || (events(&gateway, "losses").await >= 1.0).then_some(())).await;
    assert!(believed(&gateway, &sims[0], &body).await > 1_000.0);
}

#[tokio::test]
async fn a_publisher_that_says_nothing_harms_nobody() {
    let sims = [told("a", 4_097).await, sim_of(spillway_sim::Config::default()).await];
    sims[0].fault(Fault::new(FaultKind::EventsSilent));
    let gateway = Gateway::start(&followed(&sims)).await;
    let body = prompt(1, 8_000);
    for _ in 0..5 {
        gateway.post(CHAT, body.clone()).await.expect(200);
    }
    let held: f64 = believed(&gateway, &sims[0], &body).await + believed(&gateway, &sims[1], &body).await;
    assert!(held > 1_000.0, "believed as without events");
    eventually("it is said once", async || {
        let warned = |line: &&String| line.contains("kv events cannot be read");
        let lines = gateway.events().iter().filter(warned).count();
        assert!(lines <= 1, "{lines} lines");
        (lines == 1).then_some(())
    })
    .await;
    eventually("so is that the other has none", async || {
        gateway.events().iter().any(|line| line.contains("endpoint publishes no kv events")).then_some(())
    })
    .await;
    // It finds its voice.
    sims[0].clear();
    following(&gateway, 1).await;
    gateway.assert_idle().await;
}

#[tokio::test]
async fn a_reload_turns_them_on_and_off() {
    let sims = [told("a", 4_097).await];
    let gateway = Gateway::start(&config_for(&sims)).await;
    gateway.post(CHAT, prompt(1, 8_000)).await.expect(200);
    gateway.rewrite(&followed(&sims));
    gateway.admin(Method::POST, "/reload", "").await.expect(200);
    following(&gateway, 1).await;
    eventually("what was there before is replayed", async || {
        (gateway.metric("spillway_endpoint_kv_stored_blocks", &[]).await > 50.0).then_some(())
    })
    .await;
    assert_eq!(gateway.metric("spillway_endpoint_kv_held_blocks", &[]).await, 0.0, "history is nobody's");
    gateway.post(CHAT, prompt(2, 8_000)).await.expect(200);
    held(&gateway, 30.0).await;
    gateway.rewrite(&config_for(&sims));
    gateway.admin(Method::POST, "/reload", "").await.expect(200);
    eventually("nothing is held as a fact any more", async || {
        (gateway.metric("spillway_endpoint_kv_stored_blocks", &[]).await == 0.0).then_some(())
    })
    .await;
    assert!(believed(&gateway, &sims[0], &prompt(2, 8_000)).await > 1_000.0, "but believed");
}

#[tokio::test]
async fn conversations_and_bursts_are_attributed() {
    let sims = [told("a", 16_385).await];
    let gateway = Gateway::start(&followed(&sims)).await;
    following(&gateway, 1).await;
    let system = String::from_utf8(noise(6_000, 99)).unwrap();
    let ask = async |user: u64| {
        let mut messages = vec![json!({"role": "system", "content": system})];
        for turn in 0..4 {
            let question = String::from_utf8(noise(700, user * 100 + turn)).unwrap();
            messages.push(json!({"role": "user", "content": question}));
            let body = json!({"model": "sim-model", "max_tokens": 40, "messages": messages}).to_string();
            let answer = gateway.post(CHAT, body).await.expect(200).json();
            messages.push(answer["choices"][0]["message"].clone());
        }
    };
    // Until the pool has seen some prompts counted, it takes them to be of ordinary text.
    for seed in 0..8 {
        gateway.post(CHAT, prompt(seed, 8_000)).await.expect(200);
    }
    let users: Vec<_> = (1..=8).map(ask).collect();
    futures_util::future::join_all(users).await;
    gateway.assert_idle().await;
    let ratio = gateway.metric("spillway_endpoint_kv_attributed_ratio", &[]).await;
    let pools = gateway.admin(Method::GET, "/pools", "").await.json();
    let events = pools["main"]["endpoints"][0]["kv_events"].clone();
    println!("{ratio} {events}");
    // All but a few on an idle machine; on a busy one more of them overtake each other.
    assert!(ratio > 0.75, "{events}");
}
