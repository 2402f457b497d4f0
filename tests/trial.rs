//! Two policies side by side: both get their share, each is counted for itself, and a conversation stays on its side.

use std::collections::BTreeMap;

use http::Method;
use serde_json::{Value, json};

use crate::explain::explained;
use crate::harness::{Config, Gateway, config_for, eventually, post, sims, streamed};

const CHAT: &str = "/v1/chat/completions";

/// The same gateway under another policy.
async fn change(gateway: &Gateway, config: &Config, policy: &str) {
    gateway.rewrite(&config.clone().with(&format!("policy: {policy}")));
    gateway.admin(Method::POST, "/reload", "").await.expect(200);
}

/// Sends one streamed request for each of these prompts.
async fn send(gateway: &Gateway, prompts: std::ops::Range<u32>) {
    let mut connection = gateway.h1().await;
    for number in prompts {
        let messages = json!([{"role": "user", "content": format!("question {number}")}]);
        let body = json!({"model": "sim-model", "messages": messages, "max_tokens": 2, "stream": true,
            "stream_options": {"include_usage": true}});
        connection.call(post(CHAT, body.to_string())).await.expect(200);
    }
}

/// The sum of a family over an arm.
async fn of(gateway: &Gateway, name: &str, arm: &str) -> f64 {
    gateway.metric(&format!("spillway_arm_{name}"), &[("pool", "main"), ("arm", arm)]).await
}

/// Waits until so many requests have been counted, and returns those of both arms.
async fn counted(gateway: &Gateway, total: f64) -> (f64, f64) {
    let both = async || (of(gateway, "requests_total", "try").await, of(gateway, "requests_total", "control").await);
    let look = async || Some(both().await).filter(|(tried, control)| tried + control == total);
    eventually(&format!("{total} requests are counted by arm"), look).await
}

async fn metrics_page(gateway: &Gateway) -> String {
    gateway.metrics_port("/metrics").await.expect("the metrics port answers").expect(200).text()
}

/// Lines of the access log once there are so many.
async fn log_of(gateway: &Gateway, lines: usize) -> Vec<Value> {
    let look = async || Some(gateway.log()).filter(|log| log.len() >= lines);
    eventually(&format!("{lines} lines in the access log"), look).await
}

