//! A file that does not validate.

use http::Method;
use serde_json::{Value, json};
use spillway_sim::Server;

use super::{reloaded, reloads, status};
use crate::harness::{Config, Gateway, chat, config_for, eventually, sims};

const CHAT: &str = "/v1/chat/completions";

/// A configuration with an unknown key, a value of the wrong type and a pool that does not exist.
fn with_three_mistakes(sims: &[Server]) -> Config {
    config_for(sims).with("polcy: ring").with("retries: {attempts: many}").top("models: [{name: chat, pool: nope}]")
}

/// The places of the three mistakes in a file, each as line and column from 1, in order.
fn places(file: &str) -> Vec<(usize, usize)> {
    let place = |word: &str| {
        let (line, text) = file.lines().enumerate().find(|(_, text)| text.contains(word)).unwrap();
        (line + 1, text.find(word).unwrap() + 1)
    };
    let mut places = vec![place("polcy"), place("many"), place("nope")];
    places.sort_unstable();
    places
}

fn place_of(problem: &Value) -> (usize, usize) {
    let number = |key: &str| usize::try_from(problem[key].as_u64().unwrap()).unwrap();
    (number("line"), number("column"))
}

#[tokio::test]
async fn three_mistakes_are_refused_with_three_messages_and_the_old_rules_stay() {
    let sims = sims(2).await;
    let gateway = Gateway::start(&config_for(&sims[..1])).await;
    let hash = gateway.metric("spillway_config_hash", &[]).await;
    gateway.rewrite(&with_three_mistakes(&sims));
    reloaded(&gateway, "rejected").await;
    let expected = places(&std::fs::read_to_string(gateway.config_file()).unwrap());

    let shown = status(&gateway).await;
    assert_eq!(shown["result"], "rejected");
    let problems = shown["problems"].as_array().unwrap();
    assert_eq!(problems.iter().map(place_of).collect::<Vec<_>>(), expected, "{shown:#}");
    let about = |word: &str| problems.iter().filter(|problem| problem.to_string().contains(word)).count();
    assert_eq!((about("polcy"), about("attempts"), about("nope")), (1, 1, 1), "{shown:#}");
    assert!(shown.to_string().contains("policy"), "the nearest key is named: {shown:#}");

    let logged = async || {
        let lines: Vec<Value> = gateway.events().iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let refused: Vec<_> = lines.into_iter().filter(|line| line["level"] == "ERROR").collect();
        (refused.len() >= 3).then_some(refused)
    };
    let logged = eventually("the log says why", logged).await;
    assert_eq!(logged.iter().map(place_of).collect::<Vec<_>>(), expected, "{logged:#?}");
    assert!(logged.iter().all(|line| line["file"] == gateway.config_file().display().to_string()), "{logged:#?}");

    assert_eq!(gateway.metric("spillway_config_hash", &[]).await, hash, "the old configuration is in force");
    assert_eq!(reloads(&gateway, "applied").await, 0.0);
    for _ in 0..4 {
        assert_eq!(gateway.post(CHAT, chat("hello")).await.expect(200).header("x-sim-replica"), "a");
    }

    gateway.rewrite(&config_for(&sims[1..]));
    reloaded(&gateway, "applied").await;
    assert_eq!(reloads(&gateway, "rejected").await, 1.0, "a bad file is reported once, not at each look");
    assert_eq!(status(&gateway).await["problems"], json!([]), "a good file clears the messages");
    assert_eq!(gateway.post(CHAT, chat("hello")).await.expect(200).header("x-sim-replica"), "b");
}

#[tokio::test]
async fn a_reload_by_request_answers_with_what_came_of_it() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let reload = async || gateway.admin(Method::POST, "/reload", "").await;
    assert_eq!(reload().await.expect(200).json()["result"], "unchanged");
    gateway.rewrite(&with_three_mistakes(&sims));
    let refused = reload().await.expect(422).json();
    assert_eq!(refused["result"], "rejected", "{refused}");
    assert_eq!(refused["problems"].as_array().unwrap().len(), 3, "{refused:#}");
    gateway.rewrite(&config_for(&sims).with("policy: ring"));
    let applied = reload().await.expect(200).json();
    // On a machine that is slow enough, the change was found before it was asked for.
    assert_ne!(applied["result"], "rejected", "{applied}");
    assert_eq!(applied["problems"], json!([]), "{applied}");
    assert_eq!(reloads(&gateway, "applied").await, 1.0);
    gateway.admin(Method::GET, "/reload", "").await.expect(405);
}

#[tokio::test]
async fn a_file_that_is_gone_changes_nothing() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    std::fs::remove_file(gateway.config_file()).unwrap();
    reloaded(&gateway, "rejected").await;
    let shown = status(&gateway).await;
    assert!(shown["problems"][0]["message"].as_str().unwrap().contains("not readable"), "{shown}");
    gateway.admin(Method::POST, "/reload", "").await.expect(422);
    gateway.post(CHAT, chat("hello")).await.expect(200);
    gateway.rewrite(&config_for(&sims).with("policy: ring"));
    reloaded(&gateway, "applied").await;
}

#[tokio::test]
async fn bytes_that_are_no_file_of_ours_change_nothing() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    for bytes in [&b""[..], b"\xff\xfe\x00", b"[]", b"pools: {}", b"pools: *nobody", b"a: &a [*a, *a]", b"\t- x"] {
        std::fs::write(gateway.config_file(), bytes).unwrap();
        let refused = gateway.admin(Method::POST, "/reload", "").await.expect(422).json();
        assert!(!refused["problems"].as_array().unwrap().is_empty(), "{bytes:?}: {refused}");
    }
    gateway.post(CHAT, chat("hello")).await.expect(200);
}
