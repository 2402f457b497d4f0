//! Prompts that begin alike find the same endpoint, on every gateway, without a word between gateways.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use spillway_sim::Server;

use crate::explain::explained;
use crate::harness::{Config, Gateway, config_for, noise, post, sims};

const CHAT: &str = "/v1/chat/completions";

fn text(size: usize, seed: u64) -> String {
    String::from_utf8(noise(size, seed)).unwrap()
}

fn messages(messages: &[Value]) -> String {
    json!({"model": "sim-model", "max_tokens": 1, "messages": messages}).to_string()
}

fn user(content: &str) -> Value {
    json!({"role": "user", "content": content})
}

/// Who answers.
async fn replica(gateway: &Gateway, body: String) -> String {
    gateway.post(CHAT, body).await.expect(200).header("x-sim-replica").to_owned()
}

/// Two gateways of the same configuration, and how many of fifty different prompts each sends to the same endpoint.
async fn agreed(sims: &[Server], config: &Config, size: usize) -> (usize, BTreeMap<String, usize>) {
    let (one, other) = (Gateway::start(config).await, Gateway::start(config).await);
    let (mut equal, mut owners) = (0, BTreeMap::new());
    for seed in 0..50 {
        let body = messages(&[user(&text(size, seed))]);
        let (first, second) = (replica(&one, body.clone()).await, replica(&other, body).await);
        equal += usize::from(first == second);
        *owners.entry(first).or_default() += 1;
    }
    assert!(owners.len() == sims.len(), "one endpoint owns nothing of fifty keys: {owners:?}");
    (equal, owners)
}

#[tokio::test]
async fn two_gateways_that_never_talk_choose_the_same_owners_on_the_ring() {
    let sims = sims(4).await;
    let (equal, owners) = agreed(&sims, &config_for(&sims).with("policy: ring"), 300).await;
    assert_eq!(equal, 50, "the gateways disagree; owners by the first: {owners:?}");
}

#[tokio::test]
async fn two_gateways_that_know_of_each_other_agree_under_adaptive() {
    let sims = sims(4).await;
    let config = config_for(&sims).with("affinity: {gateways: 2}");
    for size in [300, 4_000] {
        let (equal, owners) = agreed(&sims, &config, size).await;
        assert_eq!(equal, 50, "prompts of {size} bytes: the gateways disagree; owners by the first: {owners:?}");
    }
}

#[tokio::test]
async fn the_owner_does_not_depend_on_the_order_of_endpoints_in_the_file() {
    let sims = sims(3).await;
    let urls: Vec<_> = sims.iter().map(Server::url).collect();
    let config = |order: [usize; 3]| {
        let pool = Config::default().pool("main", &[]).with("policy: ring");
        order.iter().fold(pool, |config, index| config.endpoint(&urls[*index]))
    };
    let (one, other) = (Gateway::start(&config([0, 1, 2])).await, Gateway::start(&config([2, 0, 1])).await);
    for seed in 0..20 {
        let body = messages(&[user(&text(300, seed))]);
        assert_eq!(replica(&one, body.clone()).await, replica(&other, body).await, "prompt {seed}");
    }
}

#[tokio::test]
async fn one_endpoint_more_takes_only_its_share_of_owners() {
    let sims = sims(4).await;
    let gateway = Gateway::start(&config_for(&sims[..3]).with("policy: ring")).await;
    let bodies: Vec<_> = (0..100).map(|seed| messages(&[user(&text(300, seed))])).collect();
    let mut before = Vec::new();
    for body in &bodies {
        before.push(replica(&gateway, body.clone()).await);
    }
    gateway.rewrite(&config_for(&sims).with("policy: ring"));
    gateway.admin(http::Method::POST, "/reload", "").await.expect(200);
    let mut moved = 0;
    for (body, before) in bodies.iter().zip(&before) {
        let after = replica(&gateway, body.clone()).await;
        moved += usize::from(after != *before);
        assert!(after == *before || after == "d", "a key moved from {before} to {after}, neither of which is new");
    }
    // A quarter is expected; 45 of 100 is four standard deviations and more.
    assert!((1..=45).contains(&moved), "{moved} of 100 keys moved");
}

