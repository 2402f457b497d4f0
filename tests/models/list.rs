//! `GET /v1/models`: what can be called, told without asking anybody.

use std::time::{Duration, Instant};

use serde_json::Value;
use spillway_sim::{Fault, FaultKind};

use crate::harness::{Client, Config, Gateway, config_for, eventually, get, post, sim_of, sims};

fn ids(list: &Value) -> Vec<&str> {
    let mut ids: Vec<&str> = list["data"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids
}

#[tokio::test]
async fn the_list_is_the_union_of_endpoints_and_aliases() {
    let with = |model: &str, adapters: &[&str]| spillway_sim::Config {
        model: model.into(),
        adapters: adapters.iter().map(|&name| name.to_owned()).collect(),
        ..spillway_sim::Config::default()
    };
    let sims =
        [sim_of(with("llama", &["sql"])).await, sim_of(with("llama", &["law"])).await, sim_of(with("qwen", &[])).await];
    let config = Config::default().pool("one", &sims[..2]).pool("two", &sims[2..]);
    let config = config.top("models: [{name: chat, aliases: [gpt-4o-mini], pool: one, model: llama}]");
    let gateway = Gateway::start(&config).await;
    let answer = gateway.get("/v1/models").await.expect(200);
    let list = answer.json();
    assert_eq!(ids(&list), ["chat", "gpt-4o-mini", "law", "llama", "qwen", "sql"], "{list:#}");
    assert_eq!(list["object"], "list");
    assert!(!answer.header("x-request-id").is_empty());
    for one in list["data"].as_array().unwrap() {
        assert_eq!(one["object"], "model", "{one}");
        assert!(one["created"].is_number(), "{one}");
    }
    let one = gateway.h2().await.call(get("/v1/models/sql")).await.expect(200).json();
    assert_eq!(one["id"], "sql", "{one}");
    gateway.get("/v1/models/nope").await.expect(404);
}

#[tokio::test]
async fn what_is_listed_can_be_called() {
    let config = spillway_sim::Config { adapters: vec!["sql".to_owned()], ..spillway_sim::Config::default() };
    let sims = [sim_of(config).await];
    let config = config_for(&sims).top("models: [{name: chat, pool: main, model: sim-model}]");
    let gateway = Gateway::start(&config).await;
    for id in ids(&gateway.get("/v1/models").await.json()) {
        let body = format!("{{\"model\":\"{id}\",\"messages\":[{{\"role\":\"user\",\"content\":\"hi\"}}]}}");
        gateway.post("/v1/chat/completions", body).await.expect(200);
    }
}

#[tokio::test]
async fn a_hung_endpoint_does_not_delay_the_list() {
    let sims = sims(2).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    sims[1].fault(Fault { path: Some("/".to_owned()), ..Fault::new(FaultKind::Hang) });
    let mut client = gateway.h1().await;
    let mut fastest = Duration::MAX;
    // The fastest of several: one of them may have met a busy machine.
    for _ in 0..5 {
        let began = Instant::now();
        let list = client.call(get("/v1/models")).await.expect(200).json();
        fastest = fastest.min(began.elapsed());
        assert_eq!(ids(&list), ["sim-model"]);
    }
    assert!(fastest < Duration::from_millis(100), "the list took {fastest:?}");
}

#[tokio::test]
async fn a_new_adapter_is_found_without_a_restart() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let loaded = post_to(&sims[0], "/v1/load_lora_adapter", r#"{"lora_name":"fresh","lora_path":"/x"}"#).await;
    assert_eq!(loaded, 200);
    eventually("the adapter is listed", async || {
        ids(&gateway.get("/v1/models").await.json()).contains(&"fresh").then_some(())
    })
    .await;
    let body = r#"{"model":"fresh","messages":[{"role":"user","content":"hi"}]}"#;
    // Where it is loaded is known from the scrape that follows the list.
    let answer = eventually("the adapter can be called", async || {
        let answer = gateway.post("/v1/chat/completions", body).await;
        (answer.status != 503).then_some(answer)
    })
    .await;
    assert_eq!(answer.expect(200).header("x-sim-model"), "fresh");
}

/// Posts to a sim directly.
async fn post_to(sim: &spillway_sim::Server, path: &str, body: &'static str) -> u16 {
    Client::h1(sim.addr()).await.call(post(path, body)).await.status
}
