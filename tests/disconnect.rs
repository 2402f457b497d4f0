//! A client that leaves: its generation ends at once, nothing stays counted, and the log says who left.

use std::time::{Duration, Instant};

use http::Response;
use hyper::body::Incoming;
use spillway_sim::{Fault, FaultKind, Server};

use crate::harness::{
    Client, Config, ENDPOINT_HTTP, Events, Full, Gateway, Scripted, calls, chat, config_for, eventually, post, sims,
    streamed, wait_until_quiet,
};

const CHAT: &str = "/v1/chat/completions";

/// What is promised is 100 ms; a busy machine may be late, a gateway that waits for something is later than this.
const PROMPTLY: Duration = Duration::from_secs(2);

/// Tokens that take minutes at [`slow`]'s pace.
const LONG: u32 = 5_000;

/// A sim whose tokens come some 20 ms apart.
async fn slow(http: &str) -> (Vec<Server>, Gateway) {
    let sims = sims(1).await;
    sims[0].fault(Fault { factor: 20.0, ..Fault::new(FaultKind::Slow) });
    let gateway = Gateway::start(&config_for(&sims).with(http)).await;
    (sims, gateway)
}

fn named(id: &str, body: impl Into<bytes::Bytes>) -> http::Request<crate::harness::ReqBody> {
    let mut request = post(CHAT, body);
    request.headers_mut().insert("x-request-id", id.parse().unwrap());
    request
}

async fn generating(sims: &[Server]) {
    eventually("the sim generates", async || (!sims[0].state().active.is_empty()).then_some(())).await;
}

/// Asserts all that follows when the client of request `id` has left at `left`.
async fn assert_left(id: &str, left: Instant, sims: &[Server], gateway: &Gateway) {
    wait_until_quiet(sims).await;
    let took = left.elapsed();
    println!("{id}: the endpoint was free {took:?} after the client had left");
    assert!(took < PROMPTLY, "{id}: generated for {took:?} for nobody");
    let line = gateway.logged(id).await;
    assert_eq!(line["status"], 499, "{id}: {line}");
    assert_eq!(line["error"], "client_gone", "{id}: {line}");
    gateway.assert_idle().await;
    let records = calls(sims);
    assert_eq!(records.last().map(|record| record.ended.as_str()), Some("aborted"), "{id}: {records:?}");
}

async fn first_events(client: &mut Client, id: &str) -> Events {
    let response: Response<Incoming> = client.send(named(id, streamed("hello", LONG))).await.unwrap();
    let mut events = Events::of(response);
    for _ in 0..3 {
        events.next().await.unwrap();
    }
    events
}

#[tokio::test]
async fn a_client_that_leaves_while_it_waits_for_a_whole_answer_ends_its_generation() {
    for http in ENDPOINT_HTTP {
        let (sims, gateway) = slow(http).await;
        for (id, mut client) in [("whole-h1", gateway.h1().await), ("whole-h2", gateway.h2().await)] {
            let body = String::from_utf8(streamed("hello", LONG).to_vec()).unwrap().replace("true", "false");
            let waiting = tokio::spawn(async move { client.call(named(id, body)).await });
            generating(&sims).await;
            let left = Instant::now();
            waiting.abort();
            assert_left(id, left, &sims, &gateway).await;
        }
    }
}

#[tokio::test]
async fn a_client_that_leaves_before_the_head_ends_its_request() {
    for http in ENDPOINT_HTTP {
        let sims = sims(1).await;
        let gateway = Gateway::start(&config_for(&sims).with(http)).await;
        sims[0].fault(Fault::new(FaultKind::Hang));
        for (id, mut client) in [("head-h1", gateway.h1().await), ("head-h2", gateway.h2().await)] {
            let waiting = tokio::spawn(async move { client.call(named(id, streamed("hello", LONG))).await });
            eventually("the sim has the request", async || (sims[0].state().in_progress == 1).then_some(())).await;
            let left = Instant::now();
            waiting.abort();
            assert_left(id, left, &sims, &gateway).await;
        }
    }
}

