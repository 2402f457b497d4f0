//! The access log: one line of JSON per request, with what an operator needs and nothing that is a secret.

use std::collections::BTreeSet;

use http::Method;
use serde_json::Value;
use spillway_sim::{Fault, FaultKind};

use crate::harness::{Client, Events, Gateway, ReqBody, config_for, eventually, post, sims};

const CHAT: &str = "/v1/chat/completions";

/// What must never be in a log.
const PROMPT: &str = "tell-nobody-of-this-prompt";
const KEY: &str = "sk-tell-nobody-of-this-key";

/// Every field there is, by its documentation in `access_log`.
const FIELDS: [&str; 22] = [
    "time",
    "request_id",
    "method",
    "path",
    "status",
    "model",
    "pool",
    "endpoint",
    "reason",
    "attempts",
    "stream",
    "request_bytes",
    "response_bytes",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "body_ms",
    "pick_ms",
    "ttft_ms",
    "predicted_ttft_ms",
    "duration_ms",
    "error",
];

fn secret(path: &str, id: &str, stream: bool) -> http::Request<ReqBody> {
    let usage = if stream { r#""stream":true,"stream_options":{"include_usage":true},"# } else { "" };
    let body = format!(
        r#"{{{usage}"model":"sim-model","max_tokens":4,"user":"{PROMPT}","messages":[{{"role":"user","content":"{PROMPT}"}}]}}"#
    );
    let mut request = post(path, body);
    let headers = request.headers_mut();
    headers.insert("x-request-id", id.parse().unwrap());
    headers.insert("authorization", format!("Bearer {KEY}").parse().unwrap());
    headers.insert("cookie", format!("session={KEY}").parse().unwrap());
    headers.insert("x-api-key", KEY.parse().unwrap());
    request
}

fn number(line: &Value, field: &str) -> f64 {
    line[field].as_f64().unwrap_or_else(|| panic!("{field} is no number: {line}"))
}

#[tokio::test]
async fn a_line_tells_who_where_and_how_long() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let answer = gateway.h1().await.call(secret(CHAT, "whole", false)).await.expect(200);
    let line = gateway.logged("whole").await;
    assert_eq!(line["method"], "POST");
    assert_eq!(line["path"], CHAT);
    assert_eq!(line["status"], 200);
    assert_eq!(line["model"], "sim-model");
    assert_eq!(line["pool"], "main");
    assert_eq!(line["endpoint"], sims[0].url());
    assert_eq!(line["reason"], "only");
    assert_eq!(line["attempts"], 1);
    assert_eq!(line["stream"], false);
    assert_eq!(number(&line, "response_bytes") as usize, answer.body.len());
    assert_eq!(line["completion_tokens"], 4);
    assert_eq!(line["prompt_tokens"], answer.json()["usage"]["prompt_tokens"]);
    let time = line["time"].as_str().unwrap();
    assert!(time.len() == 24 && time.ends_with('Z') && time.as_bytes()[10] == b'T', "not RFC 3339 in UTC: {time}");
    assert!(number(&line, "duration_ms") >= number(&line, "body_ms"), "{line}");
    assert!(line["error"].is_null(), "{line}");

    let response = gateway.h2().await.send(secret(CHAT, "streamed", true)).await.unwrap();
    Events::of(response).rest().await;
    let line = gateway.logged("streamed").await;
    assert_eq!((&line["stream"], &line["completion_tokens"]), (&Value::Bool(true), &4.into()), "{line}");
    let (first, all) = (number(&line, "ttft_ms"), number(&line, "duration_ms"));
    assert!(0.0 < first && first < all, "{line}");
    assert!(number(&line, "predicted_ttft_ms") >= 0.0 && number(&line, "pick_ms") > 0.0, "{line}");
}

