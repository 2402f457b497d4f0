//! A stream that breaks is never taken for one that ended: an error event in the API's own form, then an abnormal end.

use serde_json::{Value, json};
use spillway_sim::{Fault, FaultKind, Server};

use crate::harness::{
    Answer, Client, Config, ENDPOINT_HTTP, End, Event, Events, Gateway, Scripted, config_for, post, sims, streamed,
    wait_until_quiet,
};

const APIS: [&str; 4] = ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"];

fn request_for(path: &str) -> String {
    let mut body = json!({"model": "sim-model", "stream": true, "max_tokens": 50, "max_output_tokens": 50});
    match path {
        "/v1/completions" => body["prompt"] = "hello".into(),
        "/v1/responses" => body["input"] = "hello".into(),
        _ => body["messages"] = json!([{"role": "user", "content": "hello"}]),
    }
    body.to_string()
}

async fn stream(client: &mut Client, path: &str, id: &str) -> (Vec<Event>, End) {
    let mut request = post(path, request_for(path));
    request.headers_mut().insert("x-request-id", id.parse().unwrap());
    let response = client.send(request).await.unwrap_or_else(|error| panic!("{path}: {error:?}"));
    Events::of(response).rest().await
}

/// Asserts that the events end with an error as clients of that API expect it.
fn assert_told(path: &str, events: &[Event]) {
    let last = events.last().unwrap();
    let told: Value = match path {
        "/v1/chat/completions" | "/v1/completions" => {
            assert_eq!(last.data, "[DONE]", "{path}: {events:?}");
            events[events.len() - 2].json()
        }
        _ => {
            assert_eq!(last.name, "error", "{path}: {events:?}");
            last.json()
        }
    };
    let message = told["error"]["message"].as_str().unwrap_or_else(|| panic!("{path}: no error is told of: {told}"));
    assert!(message.contains("its answer"), "{path}: the answer had begun: {message}");
    if path == "/v1/messages" {
        assert_eq!(told["type"], "error", "{told}");
        assert_eq!(told["error"]["type"], "api_error", "{told}");
    }
    if path == "/v1/responses" {
        assert_eq!(told["type"], "error", "{told}");
        let before = events[events.len() - 2].json()["sequence_number"].as_u64().unwrap();
        assert_eq!(told["sequence_number"], before + 1, "{told}");
    }
    let finished = |event: &Event| ["message_stop", "response.completed"].contains(&event.name.as_str());
    assert!(!events.iter().any(finished), "{path}: looks like a finished answer");
}

/// Each API over both versions under a fault; returns how the streams ended.
async fn broken_streams(sims: &[Server], gateway: &Gateway, fault: &Fault) -> Vec<End> {
    sims[0].fault(fault.clone());
    let mut ends = Vec::new();
    for path in APIS {
        for http in ["h1", "h2"] {
            let mut client = if http == "h1" { gateway.h1().await } else { gateway.h2().await };
            let id = format!("{http}{path}");
            let (events, end) = stream(&mut client, path, &id).await;
            assert_told(path, &events);
            ends.push(end);
            let line = gateway.logged(&id).await;
            assert_eq!(line["status"], 200, "the head had gone out: {line}");
            assert_ne!(line["error"], Value::Null, "a broken stream is not a success: {line}");
            assert_eq!(line["attempts"], 1, "{line}");
        }
    }
    gateway.assert_idle().await;
    wait_until_quiet(sims).await;
    let broken = gateway.metric("spillway_broken_streams_total", &[("pool", "main")]).await;
    assert_eq!(broken, 8.0, "each one counts");
    ends
}

#[tokio::test]
async fn a_crash_in_mid_stream_is_told_in_the_stream_and_ends_it_abnormally() {
    for http in ENDPOINT_HTTP {
        let sims = sims(1).await;
        let gateway = Gateway::start(&config_for(&sims).with(http)).await;
        let ends = broken_streams(&sims, &gateway, &Fault { after: 5, ..Fault::new(FaultKind::CrashMidstream) }).await;
        assert_eq!(ends, [End::Broken; 8]);
    }
}

