//! Taking an endpoint out of service by hand.

use http::Method;
use spillway_sim::{Fault, FaultKind};

use crate::harness::{Config, End, Events, Gateway, chat, config_for, post, sims, streamed};

const CHAT: &str = "/v1/chat/completions";

async fn drain(gateway: &Gateway, method: Method, endpoint: &str) -> crate::harness::Answer {
    gateway.admin(method, &format!("/drain/{endpoint}"), "").await
}

async fn state(gateway: &Gateway, endpoint: &str, state: &str) -> f64 {
    gateway.metric("spillway_endpoint_state", &[("endpoint", endpoint), ("state", state)]).await
}

#[tokio::test]
async fn a_draining_endpoint_finishes_what_it_has_and_gets_nothing_new() {
    let sims = sims(2).await;
    let gateway = Gateway::start(&config_for(&sims).with("policy: round_robin")).await;
    sims[0].fault(Fault { factor: 20.0, ..Fault::new(FaultKind::Slow) });
    let mut client = gateway.h1().await;
    let mut request = post(CHAT, streamed("hello", 1_000));
    request.headers_mut().insert("x-request-id", "kept".parse().unwrap());
    let response = client.send(request).await.unwrap();
    assert_eq!(response.headers()["x-sim-replica"], "a", "the first turn is the first endpoint's");
    let mut events = Events::of(response);
    events.next().await.unwrap();

    let answer = drain(&gateway, Method::POST, &sims[0].url()).await.expect(200).json();
    assert_eq!(answer, serde_json::json!({"endpoint": sims[0].url(), "draining": true}));
    for _ in 0..6 {
        assert_eq!(gateway.post(CHAT, chat("hello")).await.expect(200).header("x-sim-replica"), "b");
    }
    let url = sims[0].url();
    assert_eq!((state(&gateway, &url, "draining").await, state(&gateway, &url, "healthy").await), (1.0, 0.0));
    let pools = gateway.admin(Method::GET, "/pools", "").await.expect(200).json();
    assert_eq!(pools["main"]["endpoints"][0]["draining"], true, "{pools:#}");
    assert_eq!(pools["main"]["endpoints"][0]["in_flight"], 1, "{pools:#}");
    sims[0].clear();
    assert_eq!(events.rest().await.1, End::Proper);

    drain(&gateway, Method::DELETE, &sims[0].url()).await.expect(200);
    assert_eq!((state(&gateway, &url, "draining").await, state(&gateway, &url, "healthy").await), (0.0, 1.0));
    let mut replicas = Vec::new();
    for _ in 0..2 {
        replicas.push(gateway.post(CHAT, chat("hello")).await.expect(200).header("x-sim-replica").to_owned());
    }
    replicas.sort();
    assert_eq!(replicas, ["a", "b"], "it is back in its turn");
}

#[tokio::test]
async fn a_pool_that_drains_altogether_is_unavailable() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    drain(&gateway, Method::POST, &sims[0].url()).await.expect(200);
    let refused = gateway.post(CHAT, chat("hello")).await.expect(503);
    assert_eq!(refused.json()["error"]["code"], "no_endpoint");
    assert_eq!(refused.header("retry-after"), "1");
    drain(&gateway, Method::DELETE, &sims[0].url()).await.expect(200);
    gateway.post(CHAT, chat("hello")).await.expect(200);
}

#[tokio::test]
async fn a_drain_outlives_a_reload_and_reaches_every_pool() {
    let sims = sims(2).await;
    let config = |policy: &str| {
        let both = Config::default().pool("one", &sims).with(policy).pool("two", &sims).with(policy);
        both.top("models: [{name: one, pool: one, model: sim-model}, {name: two, pool: two, model: sim-model}]")
    };
    let gateway = Gateway::start(&config("policy: round_robin")).await;
    drain(&gateway, Method::POST, &sims[0].url()).await.expect(200);
    gateway.rewrite(&config("policy: least_request"));
    gateway.admin(Method::POST, "/reload", "").await.expect(200);
    for model in ["one", "two", "one", "two"] {
        let body = format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"hi"}}]}}"#);
        assert_eq!(gateway.post(CHAT, body).await.expect(200).header("x-sim-replica"), "b", "pool {model}");
    }
}

#[tokio::test]
async fn only_endpoints_that_are_there_can_be_drained() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    for wrong in ["http://127.0.0.1:1", "nonsense", ""] {
        let answer = drain(&gateway, Method::POST, wrong).await.expect(404);
        assert!(answer.text().contains("/pools"), "{wrong}: {}", answer.text());
    }
    // As a client library may write an address within a path.
    let quoted = sims[0].url().replace(':', "%3A").replace('/', "%2F");
    drain(&gateway, Method::POST, &quoted).await.expect(200);
    gateway.post(CHAT, chat("hello")).await.expect(503);
    assert_eq!(drain(&gateway, Method::GET, &sims[0].url()).await.status, 405);
}
