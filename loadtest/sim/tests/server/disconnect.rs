//! A client that goes away takes its generation with it.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use spillway_sim::{Fault, FaultKind};
use tokio::net::TcpStream;

use crate::client::{STREAM, chat, client, raw_post, read_until, request, start, start_slow, until};

#[tokio::test]
async fn closing_an_h1_connection_in_mid_stream_aborts_at_once() {
    let server = start_slow().await;
    let mut stream = raw_post(server.addr(), "/v1/chat/completions", &chat(10_000, STREAM)).await;
    read_until(&mut stream, "finish_reason").await;
    assert_eq!(server.state().running, 1);
    drop(stream);
    let state = until(&server, "abort", |state| state.active.is_empty()).await;
    assert_eq!((state.aborted, state.blocks_free), (1, state.blocks_total), "its blocks are free");
    until(&server, "end of the exchange", |state| state.in_progress == 0).await;
    assert_eq!(server.last()[0].ended, "aborted");
}

#[tokio::test]
async fn closing_an_h1_connection_before_the_reply_aborts_a_plain_request() {
    let server = start_slow().await;
    let stream = raw_post(server.addr(), "/v1/chat/completions", &chat(10_000, "")).await;
    until(&server, "start", |state| state.running == 1).await;
    drop(stream);
    until(&server, "abort", |state| state.aborted == 1 && state.active.is_empty()).await;
}

#[tokio::test]
async fn resetting_an_h2_stream_aborts_it_and_spares_its_neighbour() {
    let server = start_slow().await;
    let io = TokioIo::new(TcpStream::connect(server.addr()).await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let call = |tokens, rest| {
        let body = Full::new(Bytes::from(chat(tokens, rest)));
        Request::post(format!("{}/v1/chat/completions", server.url())).body(body).unwrap()
    };
    let mut first = sender.send_request(call(10_000, STREAM)).await.unwrap();
    let mut second = sender.send_request(call(10_000, STREAM)).await.unwrap();
    assert_eq!(first.version(), Version::HTTP_2);
    first.body_mut().frame().await.unwrap().unwrap();
    second.body_mut().frame().await.unwrap().unwrap();
    let waiting = sender.send_request(call(10_000, ""));
    until(&server, "all three", |state| state.running == 3).await;
    drop(first);
    until(&server, "abort of a stream", |state| state.aborted == 1 && state.running == 2).await;
    drop(waiting);
    until(&server, "abort of a plain request", |state| state.aborted == 2 && state.running == 1).await;
    second.body_mut().frame().await.unwrap().expect("the neighbour's stream goes on");
}

#[tokio::test]
async fn a_client_that_leaves_a_hanging_server_leaves_nothing_behind() {
    let server = start().await;
    server.fault(Fault::new(FaultKind::Hang));
    let stream = raw_post(server.addr(), "/v1/chat/completions", &chat(4, "")).await;
    until(&server, "arrival", |state| state.in_progress == 1).await;
    drop(stream);
    until(&server, "end", |state| state.in_progress == 0 && state.connections_open == 0).await;
    assert_eq!(server.state().tokens_generated, 0, "a hanging server generates nothing");
}

#[tokio::test]
async fn a_dropped_server_frees_its_port_and_its_clients() {
    let server = start_slow().await;
    let address = server.addr();
    let mut stream = raw_post(address, "/v1/chat/completions", &chat(10_000, STREAM)).await;
    read_until(&mut stream, "finish_reason").await;
    server.shutdown().await;
    let (_, end) = crate::client::read_to_end(&mut stream).await;
    assert!(end.is_err(), "a stopped server resets its connections");
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn many_streams_at_once_all_end_and_leave_an_idle_engine() {
    let server = start().await;
    let client = client(Version::HTTP_11);
    let calls: Vec<_> = (0..60)
        .map(|index| {
            let body = json!({"prompt": format!("{index} and more"), "max_tokens": 20, "stream": true}).to_string();
            let call = request(hyper::Method::POST, &format!("{}/v1/completions", server.url()), body);
            let client = client.clone();
            tokio::spawn(async move { crate::client::collect(client.request(call).await.unwrap()).await.unwrap() })
        })
        .collect();
    for call in calls {
        assert!(call.await.unwrap().text().ends_with("data: [DONE]\n\n"));
    }
    let state = until(&server, "idle", |state| state.in_progress == 0).await;
    assert_eq!((state.completed, state.tokens_generated, state.aborted), (60, 1_200, 0));
    assert_eq!(state.blocks_free, state.blocks_total);
}
