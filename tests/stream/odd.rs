//! Answers of a form that is allowed and rare, and answers that are none.

use spillway_sim::{Fault, FaultKind};

use crate::harness::{
    Client, Config, ENDPOINT_HTTP, Gateway, Scripted, chat, config_for, json_of_size, post, sims, streamed,
};

const CHAT: &str = "/v1/chat/completions";

async fn start(endpoint: &Scripted) -> Gateway {
    Gateway::start(&Config::default().pool("main", &[]).endpoint(&endpoint.url())).await
}

async fn both(gateway: &Gateway) -> [(&'static str, Client); 2] {
    [("h1", gateway.h1().await), ("h2", gateway.h2().await)]
}

#[tokio::test]
async fn answers_of_every_framing_arrive() {
    let mut endpoint = Scripted::start().await;
    let gateway = start(&endpoint).await;
    for (sent, status, body) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, ""),
        ("HTTP/1.1 204 No Content\r\n\r\n", 204, ""),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, ""),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx-trailer: 1\r\n\r\n", 200, "{}"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;extension=1\r\n{}\r\n0\r\n\r\n", 200, "{}"),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 200, "{}"),
        ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}", 200, "{}"),
        ("HTTP/1.0 200 OK\r\n\r\n{}", 200, "{}"),
        ("HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\n{}", 200, "{}"),
        ("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 0\r\n\r\n", 200, ""),
        ("HTTP/1.1 418 I'm a teapot\r\nContent-Length: 3\r\n\r\nno.", 418, "no."),
    ] {
        for (http, mut client) in both(&gateway).await {
            let answer = tokio::spawn(async move { client.call(post(CHAT, chat("hi"))).await });
            let mut call = endpoint.call().await;
            call.send(sent).await;
            if sent.contains("close") || sent.contains("1.0") {
                drop(call);
            }
            let answer = answer.await.unwrap();
            assert_eq!((answer.status, &*answer.text()), (status, body), "{http}, {sent:?}");
            assert!(!answer.header("x-request-id").is_empty(), "{http}, {sent:?}");
        }
    }
    gateway.assert_idle().await;
}

#[tokio::test]
async fn what_is_no_answer_gives_502() {
    let mut endpoint = Scripted::start().await;
    let gateway = start(&endpoint).await;
    let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "x".repeat(2 << 20));
    for sent in
        ["SSH-2.0-OpenSSH\r\n\r\n", "HTTP/1.1 abc\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", &endless]
    {
        for (http, mut client) in both(&gateway).await {
            let answer = tokio::spawn(async move { client.call(post(CHAT, streamed("hi", 1))).await });
            let mut call = endpoint.call().await;
            call.try_send(sent).await;
            let answer = answer.await.unwrap();
            let start = &sent[..sent.len().min(40)];
            assert_eq!(answer.status, 502, "{http}, {start:?}: {}", answer.text());
            assert_eq!(answer.json()["error"]["code"], "endpoint_failed", "{http}, {start:?}");
        }
    }
    gateway.assert_idle().await;
    // It may have been anything, a completion for one.
    let quoting: Vec<_> = gateway.log().into_iter().filter(|line| line.to_string().contains("OpenSSH")).collect();
    assert!(quoting.is_empty(), "what an endpoint sent is in the log: {quoting:?}");
}

#[tokio::test]
async fn an_answer_that_does_not_wait_for_the_whole_body_arrives() {
    for http in ENDPOINT_HTTP {
        let sims = sims(1).await;
        let gateway = Gateway::start(&config_for(&sims).with(http)).await;
        sims[0].fault(Fault { code: 413, early: true, ..Fault::new(FaultKind::Status) });
        for size in [200, 100_000, 20 << 20] {
            for (client_http, mut client) in both(&gateway).await {
                let answer = client.call(post(CHAT, json_of_size(size))).await;
                assert_eq!(answer.status, 413, "{client_http}, {http}, {size} bytes: {}", answer.text());
            }
        }
        gateway.assert_idle().await;
    }
}

