//! Kept connections that their server has closed: nobody's fault, and nobody's error.

use std::time::Duration;

use spillway_sim::{Fault, FaultKind};

use crate::harness::{
    Answer, Client, ENDPOINT_HTTP, Gateway, calls, chat, config_for, eventually, hash, json_of_size, post, record_of,
    sims, streamed,
};

const CHAT: &str = "/v1/chat/completions";

/// Asks until the gateway has a connection to its endpoint that it uses again.
async fn keep_a_connection(client: &mut Client) {
    eventually("a connection is kept", async || {
        let answer = client.call(post(CHAT, chat("warm"))).await.expect(200);
        (answer.header("x-sim-connection-requests") != "1").then_some(())
    })
    .await;
}

#[tokio::test]
async fn servers_that_close_idle_connections_are_no_trouble() {
    for http in ENDPOINT_HTTP {
        let sims = sims(1).await;
        let gateway = Gateway::start(&config_for(&sims).with(http)).await;
        sims[0].fault(Fault { ms: Some(50), ..Fault::new(FaultKind::CloseIdle) });
        let mut client = gateway.h1().await;
        let mut random = fastrand::Rng::with_seed(1);
        for number in 0..40 {
            // Around the moment at which the server closes: before it, after it, and across it.
            tokio::time::sleep(Duration::from_millis(random.u64(35..60))).await;
            let answer = client.call(post(CHAT, chat("hi"))).await;
            assert_eq!(answer.status, 200, "{http}, request {number}: {}", answer.text());
        }
        gateway.assert_idle().await;
    }
}

#[tokio::test]
async fn servers_that_close_after_each_stream_are_no_trouble() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    sims[0].fault(Fault::new(FaultKind::CloseAfterStream));
    let mut client = gateway.h1().await;
    for number in 0..60 {
        let answer = client.call(post(CHAT, streamed("hi", 2))).await;
        assert_eq!(answer.status, 200, "request {number}: {}", answer.text());
        assert!(answer.text().ends_with("data: [DONE]\n\n"), "request {number}: {}", answer.text());
        assert!(!answer.text().contains("error"), "request {number}: {}", answer.text());
    }
    gateway.assert_idle().await;
}

#[tokio::test]
async fn a_reset_on_a_kept_connection_is_tried_again_on_a_fresh_one() {
    for http in ENDPOINT_HTTP {
        // One endpoint: there is nowhere else to go.
        let sims = sims(1).await;
        let gateway = Gateway::start(&config_for(&sims).with(http).with("retries: {attempts: 1}")).await;
        let mut client = gateway.h1().await;
        let mut stale = 0.0;
        for early in [false, true] {
            for size in [200, 200_000, 20 << 20] {
                let body = json_of_size(size);
                keep_a_connection(&mut client).await;
                sims[0].fault(Fault { reused: true, early, count: Some(1), ..Fault::new(FaultKind::Reset) });
                let answer = client.call(post(CHAT, body.clone())).await;
                let what = format!("{size} bytes, early: {early}");
                assert_eq!(answer.status, 200, "{what}: {}", answer.text());
                assert_eq!(answer.header("x-sim-body-xxh3"), hash(&body), "{what}");
                assert_eq!(record_of(&sims, &answer).connection_requests, 1, "{what}: not on a fresh connection");
                stale += 1.0;
                let counted = gateway.metric("spillway_retries_total", &[("reason", "stale_connection")]).await;
                assert_eq!(counted, stale, "{what}");
            }
        }
        gateway.assert_idle().await;
    }
}

#[tokio::test]
async fn a_kept_connection_that_breaks_after_the_head_was_not_stale() {
    for http in ENDPOINT_HTTP {
        // Before the first token the head is still held, and a second try would be possible: it is not this one's to have.
        for (after, status, error) in [(0, 502, "endpoint_failed"), (5, 200, "reset")] {
            let sims = sims(1).await;
            let gateway = Gateway::start(&config_for(&sims).with(http).with("retries: {attempts: 1}")).await;
            let mut client = gateway.h1().await;
            keep_a_connection(&mut client).await;
            let warm = calls(&sims).len();
            sims[0].fault(Fault { reused: true, after, count: Some(1), ..Fault::new(FaultKind::CrashMidstream) });
            let mut request = post(CHAT, streamed("hi", 20));
            request.headers_mut().insert("x-request-id", "broken".parse().unwrap());
            let _ = Answer::read(client.send(request).await.unwrap()).await;
            let line = gateway.logged("broken").await;
            assert_eq!((&line["status"], &line["error"]), (&status.into(), &error.into()), "{http}: {line}");
            assert_eq!(calls(&sims).len() - warm, 1, "{http}, after {after}: generated twice: {line}");
            gateway.assert_idle().await;
        }
    }
}

#[tokio::test]
async fn a_restarted_server_is_no_trouble() {
    for http in ENDPOINT_HTTP {
        let sims = sims(2).await;
        let gateway = Gateway::start(&config_for(&sims).with(http)).await;
        let mut client = gateway.h1().await;
        for round in 0..5 {
            for _ in 0..6 {
                let answer = client.call(post(CHAT, chat("hi"))).await;
                assert_eq!(answer.status, 200, "round {round}: {}", answer.text());
            }
            // All connections reset at once, as when a process is replaced.
            sims[round % 2].crash(0);
        }
        gateway.assert_idle().await;
    }
}
