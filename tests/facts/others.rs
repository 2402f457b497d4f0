//! Load that comes past this gateway shows on the pages only, and moves its traffic.

use http::Response;
use hyper::body::Incoming;
use serde_json::Value;
use spillway_sim::{Server, engine};

use super::{answers, fact, known};
use crate::harness::{Client, Gateway, config_for, eventually, post, sim_of, sims, streamed};

const CHAT: &str = "/v1/chat/completions";

/// Tokens that take longer than any test here.
const LONG: u32 = 20_000;

/// A server with room for two at a time and ten clients of its own, eight of which wait.
async fn busy() -> (Server, Vec<(Client, Response<Incoming>)>) {
    let engine = engine::Config { max_seqs: 2, ..engine::Preset::Fast.config() };
    let sim = sim_of(spillway_sim::Config { replica: "busy".into(), engine, ..spillway_sim::Config::default() }).await;
    let mut clients = Vec::new();
    for number in 0..10 {
        let mut client = Client::h1(sim.addr()).await;
        let response = client.send(post(CHAT, streamed(&format!("other {number}"), LONG))).await.unwrap();
        clients.push((client, response));
    }
    (sim, clients)
}

async fn wait_for_queue(gateway: &Gateway, busy: &Server) -> Value {
    let look = async || {
        let seen = known(gateway, &busy.url()).await;
        fact(&seen, "queued")["value"].as_f64().is_some_and(|queued| queued >= 4.0).then_some(seen)
    };
    eventually("the queue of others is known", look).await
}

#[tokio::test]
async fn a_queue_of_others_moves_traffic_away() {
    for policy in ["adaptive", "hyperpod", "least_request", "{custom: {scorers: {queue: 1}}}"] {
        let (busy, others) = busy().await;
        let sims = [busy, sims(1).await.pop().unwrap()];
        let gateway = Gateway::start(&config_for(&sims).with(&format!("policy: {policy}"))).await;
        let seen = wait_for_queue(&gateway, &sims[0]).await;
        assert!(seen["outside"].as_f64().unwrap() >= 4.0, "{policy}: others count as such: {seen:#}");
        let answers = answers(&gateway, 12).await;
        assert_eq!(answers.get("a"), Some(&12), "{policy}: sent to wait behind others: {answers:?}");
        drop(others);
    }
}

#[tokio::test]
async fn a_queue_that_can_no_longer_be_seen_is_neither_believed_nor_zero() {
    let (busy, others) = busy().await;
    let sims = [busy, sims(1).await.pop().unwrap()];
    let gateway = Gateway::start(&config_for(&sims).with("policy: least_request")).await;
    wait_for_queue(&gateway, &sims[0]).await;
    sims[0].fault(spillway_sim::Fault::metrics(spillway_sim::MetricsMode::NotFound));
    let look = async || {
        let seen = known(&gateway, &sims[0].url()).await;
        (fact(&seen, "queued")["unknown"] == "stale").then_some(seen)
    };
    let seen = eventually("the queue is unknown", look).await;
    assert_eq!(seen["outside"], 0.0, "an old count adds no load: {seen:#}");
    assert!(fact(&seen, "queued")["value"].is_null(), "{seen:#}");
    drop(others);
}
