//! Clients that read slowly: their endpoint waits, the gateway's memory does not grow, and no byte is lost.

use std::time::Duration;

use crate::harness::{Answer, Config, Gateway, Scripted, noise, post, streamed};

/// Far beyond what sockets and windows on the way hold.
const SIZE: usize = 64 << 20;

/// Until nothing moves any more: everything on the way is full well before.
const A_WHILE: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_client_that_reads_late_holds_its_endpoint_back_and_gets_every_byte() {
    let mut endpoint = Scripted::start().await;
    let config = Config::default().pool("main", &[]).endpoint(&endpoint.url());
    // Shorter than the client's pause: what the client does is not the endpoint's silence.
    let gateway = Gateway::start(&config.with("timeouts: {token_gap: 400ms}")).await;
    let body = noise(SIZE, 5);
    for (http, mut client) in [("h1", gateway.h1().await), ("h2", gateway.h2().await)] {
        let before = gateway.resident_bytes();
        let response =
            tokio::spawn(
                async move { (client.send(post("/v1/embeddings", streamed("hi", 1))).await.unwrap(), client) },
            );
        let mut call = endpoint.call().await;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {SIZE}\r\n\r\n");
        call.send(head).await;
        let mut sending = Box::pin(call.send(&body));
        let early = tokio::time::timeout(A_WHILE, &mut sending).await;
        assert!(
            early.is_err(),
            "{http}: all of {SIZE} bytes were taken off the endpoint for a client that reads nothing"
        );
        let grown = gateway.resident_bytes().saturating_sub(before) >> 20;
        assert!(grown < 32, "{http}: {grown} MiB held for a client that reads nothing");
        let (response, _client) = response.await.unwrap();
        let reading = tokio::spawn(Answer::read(response));
        sending.await;
        let answer = reading.await.unwrap().unwrap_or_else(|error| panic!("{http}: broke off: {error:?}"));
        assert!(answer.body == body, "{http}: {} bytes, or others", answer.body.len());
    }
    gateway.assert_idle().await;
}
