//! A trace recorded by the real gateway, and decided again.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use http::Method;
use serde_json::{Value, json};
use spillway_sim::Server;
use spillway_sim::engine::Preset;

use crate::cli::{spillway, texts};
use crate::harness::{Config, Gateway, config_for, eventually, post, sim_of};

const CHAT: &str = "/v1/chat/completions";

/// What must never be in a trace.
const SECRET: &str = "tell-nobody-of-this";

/// Servers that compute prompts at a speed that can be told.
async fn servers(count: usize) -> Vec<Server> {
    let mut sims = Vec::new();
    for replica in 0..count {
        let config = spillway_sim::Config {
            replica: replica.to_string(),
            engine: Preset::Llama8bA10g.config(),
            time_scale: 4.0,
            ..spillway_sim::Config::default()
        };
        sims.push(sim_of(config).await);
    }
    sims
}

/// A streamed question under one of a few long system prompts.
fn question(kind: usize, number: usize) -> String {
    let mut system = String::new();
    for line in 0..60 {
        let _ = writeln!(system, "{SECRET}: rule {line} of agent {kind} is to be kind in way {}", line * 7 + kind);
    }
    let messages = json!([
        {"role": "system", "content": system},
        {"role": "user", "content": format!("{SECRET}: question {number} of {kind}")},
    ]);
    json!({"model": "sim-model", "messages": messages, "max_tokens": 4, "user": SECRET, "stream": true,
        "stream_options": {"include_usage": true}})
    .to_string()
}

/// Sends so many questions under each of `kinds` prompts, two at a time.
async fn ask(gateway: &Gateway, kinds: usize, each: usize) {
    let half = async |from: usize| {
        let mut connection = gateway.h1().await;
        for number in (from..kinds * each).step_by(2) {
            let mut request = post(CHAT, question(number % kinds, number));
            request.headers_mut().insert("authorization", format!("Bearer sk-{SECRET}").parse().unwrap());
            connection.call(request).await.expect(200);
        }
    };
    tokio::join!(half(0), half(1));
}

/// Waits until the trace has so many requests, and returns its text.
async fn recorded(gateway: &Gateway, trace: &Path, requests: f64) -> String {
    let look = async || {
        let written = gateway.metric("spillway_trace_records_total", &[("result", "written")]).await;
        (written == requests).then_some(())
    };
    eventually(&format!("{requests} requests are in the trace"), look).await;
    std::fs::read_to_string(trace).unwrap()
}

fn lines<'a>(text: &'a str, kind: &'a str) -> impl Iterator<Item = Value> + 'a {
    text.lines().filter_map(move |line| serde_json::from_str::<Value>(line).ok()?.get(kind).cloned())
}

