//! Each fault does what it says, and ends.

use std::time::{Duration, Instant};

use hyper::{Method, StatusCode, Version};
use spillway_sim::{Config, Fault, FaultKind, Flavor, Server};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::client::{
    STREAM, chat, client, collect, get, post, raw_post, read_to_end, read_until, request, start, until, within,
};

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn a_hang_lasts_until_it_is_cleared_and_then_the_request_goes_on() {
    let server = start().await;
    server.fault(Fault::new(FaultKind::Hang));
    let call = post(&server, CHAT, chat(2, ""));
    let clear = async {
        until(&server, "arrival", |state| state.in_progress == 1).await;
        assert_eq!(server.state().running, 0, "a hanging request must not reach the engine");
        server.clear();
    };
    let (reply, ()) = tokio::join!(call, clear);
    assert_eq!(reply.status, StatusCode::OK);
}

#[tokio::test]
async fn a_status_strikes_as_often_as_asked_with_its_headers() {
    let server = start().await;
    let retry_after = Some("2".to_owned());
    server.fault(Fault { code: 429, retry_after, count: Some(2), ..Fault::new(FaultKind::Status) });
    for _ in 0..2 {
        let reply = post(&server, CHAT, chat(1, "")).await;
        assert_eq!((reply.status, reply.header("retry-after")), (StatusCode::TOO_MANY_REQUESTS, "2"));
        assert_eq!(reply.json()["error"]["code"], 429);
    }
    assert_eq!(post(&server, CHAT, chat(1, "")).await.status, StatusCode::OK);
    assert_eq!((server.state().faults.len(), server.state().faulted), (0, 2));
}

#[tokio::test]
async fn a_chance_of_one_half_strikes_about_half_the_time() {
    let server = start().await;
    server.fault(Fault { code: 500, probability: Some(0.5), ..Fault::new(FaultKind::Status) });
    let mut struck = 0;
    for _ in 0..100 {
        struck += u32::from(post(&server, CHAT, chat(1, "")).await.status == StatusCode::INTERNAL_SERVER_ERROR);
    }
    assert!((30..=70).contains(&struck), "{struck} of 100 at one half");
}

