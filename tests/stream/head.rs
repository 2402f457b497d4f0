//! The head of a response: when it goes out and what is in it.

use std::time::Duration;

use crate::harness::{
    Config, Events, Gateway, Scripted, chat, config_for, eventually, get, post, record_of, sims, streamed,
};

const CHAT: &str = "/v1/chat/completions";
const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const EVENT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";

/// For what must not happen: an idle gateway passes a head on within a millisecond.
const A_WHILE: Duration = Duration::from_millis(300);

#[tokio::test]
async fn the_head_waits_for_the_first_byte_of_the_body() {
    let mut endpoint = Scripted::start().await;
    let gateway = Gateway::start(&Config::default().pool("main", &[]).endpoint(&endpoint.url())).await;
    for mut client in [gateway.h1().await, gateway.h2().await] {
        let mut response =
            tokio::spawn(async move { (client.send(post(CHAT, streamed("hi", 9))).await.unwrap(), client) });
        let mut call = endpoint.call().await;
        call.send(STREAM).await;
        let early = tokio::time::timeout(A_WHILE, &mut response).await;
        assert!(early.is_err(), "a head that has gone out ends all retries");
        call.chunk(EVENT).await;
        let (response, _client) = response.await.unwrap();
        assert!(Events::of(response).next().await.is_some());
    }
}

#[tokio::test]
async fn the_head_does_not_wait_where_it_is_told_not_to() {
    let mut endpoint = Scripted::start().await;
    let config = Config::default().pool("main", &[]).endpoint(&endpoint.url()).with("hold_head: false");
    let gateway = Gateway::start(&config).await;
    for mut client in [gateway.h1().await, gateway.h2().await] {
        let response = tokio::spawn(async move { (client.send(post(CHAT, streamed("hi", 9))).await.unwrap(), client) });
        let mut call = endpoint.call().await;
        call.send(STREAM).await;
        let (response, _client) = tokio::time::timeout(Duration::from_secs(5), response).await.unwrap().unwrap();
        call.chunk(EVENT).await;
        assert!(Events::of(response).next().await.is_some());
    }
}

#[tokio::test]
async fn headers_of_the_connection_stay_on_it() {
    let mut endpoint = Scripted::start().await;
    let gateway = Gateway::start(&Config::default().pool("main", &[]).endpoint(&endpoint.url())).await;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\
        Connection: keep-alive, x-hop\r\nKeep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nX-Hop: 1\r\n\
        X-Accel-Buffering: no\r\nCache-Control: no-cache\r\n\r\n";
    for (http, mut client) in [("h1", gateway.h1().await), ("h2", gateway.h2().await)] {
        let call = tokio::spawn(async move { client.call(post(CHAT, streamed("hi", 9))).await });
        let mut endpoint_call = endpoint.call().await;
        endpoint_call.send(head).await;
        for _ in 0..5 {
            endpoint_call.chunk(EVENT).await;
        }
        endpoint_call.chunk("data: [DONE]\n\n").await;
        endpoint_call.chunk("").await;
        let answer = call.await.unwrap().expect(200);
        assert_eq!(answer.text(), format!("{}data: [DONE]\n\n", EVENT.repeat(5)), "{http}");
        assert_eq!(answer.header("x-accel-buffering"), "no", "{http}");
        assert_eq!(answer.header("cache-control"), "no-cache", "{http}");
        for name in ["keep-alive", "proxy-connection", "x-hop", "upgrade", "te"] {
            assert!(!answer.headers.contains_key(name), "{http}: {name} was passed on: {:?}", answer.headers);
        }
        if http == "h2" {
            for name in ["transfer-encoding", "connection"] {
                assert!(!answer.headers.contains_key(name), "{name} is not for HTTP/2: {:?}", answer.headers);
            }
        }
    }
}

#[tokio::test]
async fn every_response_has_a_request_id() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let mut given = post(CHAT, chat("hello"));
    given.headers_mut().insert("x-request-id", "mine-1".parse().unwrap());
    let answer = gateway.h1().await.call(given).await.expect(200);
    assert_eq!(answer.header("x-request-id"), "mine-1");
    assert_eq!(answer.json()["id"], "chatcmpl-mine-1", "the server gets the same one");
    assert_eq!(gateway.logged("mine-1").await["status"], 200);

    for bad in ["", "with space", &"x".repeat(500)] {
        let mut request = post(CHAT, chat("hello"));
        request.headers_mut().insert("x-request-id", bad.parse().unwrap());
        let answer = gateway.h1().await.call(request).await.expect(200);
        let id = answer.header("x-request-id");
        assert!(!id.is_empty() && id.len() <= 128 && id != bad, "{bad:?} was answered with {id:?}");
        let received = record_of(&sims, &answer);
        let sent_on: Vec<_> = received.headers.iter().filter(|(name, _)| name == "x-request-id").collect();
        assert_eq!(sent_on.len(), 1, "{received:?}");
        assert_eq!(sent_on[0].1, id);
    }

    let mut ids = std::collections::HashSet::new();
    for http in ["h1", "h2"] {
        for request in [
            post(CHAT, streamed("hi", 2)),
            post(CHAT, chat("hi")),
            post(CHAT, r#"{"model":"nope"}"#),
            post("/nowhere", "{}"),
            get("/v1/models"),
            get(CHAT),
            post(CHAT, "{"),
        ] {
            let what = format!("{http} {}", request.uri());
            let mut client = if http == "h1" { gateway.h1().await } else { gateway.h2().await };
            let answer = client.call(request).await;
            let id = answer.header("x-request-id").to_owned();
            assert!(!id.is_empty(), "{what} was answered {} without", answer.status);
            assert!(ids.insert(id), "{what}: the id was used before");
        }
    }
    // A log line each, and no two for one request.
    let lines = async || (gateway.log().len() == 4 + ids.len()).then_some(());
    eventually("every request has its line in the access log", lines).await;
}

#[tokio::test]
async fn a_connection_is_kept_or_its_end_announced() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let mut client = gateway.raw().await;
    for (path, body) in
        [(CHAT, "{"), ("/nowhere", "{}"), (CHAT, r#"{"model":"nope"}"#), ("/v1/models", "{}"), (CHAT, "[]")]
    {
        let length = body.len();
        client.send(format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}")).await;
        let (status, head, _) = client.answer().await;
        assert!((400..500).contains(&status), "{path}: {head}");
        if head.to_ascii_lowercase().contains("connection: close") {
            assert!(client.until_end().await.is_empty(), "{path}");
            client = gateway.raw().await;
        }
    }
}

#[tokio::test]
async fn headers_of_the_clients_connection_stay_on_it() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let body = String::from_utf8(chat("hi").to_vec()).unwrap();
    let mut client = gateway.raw().await;
    let hop =
        "Connection: keep-alive, x-hop\r\nKeep-Alive: 5\r\nProxy-Connection: x\r\nTE: trailers\r\nX-Hop: 1\r\nX-End: 2";
    let length = body.len();
    client.send(format!("POST {CHAT} HTTP/1.1\r\nHost: x\r\n{hop}\r\nContent-Length: {length}\r\n\r\n{body}")).await;
    assert_eq!(client.answer().await.0, 200);
    let record = crate::harness::calls(&sims).pop().unwrap();
    let names: Vec<&str> = record.headers.iter().map(|(name, _)| name.as_str()).collect();
    for name in ["keep-alive", "proxy-connection", "te", "x-hop"] {
        assert!(!names.contains(&name), "{name} was passed on: {names:?}");
    }
    assert!(names.contains(&"x-end"), "{names:?}");
}
