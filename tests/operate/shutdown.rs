//! The end of the process: readiness fails first, requests finish, and not a moment is waited for nothing.

use std::time::{Duration, Instant};

use spillway_sim::{Fault, FaultKind, Server};

use crate::harness::{
    Client, End, Events, Gateway, chat, config_for, eventually, post, sims, streamed, wait_until_quiet,
};

const CHAT: &str = "/v1/chat/completions";

/// A stream under way: its connection must be kept beside it.
async fn stream(gateway: &Gateway, sims: &[Server], tokens: u32) -> (Client, Events) {
    sims[0].fault(Fault { factor: 20.0, ..Fault::new(FaultKind::Slow) });
    let mut client = gateway.h1().await;
    let mut events = Events::of(client.send(post(CHAT, streamed("hello", tokens))).await.unwrap());
    events.next().await.unwrap();
    (client, events)
}

async fn is_not_ready(gateway: &Gateway) {
    let failing = async || {
        let answer = gateway.metrics_port("/readyz").await?;
        (answer.status == 503).then(|| answer.text())
    };
    let why = eventually("readiness fails", failing).await;
    assert!(why.contains("shutting down"), "{why}");
}

#[tokio::test]
async fn on_sigterm_readiness_fails_first_and_the_process_ends_with_its_last_stream() {
    let sims = sims(1).await;
    let mut gateway = Gateway::start(&config_for(&sims).server("drain: 30s")).await;
    // Five seconds and more: longer than the three for which load balancers are given notice.
    let (client, mut events) = stream(&gateway, &sims, 250).await;
    gateway.signal("TERM");
    is_not_ready(&gateway).await;
    gateway.metrics_port("/healthz").await.unwrap().expect(200);
    gateway.post(CHAT, chat("load balancers need a moment to notice")).await.expect(200);
    let (rest, end) = events.rest().await;
    let ended = Instant::now();
    assert_eq!((end, rest.last().unwrap().data.as_str()), (End::Proper, "[DONE]"), "the stream was cut");
    drop(client);
    let status = gateway.ended().await;
    assert_eq!(status.code(), Some(0));
    assert!(ended.elapsed() < Duration::from_secs(5), "ended {:?} after its last request", ended.elapsed());
    let lines = gateway.log();
    assert_eq!(lines.iter().filter(|line| line["status"] == 200).count(), 2, "the log is whole: {lines:#?}");
}

#[tokio::test]
async fn an_idle_process_ends_soon_after_sigterm() {
    let sims = sims(1).await;
    let mut gateway = Gateway::start(&config_for(&sims).server("drain: 10s")).await;
    let mut kept_alive = gateway.h1().await;
    kept_alive.call(post(CHAT, chat("hello"))).await.expect(200);
    gateway.signal("TERM");
    let signalled = Instant::now();
    assert_eq!(gateway.ended().await.code(), Some(0));
    assert!(signalled.elapsed() < Duration::from_secs(6), "an idle connection held it for {:?}", signalled.elapsed());
}

#[tokio::test]
async fn a_stream_longer_than_the_drain_time_does_not_hold_the_process() {
    let sims = sims(1).await;
    let mut gateway = Gateway::start(&config_for(&sims).server("drain: 1s")).await;
    let (_client, mut events) = stream(&gateway, &sims, 10_000).await;
    gateway.signal("TERM");
    let signalled = Instant::now();
    gateway.ended().await;
    let took = signalled.elapsed();
    assert!(
        (Duration::from_millis(900)..Duration::from_secs(8)).contains(&took),
        "drained for {took:?} in place of 1 s"
    );
    let (_, end) = events.rest().await;
    assert_eq!(end, End::Broken, "a cut stream must not look whole");
    wait_until_quiet(&sims).await;
}

#[tokio::test]
async fn sigint_ends_the_process_at_once() {
    let sims = sims(1).await;
    let mut gateway = Gateway::start(&config_for(&sims).server("drain: 30s")).await;
    let (_client, mut events) = stream(&gateway, &sims, 10_000).await;
    gateway.signal("INT");
    let signalled = Instant::now();
    let status = gateway.ended().await;
    assert!(signalled.elapsed() < Duration::from_secs(5), "took {:?}", signalled.elapsed());
    assert_eq!(status.code(), Some(0));
    assert_eq!(events.rest().await.1, End::Broken);
    wait_until_quiet(&sims).await;
}

#[tokio::test]
async fn sigint_cuts_a_drain_short() {
    let sims = sims(1).await;
    let mut gateway = Gateway::start(&config_for(&sims).server("drain: 30s")).await;
    let (_client, _events) = stream(&gateway, &sims, 10_000).await;
    gateway.signal("TERM");
    is_not_ready(&gateway).await;
    gateway.signal("INT");
    let signalled = Instant::now();
    gateway.ended().await;
    assert!(signalled.elapsed() < Duration::from_secs(5), "took {:?}", signalled.elapsed());
}
