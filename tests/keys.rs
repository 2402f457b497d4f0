//! API keys: who gets in, what they may use, and that no key is seen where it does not belong.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use http::Method;
use spillway_sim::Server;

use crate::cli::{spillway, spillway_reading, texts};
use crate::harness::{Answer, Config, Gateway, chat, config_for, eventually, get, post, sims};

const CHAT: &str = "/v1/chat/completions";
const KEY_A: &str = "sw-key-of-team-a";
const KEY_B: &str = "sw-key-of-team-b";

/// The entry that `spillway key` prints for a key.
async fn entry(tenant: &str, key: &str, more: &str) -> String {
    let output = spillway_reading(["key", tenant, "--stdin"], key.as_bytes()).await;
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{err}");
    assert!(!out.contains(key) && !err.contains(key), "the key given is not repeated");
    out.trim_end().replace('}', &format!("{more}}}"))
}

async fn keys(entries: &[(&str, &str, &str)]) -> String {
    let mut text = "keys:\n".to_owned();
    for (tenant, key, more) in entries {
        text += &entry(tenant, key, more).await;
        text.push('\n');
    }
    text
}

/// A gateway that asks for keys, and where they are.
struct Guarded {
    gateway: Gateway,
    file: PathBuf,
    _directory: tempfile::TempDir,
}

impl Guarded {
    async fn start(sims: &[Server], text: &str, more: impl FnOnce(Config) -> Config) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("keys.yaml");
        std::fs::write(&file, text).unwrap();
        let config = more(config_for(sims)).top(&format!("auth: {{keys_file: \"{}\"}}", file.display()));
        Self { gateway: Gateway::start(&config).await, file, _directory: directory }
    }

    async fn ask(&self, header: &'static str, value: &str) -> Answer {
        let mut request = post(CHAT, chat("hello"));
        if !value.is_empty() {
            request.headers_mut().insert(header, value.parse().unwrap());
        }
        self.gateway.h1().await.call(request).await
    }
}

