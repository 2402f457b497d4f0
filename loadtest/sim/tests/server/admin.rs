//! What tests can learn from the server, and how they command it.

use hyper::{Method, StatusCode};
use serde_json::json;
use spillway_sim::{Received, State};

use crate::client::{STREAM, chat, get, post, request, send, start, start_slow, until};

#[tokio::test]
async fn the_last_requests_are_there_with_headers_body_and_outcome() {
    let server = start().await;
    let mut call = request(Method::POST, &format!("{}/v1/chat/completions?x=1", server.url()), chat(2, STREAM));
    call.headers_mut().insert("x-tenant", "blue".parse().unwrap());
    let reply = send(call).await;
    until(&server, "end", |state| state.in_progress == 0).await;
    let last = get(&server, "/admin/last").await.json();
    let records: Vec<Received> = serde_json::from_value(last["requests"].clone()).unwrap();
    assert_eq!(records, server.last());
    let record = &records[0];
    assert!(records.len() == 1 && record.headers.contains(&("x-tenant".to_owned(), "blue".to_owned())), "{record:?}");
    assert_eq!((record.query.as_deref(), record.status, record.ended.as_str()), (Some("x=1"), Some(200), "complete"));
    assert_eq!(
        (record.body_xxh3.as_str(), record.seq.to_string().as_str()),
        (reply.header("x-sim-body-xxh3"), reply.header("x-sim-seq"))
    );
    let body = get(&server, &format!("/admin/body/{}", record.seq)).await;
    assert_eq!(body.text(), chat(2, STREAM));
}

#[tokio::test]
async fn scrapes_and_health_checks_are_not_counted_as_received() {
    let server = start().await;
    get(&server, "/metrics").await;
    get(&server, "/health").await;
    assert_eq!((server.state().received, server.last().len()), (0, 0));
    get(&server, "/v1/models").await;
    assert_eq!(server.state().received, 1);
}

#[tokio::test]
async fn the_state_by_http_is_the_state_by_call() {
    let server = start().await;
    post(&server, "/v1/chat/completions", chat(3, "")).await;
    until(&server, "end", |state| state.in_progress == 0).await;
    let state: State = serde_json::from_value(get(&server, "/admin/state").await.json()).unwrap();
    assert_eq!((state.completed, state.tokens_generated, state.received), (1, 3, 1));
    assert_eq!(state.running + state.waiting + state.active.len() + state.in_progress, 0);
}

#[tokio::test]
async fn a_fault_with_an_unknown_kind_or_key_is_refused() {
    let server = start().await;
    for body in [json!({"kind": "nonsense"}), json!({"kind": "hang", "fro_ms": 5}), json!({})] {
        assert_eq!(post(&server, "/admin/fault", &body).await.status, StatusCode::BAD_REQUEST, "{body}");
    }
    let made = post(&server, "/admin/fault", json!({"kind": "status", "code": 500, "for_ms": 60_000})).await;
    assert_eq!(made.json()["id"], 1);
    assert_eq!(get(&server, "/admin/state").await.json()["faults"][0]["kind"], "status");
    post(&server, "/admin/clear", "").await;
    assert!(server.state().faults.is_empty());
}

#[tokio::test]
async fn a_fault_that_makes_no_sense_is_refused_with_all_that_is_wrong() {
    let server = start().await;
    let body = json!({"kind": "slow", "factor": 1e18, "for_ms": u64::MAX, "probability": 0.5});
    let reply = post(&server, "/admin/fault", body).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert_eq!(
        reply.json()["error"],
        "probability: means nothing to slow; factor: must be 0 to 1,000; for_ms: must be up to a year"
    );
    let reply = post(&server, "/admin/crash", json!({"down_ms": u64::MAX})).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]),
        (StatusCode::BAD_REQUEST, &json!("down_ms: must be up to a year"))
    );
    assert!(server.state().faults.is_empty());
}

#[tokio::test]
async fn a_fault_may_be_posted_as_the_state_shows_it() {
    let server = start().await;
    post(&server, "/admin/fault", json!({"kind": "thermal", "for_ms": 60_000})).await;
    let mut shown = get(&server, "/admin/state").await.json()["faults"][0].clone();
    let keys = shown.as_object_mut().unwrap();
    keys.remove("id");
    keys.remove("left");
    assert_eq!(post(&server, "/admin/fault", shown).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_reset_forgets_everything_and_ends_what_runs() {
    let server = start_slow().await;
    let call = post(&server, "/v1/chat/completions", chat(10_000, ""));
    let reset = async {
        until(&server, "start", |state| state.running == 1).await;
        assert_eq!(post(&server, "/admin/reset", "").await.status, StatusCode::OK);
    };
    let (reply, ()) = tokio::join!(call, reset);
    assert_eq!(reply.status, StatusCode::INTERNAL_SERVER_ERROR);
    let state = until(&server, "end", |state| state.in_progress == 0).await;
    assert_eq!((state.completed, state.tokens_generated, state.received, state.active.len()), (0, 0, 0, 0));
}

#[tokio::test]
async fn a_commanded_crash_refuses_for_as_long_as_told() {
    let server = start().await;
    assert_eq!(post(&server, "/admin/crash", json!({"down_ms": 50})).await.status, StatusCode::OK);
    until(&server, "refusal", |state| !state.faults.is_empty()).await;
    until(&server, "its end", |state| state.faults.is_empty()).await;
    let back = async {
        while tokio::net::TcpStream::connect(server.addr()).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    crate::client::within(back).await;
    assert_eq!(post(&server, "/v1/chat/completions", chat(1, "")).await.status, StatusCode::OK);
}
