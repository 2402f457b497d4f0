//! Alive and ready.

use http::Method;
use spillway_sim::{Fault, FaultKind};

use crate::harness::{Config, Gateway, Scripted, chat, config_for, eventually, sims};

async fn ready(gateway: &Gateway) -> (u16, String) {
    let answer = gateway.metrics_port("/readyz").await.unwrap();
    (answer.status, answer.text())
}

#[tokio::test]
async fn it_is_alive_at_once_and_ready_after_the_first_look() {
    let sims = sims(2).await;
    // Nothing the second is asked for ends, for longer than readiness waits.
    sims[1].fault(Fault { path: Some("/".into()), ..Fault::new(FaultKind::Hang) });
    let config = config_for(&sims[..1]).pool("silent", &sims[1..]).with("scrape: {timeout: 1m}");
    let gateway = Gateway::start_unready(&config).await;
    let healthy = gateway.metrics_port("/healthz").await.unwrap().expect(200);
    assert_eq!(healthy.text(), "ok\n");
    let (status, why) = ready(&gateway).await;
    assert_eq!(status, 503, "{why}");
    assert!(why.contains("silent") || why.contains("main"), "which pool is waited for: {why}");
    // The other pool serves as soon as its models are known, and readiness is not held up for long.
    let served = async || (gateway.post("/v1/chat/completions", chat("hello")).await.status == 200).then_some(());
    eventually("the pool that answers serves", served).await;
    eventually("readiness does not wait for ever", async || (ready(&gateway).await.0 == 200).then_some(())).await;
}

#[tokio::test]
async fn readiness_does_not_depend_on_endpoints_being_up() {
    let nobody = Scripted::start().await;
    let url = nobody.url();
    drop(nobody);
    let gateway = Gateway::start(&Config::default().pool("main", &[]).endpoint(&url)).await;
    assert_eq!(ready(&gateway).await, (200, "ready\n".to_owned()));
}

#[tokio::test]
async fn the_metrics_port_only_reads() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let page = gateway.metrics_port("/metrics").await.unwrap().expect(200);
    assert!(page.header("content-type").starts_with("text/plain"), "{:?}", page.headers);
    for path in ["/", "/config", "/pools", "/reload", "/v1/models"] {
        assert_eq!(gateway.metrics_port(path).await.unwrap().status, 404, "{path}");
    }
    for path in ["/metrics", "/readyz", "/v1/models", "/v1/chat/completions", "/nothing"] {
        assert_eq!(gateway.admin(Method::GET, path, "").await.status, 404, "{path} on the admin port");
    }
    assert_eq!(gateway.get("/metrics").await.status, 404, "clients see no operator's pages");
    assert_eq!(gateway.get("/pools").await.status, 404, "clients see no operator's pages");
}