/// A configuration over the same endpoints, in a file.
fn written(directory: &Path, sims: &[Server], policy: &str) -> String {
    let urls: Vec<String> = sims.iter().map(|sim| format!("\"{}\"", sim.url())).collect();
    let file = directory.join(format!("{policy}.yaml"));
    let text = format!("pools: {{main: {{endpoints: [{}], policy: {policy}}}}}\n", urls.join(", "));
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

fn recording(sims: &[Server], trace: &Path) -> Config {
    config_for(sims).top(&format!("trace: {{file: \"{}\"}}", trace.display()))
}

#[tokio::test]
async fn a_recorded_trace_tells_no_text_and_which_policy_would_have_found_more_in_the_caches() {
    let sims = servers(4).await;
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace.jsonl");
    let gateway = Gateway::start(&recording(&sims, &trace).with("policy: least_request")).await;
    // As many kinds as share no divisor with the endpoints: in turn, each kind comes to each endpoint.
    ask(&gateway, 7, 10).await;
    let text = recorded(&gateway, &trace, 70.0).await;
    assert_eq!(std::fs::metadata(&trace).unwrap().permissions().mode() & 0o777, 0o600);
    for secret in [SECRET, "question", "rule", "127.0.0.1:0", "Bearer"] {
        assert!(!text.contains(secret), "{secret} is in the trace");
    }
    let requests: Vec<Value> = lines(&text, "request").collect();
    assert_eq!(requests.len(), 70);
    for request in &requests {
        assert_eq!((&request["pool"], &request["model"]), (&json!("main"), &json!("sim-model")), "{request}");
        assert_eq!((&request["status"], &request["output"]), (&json!(200), &json!(4)), "{request}");
        let micros = |key: &str| request[key].as_u64().unwrap_or_else(|| panic!("no {key}: {request}"));
        assert!(micros("picked") <= micros("ttft") && micros("ttft") <= micros("duration"), "{request}");
        assert!(micros("prompt") > 500 && micros("cached") <= micros("prompt"), "{request}");
        assert!(sims.iter().any(|sim| request["endpoint"] == sim.url()), "{request}");
    }
    let hashes = |request: &Value| request["blocks"].as_str().map_or(0, |blocks| blocks.len() / 16);
    assert!(requests.iter().map(hashes).sum::<usize>() < 70 * 5, "what prompts share is written once");
    assert_eq!(lines(&text, "endpoint").count(), 4, "the sizes of caches are on the metrics pages");

    let configs = ["adaptive", "round_robin"].map(|policy| written(directory.path(), &sims, policy));
    let trace = trace.display().to_string();
    let arguments = ["replay", &trace, "--config", &configs[0], "--config", &configs[1]];
    let output = spillway(arguments).await;
    let (table, err) = texts(&output);
    assert_eq!((output.status.code(), err.as_str()), (Some(0), ""), "{table}");
    assert!(table.contains("model error: TTFT of half the 70 streams is off by "), "{table}");
    assert!(table.contains("policy") && table.contains("round_robin") && table.contains("TTFT P95"), "{table}");

    let output = spillway(arguments.into_iter().chain(["--format", "json"])).await;
    let whole: Value = serde_json::from_str(&texts(&output).0).unwrap();
    let pool = &whole["pools"][0];
    let column = |index: usize, key: &str| {
        pool["columns"][index][key].as_f64().unwrap_or_else(|| panic!("no {key} of column {index}: {pool:#}"))
    };
    let [measured, modelled, adaptive, in_turn] = [0, 1, 2, 3].map(|index| column(index, "hit_rate"));
    assert!(adaptive > in_turn + 0.1, "adaptive finds {adaptive}, round robin {in_turn}\n{table}");
    assert!((measured - modelled).abs() < 0.15, "cached were {measured}, modelled {modelled}\n{table}");
    assert_eq!(column(1, "as_recorded"), 1.0);
    assert!(column(3, "as_recorded") < 1.0);
    for share in pool["columns"][3]["shares"].as_object().unwrap().values() {
        let share = share.as_f64().unwrap();
        assert!((share - 0.25).abs() < 0.02, "round robin shares evenly: {share}\n{table}");
    }
    assert!(pool["model_error"]["ttft_seconds"]["p50"].is_f64(), "{pool:#}");

    let again = spillway(arguments).await;
    assert_eq!(texts(&again).0, table, "equal input, equal output");
}

#[tokio::test]
async fn recording_begins_and_ends_with_a_reload_and_a_file_that_cannot_be_is_refused() {
    let sims = servers(1).await;
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace.jsonl");
    let gateway = Gateway::start(&config_for(&sims)).await;
    ask(&gateway, 1, 2).await;
    let reload = async |config: &Config, code| {
        gateway.rewrite(config);
        gateway.admin(Method::POST, "/reload", "").await.expect(code)
    };
    let refused = reload(&recording(&sims, Path::new("/nowhere/trace")), 422).await.text();
    assert!(refused.contains("cannot record a trace to /nowhere/trace"), "{refused}");
    reload(&recording(&sims, &trace), 200).await;
    ask(&gateway, 1, 3).await;
    let text = recorded(&gateway, &trace, 3.0).await;
    reload(&config_for(&sims), 200).await;
    ask(&gateway, 1, 4).await;
    reload(&recording(&sims, &trace), 200).await;
    ask(&gateway, 1, 1).await;
    let later = recorded(&gateway, &trace, 4.0).await;
    assert!(later.starts_with(&text), "a file that is there is added to");
    assert_eq!((lines(&later, "trace").count(), lines(&later, "request").count()), (2, 4));
    assert_eq!(gateway.metric("spillway_trace_records_total", &[("result", "dropped")]).await, 0.0);
}

#[tokio::test]
async fn a_start_without_its_trace_file_fails_and_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("spillway.yaml");
    let free = "address: \"127.0.0.1:0\"";
    let text = format!(
        "server: {{listen: [{{{free}}}], metrics: {{{free}}}, admin: {{{free}}}}}\ntrace: {{file: /nowhere/trace}}\n\
         pools: {{a: {{endpoints: [\"http://127.0.0.1:9\"]}}}}\n"
    );
    std::fs::write(&file, text).unwrap();
    let output = spillway([Path::new("--config"), &file]).await;
    assert_eq!(output.status.code(), Some(1));
    let (_, err) = texts(&output);
    assert!(err.contains("cannot record a trace to /nowhere/trace: No such file"), "{err}");
}

