//! Bodies that come slowly, late, or not to their end.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};

use crate::harness::{Gateway, calls, chunked, config_for, json_of_size, sims};

const CHAT: &str = "/v1/chat/completions";

/// The start of a chunked request that never gets its end.
const OPEN: &str = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{\"\r\n";

#[tokio::test]
async fn a_body_that_stops_is_given_up() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims).limits("body_idle: 300ms")).await;
    let mut client = gateway.raw().await;
    let began = Instant::now();
    client.send(OPEN).await;
    let (status, head, body) = client.answer().await;
    assert_eq!(status, 408, "{head}{body}");
    assert!(body.contains("request_timeout"), "{body}");
    assert!(began.elapsed() >= Duration::from_millis(300), "given up after {:?}", began.elapsed());
    assert!(client.until_end().await.is_empty());

    let mut client = gateway.h2().await;
    let stalls = stream::iter([Bytes::from_static(b"{\"")]).chain(stream::pending());
    let answer = client.call(chunked(CHAT, stalls)).await.expect(408);
    assert_eq!(answer.json()["error"]["code"], "request_timeout");
    assert!(calls(&sims).is_empty(), "an endpoint was asked");
    gateway.assert_idle().await;
}

#[tokio::test]
async fn a_body_that_drips_is_given_up_when_its_time_is_over() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims).limits("body_idle: 5s").limits("body_timeout: 600ms")).await;
    let mut client = gateway.raw().await;
    let began = Instant::now();
    client.send(OPEN).await;
    let mut pace = tokio::time::interval(Duration::from_millis(20));
    // A byte every 20 ms never falls silent for long enough to be called idle.
    let drip = async {
        loop {
            pace.tick().await;
            if client.try_send("1\r\n \r\n").await.is_err() || began.elapsed() > Duration::from_millis(700) {
                break;
            }
        }
    };
    drip.await;
    let (status, head, body) = client.answer().await;
    assert_eq!(status, 408, "{head}{body}");
    assert!(calls(&sims).is_empty(), "an endpoint was asked");
    gateway.assert_idle().await;
}

#[tokio::test]
async fn a_slow_body_within_the_limits_is_served() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims).limits("body_idle: 2s")).await;
    let body = json_of_size(500);
    let parts = [body.slice(..100), body.slice(100..300), body.slice(300..)];
    let paced = stream::iter(parts).then(async |part| {
        tokio::time::sleep(Duration::from_millis(50)).await;
        part
    });
    let answer = gateway.h1().await.call(chunked(CHAT, paced)).await.expect(200);
    assert_eq!(answer.header("x-sim-body-bytes"), "500");
}

#[tokio::test]
async fn a_client_that_waits_for_100_is_told_to_go_on() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let mut client = gateway.raw().await;
    let body = json_of_size(70_000);
    let head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 70000\r\n\r\n";
    client.send(head).await;
    assert_eq!(client.head().await.0, 100);
    client.send(&body).await;
    let (status, head, text) = client.answer().await;
    assert_eq!(status, 200, "{head}{text}");
    let record = &calls(&sims)[0];
    assert_eq!(record.body_bytes, 70_000);
    assert!(record.headers.iter().all(|(name, _)| name != "expect"), "the endpoint gets the body anyway: {record:?}");
}

#[tokio::test]
async fn a_client_that_waits_for_100_with_too_much_is_refused_at_once() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims).limits("body: 1KiB")).await;
    let mut client = gateway.raw().await;
    let head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 70000\r\n\r\n";
    client.send(head).await;
    let (status, head, _) = client.answer().await;
    assert_eq!(status, 413, "{head}");
}

#[tokio::test]
async fn a_body_that_ends_before_its_length_reaches_nobody() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let mut client = gateway.raw().await;
    let start = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nx-request-id: short\r\nContent-Length: 90\r\n\r\n";
    client.send(start).await;
    client.send("{\"model\":\"sim-model\",\"messages\":[").await;
    client.half_close().await;
    client.until_end().await;
    assert_eq!(gateway.logged("short").await["status"], 499);
    assert!(calls(&sims).is_empty(), "an endpoint was asked");
    gateway.assert_idle().await;
    gateway.post(CHAT, json_of_size(200)).await.expect(200);
}