#[tokio::test]
async fn a_chat_of_short_messages_keeps_one_owner_on_the_ring() {
    let sims = sims(4).await;
    let gateway = Gateway::start(&config_for(&sims).with("policy: ring")).await;
    let mut owners = BTreeMap::<String, usize>::new();
    for chat in 0..8 {
        let (mut history, mut owner) = (Vec::new(), None);
        for turn in 0..10 {
            history.push(user(&text(50, chat * 100 + turn)));
            let now = replica(&gateway, messages(&history)).await;
            let owner = owner.get_or_insert_with(|| now.clone());
            assert_eq!(now, *owner, "chat {chat} moved at turn {turn}");
            history.push(json!({"role": "assistant", "content": text(50, chat * 100 + turn + 50)}));
        }
        *owners.entry(owner.unwrap()).or_default() += 1;
    }
    assert!(owners.len() > 1, "eight chats on one endpoint of four: {owners:?}");
}

/// Asks so many questions under one system prompt, one after the other, and returns how often each replica answered.
async fn questions(gateway: &Gateway, client: u64, count: u64) -> BTreeMap<String, u64> {
    let system = json!({"role": "system", "content": text(1_200, 1)});
    let mut connection = gateway.h1().await;
    let mut owners = BTreeMap::new();
    for question in 0..count {
        let body = messages(&[system.clone(), user(&text(60, client * 1_000 + question))]);
        let answer = connection.call(post(CHAT, body)).await.expect(200);
        *owners.entry(answer.header("x-sim-replica").to_owned()).or_default() += 1;
    }
    owners
}

#[tokio::test]
async fn two_hundred_questions_under_one_system_prompt_share_one_owner_on_the_ring() {
    let sims = sims(4).await;
    let gateway = Gateway::start(&config_for(&sims).with("policy: ring")).await;
    // Two at a time: low concurrency, and yet more than one.
    let (one, other) = tokio::join!(questions(&gateway, 1, 100), questions(&gateway, 2, 100));
    assert_eq!(one.len(), 1, "the system prompt was computed in several places: {one:?}");
    assert_eq!(one, other);
}

#[tokio::test]
async fn two_hundred_questions_under_one_system_prompt_share_one_owner_under_adaptive() {
    let sims = sims(4).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let owners = questions(&gateway, 1, 200).await;
    let most = *owners.values().max().unwrap();
    println!("{owners:?}");
    assert!(most >= 190, "the system prompt was computed in several places: {owners:?}");
    let computed: u64 = sims.iter().map(|sim| sim.state().prompt_tokens - sim.state().cached_tokens).sum();
    let asked: u64 = sims.iter().map(|sim| sim.state().prompt_tokens).sum();
    assert!(computed * 4 < asked, "{computed} of {asked} prompt tokens were computed");
}

#[tokio::test]
async fn an_explicit_key_decides_the_owner() {
    let sims = sims(4).await;
    let gateway =
        Gateway::start(&config_for(&sims).with("policy: ring").with("affinity: {session_header: x-session}")).await;
    for session in 0..10 {
        let (mut by_key, mut by_header) = (Vec::new(), Vec::new());
        for seed in 0..4 {
            let mut body: Value = serde_json::from_str(&messages(&[user(&text(300, session * 10 + seed))])).unwrap();
            let mut request = post(CHAT, body.to_string());
            request.headers_mut().insert("x-session", session.to_string().parse().unwrap());
            let answer = gateway.h1().await.call(request).await.expect(200);
            by_header.push(answer.header("x-sim-replica").to_owned());
            body["prompt_cache_key"] = json!(format!("key {session}"));
            by_key.push(replica(&gateway, body.to_string()).await);
        }
        by_key.dedup();
        by_header.dedup();
        assert_eq!((by_key.len(), by_header.len()), (1, 1), "session {session}: {by_key:?} {by_header:?}");
    }
}

#[tokio::test]
async fn without_affinity_prompts_are_not_looked_at_and_requests_are_served() {
    let sims = sims(2).await;
    for policy in ["adaptive", "ring", "hyperpod"] {
        let gateway = Gateway::start(&config_for(&sims).with("affinity: off").with(&format!("policy: {policy}"))).await;
        let body = messages(&[user(&text(3_000, 7))]);
        let mut owners = BTreeMap::<String, usize>::new();
        for _ in 0..20 {
            *owners.entry(replica(&gateway, body.clone()).await).or_default() += 1;
        }
        assert_eq!(owners.len(), 2, "{policy}: equal prompts still share an owner: {owners:?}");
        let decision = explained(&gateway, body).await["decision"].clone();
        assert!(decision["ring_key"].is_null(), "{policy}: {decision:#}");
        assert!(
            decision["endpoints"].as_array().unwrap().iter().all(|one| one["cached_tokens"] == 0.0),
            "{decision:#}"
        );
        let none = gateway.metric("spillway_affinity_total", &[("result", "none")]).await;
        assert_eq!(none, 20.0, "{policy}");
    }
}