#[tokio::test]
async fn a_stream_cut_in_its_framing_is_told_in_the_stream_and_ends_it_abnormally() {
    for http in ENDPOINT_HTTP {
        let sims = sims(1).await;
        let gateway = Gateway::start(&config_for(&sims).with(http)).await;
        let ends =
            broken_streams(&sims, &gateway, &Fault { after: 5, cut: true, ..Fault::new(FaultKind::Truncate) }).await;
        assert_eq!(ends, [End::Broken; 8]);
    }
}

#[tokio::test]
async fn a_stream_without_its_end_marker_is_told_of_in_the_stream() {
    for http in ENDPOINT_HTTP {
        let sims = sims(1).await;
        let gateway = Gateway::start(&config_for(&sims).with(http)).await;
        // Its framing ends properly; the client's must not, or half an answer looks whole to who reads no events.
        let ends = broken_streams(&sims, &gateway, &Fault { after: 5, ..Fault::new(FaultKind::Truncate) }).await;
        assert_eq!(ends, [End::Broken; 8]);
    }
}

#[tokio::test]
async fn a_stream_that_falls_silent_is_ended_and_its_generation_too() {
    for http in ENDPOINT_HTTP {
        let sims = sims(1).await;
        let gateway = Gateway::start(&config_for(&sims).with(http).with("timeouts: {token_gap: 300ms}")).await;
        let ends = broken_streams(&sims, &gateway, &Fault { after: 5, ..Fault::new(FaultKind::Stall) }).await;
        assert_eq!(ends, [End::Broken; 8]);
    }
}

#[tokio::test]
async fn an_error_event_of_the_server_passes_as_it_is() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    sims[0].fault(Fault { after: 5, ..Fault::new(FaultKind::ErrorMidstream) });
    for path in APIS {
        let mut client = gateway.h1().await;
        let (through, _) = stream(&mut client, path, "one").await;
        let (direct, _) = stream(&mut Client::h1(sims[0].addr()).await, path, "two").await;
        assert_eq!(through.len(), direct.len(), "{path}: {through:?}");
        let errors = |events: &[Event]| events.iter().filter(|event| event.data.contains("error")).count();
        assert_eq!(errors(&through), errors(&direct), "{path}: a second error was added: {through:?}");
    }
}

#[tokio::test]
async fn an_error_told_in_a_stream_is_the_endpoints_failure_unless_it_blames_the_client() {
    let mut endpoint = Scripted::start().await;
    let gateway = Gateway::start(&Config::default().pool("main", &[]).endpoint(&endpoint.url())).await;
    let sse = |error: &str| format!("data: {{\"error\": {error}}}\n\ndata: [DONE]\n\n");
    let [fault, none, mine] = [
        r#"{"message": "died", "type": "InternalServerError", "code": 500}"#,
        r#"{"message": "died"}"#,
        r#"{"message": "too long", "type": "BadRequestError", "code": 400}"#,
    ];
    let mut failures = 0.0;
    for (id, kind, body, fails) in [
        ("stream-500", "text/event-stream", sse(fault), true),
        ("stream-bare", "text/event-stream", sse(none), true),
        ("stream-400", "text/event-stream", sse(mine), false),
        // No marker follows: the error is the end. The closing line of a chat stream is added.
        ("stream-400-end", "text/event-stream", format!("data: {{\"error\": {mine}}}\n\n"), false),
        ("json-500", "application/json", format!("{{\"error\": {fault}}}"), false),
        ("json-400", "application/json", format!("{{\"error\": {mine}}}"), false),
    ] {
        let mut request = post("/v1/chat/completions", streamed("hi", 1));
        request.headers_mut().insert("x-request-id", id.parse().unwrap());
        let mut client = gateway.h1().await;
        let answer = tokio::spawn(async move { Answer::read(client.send(request).await.unwrap()).await });
        let mut call = endpoint.call().await;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n", body.len());
        call.send(&format!("{head}{body}")).await;
        let answer = answer.await.unwrap().unwrap();
        assert_eq!(answer.status, 200, "{id}");
        assert!(answer.text().starts_with(&body), "{id}: passed on as it came");
        let line = gateway.logged(id).await;
        assert_eq!(line["error"].is_string(), fails, "{id}: {line}");
        failures += f64::from(u8::from(fails));
        assert_eq!(gateway.metric("spillway_broken_streams_total", &[]).await, failures, "{id}");
    }
    gateway.assert_idle().await;
}

