//! A name that leads to several places by weight: shares, what stays together, and changes under traffic.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use http::Method;
use serde_json::json;
use spillway_sim::Server;

use crate::harness::{Client, Config, Gateway, config_for, eventually, post, sim_of, sims};

const CHAT: &str = "/v1/chat/completions";

/// Requests that a share is measured over.
const REQUESTS: usize = 4_000;

/// What is promised of a change of the file.
const SOON: Duration = Duration::from_secs(1);

fn split(sims: &[Server], weights: (u32, u32), more: &str) -> Config {
    let arms = format!(
        "[{{pool: main, model: v1, weight: {}, adapter: false}}, {{pool: main, model: v2, weight: {}, adapter: false}}]",
        weights.0, weights.1
    );
    config_for(sims).top(&format!("models: [{{name: support, split: {arms}{more}}}]"))
}

/// Endpoints that take any name.
async fn servers() -> Vec<Server> {
    let any = || spillway_sim::Config { flavor: spillway_sim::Flavor::LlamaCpp, ..spillway_sim::Config::default() };
    vec![sim_of(any()).await, sim_of(any()).await]
}

/// The arm that a conversation is answered by, at some turn of it.
async fn arm_of(client: &mut Client, conversation: usize, turn: usize) -> String {
    let mut messages = vec![
        json!({"role": "system", "content": "You help customers of one shop. ".repeat(50)}),
        json!({"role": "user", "content": format!("question {conversation}")}),
    ];
    for number in 0..turn {
        messages.push(json!({"role": "assistant", "content": format!("answer {number}")}));
        messages.push(json!({"role": "user", "content": format!("and then {number}")}));
    }
    let body = json!({"model": "support", "max_tokens": 1, "messages": messages}).to_string();
    client.call(post(CHAT, body)).await.expect(200).header("x-sim-model").to_owned()
}

/// The arms of conversations `range`, asked four at a time.
async fn arms(gateway: &Gateway, range: std::ops::Range<usize>, turn: usize) -> HashMap<usize, String> {
    let lanes = (0..4).map(|lane| {
        let range = range.clone();
        async move {
            let mut client = gateway.h1().await;
            let mut found = Vec::new();
            for conversation in range.filter(|number| number % 4 == lane) {
                found.push((conversation, arm_of(&mut client, conversation, turn).await));
            }
            found
        }
    });
    futures_util::future::join_all(lanes).await.into_iter().flatten().collect()
}

