//! A fleet file, over real sockets and as a process.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use hyper::{Method, StatusCode};
use spillway_sim::fleet::Fleet;

use crate::client::{chat, post, request, send, until};

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn all_endpoints_of_a_file_serve_and_their_faults_come_at_model_time() {
    let text = "
time_scale: 10
endpoints:
  - {count: 2, model: llama}
  - {serial: {overhead_ms: 1, prefill_us: 1, gap_ms: 1, slots: 2}, replica: lane}
faults:
  - {endpoint: 1, at: 0s, kind: slow, factor: 2}
  - {endpoint: 2, at: 1s, for: 2s, kind: status, code: 429}
";
    let servers = Fleet::parse(text).unwrap().start().await.unwrap();
    for (server, name) in servers.iter().zip(["sim-0", "sim-1", "lane-2"]) {
        let reply = post(server, CHAT, chat(3, "")).await;
        assert_eq!(reply.header("x-sim-replica"), name);
        assert!([StatusCode::OK, StatusCode::TOO_MANY_REQUESTS].contains(&reply.status), "{name}: {}", reply.text());
    }
    let faults: Vec<_> = servers.iter().map(|server| server.state().faults.len()).collect();
    assert_eq!(faults[..2], [0, 1]);
    until(&servers[2], "the fault", |state| !state.faults.is_empty()).await;
    assert_eq!(post(&servers[2], CHAT, chat(1, "")).await.status, StatusCode::TOO_MANY_REQUESTS);
    until(&servers[2], "its end", |state| state.faults.is_empty()).await;
    assert_eq!(post(&servers[2], CHAT, chat(1, "")).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_taken_port_names_the_endpoint() {
    let other = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = other.local_addr().unwrap();
    let fleet = Fleet::parse(&format!("endpoints: [{{}}, {{listen: '{address}'}}]")).unwrap();
    let error = fleet.start().await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("sim-1 on {address}: ")), "{error}");
}

/// A file of its own for each test; removed with the directory of the build.
fn file(name: &str, text: &str) -> std::path::PathBuf {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[tokio::test]
async fn the_program_prints_a_line_per_endpoint_and_each_answers() {
    let path = file("fleet.yaml", "endpoints: [{count: 3}, {preset: 8b-h100}]");
    let mut child =
        Command::new(env!("CARGO_BIN_EXE_model-sim")).arg("--fleet").arg(path).stdout(Stdio::piped()).spawn().unwrap();
    let lines: Vec<String> = BufReader::new(child.stdout.take().unwrap()).lines().take(4).map(Result::unwrap).collect();
    for line in &lines {
        let url = line.strip_prefix("listening on ").unwrap();
        let call = request(Method::POST, &format!("{url}{CHAT}"), chat(2, ""));
        assert_eq!(tokio::time::timeout(Duration::from_secs(10), send(call)).await.unwrap().status, StatusCode::OK);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(lines.len(), 4);
}

#[test]
fn the_program_says_all_that_is_wrong_with_a_file() {
    let path = file("wrong.yaml", "time_scale: -1\nendpoints: [{count: 0}]");
    let run = Command::new(env!("CARGO_BIN_EXE_model-sim")).arg("--fleet").arg(path).output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(!run.status.success());
    assert!(
        said.contains("time_scale: must be 0.001 to 10,000") && said.contains("endpoints[0].count: must be"),
        "{said}"
    );
}

#[test]
fn options_are_checked_as_a_file_is_and_all_that_is_wrong_is_said_at_once() {
    let most = "18446744073709551615";
    let options = [
        ["--time-scale", "1e300"],
        ["--max-seqs", most],
        ["--blocks", "1"],
        ["--max-model-len", "0"],
        ["--stream-interval", "0"],
        ["--adapter", "sim-model"],
        ["--replica", "a\nb"],
    ];
    let run = Command::new(env!("CARGO_BIN_EXE_model-sim")).args(options.concat()).output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{said}");
    for line in [
        "time_scale: must be 0.001 to 10,000",
        "max_seqs: must be 1 to 65,536",
        "blocks: must be 2 to 100,000,000",
        "max_model_len: must be 1 to 100,000,000",
        "stream_interval: must be 1 to 100,000,000",
        "adapters[0]: \"sim-model\" is there already",
        "replica: must be the value of a header, up to 256 bytes",
    ] {
        assert!(said.lines().any(|said| said.ends_with(line)), "{line:?} is not in {said}");
    }
}

#[tokio::test]
async fn options_name_the_server_as_they_say() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_model-sim"))
        .args(["--port", "0", "--replica", "alone", "--admin-port", "0", "--max-model-len", "50"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: Vec<String> = BufReader::new(child.stdout.take().unwrap()).lines().take(2).map(Result::unwrap).collect();
    let url = lines[0].strip_prefix("listening on ").unwrap();
    let reply = send(request(Method::POST, &format!("{url}{CHAT}"), chat(51, ""))).await;
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(lines[1].starts_with("admin on http://127.0.0.1:"), "{lines:?}");
    assert_eq!((reply.status, reply.header("x-sim-replica")), (StatusCode::BAD_REQUEST, "alone"));
}