#[tokio::test]
async fn no_line_has_a_prompt_or_a_key_or_a_field_of_its_own() {
    let sims = sims(2).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let mut ids = BTreeSet::new();
    let mut send = async |id: &str, request: http::Request<ReqBody>| {
        ids.insert(id.to_owned());
        // Some of these end without a proper answer.
        let mut client = gateway.h1().await;
        if let Ok(response) = client.send(request).await {
            let _ = crate::harness::Answer::read(response).await;
        }
    };
    send("good", secret(CHAT, "good", false)).await;
    send("stream", secret(CHAT, "stream", true)).await;
    send("query", secret(&format!("{CHAT}?key={KEY}&q={PROMPT}"), "query", false)).await;
    send("path", secret("/v1/nothing/of/the/kind", "path", false)).await;
    let mut bad = post(CHAT, format!("{{\"model\": \"{PROMPT}\", \"messages\": []}}"));
    bad.headers_mut().insert("x-request-id", "unknown-model".parse().unwrap());
    send("unknown-model", bad).await;
    let mut bad = post(CHAT, format!("{{\"model\": \"sim-model\", {PROMPT}"));
    bad.headers_mut().insert("x-request-id", "not-json".parse().unwrap());
    send("not-json", bad).await;
    for (id, fault) in [
        (
            "status",
            Fault { code: 500, body: Some(format!("no such thing as {PROMPT}")), ..Fault::new(FaultKind::Status) },
        ),
        ("reset", Fault::new(FaultKind::Reset)),
        ("broken", Fault::new(FaultKind::CrashMidstream)),
        ("error", Fault::new(FaultKind::ErrorMidstream)),
    ] {
        for sim in &sims {
            sim.fault(fault.clone());
        }
        send(id, secret(CHAT, id, true)).await;
        for sim in &sims {
            sim.clear();
        }
    }
    for id in &ids {
        gateway.logged(id).await;
    }
    let known: BTreeSet<&str> = FIELDS.into_iter().chain(["detail", "dropped"]).collect();
    let lines = gateway.log();
    assert_eq!(lines.len(), ids.len(), "one line each: {lines:#?}");
    for line in &lines {
        let text = line.to_string();
        assert!(!text.contains(PROMPT), "a prompt is in the log: {line}");
        assert!(!text.contains(KEY), "a key is in the log: {line}");
        let unknown: Vec<_> =
            line.as_object().unwrap().keys().filter(|field| !known.contains(field.as_str())).collect();
        assert!(unknown.is_empty(), "undocumented fields {unknown:?} in {line}");
        for field in ["time", "request_id", "method", "path", "status", "attempts", "stream", "duration_ms"] {
            assert!(!line[field].is_null(), "no {field} in {line}");
        }
        let is_bad = line["status"] != 200 || line["request_id"] == "broken";
        assert!(!is_bad || line["status"] == 500 || line["error"].is_string(), "what went wrong is not said: {line}");
    }
    for said in gateway.events() {
        assert!(!said.contains(PROMPT) && !said.contains(KEY), "a secret is among the events: {said}");
    }
    for path in ["/pools", "/config"] {
        let page = gateway.admin(Method::GET, path, "").await.expect(200).text();
        assert!(!page.contains(PROMPT) && !page.contains(KEY), "a secret is shown under {path}");
    }
    let page = gateway.metrics_port("/metrics").await.unwrap().expect(200).text();
    assert!(!page.contains(PROMPT) && !page.contains(KEY), "a secret is a metric's label");
}

#[tokio::test]
async fn lines_come_in_the_order_requests_end_and_events_are_json_too() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let mut client: Client = gateway.h1().await;
    for number in 0..20 {
        client.call(secret(CHAT, &format!("n{number}"), false)).await.expect(200);
    }
    gateway.logged("n19").await;
    let lines = eventually("all lines are there", async || Some(gateway.log()).filter(|lines| lines.len() == 20)).await;
    let ids: Vec<_> = lines.iter().map(|line| line["request_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids, (0..20).map(|number| format!("n{number}")).collect::<Vec<_>>(), "in the order they ended");
    for event in gateway.events() {
        let event: Value =
            serde_json::from_str(&event).unwrap_or_else(|error| panic!("{error} in the event {event:?}"));
        assert!(event["level"].is_string(), "{event}");
    }
}