#[tokio::test]
async fn a_key_is_needed_and_ends_at_the_gateway() {
    let sims = sims(1).await;
    let text = keys(&[("team-a", KEY_A, ""), ("team-b", KEY_B, "")]).await;
    let guarded = Guarded::start(&sims, &text, |config| config).await;
    let none = guarded.ask("x", "").await.expect(401);
    assert_eq!(none.json()["error"]["code"], "missing_api_key");
    assert_eq!(none.header("www-authenticate"), "Bearer");
    let wrong = guarded.ask("authorization", "Bearer sw-nobody").await.expect(401);
    assert_eq!(wrong.json()["error"]["code"], "invalid_api_key");
    assert!(!wrong.text().contains("sw-nobody"), "{}", wrong.text());
    let mut anthropic = post("/v1/messages", r#"{"model":"sim-model"}"#);
    anthropic.headers_mut().insert("x-api-key", "sw-nobody".parse().unwrap());
    let refused = guarded.gateway.h1().await.call(anthropic).await.expect(401).json();
    assert_eq!((&refused["type"], &refused["error"]["type"]), (&"error".into(), &"authentication_error".into()));
    assert_eq!(guarded.gateway.get("/v1/models").await.status, 401);
    let reached = sims[0].last().iter().filter(|one| one.path != "/v1/models").count();
    assert_eq!(reached, 0, "refused requests reach no endpoint");

    for (header, value, tenant) in [
        ("authorization", format!("Bearer {KEY_A}"), "team-a"),
        ("x-api-key", KEY_B.to_owned(), "team-b"),
        ("api-key", KEY_A.to_owned(), "team-a"),
    ] {
        let answer = guarded.ask(header, &value).await.expect(200);
        let line = guarded.gateway.logged(answer.header("x-request-id")).await;
        assert_eq!(line["tenant"], tenant);
        let received = sims[0].last().pop().unwrap();
        assert!(!format!("{received:?}").contains("sw-key"), "the endpoint got the key: {received:?}");
    }
    let tokens = |tenant| [("tenant", tenant), ("kind", "prompt")];
    assert!(guarded.gateway.metric("spillway_tokens_total", &tokens("team-a")).await > 0.0);
    assert!(guarded.gateway.metric("spillway_tokens_total", &tokens("team-b")).await > 0.0);

    // Nowhere else either, nor any digest.
    let config = guarded.gateway.admin(Method::GET, "/config", "").await.expect(200).text();
    let page = guarded.gateway.metrics_port("/metrics").await.unwrap().text();
    let seen = [config, page, guarded.gateway.events().join("\n"), format!("{:?}", guarded.gateway.log())].join("\n");
    let digest = text.split("sha256: ").nth(1).unwrap().split('}').next().unwrap();
    for secret in [KEY_A, KEY_B, "sw-nobody", digest] {
        assert!(!seen.contains(secret), "{secret} is shown somewhere");
    }
}

#[tokio::test]
async fn a_key_opens_its_models_and_no_other() {
    let sims = sims(1).await;
    let text = keys(&[("team-a", KEY_A, ", models: [chat]"), ("team-b", KEY_B, "")]).await;
    let models = "models: [{name: chat, pool: main, model: sim-model}, {name: other, pool: main, model: sim-model}]";
    let guarded = Guarded::start(&sims, &text, |config| config.top(models).top("default_model: other")).await;
    let ask = async |key: &str, model: &str| {
        let body = format!(r#"{{{model}"max_tokens":1,"messages":[{{"role":"user","content":"hi"}}]}}"#);
        let mut request = post(CHAT, body);
        request.headers_mut().insert("x-api-key", key.parse().unwrap());
        guarded.gateway.h1().await.call(request).await
    };
    ask(KEY_A, r#""model":"chat","#).await.expect(200);
    for model in [r#""model":"other","#, r#""model":"sim-model","#, ""] {
        let refused = ask(KEY_A, model).await.expect(403).json();
        assert_eq!(refused["error"]["code"], "model_forbidden", "{model}");
        ask(KEY_B, model).await.expect(200);
    }
    ask(KEY_A, r#""model":"nope","#).await.expect(404);
    // What a form names is not read, so a key that opens some models cannot send one past the fence.
    let form = async |key: &str| {
        let body = "--b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nother\r\n--b--\r\n";
        let mut request = post("/v1/audio/transcriptions", body);
        request.headers_mut().insert("content-type", "multipart/form-data; boundary=b".parse().unwrap());
        request.headers_mut().insert("x-api-key", key.parse().unwrap());
        guarded.gateway.h1().await.call(request).await
    };
    form(KEY_A).await.expect(403);
    form(KEY_B).await.expect(200);
    let mut list = get("/v1/models");
    list.headers_mut().insert("x-api-key", KEY_A.parse().unwrap());
    let list = guarded.gateway.h1().await.call(list).await.expect(200).json();
    let ids: Vec<_> = list["data"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["chat"], "a key sees what it may use");
}

#[tokio::test]
async fn keys_come_and_go_with_their_file_and_a_bad_file_changes_nothing() {
    let sims = sims(1).await;
    let guarded = Guarded::start(&sims, &keys(&[("team-a", KEY_A, "")]).await, |config| config).await;
    guarded.ask("x-api-key", KEY_B).await.expect(401);
    let changed = Instant::now();
    std::fs::write(&guarded.file, keys(&[("team-b", KEY_B, "")]).await).unwrap();
    let status = async |key| guarded.ask("x-api-key", key).await.status;
    eventually("the new key gets in", async || (status(KEY_B).await == 200).then_some(())).await;
    assert!(changed.elapsed() < Duration::from_secs(2), "took {:?}", changed.elapsed());
    assert_eq!(status(KEY_A).await, 401, "the old one is out");

    std::fs::write(&guarded.file, "keys: [{tenant: team-a, sha256: sw-plain-text}]\n").unwrap();
    let rejected = async || {
        let config = guarded.gateway.admin(Method::GET, "/config", "").await.json();
        (config["keys"]["result"] == "rejected").then_some(config)
    };
    let config = eventually("the file is rejected", rejected).await;
    assert_eq!(config["keys"]["tenants"][0], "team-b");
    assert_eq!(config["keys"]["problems"][0]["path"], "keys[0].sha256");
    assert!(!config.to_string().contains("sw-plain-text"), "a key written in clear is not repeated: {config}");
    assert_eq!(status(KEY_B).await, 200);
    assert_eq!(guarded.gateway.metric("spillway_keys_reload_total", &[("result", "rejected")]).await, 1.0);
    assert!(guarded.gateway.events().iter().any(|line| line.contains("API keys rejected")));
    std::fs::remove_file(&guarded.file).unwrap();
    let unreadable = async || {
        let text = guarded.gateway.admin(Method::GET, "/config", "").await.text();
        text.contains("not readable").then_some(())
    };
    eventually("the missing file is noticed", unreadable).await;
    assert_eq!(status(KEY_B).await, 200, "the keys in force stay");
}

#[tokio::test]
async fn a_configuration_whose_keys_cannot_be_read_never_opens_the_gateway() {
    let sims = sims(1).await;
    let guarded = Guarded::start(&sims, &keys(&[("team-a", KEY_A, "")]).await, |config| config).await;
    guarded.gateway.rewrite(&config_for(&sims).top("auth: {keys_file: /nowhere/keys.yaml}").with("policy: ring"));
    let answer = guarded.gateway.admin(Method::POST, "/reload", "").await.expect(422).json();
    assert_eq!(answer["problems"][0]["path"], "auth.keys_file");
    guarded.ask("x-api-key", KEY_A).await.expect(200);
    guarded.ask("x", "").await.expect(401);
    guarded.gateway.rewrite(&config_for(&sims));
    guarded.gateway.admin(Method::POST, "/reload", "").await.expect(200);
    guarded.ask("x", "").await.expect(200);

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("spillway.yaml");
    let text = "pools: {a: {endpoints: ['http://127.0.0.1:1']}}\nauth: {keys_file: /nowhere/keys.yaml}\n";
    std::fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    let output = spillway(["run", "--config", &file]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(texts(&output).1.contains("/nowhere/keys.yaml is not readable"), "{}", texts(&output).1);
    let output = spillway(["check", &file]).await;
    assert!(texts(&output).0.contains("API keys not checked"), "a file may be checked where the keys are not");
}

#[tokio::test]
async fn a_made_key_is_printed_once_and_gets_in() {
    let output = spillway(["key", "team \"a\""]).await;
    let (entry, shown) = texts(&output);
    let key = shown.trim_end().rsplit(' ').next().unwrap();
    assert!(key.starts_with("sw-") && key.len() == 3 + 64, "{shown}");
    assert!(!entry.contains(key), "what goes into the file holds no key");
    let sims = sims(1).await;
    let guarded = Guarded::start(&sims, &format!("keys:\n{entry}"), |config| config).await;
    guarded.ask("x-api-key", key).await.expect(200);
}