const HEAD: &str = r#"{"trace":{"version":1,"start":"2026-01-01T00:00:00Z"}}"#;

fn request(at: u64, pool: &str, rest: &str) -> String {
    format!(
        r#"{{"request":{{"at":{at},"pool":"{pool}","model":"m","stream":true,"bytes":512,"prompt":128,"cached":0,"output":9,"endpoint":"http://h:1","picked":100,"ttft":50000,"duration":90000,"status":200{rest}}}}}"#
    )
}

#[tokio::test]
async fn odd_traces_are_read_as_far_as_they_go_or_refused_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(path("a.yaml"), "pools: {main: {endpoints: ['http://h:1', 'http://h:2']}}\n").unwrap();
    std::fs::write(path("b.yaml"), "pools: {main: {endpoints: ['http://h:1'], polcy: x}, other: {}}\n").unwrap();
    let replay = async |text: &str, more: &[&str]| {
        std::fs::write(path("trace"), text).unwrap();
        let output = spillway(["replay", &path("trace"), "--config", &path("a.yaml")].iter().chain(more)).await;
        let (out, err) = texts(&output);
        (output.status.code(), out, err)
    };
    let one = request(5, "main", "");
    let two = request(9_000, "main", r#","later":[1]"#);
    let whole = format!("{HEAD}\n{one}\n{two}\n");

    let (code, out, err) = replay(&format!("{whole}{}", &one[..90]), &[]).await;
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.contains("pool main: 2 requests") && out.contains("1 line passed over"), "{out}");
    assert!(out.contains("the first is line 4: EOF"), "{out}");
    assert!(out.contains("not in the trace, taken to be as fast as those there together: http://h:2"), "{out}");

    let several = format!("{whole}{}\n", request(6, "second", ""));
    let (code, _, err) = replay(&several, &[]).await;
    assert_eq!(code, Some(1));
    assert!(err.contains("a.yaml has no pool second; --pool replays another"), "{err}");
    assert_eq!(replay(&several, &["--pool", "main"]).await.0, Some(0));
    let (code, _, err) = replay(&several, &["--pool", "third"]).await;
    assert_eq!(code, Some(1));
    assert!(err.contains("no requests of pool third; it has those of main, second"), "{err}");
    // The only pool of one and the only pool of the other.
    assert_eq!(replay(&format!("{HEAD}\n{}\n", request(6, "second", "")), &[]).await.0, Some(0));

    let huge = [
        r#","bytes":99999999999,"token_ids":99999999999,"media":4294967295"#,
        r#","duration":300000000000000,"ttft":200000000000000,"output":4294967295,"prompt":4294967295"#,
        r#","at":300000000000000"#,
    ];
    let mut text = format!(
        "{HEAD}\n{{\"endpoint\":{{\"pool\":\"main\",\"endpoint\":\"http://h:1\",\"kv_tokens\":18446744073709551615}}}}\n{one}\n"
    );
    for rest in huge {
        for key in ["bytes", "duration", "ttft", "output", "prompt", "at"] {
            let old = request(7, "main", "");
            let value =
                old.split(&format!("\"{key}\":")).nth(1).and_then(|rest| rest.split([',', '}']).next()).unwrap();
            if rest.contains(&format!("\"{key}\":")) {
                let new = rest.split(&format!("\"{key}\":")).nth(1).and_then(|rest| rest.split(',').next()).unwrap();
                let line = old.replace(&format!("\"{key}\":{value}"), &format!("\"{key}\":{new}"));
                text.push_str(&line);
                text.push('\n');
            }
        }
    }
    let (code, out, err) = replay(&text, &[]).await;
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");

    for (text, why) in [
        ("", "it is empty"),
        (HEAD, "it has no requests"),
        ("nonsense\n", "it is not a trace: line 1 is not the head of one"),
        (&HEAD.replace(":1,", ":7,"), "line 1: it is of version 7, and this release reads version 1"),
    ] {
        let (code, out, err) = replay(text, &[]).await;
        assert_eq!((code, out.as_str()), (Some(1), ""), "{text}");
        assert!(err.contains(why) && err.contains("cannot replay"), "{text}: {err}");
    }

    let (code, _, err) = replay(&whole, &["--config", &path("b.yaml")]).await;
    let (_, checked) = texts(&spillway(["check", &path("b.yaml")]).await);
    assert_eq!((code, &err), (Some(1), &checked), "as check has it");
    assert!(checked.lines().count() >= 2, "{checked}");
}
