//! Why a request would go where: the same table from the command line and from a running gateway, and nothing changes by
//! asking.

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use spillway_sim::{Fault, MetricsMode, engine};

use crate::cli::{spillway, spillway_reading, texts};
use crate::harness::{
    Client, Config, Gateway, chat, config_for, eventually, post, sim_of, sims, streamed, wait_until_quiet,
};

const CHAT: &str = "/v1/chat/completions";

/// The decision about `body` as JSON, by a running gateway.
pub(crate) async fn explained(gateway: &Gateway, body: impl Into<Bytes>) -> Value {
    let mut request = post("/explain", body);
    request.headers_mut().insert("accept", "application/json".parse().unwrap());
    Client::h1(gateway.admin_addr()).await.call(request).await.expect(200).json()
}

/// The table by a running gateway.
async fn table(gateway: &Gateway, body: impl Into<Bytes>) -> String {
    gateway.admin(Method::POST, "/explain", body).await.expect(200).text()
}

/// The table by the command line, for the gateway's own file.
async fn offline(gateway: &Gateway, body: &[u8], more: &[&str]) -> String {
    let config = gateway.config_file().display().to_string();
    let arguments = [&["explain", "--config", &config, "--body", "-"][..], more].concat();
    let output = spillway_reading(arguments, body).await;
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{err}");
    out
}

/// The cells of a table without its ages, the last column: they differ from one moment to the next.
fn without_ages(table: &str) -> Vec<Vec<String>> {
    let cells =
        |line: &str| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect();
    let mut lines: Vec<Vec<String>> = table.lines().map(cells).collect();
    for line in &mut lines {
        if line.iter().any(|cell| cell.starts_with("http://")) && line.len() > 1 {
            let age = line.last_mut().unwrap();
            if age.parse::<f64>().is_ok() {
                "some age".clone_into(age);
            }
        }
    }
    lines
}

#[tokio::test]
async fn both_ways_print_the_same_table_when_nothing_is_known() {
    let sims = sims(3).await;
    for sim in &sims {
        sim.fault(Fault::metrics(MetricsMode::NotFound));
    }
    for policy in ["adaptive", "ring", "hyperpod", "least_request", "round_robin"] {
        let gateway = Gateway::start(&config_for(&sims).with(&format!("policy: {policy}"))).await;
        for body in [chat("hello"), chat(&"a long prompt ".repeat(500)), streamed("hello", 7)] {
            let online = table(&gateway, body.clone()).await;
            assert_eq!(online, offline(&gateway, &body, &[]).await, "policy {policy}");
            assert!(online.contains("never scraped") && online.contains("chosen: http://"), "{online}");
        }
    }
}

#[tokio::test]
async fn both_ways_print_the_same_table_for_the_same_facts() {
    let engine = engine::Config { max_seqs: 2, ..engine::Preset::Fast.config() };
    let busy = sim_of(spillway_sim::Config { replica: "a".into(), engine, ..spillway_sim::Config::default() }).await;
    let sims = [busy, sims(2).await.pop().unwrap()];
    let mut others = Vec::new();
    for number in 0..5 {
        let mut client = Client::h1(sims[0].addr()).await;
        let response = client.send(post(CHAT, streamed(&format!("other {number}"), 20_000))).await.unwrap();
        others.push((client, response));
    }
    for policy in ["adaptive", "hyperpod", "least_request", "{custom: {scorers: {queue: 2, running: 1, kv_cache: 1}}}"]
    {
        let gateway = Gateway::start(&config_for(&sims).with(&format!("policy: {policy}"))).await;
        let look = async || {
            let pools = gateway.admin(Method::GET, "/pools", "").await.expect(200).json();
            (pools["main"]["endpoints"][0]["queued"] == 3.0).then_some(())
        };
        eventually("two run and three wait", look).await;
        // Between two looks the cache may fill by a block: compare until both looked at the same page.
        let body = chat("hello");
        let compare = async || {
            let online = explained(&gateway, body.clone()).await;
            let facts: serde_json::Map<_, _> =
                online["decision"]["endpoints"].as_array().unwrap().iter().map(given).collect();
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("facts.json").display().to_string();
            std::fs::write(&file, Value::from(facts).to_string()).unwrap();
            let (before, after) =
                (table(&gateway, body.clone()).await, offline(&gateway, &body, &["--facts", &file]).await);
            (without_ages(&before) == without_ages(&after)).then_some(before)
        };
        let same = eventually(&format!("both ways print the same table under {policy}"), compare).await;
        assert!(same.lines().any(|line| line.starts_with('*') && line.contains(&sims[1].url())), "{same}");
    }
}

