//! Endpoints come and go under load.

use std::time::Instant;

use spillway_sim::{Fault, FaultKind};

use super::{CHAT, become_these, config_over, endpoints, ips, looks, pods, urls};
use crate::harness::{End, Events, Gateway, NameServer, Says, chat, post, streamed};
use crate::reload::traffic::{Traffic, replicas};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoints_added_removed_and_replaced_fail_no_request() {
    let (dns, pods) = (NameServer::start().await, pods(6).await);
    dns.set("vllm.test", Says::addresses(ips(&pods[..2])));
    let gateway = Gateway::start(&config_over(&dns, &pods)).await;
    let traffic = Traffic::start(&gateway, "sim-model");
    traffic.reaches("a", Instant::now()).await;
    // Two more, two fewer, and all replaced at once.
    for range in [0..4, 2..4, 4..6, 0..2] {
        let now = &pods[range];
        let changed = Instant::now();
        dns.set("vllm.test", Says::addresses(ips(now)));
        become_these(&gateway, &urls(now)).await;
        for pod in now {
            traffic.reaches(&pod.state().replica, changed).await;
        }
    }
    let after = Instant::now();
    traffic.passes(after + std::time::Duration::from_millis(200)).await;
    let sent = traffic.stop().await;
    let later = sent.partition_point(|one| one.at < after);
    assert_eq!(replicas(&sent[later..]).into_iter().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(gateway.metric("spillway_retries_total", &[]).await, 0.0);
    let page = gateway.metrics_port("/metrics").await.unwrap().expect(200).text();
    assert!(!page.contains(&pods[5].url()), "series of endpoints that went:\n{page}");
    gateway.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_flaps_drops_nothing() {
    let (dns, pods) = (NameServer::start().await, pods(2).await);
    dns.set("vllm.test", Says::addresses(ips(&pods)));
    let gateway = Gateway::start(&config_over(&dns, &pods)).await;
    let traffic = Traffic::start(&gateway, "sim-model");
    // Each is in every second answer.
    dns.set("vllm.test", Says::InTurn(ips(&pods)));
    for turn in 0..10 {
        looks(&dns, 1).await;
        assert_eq!(endpoints(&gateway).await, urls(&pods), "turn {turn}");
    }
    traffic.stop().await;
}

#[tokio::test]
async fn a_stream_keeps_its_endpoint_when_that_has_left_dns() {
    let (dns, pods) = (NameServer::start().await, pods(2).await);
    pods[1].fault(Fault { factor: 20.0, ..Fault::new(FaultKind::Slow) });
    dns.set("vllm.test", Says::addresses(ips(&pods[1..])));
    let gateway = Gateway::start(&config_over(&dns, &pods)).await;
    let mut client = gateway.h1().await;
    let response = client.send(post(CHAT, streamed("hello", 1_000))).await.unwrap();
    let mut events = Events::of(response);
    events.next().await.unwrap();
    dns.set("vllm.test", Says::addresses(ips(&pods[..1])));
    become_these(&gateway, &urls(&pods[..1])).await;
    for _ in 0..5 {
        assert_eq!(gateway.post(CHAT, chat("hello")).await.expect(200).header("x-sim-replica"), "a");
    }
    pods[1].clear();
    let (rest, end) = events.rest().await;
    assert_eq!((end, rest.last().unwrap().data.as_str()), (End::Proper, "[DONE]"));
    gateway.assert_idle().await;
}