#[tokio::test]
async fn both_arms_get_their_share_and_are_counted_apart() {
    let sims = sims(4).await;
    let config = config_for(&sims).with("policy: {try: adaptive, control: round_robin, share: 30%}");
    let gateway = Gateway::start(&config).await;
    send(&gateway, 0..200).await;
    let (tried, control) = counted(&gateway, 200.0).await;
    // Three standard deviations of 200 draws.
    assert!((40.0..=80.0).contains(&tried), "{tried} of 200 requests tried at 30 %, {control} not");
    for (arm, requests) in [("try", tried), ("control", control)] {
        assert_eq!(of(&gateway, "ttft_seconds_count", arm).await, requests, "first tokens of {arm}");
        assert_eq!(of(&gateway, "affinity_total", arm).await, requests, "picks of {arm}");
        let of_kind = async |kind| gateway.metric("spillway_arm_tokens_total", &[("arm", arm), ("kind", kind)]).await;
        assert_eq!(of_kind("completion").await, requests * 2.0, "two tokens for each request of {arm}");
        assert!(of_kind("prompt").await >= requests, "prompt tokens of {arm}");
        let answered = gateway.metric("spillway_arm_requests_total", &[("arm", arm), ("code", "200")]).await;
        assert_eq!(answered, requests, "{arm}");
    }
    let log = log_of(&gateway, 200).await;
    let logged = |arm: &str| log.iter().filter(|line| line["arm"] == arm).count() as f64;
    assert_eq!((logged("try"), logged("control")), (tried, control));
    for line in &log {
        assert_eq!(line["reason"] == "rotate", line["arm"] == "control", "the arm's own policy decides: {line}");
    }
    let mut turns = BTreeMap::<String, u32>::new();
    for line in log.iter().filter(|line| line["arm"] == "control") {
        *turns.entry(line["endpoint"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    let (least, most) = (turns.values().min().unwrap(), turns.values().max().unwrap());
    assert!(turns.len() == 4 && most - least <= 1, "the other arm took turns from round robin: {turns:?}");
}

#[tokio::test]
async fn a_conversation_stays_on_its_side() {
    let sims = sims(4).await;
    let config = config_for(&sims).with("policy: {try: adaptive, control: least_request, share: 50%}");
    let gateway = Gateway::start(&config).await;
    for chat in 0..12 {
        let mut messages = Vec::new();
        for turn in 0..5 {
            messages.push(json!({"role": "user", "content": format!("question {turn} of chat {chat}")}));
            let body = json!({"model": "sim-model", "max_tokens": 1, "messages": messages});
            let mut request = post(CHAT, body.to_string());
            request.headers_mut().insert("x-request-id", format!("chat-{chat}").parse().unwrap());
            gateway.h1().await.call(request).await.expect(200);
            messages.push(json!({"role": "assistant", "content": format!("answer {turn}")}));
        }
    }
    let mut arms = BTreeMap::<String, Vec<String>>::new();
    for line in log_of(&gateway, 60).await {
        let text = |key: &str| line[key].as_str().unwrap().to_owned();
        arms.entry(text("request_id")).or_default().push(text("arm"));
    }
    for arms in arms.values_mut() {
        assert_eq!(arms.len(), 5);
        arms.dedup();
    }
    assert!(arms.values().all(|arms| arms.len() == 1), "a conversation changed sides: {arms:?}");
    let sides = arms.values().flatten().collect::<std::collections::BTreeSet<_>>();
    assert_eq!(sides.len(), 2, "twelve conversations on one side: {arms:?}");
}

#[tokio::test]
async fn a_change_of_the_share_takes_effect_and_the_end_of_the_trial_takes_its_series_away() {
    let sims = sims(4).await;
    let plain = config_for(&sims);
    let gateway = Gateway::start(&plain.clone().with("policy: round_robin")).await;
    send(&gateway, 0..5).await;
    assert!(!metrics_page(&gateway).await.contains("spillway_arm_"), "arms without a trial");

    change(&gateway, &plain, "{try: least_request, control: round_robin, share: 0%}").await;
    send(&gateway, 0..20).await;
    assert_eq!(counted(&gateway, 20.0).await, (0.0, 20.0));
    change(&gateway, &plain, "{try: least_request, control: round_robin, share: 100%}").await;
    send(&gateway, 0..20).await;
    assert_eq!(counted(&gateway, 40.0).await, (20.0, 20.0));

    change(&gateway, &plain, "{try: pxbs, control: round_robin, share: 100%}").await;
    send(&gateway, 0..7).await;
    assert_eq!(counted(&gateway, 27.0).await, (7.0, 20.0), "another policy is another arm; the one that stays goes on");

    change(&gateway, &plain, "round_robin").await;
    send(&gateway, 0..5).await;
    let log = log_of(&gateway, 57).await;
    assert!(log[52..].iter().all(|line| line["arm"].is_null()), "{:#?}", &log[52..]);
    let page = metrics_page(&gateway).await;
    let left: Vec<_> = page.lines().filter(|line| line.contains("spillway_arm_")).collect();
    assert!(left.is_empty(), "series of a trial that is over: {left:#?}");
}

#[tokio::test]
async fn what_ends_after_the_trial_brings_no_series_back() {
    let sims = sims(2).await;
    let plain = config_for(&sims);
    let gateway =
        Gateway::start(&plain.clone().with("policy: {try: adaptive, control: round_robin, share: 50%}")).await;
    let mut client = gateway.h1().await;
    let response = client.send(post(CHAT, streamed("a long answer", 20_000))).await.unwrap();
    change(&gateway, &plain, "adaptive").await;
    drop((response, client));
    let log = log_of(&gateway, 1).await;
    assert!(!log[0]["arm"].is_null(), "it was decided by an arm: {}", log[0]);
    assert!(!metrics_page(&gateway).await.contains("spillway_arm_"), "{}", metrics_page(&gateway).await);
}

#[tokio::test]
async fn explain_shows_the_arm() {
    let sims = sims(2).await;
    let plain = config_for(&sims);
    let gateway = Gateway::start(&plain.clone().with("policy: {try: pxbs, control: round_robin, share: 100%}")).await;
    let body = streamed("what is asked", 2);
    let decision = explained(&gateway, body.clone()).await["decision"].clone();
    assert_eq!((&decision["arm"], &decision["policy"]), (&json!("try"), &json!("pxbs")), "{decision:#}");
    let table = gateway.admin(Method::POST, "/explain", body.clone()).await.expect(200).text();
    assert!(table.contains("policy pxbs (arm try)") && table.contains("cost [tokens x requests]"), "{table}");
    change(&gateway, &plain, "{try: pxbs, control: round_robin, share: 0%}").await;
    assert_eq!(explained(&gateway, body).await["decision"]["arm"], "control");
}