#[track_caller]
fn assert_share(found: &HashMap<usize, String>, arm: &str, share: f64) {
    let hits = found.values().filter(|one| *one == arm).count() as f64;
    let (expected, sigma) = (found.len() as f64 * share, (found.len() as f64 * share * (1.0 - share)).sqrt());
    assert!((hits - expected).abs() <= 3.0 * sigma, "{arm} got {hits} of {}, expected {expected}", found.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shares_follow_the_weights_and_conversations_stay_while_they_change() {
    let sims = servers().await;
    let gateway = Gateway::start(&split(&sims, (90, 10), "")).await;
    let before = arms(&gateway, 0..REQUESTS, 0).await;
    assert_share(&before, "v2", 0.1);
    let later = arms(&gateway, 0..200, 3).await;
    assert!(later.iter().all(|(conversation, arm)| before[conversation] == *arm), "a later turn changed its arm");

    // A conversation that moves, found by asking: how long the old share holds is seen by one of these.
    let changed = Instant::now();
    gateway.rewrite(&split(&sims, (50, 50), ""));
    let mut client = gateway.h1().await;
    let staying = before.iter().filter(|(_, arm)| *arm == "v1").map(|(conversation, _)| *conversation);
    let staying: Vec<usize> = staying.take(40).collect();
    let mut next = staying.iter().cycle();
    loop {
        if arm_of(&mut client, *next.next().unwrap(), 0).await == "v2" {
            break;
        }
        assert!(changed.elapsed() < SOON, "the old share still held after {SOON:?}");
    }
    let after = arms(&gateway, 0..REQUESTS, 0).await;
    assert_share(&after, "v2", 0.5);
    let moved_back = before.iter().filter(|(conversation, arm)| *arm == "v2" && after[*conversation] != "v2").count();
    assert_eq!(moved_back, 0, "conversations of the arm that grew must stay there");
    let later = arms(&gateway, 0..200, 2).await;
    assert!(later.iter().all(|(conversation, arm)| after[conversation] == *arm), "a later turn changed its arm");

    let labels = |target| [("model", "support"), ("pool", "main"), ("target", target), ("code", "200")];
    let counted = async || {
        let v1 = gateway.metric("spillway_split_requests_total", &labels("v1")).await;
        let v2 = gateway.metric("spillway_split_requests_total", &labels("v2")).await;
        (v1 + v2 >= (2 * REQUESTS + 400) as f64 && v1 > v2 && v2 > 0.0).then_some(())
    };
    eventually("both arms are counted", counted).await;
    assert!(gateway.metric("spillway_split_tokens_total", &[("target", "v2"), ("kind", "prompt")]).await > 0.0);
}

#[tokio::test]
async fn a_split_over_pools_leads_to_both_and_a_session_header_binds() {
    let servers = servers().await;
    let arms = "[{pool: one, weight: 1}, {pool: two, weight: 1}]";
    let gateway = Gateway::start(
        &Config::default()
            .pool("one", &servers[..1])
            .with("affinity: {session_header: x-session}")
            .pool("two", &servers[1..])
            .top(&format!("models: [{{name: m, split: {arms}}}]")),
    )
    .await;
    let mut seen = HashMap::new();
    for number in 0..64 {
        let mut request = post(
            CHAT,
            json!({"model": "m", "max_tokens": 1,
            "messages": [{"role": "user", "content": format!("question {number}")}]})
            .to_string(),
        );
        request.headers_mut().insert("x-session", (number % 8).to_string().parse().unwrap());
        let answer = gateway.h1().await.call(request).await.expect(200);
        let line = gateway.logged(answer.header("x-request-id")).await;
        let pool = line["pool"].as_str().unwrap().to_owned();
        let before = seen.insert(number % 8, pool.clone());
        assert!(before.is_none_or(|before| before == pool), "session {} went elsewhere", number % 8);
    }
    let pools: std::collections::BTreeSet<_> = seen.values().collect();
    assert_eq!(pools.len(), 2, "eight sessions in one pool: {seen:?}");
    assert!(gateway.get("/v1/models").await.expect(200).text().contains("\"m\""), "the name is listed");
}

#[tokio::test]
async fn series_of_an_arm_taken_out_disappear() {
    let sims = servers().await;
    let gateway = Gateway::start(&split(&sims, (1, 1), "")).await;
    arms(&gateway, 0..24, 0).await;
    let counted = async |target| gateway.metric("spillway_split_requests_total", &[("target", target)]).await;
    let both = async || (counted("v1").await > 0.0 && counted("v2").await > 0.0).then_some(());
    eventually("both arms are counted", both).await;
    let arms = "[{pool: main, model: v1, weight: 1}, {pool: main, model: v3, weight: 0}]";
    gateway.rewrite(&config_for(&sims).top(&format!("models: [{{name: support, split: {arms}}}]")));
    gateway.admin(Method::POST, "/reload", "").await.expect(200);
    assert_eq!(counted("v2").await, 0.0);
    assert!(counted("v1").await > 0.0);
}

#[tokio::test]
async fn a_request_that_nothing_binds_is_shared_out_too() {
    let sims = servers().await;
    let gateway = Gateway::start(&split(&sims, (1, 1), ", sticky: off")).await;
    let mut client = gateway.h1().await;
    let mut seen = HashMap::<String, usize>::new();
    for _ in 0..60 {
        *seen.entry(arm_of(&mut client, 1, 0).await).or_default() += 1;
    }
    assert_eq!(seen.len(), 2, "the same conversation sixty times, each drawn anew: {seen:?}");
}

#[tokio::test]
async fn explain_names_the_arm_that_a_request_then_takes() {
    let sims = servers().await;
    let gateway = Gateway::start(&split(&sims, (1, 1), "")).await;
    for number in 0..8 {
        let body = json!({"model": "support", "max_tokens": 1, "messages": [{"role": "user", "content": format!("{number}")}]});
        let explained = gateway.admin(Method::POST, "/explain", body.to_string()).await.expect(200).text();
        let taken = gateway.post(CHAT, body.to_string()).await.expect(200);
        let taken = taken.header("x-sim-model");
        assert!(
            explained.contains(&format!("sent on as {taken}")) && explained.contains("one arm of a split"),
            "{explained}"
        );
    }
}

#[tokio::test]
async fn a_split_that_leads_nowhere_is_refused_with_its_place() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    for (models, problem) in [
        ("[{name: m}]", "leads nowhere"),
        ("[{name: m, pool: main, split: [{pool: main, weight: 1}]}]", "cannot stand beside pool"),
        ("[{name: m, split: []}]", "needs an arm with a weight above 0"),
        ("[{name: m, split: [{pool: main, weight: 0}]}]", "needs an arm with a weight above 0"),
        ("[{name: m, split: [{pool: main, weight: -1}]}]", "must be between 0"),
        ("[{name: m, split: [{pool: mian, weight: 1}]}]", "there is no pool \\\"mian\\\""),
        ("[{name: m, split: [{pool: main, weight: 1}, {pool: main, weight: 2}]}]", "leads where the arm on line"),
        ("[{name: m, model: x, split: [{pool: main, weight: 1}]}]", "belongs to the arms"),
        ("[{name: m, pool: main, sticky: tenant}]", "has no meaning without a split"),
        ("[{name: m, sticky: tenant, split: [{pool: main, weight: 1}]}]", "no tenants without auth.keys_file"),
    ] {
        gateway.rewrite(&config_for(&sims).top(&format!("models: {models}")));
        let answer = gateway.admin(Method::POST, "/reload", "").await.expect(422);
        assert!(answer.text().contains(problem), "{models}: {}", answer.text());
    }
}