#[tokio::test]
async fn faults_leave_health_and_models_alone_unless_the_path_names_them() {
    let server = start().await;
    server.fault(Fault::new(FaultKind::Status));
    assert_eq!(get(&server, "/health").await.status, StatusCode::OK);
    assert_eq!(get(&server, "/v1/models").await.status, StatusCode::OK);
    server.fault(Fault { path: Some("/".to_owned()), ..Fault::new(FaultKind::Status) });
    assert_eq!(get(&server, "/v1/models").await.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(get(&server, "/admin/state").await.status, StatusCode::OK, "the admin surface stays in reach");
}

#[tokio::test]
async fn a_reset_comes_before_the_head_and_can_spare_fresh_connections() {
    let server = start().await;
    server.fault(Fault { reused: true, ..Fault::new(FaultKind::Reset) });
    let mut stream = raw_post(server.addr(), CHAT, &chat(1, "")).await;
    read_until(&mut stream, "\"metrics\":null}").await;
    let body = chat(1, "");
    let again = format!("POST {CHAT} HTTP/1.1\r\nhost: sim\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(again.as_bytes()).await.unwrap();
    let (said, end) = read_to_end(&mut stream).await;
    assert_eq!((said.as_str(), end.map_err(|error| error.kind())), ("", Err(std::io::ErrorKind::ConnectionReset)));
}

#[tokio::test]
async fn a_reset_of_h2_fails_the_request_without_a_head() {
    let server = start().await;
    server.fault(Fault::new(FaultKind::Reset));
    let call = request(Method::POST, &format!("{}{CHAT}", server.url()), chat(1, ""));
    assert!(within(client(Version::HTTP_2).request(call)).await.is_err());
    until(&server, "end", |state| state.in_progress == 0).await;
}

#[tokio::test]
async fn a_crash_in_mid_stream_delivers_the_tokens_before_it_and_aborts_the_rest() {
    let server = start().await;
    server.fault(Fault { after: 3, ..Fault::new(FaultKind::CrashMidstream) });
    let mut stream = raw_post(server.addr(), CHAT, &chat(500, STREAM)).await;
    let (said, end) = read_to_end(&mut stream).await;
    assert_eq!(said.matches("data: {").count(), 4, "role and three tokens: {said}");
    assert_eq!(end.map_err(|error| error.kind()), Err(std::io::ErrorKind::ConnectionReset));
    until(&server, "abort", |state| state.active.is_empty() && state.aborted == 1).await;
}

#[tokio::test]
async fn a_crash_with_restart_loses_the_cache_and_every_connection() {
    let server = start().await;
    let body = format!(r#"{{"prompt":"{}","max_tokens":1}}"#, "x".repeat(400));
    post(&server, "/v1/completions", &body).await;
    let mut idle = raw_post(server.addr(), CHAT, &chat(1, "")).await;
    read_until(&mut idle, "\"metrics\":null}").await;
    server.fault(Fault { restart: true, count: Some(1), ..Fault::new(FaultKind::CrashMidstream) });
    let mut stream = raw_post(server.addr(), CHAT, &chat(500, STREAM)).await;
    assert!(read_to_end(&mut stream).await.1.is_err());
    assert!(read_to_end(&mut idle).await.1.is_err(), "the neighbour's connection is gone too");
    let again = post(&server, "/v1/completions", &body).await;
    assert_eq!(again.header("x-sim-cached"), "0", "a restarted engine remembers nothing");
}

#[tokio::test]
async fn a_truncated_stream_ends_cleanly_or_not_but_never_with_done() {
    let server = start().await;
    for cut in [false, true] {
        server.fault(Fault { after: 2, cut, count: Some(2), ..Fault::new(FaultKind::Truncate) });
        let mut stream = raw_post(server.addr(), CHAT, &chat(500, STREAM)).await;
        let said = if cut { read_to_end(&mut stream).await.0 } else { read_until(&mut stream, "\r\n0\r\n\r\n").await };
        assert_eq!(said.matches("data: {").count(), 3, "role and two tokens: {said}");
        assert!(!said.contains("[DONE]"));
        assert_eq!(said.ends_with("\r\n0\r\n\r\n"), !cut, "the last chunk is there unless cut");
        let call = request(Method::POST, &format!("{}{CHAT}", server.url()), chat(500, STREAM));
        let reply = collect(client(Version::HTTP_2).request(call).await.unwrap()).await;
        assert_eq!(reply.is_err(), cut, "a cut h2 stream is reset, a clean one ends");
    }
    until(&server, "aborts", |state| state.active.is_empty() && state.aborted == 4).await;
}

#[tokio::test]
async fn an_error_in_mid_stream_is_the_surfaces_own_event() {
    let server = start().await;
    for (path, event) in [
        (CHAT, "data: {\"error\":{\"message\""),
        ("/v1/messages", "event: error\ndata: {\"type\":\"error\""),
        ("/v1/responses", "event: error\n"),
    ] {
        server.fault(Fault { after: 2, count: Some(1), ..Fault::new(FaultKind::ErrorMidstream) });
        let body = chat(500, r#","stream":true,"max_output_tokens":500,"input":"x""#);
        let reply = post(&server, path, body).await;
        assert_eq!(reply.status, StatusCode::OK);
        assert!(reply.text().contains(event), "{path}: {}", reply.text());
        assert_eq!(reply.text().contains("data: [DONE]\n\n"), path == CHAT);
    }
}

#[tokio::test]
async fn a_stalled_stream_goes_on_when_cleared() {
    let server = start().await;
    server.fault(Fault { after: 2, ..Fault::new(FaultKind::Stall) });
    let mut stream = raw_post(server.addr(), CHAT, &chat(5, STREAM)).await;
    until(&server, "the engine is done", |state| state.completed == 1).await;
    let before = read_until(&mut stream, "delta\":{\"content\":\"").await;
    assert!(!before.contains("finish_reason\":\"length"), "the end must not come while it stalls");
    server.clear();
    read_until(&mut stream, "[DONE]").await;
}

#[tokio::test]
async fn idle_connections_close_after_the_time_of_the_fault() {
    let server = start().await;
    let mut stream = raw_post(server.addr(), CHAT, &chat(1, "")).await;
    read_until(&mut stream, "\"metrics\":null}").await;
    server.fault(Fault { ms: Some(20), ..Fault::new(FaultKind::CloseIdle) });
    let (said, end) = read_to_end(&mut stream).await;
    assert!(said.is_empty() && end.is_ok(), "a plain close, not a reset: {end:?}");
}

#[tokio::test]
async fn a_close_after_a_stream_comes_unannounced_and_after_all_of_it() {
    let server = start().await;
    server.fault(Fault::new(FaultKind::CloseAfterStream));
    let mut stream = raw_post(server.addr(), CHAT, &chat(5, STREAM)).await;
    let (said, end) = read_to_end(&mut stream).await;
    assert!(end.is_ok() && said.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"), "{end:?} after {said}");
    assert!(!said.to_lowercase().contains("connection: close"));
}

#[tokio::test]
async fn delays_hold_back_the_head_or_only_the_body() {
    let server = start().await;
    let url = format!("{}{CHAT}", server.url());
    for (kind, head_waits) in [(FaultKind::DelayHead, true), (FaultKind::DelayBody, false)] {
        server.fault(Fault { ms: Some(300), count: Some(1), ..Fault::new(kind) });
        let sent = Instant::now();
        let response = client(Version::HTTP_11).request(request(Method::POST, &url, chat(1, STREAM))).await.unwrap();
        let head = sent.elapsed();
        collect(response).await.unwrap();
        assert!(sent.elapsed() >= Duration::from_millis(300), "{kind:?} took {:?}", sent.elapsed());
        assert_eq!(head >= Duration::from_millis(300), head_waits, "{kind:?}: head after {head:?}");
    }
}

#[tokio::test]
async fn slowness_stretches_steps_until_its_time_is_over() {
    let server = start().await;
    let timed = async || {
        let sent = Instant::now();
        post(&server, CHAT, chat(20, "")).await;
        sent.elapsed()
    };
    server.fault(Fault { factor: 20.0, ..Fault::new(FaultKind::Slow) });
    let slow = timed().await;
    // Twenty steps of 0.8 ms, twenty times as long.
    assert!(slow >= Duration::from_millis(300), "only {slow:?}");
    server.clear();
    let normal = timed().await;
    assert!(normal < slow, "{normal:?} after the fault, {slow:?} in it");
}

#[tokio::test]
async fn a_refusing_server_closes_its_port_and_takes_it_again() {
    let admin = Some("127.0.0.1:0".parse().unwrap());
    let server = Server::start(Config { admin_listen: admin, ..Config::default() }).await.unwrap();
    let command = r#"{"kind":"refuse"}"#;
    let url = format!("{}/admin/fault", server.admin_url());
    assert_eq!(crate::client::send(request(Method::POST, &url, command)).await.json()["id"], 1);
    let refused = async {
        while TcpStream::connect(server.addr()).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    within(refused).await;
    server.clear();
    let open = async {
        while TcpStream::connect(server.addr()).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    within(open).await;
    assert_eq!(post(&server, CHAT, chat(1, "")).await.status, StatusCode::OK);
}

#[tokio::test]
async fn health_goes_down_and_comes_back() {
    let server = start().await;
    server.fault(Fault { count: Some(1), ..Fault::new(FaultKind::HealthDown) });
    assert_eq!(get(&server, "/health").await.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(get(&server, "/health").await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_held_head_comes_with_the_first_token_and_knows_the_queue() {
    let server = Server::start(Config { hold_head: true, ..Config::default() }).await.unwrap();
    let reply = post(&server, CHAT, chat(3, STREAM)).await;
    assert_ne!(reply.header("x-sim-queue-ms"), "");
    let early = post(&start().await, CHAT, chat(3, STREAM)).await;
    assert_eq!(early.header("x-sim-queue-ms"), "", "not known yet when the head leaves at once");
}

#[tokio::test]
async fn the_head_of_a_stream_comes_at_once_from_vllm_and_with_the_slot_from_llama_cpp() {
    for (flavor, waits) in [(Flavor::Vllm, false), (Flavor::LlamaCpp, true)] {
        let engine = spillway_sim::engine::Config { max_seqs: 1, ..spillway_sim::engine::Preset::Fast.config() };
        let config = Config { flavor, time_scale: 0.05, engine, ..Config::default() };
        let server = Server::start(config).await.unwrap();
        let first = raw_post(server.addr(), CHAT, &chat(10_000, STREAM)).await;
        until(&server, "one runs", |state| state.running == 1).await;
        let mut second = raw_post(server.addr(), CHAT, &chat(10_000, STREAM)).await;
        until(&server, "one waits", |state| state.waiting == 1).await;
        let silence = tokio::time::timeout(Duration::from_millis(100), second.peek(&mut [0; 64])).await;
        assert_eq!(silence.is_err(), waits, "{flavor:?}: {silence:?}");
        drop(first);
        let said = read_until(&mut second, "\r\n\r\n").await;
        assert!(said.starts_with("HTTP/1.1 200 OK"), "{said}");
        assert_eq!(said.contains("x-sim-queue-ms"), waits, "{flavor:?}: {said}");
    }
}

#[tokio::test]
async fn a_full_queue_is_refused_as_vllm_refuses() {
    let mut engine = spillway_sim::engine::Preset::Fast.config();
    engine.max_seqs = 1;
    let config = Config { max_queued: Some(1), time_scale: 0.05, engine, ..Config::default() };
    let server = Server::start(config).await.unwrap();
    let _running = raw_post(server.addr(), CHAT, &chat(10_000, STREAM)).await;
    until(&server, "one runs", |state| state.running == 1).await;
    let _waiting = raw_post(server.addr(), CHAT, &chat(10_000, STREAM)).await;
    until(&server, "one waits", |state| state.waiting == 1).await;
    let reply = post(&server, CHAT, chat(1, "")).await;
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(reply.json()["error"]["type"], "Service Unavailable");
    let page = get(&server, "/metrics").await;
    let counted = "vllm:admission_rejections_total{model_name=\"sim-model\",reason=\"max_num_queued_reqs\"} 1.0\n";
    assert!(page.text().contains(counted), "{}", page.text());
}