#[tokio::test]
async fn an_error_told_in_a_stream_counts_however_its_connections_end() {
    let mut endpoint = Scripted::start().await;
    let gateway = Gateway::start(&Config::default().pool("main", &[]).endpoint(&endpoint.url())).await;
    let error = "data: {\"error\": {\"message\": \"died\", \"code\": 500}}\n\n";
    let mut failures = 0.0;
    for (id, client_leaves, said) in [("server-breaks", false, "other"), ("client-leaves", true, "client_gone")] {
        let mut request = post("/v1/chat/completions", streamed("hi", 1));
        request.headers_mut().insert("x-request-id", id.parse().unwrap());
        let mut client = gateway.h1().await;
        let response = tokio::spawn(async move { (client.send(request).await.unwrap(), client) });
        let mut call = endpoint.call().await;
        call.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        call.chunk(error).await;
        let (response, client) = response.await.unwrap();
        let mut events = Events::of(response);
        assert!(events.next().await.unwrap().data.contains("died"), "{id}");
        if client_leaves {
            drop((events, client));
            gateway.logged(id).await;
        } else {
            call.chunk("data: [DONE]\n\n").await;
            assert_eq!(events.next().await.unwrap().data, "[DONE]");
        }
        drop(call);
        let line = gateway.logged(id).await;
        assert_eq!(line["error"], said, "{id}: {line}");
        failures += 1.0;
        assert_eq!(gateway.metric("spillway_broken_streams_total", &[]).await, failures, "{id}");
    }
    gateway.assert_idle().await;
}

#[tokio::test]
async fn a_cut_answer_that_is_no_stream_ends_abnormally() {
    let mut endpoint = Scripted::start().await;
    let gateway = Gateway::start(&Config::default().pool("main", &[]).endpoint(&endpoint.url())).await;
    for mut client in [gateway.h1().await, gateway.h2().await] {
        let body = tokio::spawn(async move {
            let response = client.send(post("/v1/chat/completions", streamed("hi", 1))).await.unwrap();
            (Answer::read(response).await.is_err(), client).0
        });
        let mut call = endpoint.call().await;
        call.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"id\":").await;
        drop(call);
        assert!(body.await.unwrap(), "half an answer looked like a whole one");
    }
    gateway.assert_idle().await;
}

#[tokio::test]
async fn a_stream_that_has_told_its_end_is_whole_whatever_its_connections_do_then() {
    let mut endpoint = Scripted::start().await;
    let gateway = Gateway::start(&Config::default().pool("main", &[]).endpoint(&endpoint.url())).await;
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n";
    for server_leaves in [true, false] {
        for (http, mut client) in [("h1", gateway.h1().await), ("h2", gateway.h2().await)] {
            let id = format!("{http}-{server_leaves}");
            let mut request = post("/v1/chat/completions", streamed("hi", 1));
            request.headers_mut().insert("x-request-id", id.parse().unwrap());
            let response = tokio::spawn(async move { (client.send(request).await.unwrap(), client) });
            let mut call = endpoint.call().await;
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
            call.send(head).await;
            call.chunk(stream).await;
            let (response, client) = response.await.unwrap();
            let mut events = Events::of(response);
            assert_eq!((events.next().await.is_some(), events.next().await.unwrap().data.as_str()), (true, "[DONE]"));
            if server_leaves {
                drop(call);
                assert_eq!(events.rest().await.1, End::Proper, "{id}: nothing was missing");
            } else {
                drop((events, client));
                call.gone().await;
            }
            let line = gateway.logged(&id).await;
            assert_eq!((&line["status"], &line["error"]), (&200.into(), &Value::Null), "{line}");
        }
    }
    gateway.assert_idle().await;
    assert_eq!(gateway.metric("spillway_broken_streams_total", &[]).await, 0.0);
}
