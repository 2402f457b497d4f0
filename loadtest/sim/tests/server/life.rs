//! A server that starts, warms up, drains or is wrong about itself.

use std::time::{Duration, Instant};

use hyper::StatusCode;
use serde_json::{Value, json};
use spillway_sim::{Config, Fault, FaultKind, Server};
use tokio::io::AsyncReadExt;

use crate::client::{STREAM, chat, get, post, raw_post, read_to_end, read_until, start, start_slow, until, within};

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn a_cold_start_answers_503_to_everything_and_begins_with_an_empty_cache() {
    let server = start().await;
    let body = json!({"prompt": "word ".repeat(100), "max_tokens": 1});
    post(&server, "/v1/completions", &body).await;
    server.fault(Fault { restart: true, ..Fault::new(FaultKind::ColdStart) });
    for path in ["/health", "/v1/models", "/metrics"] {
        assert_eq!(get(&server, path).await.status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
    }
    assert_eq!(post(&server, "/v1/completions", &body).await.status, StatusCode::SERVICE_UNAVAILABLE);
    server.clear();
    assert_eq!(get(&server, "/health").await.status, StatusCode::OK);
    assert_eq!(post(&server, "/v1/completions", &body).await.header("x-sim-cached"), "0");
}

#[tokio::test]
async fn a_server_that_is_still_loading_says_that_it_is_healthy() {
    let server = start().await;
    server.fault(Fault::new(FaultKind::Loading));
    assert_eq!(get(&server, "/health").await.status, StatusCode::OK);
    let reply = post(&server, CHAT, chat(1, "")).await;
    assert_eq!((reply.status, &reply.json()["error"]["code"]), (StatusCode::SERVICE_UNAVAILABLE, &json!(503)));
}

#[tokio::test]
async fn a_draining_server_is_not_ready_and_finishes_its_streams() {
    let server = start().await;
    server.fault(Fault { factor: 20.0, ..Fault::new(FaultKind::Slow) });
    let mut stream = raw_post(server.addr(), CHAT, &chat(20, STREAM)).await;
    read_until(&mut stream, "data: {").await;
    server.fault(Fault::new(FaultKind::Drain));
    assert_eq!(get(&server, "/health").await.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(post(&server, CHAT, chat(1, "")).await.status, StatusCode::SERVICE_UNAVAILABLE);
    read_until(&mut stream, "data: [DONE]\n\n").await;
    assert_eq!(server.state().completed, 1);
}

#[tokio::test]
async fn a_half_open_connection_says_nothing_and_does_not_see_its_client_leave() {
    let server = start().await;
    server.fault(Fault::new(FaultKind::HalfOpen));
    let stream = raw_post(server.addr(), CHAT, &chat(1, "")).await;
    let mut other = raw_post(server.addr(), CHAT, &chat(1, "")).await;
    until(&server, "arrivals", |state| state.in_progress == 2).await;
    drop(stream);
    let silence = tokio::time::timeout(Duration::from_millis(100), other.read(&mut [0; 64])).await;
    assert!(silence.is_err(), "it must not answer: {silence:?}");
    assert_eq!((server.state().connections_open, server.state().in_progress), (2, 2), "nobody was seen to leave");
    server.clear();
    let (said, end) = read_to_end(&mut other).await;
    assert!(said.is_empty() && end.is_err(), "a reset when it is over, not {said:?}");
    until(&server, "ends", |state| state.connections_open == 0 && state.in_progress == 0).await;
}

#[tokio::test]
async fn wrong_usage_is_wrong_on_every_surface_and_the_headers_stay_right() {
    let server = start().await;
    server.fault(Fault { factor: 3.0, ..Fault::new(FaultKind::WrongUsage) });
    let reply = post(&server, CHAT, chat(5, "")).await;
    let prompt: u64 = reply.header("x-sim-prompt").parse().unwrap();
    let usage = reply.json()["usage"].clone();
    let counts = ["prompt_tokens", "completion_tokens", "total_tokens"].map(|name| usage[name].as_u64().unwrap());
    assert_eq!(counts, [3 * prompt, 15, 3 * prompt + 15]);
    let options = r#","stream":true,"stream_options":{"include_usage":true}"#;
    let stream = post(&server, CHAT, chat(5, options)).await;
    let events = stream.text().split("\n\n").filter_map(|event| event.strip_prefix("data: "));
    let last = events.filter_map(|event| serde_json::from_str::<Value>(event).ok()).last().unwrap();
    assert_eq!(last["usage"]["completion_tokens"], 15);
    let messages = post(&server, "/v1/messages", chat(5, "")).await.json();
    assert_eq!(messages["usage"]["output_tokens"], 15);
}

#[tokio::test]
async fn an_adapter_that_cannot_be_loaded_fails_its_requests_only_while_it_is_not_there() {
    let config = Config { adapters: vec!["a".to_owned(), "b".to_owned()], ..Config::default() };
    let server = Server::start(config).await.unwrap();
    let ask = async |model: &str| post(&server, CHAT, chat(1, &format!(r#","model":"{model}""#))).await.status;
    assert_eq!(ask("a").await, StatusCode::OK);
    server.fault(Fault::new(FaultKind::AdapterFail));
    assert_eq!(ask("a").await, StatusCode::OK, "it is on the device");
    assert_eq!(ask("b").await, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(ask("sim-model").await, StatusCode::OK);
    let load = post(&server, "/v1/load_lora_adapter", json!({"lora_name": "c", "lora_path": "/c"})).await;
    assert_eq!(load.status, StatusCode::INTERNAL_SERVER_ERROR);
    server.clear();
    assert_eq!(ask("b").await, StatusCode::OK);
}

#[tokio::test]
async fn the_first_requests_of_a_cold_server_are_slow() {
    let server = start().await;
    server.fault(Fault { factor: 50.0, requests: Some(1), ..Fault::new(FaultKind::WarmUp) });
    let timed = async || {
        let sent = Instant::now();
        post(&server, CHAT, chat(10, "")).await;
        sent.elapsed()
    };
    let first = timed().await;
    // Ten steps of 0.8 ms, fifty times as long.
    assert!(first >= Duration::from_millis(400), "only {first:?}");
    let second = timed().await;
    assert!(second < first / 2, "{second:?} after the warm-up, {first:?} in it");
}

#[tokio::test]
async fn a_scheduled_fault_comes_and_goes_at_its_model_time() {
    let mut server = Server::start(Config { time_scale: 10.0, ..Config::default() }).await.unwrap();
    // 3 to 8 s of model time are 300 to 800 ms.
    let sent = Instant::now();
    server.schedule(Fault::new(FaultKind::HealthDown), Duration::from_secs(3), Some(Duration::from_secs(5)));
    assert!(server.state().faults.is_empty());
    until(&server, "its beginning", |state| !state.faults.is_empty()).await;
    assert!(sent.elapsed() >= Duration::from_millis(250), "came after {:?}", sent.elapsed());
    assert_eq!(get(&server, "/health").await.status, StatusCode::SERVICE_UNAVAILABLE);
    within(until(&server, "its end", |state| state.faults.is_empty())).await;
    assert!(sent.elapsed() >= Duration::from_millis(750), "went after {:?}", sent.elapsed());
}

#[tokio::test]
async fn a_clear_lifts_what_is_in_force_and_leaves_what_is_to_come() {
    let mut server = start_slow().await;
    server.schedule(Fault::new(FaultKind::Slow), Duration::from_millis(1), None);
    server.schedule(Fault::new(FaultKind::Slow), Duration::from_secs(3_600), None);
    until(&server, "the first", |state| state.faults.len() == 1).await;
    server.clear();
    assert!(server.state().faults.is_empty());
}
