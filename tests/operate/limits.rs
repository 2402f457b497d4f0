//! Limits that refuse.

use http::Response;
use hyper::body::Incoming;
use spillway_sim::{Fault, FaultKind};

use crate::harness::{Answer, Client, Gateway, chat, config_for, eventually, post, sims, streamed};

const CHAT: &str = "/v1/chat/completions";

async fn streams(gateway: &Gateway, count: usize) -> Vec<(Client, Response<Incoming>)> {
    let mut streams = Vec::new();
    for _ in 0..count {
        let mut client = gateway.h1().await;
        let response = client.send(post(CHAT, streamed("hello", 5_000))).await.unwrap();
        assert_eq!(response.status(), 200);
        streams.push((client, response));
    }
    streams
}

fn assert_says_when(refused: &Answer) {
    assert_eq!(refused.header("retry-after"), "1", "{:?}", refused.headers);
    let millis: u64 = refused.header("retry-after-ms").parse().unwrap();
    assert!((500..=1_500).contains(&millis), "{millis} ms");
    assert_ne!(refused.header("x-request-id"), "");
}

#[tokio::test]
async fn the_pools_limit_refuses_what_is_above_it() {
    let sims = sims(2).await;
    for sim in &sims {
        sim.fault(Fault { factor: 20.0, ..Fault::new(FaultKind::Slow) });
    }
    let gateway = Gateway::start(&config_for(&sims).with("limits: {in_flight: 3}")).await;
    let streams = streams(&gateway, 3).await;
    let refused = gateway.post(CHAT, chat("hello")).await.expect(429);
    assert_says_when(&refused);
    let error = &refused.json()["error"];
    assert_eq!((&error["type"], &error["code"]), (&"rate_limit_exceeded".into(), &"in_flight".into()), "{error}");
    let error = gateway.post("/v1/messages", chat("hello")).await.expect(429).json();
    assert_eq!(error["error"]["type"], "rate_limit_error", "{error}");
    // A request is counted when it is over, a moment after its answer has been read.
    for (name, labels) in [("refused_total", &[("reason", "in_flight")][..]), ("requests_total", &[("code", "429")])] {
        let counted = async || (gateway.metric(&format!("spillway_{name}"), labels).await == 2.0).then_some(());
        eventually(&format!("both are counted in {name}"), counted).await;
    }
    drop(streams);
    gateway.assert_idle().await;
    gateway.post(CHAT, chat("hello")).await.expect(200);
}

#[tokio::test]
async fn a_pool_whose_endpoints_are_all_at_their_limit_is_saturated() {
    let sims = sims(2).await;
    for sim in &sims {
        sim.fault(Fault { factor: 20.0, ..Fault::new(FaultKind::Slow) });
    }
    for policy in ["adaptive", "ring", "round_robin"] {
        let config = config_for(&sims).with("affinity: {concurrency: 2}").with(&format!("policy: {policy}"));
        let gateway = Gateway::start(&config).await;
        let streams = streams(&gateway, 4).await;
        for sim in &sims {
            assert_eq!(sim.state().in_progress, 2, "{policy}: every endpoint is filled, none above its limit");
        }
        let refused = gateway.post(CHAT, chat("hello")).await.expect(429);
        assert_says_when(&refused);
        let error = &refused.json()["error"];
        assert_eq!((&error["type"], &error["code"]), (&"overloaded".into(), &"saturated".into()), "{policy}: {error}");
        drop(streams);
        gateway.assert_idle().await;
        gateway.post(CHAT, chat("hello")).await.expect(200);
        for sim in &sims {
            eventually("the sim is idle", async || (sim.state().in_progress == 0).then_some(())).await;
        }
    }
}