#[tokio::test]
async fn a_client_that_leaves_while_the_head_is_held_ends_its_request() {
    let mut endpoint = Scripted::start().await;
    let gateway = Gateway::start(&Config::default().pool("main", &[]).endpoint(&endpoint.url())).await;
    for (id, mut client) in [("held-h1", gateway.h1().await), ("held-h2", gateway.h2().await)] {
        let waiting = tokio::spawn(async move { client.call(named(id, streamed("hello", LONG))).await });
        let mut call = endpoint.call().await;
        call.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        waiting.abort();
        call.gone().await;
        assert_eq!(gateway.logged(id).await["status"], 499, "{id}");
        gateway.assert_idle().await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_while_its_endpoint_is_being_connected_is_forgotten() {
    let full = Full::start().await;
    let config = Config::default().pool("main", &[]).endpoint(&full.url());
    let gateway = Gateway::start(&config.with("timeouts: {connect: 500ms}").with("health: {interval: 1h}")).await;
    for (id, mut client) in [("connect-h1", gateway.h1().await), ("connect-h2", gateway.h2().await)] {
        let waiting = tokio::spawn(async move { client.call(named(id, chat("hello"))).await });
        let picked = async || (gateway.metric("spillway_in_flight", &[]).await == 1.0).then_some(());
        eventually("an endpoint is picked", picked).await;
        let left = Instant::now();
        waiting.abort();
        gateway.assert_idle().await;
        assert!(left.elapsed() < PROMPTLY, "{id}: held for {:?} after its client had left", left.elapsed());
    }
}

#[tokio::test]
async fn a_client_that_leaves_in_mid_stream_ends_its_generation() {
    for http in ENDPOINT_HTTP {
        let (sims, gateway) = slow(http).await;
        for (id, mut client) in [("stream-h1", gateway.h1().await), ("stream-h2", gateway.h2().await)] {
            let events = first_events(&mut client, id).await;
            let left = Instant::now();
            drop((events, client));
            assert_left(id, left, &sims, &gateway).await;
        }
    }
}

#[tokio::test]
async fn an_h2_client_that_resets_one_stream_keeps_the_others() {
    for http in ENDPOINT_HTTP {
        let (sims, gateway) = slow(http).await;
        let mut client = gateway.h2().await;
        let events = first_events(&mut client, "reset-one").await;
        let left = Instant::now();
        drop(events);
        assert_left("reset-one", left, &sims, &gateway).await;
        client.call(named("after", chat("still there?"))).await.expect(200);
    }
}

#[tokio::test]
async fn a_client_that_half_closes_or_resets_its_connection_has_left() {
    for http in ENDPOINT_HTTP {
        let (sims, gateway) = slow(http).await;
        let body = String::from_utf8(streamed("hello", LONG).to_vec()).unwrap();
        for (id, reset) in [("fin", false), ("rst", true)] {
            let mut client = gateway.raw().await;
            let head =
                format!("POST {CHAT} HTTP/1.1\r\nHost: x\r\nx-request-id: {id}\r\nContent-Length: {}", body.len());
            client.send(format!("{head}\r\n\r\n{body}")).await;
            assert_eq!(client.head().await.0, 200);
            let left = Instant::now();
            if reset {
                client.reset();
            } else {
                client.half_close().await;
            }
            assert_left(id, left, &sims, &gateway).await;
        }
    }
}

#[tokio::test]
async fn during_a_stream_its_endpoint_has_one_in_flight() {
    let (sims, gateway) = slow("http2: false").await;
    let mut client = gateway.h1().await;
    let events = first_events(&mut client, "one").await;
    for (phase, count) in [("prefill", 0.0), ("decode", 1.0)] {
        let labels = [("endpoint", &*sims[0].url()), ("phase", phase)];
        assert_eq!(gateway.metric("spillway_in_flight", &labels).await, count, "{phase}");
    }
    assert_eq!(gateway.metric("spillway_pool_in_flight", &[("pool", "main")]).await, 1.0);
    drop((events, client));
    gateway.assert_idle().await;
}

#[tokio::test]
async fn a_hundred_clients_that_leave_leave_nothing_behind() {
    for http in ENDPOINT_HTTP {
        let (sims, gateway) = slow(http).await;
        let mut streams = Vec::new();
        for number in 0..100 {
            let mut client = gateway.h1().await;
            if number % 2 == 0 {
                let response = client.send(post(CHAT, streamed("hello", LONG))).await.unwrap();
                streams.push((client, Some(response), None));
            } else {
                let waiting = tokio::spawn(async move {
                    let _ = client.send(post(CHAT, chat("hello"))).await;
                });
                streams.push((gateway.h1().await, None, Some(waiting)));
            }
        }
        for (_, _, waiting) in &streams {
            if let Some(waiting) = waiting {
                waiting.abort();
            }
        }
        drop(streams);
        wait_until_quiet(&sims).await;
        gateway.assert_idle().await;
        gateway.post(CHAT, chat("hello")).await.expect(200);
    }
}
