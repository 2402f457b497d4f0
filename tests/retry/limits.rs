//! Retries end.

use spillway_sim::{Fault, FaultKind};

use crate::harness::{Gateway, calls, chat, config_for, sims};

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn as_many_endpoints_are_tried_as_the_configuration_says() {
    for attempts in 1..=3 {
        let sims = sims(4).await;
        let gateway = Gateway::start(&config_for(&sims).with(&format!("retries: {{attempts: {attempts}}}"))).await;
        for sim in &sims {
            sim.fault(Fault::new(FaultKind::Reset));
        }
        gateway.post(CHAT, chat("hi")).await.expect(502);
        let records = calls(&sims);
        assert_eq!(records.len(), attempts, "{records:?}");
        let asked = sims.iter().filter(|sim| !calls(std::slice::from_ref(sim)).is_empty()).count();
        assert_eq!(asked, attempts, "an endpoint that failed was asked again");
        gateway.assert_idle().await;
    }
}

#[tokio::test]
async fn the_pools_limit_of_requests_in_flight_is_kept() {
    let sims = sims(2).await;
    let gateway = Gateway::start(&config_for(&sims).with("limits: {in_flight: 3}")).await;
    for sim in &sims {
        sim.fault(Fault::new(FaultKind::Hang));
    }
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let mut client = gateway.h1().await;
        waiting.push(tokio::spawn(async move { client.call(crate::harness::post(CHAT, chat("hi"))).await }));
    }
    crate::harness::eventually("three hang", async || (calls(&sims).len() == 3).then_some(())).await;
    let answer = gateway.post(CHAT, chat("hi")).await.expect(429);
    assert_eq!(answer.json()["error"]["code"], "in_flight", "{}", answer.text());
    assert!(!answer.header("retry-after").is_empty(), "{:?}", answer.headers);
    for sim in &sims {
        sim.clear();
    }
    for one in waiting {
        one.await.unwrap().expect(200);
    }
    gateway.post(CHAT, chat("hi")).await.expect(200);
    gateway.assert_idle().await;
}
