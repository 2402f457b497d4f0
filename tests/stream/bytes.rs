//! The bytes of a response pass unmodified, each piece at once.

use std::time::{Duration, Instant};

use crate::harness::{Answer, Client, Config, End, Events, Gateway, Scripted, config_for, noise, post, sims, streamed};

const CHAT: &str = "/v1/chat/completions";
const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n";

async fn start(endpoint: &Scripted) -> Gateway {
    Gateway::start(&Config::default().pool("main", &[]).endpoint(&endpoint.url())).await
}

async fn both(gateway: &Gateway) -> [(&'static str, Client); 2] {
    [("h1", gateway.h1().await), ("h2", gateway.h2().await)]
}

fn token(text: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
}

#[tokio::test]
async fn each_event_is_passed_on_before_the_next_one_comes() {
    let mut endpoint = Scripted::start().await;
    let gateway = start(&endpoint).await;
    for framing in ["Transfer-Encoding: chunked\r\n\r\n", "Content-Length: 100000\r\n\r\n", "Connection: close\r\n\r\n"]
    {
        for (http, mut client) in both(&gateway).await {
            let response =
                tokio::spawn(async move { (client.send(post(CHAT, streamed("hi", 9))).await.unwrap(), client) });
            let mut call = endpoint.call().await;
            let give = async |call: &mut crate::harness::Call, text: &str| {
                if framing.contains("chunked") { call.chunk(text).await } else { call.send(text).await }
            };
            call.send(format!("{HEAD}{framing}")).await;
            give(&mut call, &token("0")).await;
            let (response, _client) = response.await.unwrap();
            let mut events = Events::of(response);
            let mut slowest = Duration::ZERO;
            for number in 0..20 {
                let sent = Instant::now();
                if number > 0 {
                    give(&mut call, &token(&number.to_string())).await;
                }
                // Nothing else is sent until this one is here: a gateway that gathers events would wait for ever.
                let event = tokio::time::timeout(Duration::from_secs(5), events.next()).await;
                let event = event.unwrap_or_else(|_| panic!("{http}, {framing:?}: event {number} is kept back"));
                let event = event.unwrap_or_else(|| panic!("{http}, {framing:?}: ended before event {number}"));
                assert_eq!(event.json()["choices"][0]["delta"]["content"], number.to_string());
                slowest = slowest.max(event.at - sent);
            }
            println!("{http}, {framing:?}: slowest of 20 events {slowest:?}");
        }
    }
}

#[tokio::test]
async fn streams_of_any_form_arrive_as_they_were_sent() {
    let mut endpoint = Scripted::start().await;
    let gateway = start(&endpoint).await;
    let content = "{\"choices\":[{\"delta\":{\"content\":\"☕ é\"}}]}";
    let usage = "{\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1,\"total_tokens\":4}}";
    let mut expected = 0.0;
    for (what, stream) in [
        ("CRLF", format!("data:{content}\r\n\r\ndata:{usage}\r\n\r\ndata:[DONE]\r\n\r\n")),
        ("CR", format!("data:{content}\r\rdata:{usage}\r\rdata:[DONE]\r\r")),
        ("BOM", format!("\u{feff}data: {content}\n\ndata: {usage}\n\ndata: [DONE]\n\n")),
        ("comments", format!(": c\n\ndata: {content}\n\n:\n: keep-alive\n\ndata: {usage}\n\ndata: [DONE]\n\n")),
        ("fields", format!("id: 1\nretry: 5\nevent: x\ndata: {content}\n\ndata: {usage}\n\ndata: [DONE]\n\n")),
        ("no last blank line", format!("data: {content}\n\ndata: {usage}\n\ndata: [DONE]\n")),
    ] {
        // Pieces so small that they cut characters, line ends and `data:`; and the whole in one write.
        for size in [1, 3, stream.len()] {
            for (http, mut client) in both(&gateway).await {
                let call = tokio::spawn(async move { client.call(post(CHAT, streamed("hi", 9))).await });
                let mut endpoint_call = endpoint.call().await;
                endpoint_call.send(format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n")).await;
                for piece in stream.as_bytes().chunks(size) {
                    endpoint_call.chunk(piece).await;
                }
                endpoint_call.chunk("").await;
                let answer: Answer = call.await.unwrap();
                assert_eq!(answer.text(), stream, "{what}, {http}, pieces of {size}");
                expected += 3.0;
            }
        }
        gateway.assert_idle().await;
        let prompt_tokens = gateway.metric("spillway_tokens_total", &[("kind", "prompt")]).await;
        assert_eq!(prompt_tokens, expected, "{what}: usage is read whatever the form");
    }
    gateway.assert_idle().await;
}

#[tokio::test]
async fn a_sims_stream_is_whole_for_h1_and_h2_clients() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let (mut texts, mut count) = (Vec::new(), 0);
    for (http, mut client) in both(&gateway).await {
        let mut events = Events::of(client.send(post(CHAT, streamed("tell me", 200))).await.unwrap());
        let (all, end) = events.rest().await;
        assert_eq!(end, End::Proper, "{http}");
        assert_eq!(all.last().unwrap().data, "[DONE]", "{http}");
        let content =
            |event: &crate::harness::Event| Some(event.json()["choices"][0]["delta"]["content"].as_str()?.to_owned());
        let tokens: Vec<String> =
            all[..all.len() - 1].iter().filter_map(content).filter(|text| !text.is_empty()).collect();
        assert_eq!(tokens.len(), 200, "{http}: tokens lost");
        texts.push(tokens.concat());
        count = all.len();
    }
    assert_eq!(texts[0], texts[1], "the same prompt gives the same text");
    let mut direct = Client::h1(sims[0].addr()).await;
    let mut events = Events::of(direct.send(post(CHAT, streamed("tell me", 200))).await.unwrap());
    let (all, _) = events.rest().await;
    assert_eq!(all.len(), count, "the gateway adds no event and swallows none");
}

#[tokio::test]
async fn large_answers_arrive_whole() {
    let mut endpoint = Scripted::start().await;
    let gateway = start(&endpoint).await;
    let body = noise(5_000_000, 3);
    for (http, mut client) in both(&gateway).await {
        let call = tokio::spawn(async move { client.call(post("/v1/embeddings", streamed("hi", 1))).await });
        let mut endpoint_call = endpoint.call().await;
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000000\r\n\r\n";
        endpoint_call.send(head).await;
        endpoint_call.send(&body).await;
        let answer = call.await.unwrap().expect(200);
        assert!(answer.body == body, "{http}: {} bytes, or others", answer.body.len());
        assert_eq!(answer.header("content-length"), "5000000", "{http}");
    }
    gateway.assert_idle().await;
}
