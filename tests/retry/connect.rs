//! Endpoints that cannot be reached.

use spillway_sim::{Fault, FaultKind, Server};

use crate::harness::{Config, Full, Gateway, calls, chat, config_for, eventually, post, sims, streamed};

const CHAT: &str = "/v1/chat/completions";

/// A dead server: nobody listens, and probes on connections from before fail too.
fn kill(sim: &Server) {
    sim.fault(Fault::new(FaultKind::HealthDown));
    sim.fault(Fault::new(FaultKind::Refuse));
}

#[tokio::test]
async fn a_refused_connection_costs_no_client_an_error() {
    let sims = sims(2).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    sims[0].fault(Fault::new(FaultKind::Refuse));
    let (mut h1, mut h2) = (gateway.h1().await, gateway.h2().await);
    let mut retried = 0;
    for number in 0..40 {
        let client = if number % 2 == 0 { &mut h1 } else { &mut h2 };
        let mut request = post(CHAT, if number % 4 < 2 { chat("hi") } else { streamed("hi", 3) });
        request.headers_mut().insert("x-request-id", format!("n{number}").parse().unwrap());
        let answer = client.call(request).await.expect(200);
        assert_eq!(answer.header("x-sim-replica"), "b");
        let line = gateway.logged(&format!("n{number}")).await;
        assert_eq!(line["error"], serde_json::Value::Null, "saved, so no error: {line}");
        retried += u32::from(line["attempts"] == 2);
    }
    assert!(retried >= 1, "nothing went to the dead endpoint first: nothing was tested");
    assert!(retried < 20, "{retried} of 40 tried the dead endpoint first: it is not avoided");
    let counted = gateway.metric("spillway_retries_total", &[("reason", "connect")]).await;
    assert_eq!(counted, f64::from(retried));
    gateway.assert_idle().await;
}

#[tokio::test]
async fn an_endpoint_that_comes_back_is_used_again() {
    let sims = sims(2).await;
    let config = config_for(&sims).with("policy: round_robin").with("health: {interval: 100ms}");
    let gateway = Gateway::start(&config).await;
    let url = sims[0].url();
    let down = [("endpoint", &*url), ("state", "down")];
    kill(&sims[0]);
    let left = async || (gateway.metric("spillway_endpoint_state", &down).await == 1.0).then_some(());
    eventually("probes find the endpoint dead", left).await;
    gateway.post(CHAT, chat("hi")).await.expect(200);
    sims[0].clear();
    eventually("the endpoint gets requests again", async || {
        gateway.post(CHAT, chat("hi")).await.expect(200);
        (!calls(&sims[..1]).is_empty()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn with_every_endpoint_down_the_client_is_told_in_its_apis_shape() {
    let sims = sims(2).await;
    let config = config_for(&sims).with("health: {interval: 100ms, failures: 2}");
    let gateway = Gateway::start(&config).await;
    for sim in &sims {
        kill(sim);
    }
    // Until the probes have found out, each request finds out by itself.
    let answer = gateway.post(CHAT, chat("hi")).await;
    assert!([502, 503].contains(&answer.status), "{}: {}", answer.status, answer.text());
    let answer = eventually("the pool is known to be down", async || {
        let answer = gateway.post(CHAT, chat("hi")).await;
        (answer.status == 503).then_some(answer)
    })
    .await;
    let error = &answer.json()["error"];
    assert_eq!(error["code"], "no_endpoint", "{error}");
    assert_eq!(error["type"], "service_unavailable", "{error}");
    assert!(!answer.header("retry-after").is_empty(), "{:?}", answer.headers);
    let error = gateway.post("/v1/messages", chat("hi")).await.expect(503).json();
    assert_eq!(error["type"], "error", "{error}");
    assert_eq!(error["error"]["type"], "overloaded_error", "{error}");
    gateway.assert_idle().await;
    for sim in &sims {
        sim.clear();
    }
    eventually("the pool recovers", async || (gateway.post(CHAT, chat("hi")).await.status == 200).then_some(())).await;
}

#[tokio::test]
async fn an_address_where_nobody_is_gives_502() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims).with("health: {interval: 1h}")).await;
    sims[0].fault(Fault::new(FaultKind::Refuse));
    let answer = gateway.post(CHAT, chat("hi")).await.expect(502);
    assert_eq!(answer.json()["error"]["code"], "endpoint_failed", "{}", answer.text());
    assert_eq!(answer.json()["error"]["type"], "upstream_error", "{}", answer.text());
    assert!(!answer.text().contains("127.0.0.1"), "where endpoints are is not for clients: {}", answer.text());
}

#[tokio::test]
async fn a_connection_that_takes_too_long_is_made_elsewhere_or_gives_504() {
    let full = Full::start().await;
    let endpoint = full.url();
    let slow = Config::default().pool("main", &[]).endpoint(&endpoint);
    let slow = slow.with("timeouts: {connect: 200ms}").with("health: {interval: 1h}");
    let gateway = Gateway::start(&slow).await;
    let answer = gateway.post(CHAT, chat("hi")).await.expect(504);
    assert_eq!(answer.json()["error"]["code"], "endpoint_timeout", "{}", answer.text());
    drop(gateway);

    let sims = sims(1).await;
    let both = config_for(&sims).endpoint(&endpoint).with("policy: round_robin");
    let both = both.with("timeouts: {connect: 200ms}").with("health: {interval: 1h}");
    let gateway = Gateway::start(&both).await;
    for _ in 0..4 {
        gateway.post(CHAT, chat("hi")).await.expect(200);
    }
}
