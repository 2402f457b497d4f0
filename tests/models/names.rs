//! Which pool a request goes to, and the one thing in its body that may change on the way.

use serde_json::json;
use spillway_sim::Server;

use crate::harness::{Answer, Config, Gateway, calls, config_for, record_of, sim_of, sims};

const CHAT: &str = "/v1/chat/completions";

/// Everything that a decoder and encoder would have changed: large and small numbers, spaces, escapes, key order,
/// repeated keys.
fn body_with(model: &str) -> String {
    format!(
        "{{ \"seed\" : 9007199254740993, \"x\":12345678901234567890123,\"temperature\":1e-7,\t\"top_p\":1.0E+0,\n\
         \"logit_bias\":{{\"2\":-100,\"1\":100}},\"model\" : {model} ,\"stop\":null,\"metadata\":{{\"b\":1,\"a\":2,\"b\":3}},\
         \"messages\":[{{\"role\":\"user\",\"content\":\"caf\\u00e9 \\/ ☕ \\ud83d\\ude00\"}}] }}\n"
    )
}

async fn model(name: &str) -> Server {
    sim_of(spillway_sim::Config { replica: name.into(), model: name.into(), ..spillway_sim::Config::default() }).await
}

/// The body that reached a sim.
fn arrived(sims: &[Server], answer: &Answer) -> String {
    let record = record_of(sims, answer);
    let sim = sims.iter().find(|sim| sim.state().replica == answer.header("x-sim-replica")).unwrap();
    String::from_utf8(sim.body(record.seq).unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn a_name_leads_to_the_pool_whose_endpoints_list_it() {
    let sims = [model("llama").await, model("qwen").await];
    let gateway = Gateway::start(&Config::default().pool("one", &sims[..1]).pool("two", &sims[1..])).await;
    for name in ["llama", "qwen", "llama"] {
        let answer = gateway.post(CHAT, body_with(&json!(name).to_string())).await.expect(200);
        assert_eq!(answer.header("x-sim-replica"), name);
        assert_eq!(arrived(&sims, &answer), body_with(&json!(name).to_string()), "nothing was to be rewritten");
    }
}

#[tokio::test]
async fn an_alias_changes_the_name_and_no_other_byte() {
    let sims = [model("org/llama-v2").await];
    let config = config_for(&sims)
        .top(r#"models: [{name: chat, aliases: [gpt-4o-mini, "with \"quotes\""], pool: main, model: org/llama-v2}]"#);
    let gateway = Gateway::start(&config).await;
    for asked in [r#""chat""#, r#""gpt-4o-mini""#, r#""with \"quotes\"""#, r#""\u0063hat""#] {
        let answer = gateway.post(CHAT, body_with(asked)).await.expect(200);
        assert_eq!(arrived(&sims, &answer), body_with(r#""org/llama-v2""#), "asked for {asked}");
        let length = record_of(&sims, &answer).framing;
        assert_eq!(length, format!("content-length:{}", body_with(r#""org/llama-v2""#).len()), "asked for {asked}");
    }
}

#[tokio::test]
async fn a_name_given_twice_counts_as_the_server_counts_it() {
    let sims = [model("a").await, model("b").await];
    let gateway = Gateway::start(&Config::default().pool("one", &sims[..1]).pool("two", &sims[1..])).await;
    let body = r#"{"model":"a","messages":[{"role":"user","content":"hi"}],"model":"b"}"#;
    let answer = gateway.post(CHAT, body).await.expect(200);
    assert_eq!(answer.header("x-sim-replica"), "b", "the last one counts");
    assert_eq!(answer.header("x-sim-model"), "b");
}

#[tokio::test]
async fn a_repeated_alias_is_rewritten_where_it_counts() {
    let sims = [model("real").await];
    let config = config_for(&sims).top("models: [{name: chat, pool: main, model: real}]");
    let gateway = Gateway::start(&config).await;
    let body = r#"{"model":"nope","messages":[{"role":"user","content":"hi"}],"model":"chat"}"#;
    let answer = gateway.post(CHAT, body).await.expect(200);
    assert_eq!(answer.header("x-sim-model"), "real");
}

#[tokio::test]
async fn an_unknown_name_is_refused_without_asking_anybody() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    for path in [CHAT, "/v1/embeddings", "/v1/responses", "/v1/anything/else"] {
        let answer = gateway.post(path, r#"{"model":"nope","messages":[],"input":"x"}"#).await.expect(404);
        let error = &answer.json()["error"];
        assert_eq!(error["code"], "model_not_found", "{path}: {error}");
        assert_eq!(error["param"], "model", "{path}: {error}");
        assert!(error["message"].as_str().unwrap().contains("nope"), "{path}: {error}");
    }
    let error = gateway.post("/v1/messages", r#"{"model":"nope","messages":[]}"#).await.expect(404).json();
    assert_eq!(error["error"]["type"], "not_found_error", "{error}");
    assert!(calls(&sims).is_empty(), "an endpoint was asked");
    let unknown = gateway.metric("spillway_requests_total", &[("model", "nope")]).await;
    assert_eq!(unknown, 0.0, "a client must not choose the labels of metrics");
}

#[tokio::test]
async fn a_request_without_a_name_gets_the_default_one() {
    let sims = [model("llama").await, model("qwen").await];
    let config = Config::default().pool("one", &sims[..1]).pool("two", &sims[1..]);
    let config = config.top("models: [{name: q, pool: two, model: qwen}]").top("default_model: q");
    let gateway = Gateway::start(&config).await;
    let body = r#"{ "messages":[{"role":"user","content":"hi"}],"seed":9007199254740993}"#;
    let answer = gateway.post(CHAT, body).await.expect(200);
    assert_eq!(answer.header("x-sim-replica"), "qwen");
    let expected = r#"{"model":"qwen", "messages":[{"role":"user","content":"hi"}],"seed":9007199254740993}"#;
    assert_eq!(arrived(&sims, &answer), expected);
}

#[tokio::test]
async fn a_request_without_a_name_is_refused_where_there_is_a_choice() {
    let sims = [model("llama").await, model("qwen").await];
    let gateway = Gateway::start(&Config::default().pool("one", &sims[..1]).pool("two", &sims[1..])).await;
    let answer = gateway.post(CHAT, r#"{"messages":[{"role":"user","content":"hi"}]}"#).await.expect(400);
    assert_eq!(answer.json()["error"]["code"], "model_required");
    for wrong in ["5", "{}", "\"\"", "[\"llama\"]"] {
        let answer = gateway.post(CHAT, body_with(wrong)).await.expect(400);
        assert_eq!(answer.json()["error"]["param"], "model", "{wrong}: {}", answer.text());
    }
    assert!(calls(&sims).is_empty(), "an endpoint was asked");
}

#[tokio::test]
async fn a_request_without_a_name_is_passed_on_where_there_is_none() {
    let sims = sims(1).await;
    let gateway = Gateway::start(&config_for(&sims)).await;
    let body = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
    let answer = gateway.post(CHAT, body).await.expect(200);
    assert_eq!(arrived(&sims, &answer), body);
}

#[tokio::test]
async fn an_adapter_goes_only_where_it_is_loaded() {
    let with = |replica: &str, adapters: &[&str]| spillway_sim::Config {
        replica: replica.into(),
        adapters: adapters.iter().map(|&name| name.to_owned()).collect(),
        ..spillway_sim::Config::default()
    };
    let sims = [sim_of(with("a", &["sql"])).await, sim_of(with("b", &["law"])).await];
    let gateway = Gateway::start(&config_for(&sims)).await;
    for _ in 0..4 {
        for (adapter, replica) in [("sql", "a"), ("law", "b")] {
            let answer = gateway.post(CHAT, body_with(&json!(adapter).to_string())).await.expect(200);
            assert_eq!(answer.header("x-sim-replica"), replica, "adapter {adapter}");
            assert_eq!(answer.header("x-sim-model"), adapter);
        }
    }
}

#[tokio::test]
async fn configured_adapters_are_those_and_no_others() {
    let adapters = vec!["sql".to_owned(), "law".to_owned()];
    let sims = [sim_of(spillway_sim::Config { adapters, ..spillway_sim::Config::default() }).await];
    let config = config_for(&sims).with("adapters: [sql]").top("models: [{name: sim-model, pool: main}]");
    let gateway = Gateway::start(&config).await;
    let answer = gateway.post(CHAT, body_with("\"sql\"")).await.expect(200);
    assert_eq!(answer.header("x-sim-model"), "sql");
    gateway.post(CHAT, body_with("\"law\"")).await.expect(404);
}

#[tokio::test]
async fn an_alias_of_an_adapter_reaches_the_adapter() {
    let config = spillway_sim::Config { adapters: vec!["sql-v3".to_owned()], ..spillway_sim::Config::default() };
    let sims = [sim_of(config).await, sims(1).await.pop().unwrap()];
    let config = config_for(&sims).top("models: [{name: sql, pool: main, model: sql-v3}]");
    let gateway = Gateway::start(&config).await;
    for _ in 0..4 {
        let answer = gateway.post(CHAT, body_with("\"sql\"")).await.expect(200);
        assert_eq!(answer.header("x-sim-model"), "sql-v3");
    }
}