/// An endpoint of an explanation as a facts file has it.
fn given(endpoint: &Value) -> (String, Value) {
    let fact = |name: &str| {
        let facts = endpoint["facts"].as_array().unwrap();
        facts.iter().find(|fact| fact["name"] == name).unwrap()["value"].clone()
    };
    let blocks = fact("kv_tokens").as_f64().unwrap() / 16.0;
    let facts = json!({"queued": fact("queued"), "running": fact("running"), "kv_usage": fact("kv_usage"),
        "block_size": 16, "blocks": blocks as u64});
    (endpoint["endpoint"].as_str().unwrap().to_owned(), facts)
}

#[tokio::test]
async fn every_part_of_a_decision_is_named() {
    let sims = sims(3).await;
    let config = config_for(&sims).with("policy: {custom: {scorers: {queue: 2, prefix: 1.5}}}");
    let gateway = Gateway::start(&config).await;
    gateway.admin(Method::POST, &format!("/drain/{}", sims[1].url()), "").await.expect(200);
    let prompt = "what is asked ".repeat(100);
    let decision = explained(&gateway, chat(&prompt)).await["decision"].clone();
    assert_eq!(decision["policy"], "custom");
    assert_eq!(decision["ring_key"].as_str().unwrap().len(), 16, "{decision:#}");
    assert!(decision["prompt_tokens"].as_u64().unwrap() >= 300, "{decision:#}");
    let columns =
        json!([{"name": "prefix", "unit": "score", "weight": 1.5}, {"name": "queue", "unit": "score", "weight": 2.0}]);
    assert_eq!(decision["columns"], columns);
    let endpoints = decision["endpoints"].as_array().unwrap();
    assert_eq!(endpoints.len(), 3);
    for (endpoint, sim) in endpoints.iter().zip(&sims) {
        assert_eq!(endpoint["endpoint"], sim.url());
        let names: Vec<_> =
            endpoint["facts"].as_array().unwrap().iter().map(|fact| fact["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["queued", "running", "kv_usage", "kv_tokens"]);
        for fact in endpoint["facts"].as_array().unwrap() {
            let age = fact["age_seconds"].as_f64().unwrap_or_else(|| panic!("no age: {endpoint:#}"));
            assert!((0.0..10.0).contains(&age), "{endpoint:#}");
        }
    }
    assert_eq!(endpoints[1]["removed_by"], "in_service", "the draining one: {decision:#}");
    assert!(endpoints[1]["values"].as_array().unwrap().is_empty(), "{decision:#}");
    for kept in [&endpoints[0], &endpoints[2]] {
        let values: Vec<f64> = kept["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
        assert_eq!(kept["total"], values[0] * 1.5 + values[1] * 2.0, "{kept:#}");
    }
    let chosen: Vec<_> = endpoints.iter().filter(|one| one["chosen"] == true).collect();
    assert_eq!(chosen.len(), 1, "{decision:#}");
    assert_eq!(decision["chosen"], chosen[0]["endpoint"]);
    assert_eq!(decision["reason"], "score");

    let text = table(&gateway, chat(&prompt)).await;
    for word in
        ["queue x2", "prefix x1.5", "facts age [s]", "removed by", "in_service", "chosen: http://", "reason score"]
    {
        assert!(text.contains(word), "no {word:?} in\n{text}");
    }
}

#[tokio::test]
async fn costs_are_in_seconds() {
    let sims = sims(2).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let decision = explained(&gateway, chat("hello")).await["decision"].clone();
    assert_eq!(decision["lower_is_better"], true);
    let columns = decision["columns"].as_array().unwrap();
    assert!(!columns.is_empty() && columns.iter().all(|column| column["unit"] == "s"), "{columns:?}");
    let text = table(&gateway, chat("hello")).await;
    let first = columns[0]["name"].as_str().unwrap();
    assert!(text.contains(&format!("{first} [s]")) && text.contains("cost [s]"), "{text}");
}

#[tokio::test]
async fn explaining_changes_nothing() {
    let sims = sims(2).await;
    for policy in ["adaptive", "round_robin", "ring"] {
        let gateway = Gateway::start(&config_for(&sims).with(&format!("policy: {policy}"))).await;
        let body = chat(&"what is asked ".repeat(100));
        let first = explained(&gateway, body.clone()).await["decision"].clone();
        for _ in 0..20 {
            let again = explained(&gateway, body.clone()).await["decision"].clone();
            assert_eq!(again["chosen"], first["chosen"], "{policy}: the turn moved on");
            let counts = |decision: &Value| -> Vec<Value> {
                let endpoints = decision["endpoints"].as_array().unwrap();
                endpoints.iter().map(|one| json!([one["in_flight"], one["load"], one["cached_tokens"]])).collect()
            };
            assert_eq!(counts(&again), counts(&first), "{policy}: something was reserved");
        }
        for name in ["spillway_picks_total", "spillway_affinity_total", "spillway_requests_total", "spillway_in_flight"]
        {
            assert_eq!(gateway.metric(name, &[]).await, 0.0, "{policy}: {name}");
        }
        let answer = gateway.post(CHAT, body).await.expect(200);
        let sim = sims.iter().find(|sim| sim.url() == first["chosen"]).unwrap();
        assert_eq!(answer.header("x-sim-replica"), sim.state().replica, "{policy}: what was explained is what happens");
    }
    wait_until_quiet(&sims).await;
    let asked: usize = crate::harness::calls(&sims).len();
    assert_eq!(asked, 3, "explaining asks no endpoint");
}

#[tokio::test]
async fn what_cannot_be_routed_is_explained_as_it_would_be_refused() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims).top("models: [{name: chat, pool: main, model: sim-model}]")).await;
    let unknown = gateway.admin(Method::POST, "/explain", r#"{"model":"nope","messages":[]}"#).await.expect(404);
    assert_eq!(unknown.json()["error"]["code"], "model_not_found");
    gateway.admin(Method::POST, "/explain", "not json").await.expect(400);
    gateway.admin(Method::POST, "/explain", "").await.expect(400);
    gateway.admin(Method::GET, "/explain", "").await.expect(405);

    let config = gateway.config_file().display().to_string();
    let output = spillway_reading(["explain", "--config", &config, "--body", "-"], br#"{"model":"nope"}"#).await;
    let (out, err) = texts(&output);
    assert_eq!((output.status.code(), out.as_str()), (Some(1), ""));
    assert!(err.contains("`nope` does not exist"), "{err}");
}

#[tokio::test]
async fn a_pool_without_a_usable_endpoint_is_explained_too() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    gateway.admin(Method::POST, &format!("/drain/{}", sims[0].url()), "").await.expect(200);
    let decision = explained(&gateway, chat("hello")).await["decision"].clone();
    assert_eq!((&decision["chosen"], &decision["none"]), (&Value::Null, &json!("none_healthy")), "{decision:#}");
    let text = table(&gateway, chat("hello")).await;
    assert!(text.contains("chosen: none, no endpoint is healthy"), "{text}");
}

#[tokio::test]
async fn an_alias_is_explained_with_the_name_sent_on() {
    let sims = sims(2).await;
    let config = Config::default().pool("one", &sims[..1]).pool("two", &sims[1..]);
    let gateway = Gateway::start(&config.top("models: [{name: chat, pool: two, model: sim-model}]")).await;
    let body = r#"{"model":"chat","prompt":"hi"}"#;
    let shown = explained(&gateway, body).await;
    assert_eq!(
        (&shown["pool"], &shown["sent_on"], &shown["surface"]),
        (&json!("two"), &json!("sim-model"), &json!("completions"))
    );
    let text = table(&gateway, body).await;
    assert_eq!(text.lines().next().unwrap(), "completions for model chat -> pool two, sent on as sim-model");
    assert_eq!(text.lines().next(), offline(&gateway, body.as_bytes(), &[]).await.lines().next());
}

#[tokio::test]
async fn the_command_line_prints_the_same_as_json_and_takes_files() {
    let sims = sims(2).await;
    for sim in &sims {
        sim.fault(Fault::metrics(MetricsMode::NotFound));
    }
    let gateway = Gateway::start(&config_for(&sims).with("policy: ring")).await;
    let directory = tempfile::tempdir().unwrap();
    let body = directory.path().join("request.json");
    std::fs::write(&body, chat("hello")).unwrap();
    let config = gateway.config_file();
    let arguments = ["explain", "--json", "--config", config.to_str().unwrap(), "--body", body.to_str().unwrap()];
    let output = spillway(arguments).await;
    let shown: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {:?}", texts(&output)));
    assert_eq!(shown, explained(&gateway, chat("hello")).await);
}

#[tokio::test]
async fn a_facts_file_with_mistakes_is_refused() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let config = gateway.config_file().display().to_string();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("facts.json").display().to_string();
    let mistakes = [
        (r#"{"http://nobody:1": {"queued": 1}}"#.to_owned(), "http://nobody:1"),
        (format!(r#"{{"{}": {{"quued": 1}}}}"#, sims[0].url()), "quued"),
        ("[]".to_owned(), "facts.json"),
    ];
    for (text, about) in mistakes {
        std::fs::write(&file, &text).unwrap();
        let arguments = ["explain", "--config", &config, "--body", "-", "--facts", &file];
        let output = spillway_reading(arguments, &chat("hello")).await;
        let (_, err) = texts(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(err.contains(about), "{text}: {err}");
    }
}
