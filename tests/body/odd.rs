//! Bodies and heads that are not what they should be.

use bytes::Bytes;

use crate::harness::{Gateway, calls, chat, config_for, json_of_size, post, sims};

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn what_is_not_a_json_object_is_refused() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let (cut, deep) =
        (r#"{"model":"sim-model","messages":["#, format!("{{\"model\":\"sim-model\",\"a\":{}", "[".repeat(100_000)));
    for body in ["", "{", "x", "[]", "null", "\"text\"", "{}{}", cut, &deep] {
        let answer = gateway.post(CHAT, body.to_owned()).await;
        let start = &body[..body.len().min(40)];
        assert_eq!(answer.status, 400, "{start:?} got {}", answer.text());
        assert_eq!(answer.json()["error"]["type"], "invalid_request_error", "{start:?}");
        assert!(!answer.header("x-request-id").is_empty(), "{start:?}");
    }
    assert!(calls(&sims).is_empty(), "an endpoint was asked");
    gateway.assert_idle().await;
}

#[tokio::test]
async fn anthropics_paths_report_errors_in_anthropics_shape() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let error = gateway.post("/v1/messages", "[]").await.expect(400).json();
    assert_eq!(error["type"], "error", "{error}");
    assert_eq!(error["error"]["type"], "invalid_request_error", "{error}");
}

#[tokio::test]
async fn a_refused_body_is_never_taken_for_the_next_request() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    // Wrong from the first byte, and long enough that most of it is still under way when that is noticed.
    let wrong = Bytes::from("x".repeat(2 << 20));
    let mut client = gateway.h1().await;
    assert_eq!(client.call(post(CHAT, wrong.clone())).await.status, 400);
    if client.is_open().await {
        client.call(post(CHAT, chat("after"))).await.expect(200);
    }
    let mut client = gateway.h2().await;
    assert_eq!(client.call(post(CHAT, wrong)).await.status, 400);
    client.call(post(CHAT, chat("after"))).await.expect(200);
    gateway.assert_idle().await;
}

#[tokio::test]
async fn an_encoding_that_is_not_read_is_refused() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    for (encoding, status) in [("identity", 200), ("gzip", 415), ("foo", 415), ("gzip, gzip", 415)] {
        let mut request = post(CHAT, chat("hello"));
        request.headers_mut().insert("content-encoding", encoding.parse().unwrap());
        let answer = gateway.h1().await.call(request).await;
        assert_eq!(answer.status, status, "{encoding}: {}", answer.text());
    }
}

#[tokio::test]
async fn the_content_type_is_passed_on_and_not_asked_for() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    for kind in [None, Some("application/json; charset=utf-8"), Some("application/x-www-form-urlencoded")] {
        let mut request = post(CHAT, chat("hello"));
        request.headers_mut().remove("content-type");
        if let Some(kind) = kind {
            request.headers_mut().insert("content-type", kind.parse().unwrap());
        }
        gateway.h1().await.call(request).await.expect(200);
        let record = calls(&sims).pop().unwrap();
        let given = record.headers.iter().find(|(name, _)| name == "content-type").map(|(_, value)| value.as_str());
        assert_eq!(given, kind);
    }
}

#[tokio::test]
async fn the_endpoint_is_addressed_by_its_own_name() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let mut request = post(CHAT, chat("hello"));
    request.headers_mut().insert("host", "gateway.example".parse().unwrap());
    gateway.h1().await.call(request).await.expect(200);
    gateway.h2().await.call(post(CHAT, chat("hello"))).await.expect(200);
    for record in calls(&sims) {
        let hosts: Vec<_> = record.headers.iter().filter(|(name, _)| name == "host").map(|(_, host)| host).collect();
        assert_eq!(hosts, [&sims[0].addr().to_string()], "{record:?}");
    }
}

#[tokio::test]
async fn framing_that_two_parsers_could_read_differently_is_refused() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let body = String::from_utf8(json_of_size(200).to_vec()).unwrap();
    let chunks = format!("c8\r\n{body}\r\n0\r\n\r\n");
    for (what, headers, body) in [
        ("two framings", "Host: x\r\nContent-Length: 200\r\nTransfer-Encoding: chunked", &chunks),
        ("two lengths", "Host: x\r\nContent-Length: 200\r\nContent-Length: 201", &body),
        ("a coding before chunked", "Host: x\r\nTransfer-Encoding: gzip, chunked", &chunks),
        ("another coding", "Host: x\r\nTransfer-Encoding: xchunked", &chunks),
        ("a signed length", "Host: x\r\nContent-Length: +200", &body),
        ("no host", "Content-Length: 200", &body),
        ("a chunk that is none", "Host: x\r\nTransfer-Encoding: chunked", &body),
    ] {
        let mut client = gateway.raw().await;
        client.send(format!("POST /v1/chat/completions HTTP/1.1\r\n{headers}\r\n\r\n{body}")).await;
        let answer = String::from_utf8(client.until_end().await).unwrap();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{what}: {answer:?}");
        assert!(calls(&sims).is_empty(), "{what}: an endpoint was asked");
    }
    gateway.assert_idle().await;
}

#[tokio::test]
async fn headers_over_the_limit_are_refused() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims).limits("headers: 8KiB")).await;
    for (size, status) in [(4_000, 200), (9_000, 431)] {
        let mut request = post(CHAT, chat("hello"));
        request.headers_mut().insert("x-long", "x".repeat(size).parse().unwrap());
        gateway.h1().await.call(request).await.expect(status);
    }
}