#[tokio::test]
async fn a_client_of_http_1_0_gets_a_body_that_ends_with_its_connection() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let body = String::from_utf8(streamed("hi", 3).to_vec()).unwrap();
    let mut client = gateway.raw().await;
    client.send(format!("POST {CHAT} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len())).await;
    let answer = String::from_utf8(client.until_end().await).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.") && head.contains(" 200 "), "{head}");
    assert!(!head.to_ascii_lowercase().contains("transfer-encoding"), "HTTP/1.0 knows no chunks: {head}");
    assert!(body.starts_with("data: ") && body.ends_with("data: [DONE]\n\n"), "{body}");
}

#[tokio::test]
async fn bytes_after_a_request_do_not_cost_it_its_answer() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let body = String::from_utf8(chat("hi").to_vec()).unwrap();
    let request = format!("POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    // Some old clients end a body with a line end; a pipelining one sends its next request.
    for (what, after) in [("a line end", "\r\n"), ("the next request", &*request)] {
        let mut client = gateway.raw().await;
        client.send(format!("{request}{after}")).await;
        let (status, head, text) = client.answer().await;
        assert_eq!(status, 200, "{what}: {head}{text}");
    }
    gateway.assert_idle().await;
}

#[tokio::test]
async fn a_hundred_requests_share_one_h2_connection() {
    for http in ENDPOINT_HTTP {
        let sims = sims(2).await;
        let gateway = Gateway::start(&config_for(&sims).with(http)).await;
        let mut client = gateway.h2().await;
        let mut answers = Vec::new();
        for number in 0..100 {
            let body = if number % 2 == 0 { streamed("hi", 20) } else { json_of_size(1000 * number + 200) };
            let hash = crate::harness::hash(&body);
            let answer = client.start(post(CHAT, body)).await;
            answers.push((hash, answer));
        }
        for (number, (hash, answer)) in answers.into_iter().enumerate() {
            let answer = answer.await.unwrap_or_else(|error| panic!("{http}, request {number}: {error:?}"));
            let answer = crate::harness::Answer::read(answer).await.unwrap().expect(200);
            assert_eq!(answer.header("x-sim-body-xxh3"), hash, "{http}, request {number} got another's answer");
            assert!(number % 2 == 1 || answer.text().ends_with("data: [DONE]\n\n"), "{http}, request {number}");
        }
        gateway.assert_idle().await;
    }
}

#[tokio::test]
async fn the_streams_of_other_apis_are_not_judged_by_their_end() {
    let mut endpoint = Scripted::start().await;
    let gateway = start(&endpoint).await;
    let stream = "event: speech.audio.done\ndata: {\"type\":\"speech.audio.done\"}\n\n";
    for (http, mut client) in both(&gateway).await {
        let answer = tokio::spawn(async move { client.call(post("/v1/audio/speech", chat("hi"))).await });
        let mut call = endpoint.call().await;
        call.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        call.chunk(stream).await;
        call.send("0\r\n\r\n").await;
        assert_eq!(answer.await.unwrap().expect(200).text(), stream, "{http}");
    }
    assert_eq!(gateway.metric("spillway_broken_streams_total", &[]).await, 0.0);
}

/// The Responses API tells that it has begun before the prompt has been read.
#[tokio::test]
async fn prefill_is_not_measured_with_the_patience_for_a_token() {
    let mut endpoint = Scripted::start().await;
    let config = Config::default().pool("main", &[]).endpoint(&endpoint.url());
    let gateway = Gateway::start(&config.with("timeouts: {ttft: 20s, token_gap: 300ms}")).await;
    let mut client = gateway.h1().await;
    let answer = tokio::spawn(async move { client.call(post("/v1/responses", streamed("hi", 4))).await });
    let mut call = endpoint.call().await;
    call.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    call.chunk("event: response.created\ndata: {\"type\":\"response.created\"}\n\n").await;
    // The prompt takes a while: the very thing under test, not a wait for something to happen.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    call.chunk(
        "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"x\"}\n\n",
    )
    .await;
    call.chunk("event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{}}\n\n").await;
    call.send("0\r\n\r\n").await;
    let text = answer.await.unwrap().expect(200).text();
    assert!(text.ends_with("\"response\":{}}\n\n"), "{text}");
}
