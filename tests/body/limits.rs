//! Limits on size and on memory: exact, the same for every framing, and refused before anything is sent on.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream;
use spillway_sim::{Fault, FaultKind};

use crate::harness::{Gateway, calls, chunked, config_for, eventually, json_of_size, post, sims, wait_until_quiet};

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn the_size_limit_is_exact_for_every_framing() {
    const LIMIT: usize = 1024;
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims).limits("body: 1024")).await;
    for (size, status) in [(LIMIT - 1, 200), (LIMIT, 200), (LIMIT + 1, 413)] {
        let body = json_of_size(size);
        for declared in [true, false] {
            for http in ["h1", "h2"] {
                let before = calls(&sims).len();
                let request =
                    if declared { post(CHAT, body.clone()) } else { chunked(CHAT, stream::iter([body.clone()])) };
                let mut client = if http == "h1" { gateway.h1().await } else { gateway.h2().await };
                let answer = client.call(request).await;
                let what = format!("{size} bytes, {http}, declared: {declared}");
                assert_eq!(answer.status, status, "{what}: {}", answer.text());
                assert_eq!(calls(&sims).len() - before, usize::from(status == 200), "{what}: calls of the endpoint");
                if status == 413 {
                    assert_eq!(answer.json()["error"]["code"], "request_too_large", "{what}");
                }
            }
        }
    }
    gateway.assert_idle().await;
}

#[tokio::test]
async fn a_gigabyte_is_refused_when_it_is_declared_not_when_it_has_come() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let mut client = gateway.raw().await;
    client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n").await;
    let (status, head, body) = client.answer().await;
    assert_eq!(status, 413, "{head}{body}");
    assert!(body.contains("request_too_large"), "{body}");
    assert!(head.contains("x-request-id"), "{head}");
    assert!(client.until_end().await.is_empty(), "the rest of the body must not be taken for a request");
    assert!(calls(&sims).is_empty(), "an endpoint was asked");
    gateway.assert_idle().await;
}

#[tokio::test]
async fn a_body_without_end_is_cut_off_at_the_limit() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims).limits("body: 256KiB")).await;
    let mut client = gateway.raw().await;
    let start = b"{\"model\":\"sim-model\",\"padding\":\"";
    client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    client.send(format!("{:x}\r\n{}\r\n", start.len(), String::from_utf8_lossy(start))).await;
    let chunk = format!("4000\r\n{}\r\n", "x".repeat(0x4000));
    // As much as the limit and a chunk; then the gateway must have had enough.
    for _ in 0..=16 {
        if client.try_send(&chunk).await.is_err() {
            break;
        }
    }
    let (status, head, body) = client.answer().await;
    assert_eq!(status, 413, "{head}{body}");
    client.until_end().await;
    assert!(calls(&sims).is_empty(), "an endpoint was asked");
    gateway.assert_idle().await;
}

#[tokio::test]
async fn a_body_for_which_there_is_no_memory_is_refused_and_told_when_to_come_back() {
    let sims = sims(1).await;
    let config = config_for(&sims).limits("body: 64KiB").limits("body_memory: 128KiB");
    let gateway = Gateway::start(&config).await;
    sims[0].fault(Fault::new(FaultKind::Hang));
    let body = json_of_size(60 << 10);
    let mut holding = Vec::new();
    for _ in 0..2 {
        let mut client = gateway.h1().await;
        let body = body.clone();
        holding.push(tokio::spawn(async move { client.call(post(CHAT, body)).await }));
    }
    eventually("two requests hang at the endpoint", async || (calls(&sims).len() == 2).then_some(())).await;

    for (what, longest, request) in [
        ("declared", Duration::from_secs(3), post(CHAT, body.clone())),
        ("not declared", Duration::from_secs(1), chunked(CHAT, stream::iter([body.clone()]))),
    ] {
        let began = Instant::now();
        let answer = gateway.h1().await.call(request).await.expect(503);
        assert_eq!(answer.json()["error"]["code"], "memory", "{what}");
        assert!(!answer.header("retry-after").is_empty(), "{what}: {:?}", answer.headers);
        assert!(began.elapsed() < longest, "{what}: refused only after {:?}", began.elapsed());
    }
    assert_eq!(calls(&sims).len(), 2, "a refused body reached the endpoint");

    sims[0].clear();
    for one in holding {
        one.await.unwrap().expect(200);
    }
    gateway.assert_idle().await;
    gateway.post(CHAT, body).await.expect(200);
    wait_until_quiet(&sims).await;
}

#[tokio::test]
async fn a_waiting_body_gets_the_memory_that_becomes_free() {
    let sims = sims(1).await;
    let config = config_for(&sims).limits("body: 64KiB").limits("body_memory: 64KiB");
    let gateway = Gateway::start(&config).await;
    sims[0].fault(Fault { count: Some(1), ..Fault::new(FaultKind::Hang) });
    let body = json_of_size(60 << 10);
    let (mut first, mut second) = (gateway.h1().await, gateway.h1().await);
    let holding = tokio::spawn({
        let body = body.clone();
        async move { first.call(post(CHAT, body)).await }
    });
    eventually("the first request hangs at the endpoint", async || (calls(&sims).len() == 1).then_some(())).await;
    let waiting = tokio::spawn(async move { second.call(post(CHAT, body)).await });
    let both = async || (gateway.metric("spillway_active_requests", &[]).await == 2.0).then_some(());
    eventually("both requests are with the gateway", both).await;
    sims[0].clear();
    holding.await.unwrap().expect(200);
    waiting.await.unwrap().expect(200);
    gateway.assert_idle().await;
}

#[tokio::test]
async fn memory_is_bounded_by_its_limit_not_by_what_clients_send() {
    let sims = sims(1).await;
    let config = config_for(&sims).limits("body: 8MiB").limits("body_memory: 32MiB");
    let gateway = Gateway::start(&config).await;
    sims[0].fault(Fault::new(FaultKind::Hang));
    let body: Bytes = json_of_size(8_000_000);
    let before = gateway.resident_bytes();
    let senders: Vec<_> = (0..24)
        .map(|_| {
            let (address, body) = (gateway.addr(), body.clone());
            tokio::spawn(async move { crate::harness::Client::h1(address).await.call(post(CHAT, body)).await.status })
        })
        .collect();
    let refused =
        async || (gateway.metric("spillway_refused_total", &[("reason", "memory")]).await >= 20.0).then_some(());
    eventually("all that do not fit are refused", refused).await;
    let grown = gateway.resident_bytes().saturating_sub(before) >> 20;
    // Four bodies, and as much again for sockets, allocator and threads.
    assert!(grown < 100, "192 MB were sent, 32 MiB allowed, {grown} MiB taken");
    sims[0].clear();
    let mut served = 0;
    for sender in senders {
        served += u32::from(sender.await.unwrap() == 200);
    }
    assert_eq!(served, 4, "as many as fit at once");
    gateway.assert_idle().await;
}
