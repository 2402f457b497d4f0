//! The command line: what it prints, where, and how it ends.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Output, Stdio};

use tokio::io::AsyncWriteExt as _;

/// Runs `spillway` to its end.
pub(crate) async fn spillway(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
    spillway_reading(arguments, b"").await
}

/// Runs `spillway` to its end with `input` as its standard input.
pub(crate) async fn spillway_reading(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>, input: &[u8]) -> Output {
    let mut child = tokio::process::Command::new(env!("CARGO_BIN_EXE_spillway"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the executable was built before its tests");
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    // A program that does not read its input may have ended.
    let _ = stdin.write_all(input).await;
    drop(stdin);
    child.wait_with_output().await.expect("the child is ours to wait for")
}

/// Standard output and standard error as text.
pub(crate) fn texts(output: &Output) -> (String, String) {
    (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn written(directory: &Path, text: &str) -> String {
    let file = directory.join("spillway.yaml");
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

#[tokio::test]
async fn check_sums_up_a_good_file() {
    let directory = tempfile::tempdir().unwrap();
    let text = "pools:\n  a: {endpoints: [\"http://h:1\", \"http://h:2\"]}\n  b: {endpoints: [\"http://h:3\"]}\n\
                models: [{name: m, pool: a}]\n";
    let file = written(directory.path(), text);
    let output = spillway(["check", &file]).await;
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert_eq!(out, format!("{file}: ok (2 pools, 3 endpoints, 1 model)\n"));
    assert_eq!(err, "");
}

#[tokio::test]
async fn check_names_every_problem_with_its_place_and_fails() {
    let directory = tempfile::tempdir().unwrap();
    let file =
        written(directory.path(), "pools:\n  a:\n    endpoints: [5]\n    polcy: ring\nmodels: [{name: m, pool: b}]\n");
    let output = spillway(["check", &file]).await;
    let (out, err) = texts(&output);
    assert_eq!((output.status.code(), out.as_str()), (Some(1), ""), "{err}");
    let lines: Vec<_> = err.lines().collect();
    assert_eq!(lines.len(), 3, "{err}");
    for (line, place, about) in [(lines[0], "3:17", "endpoints"), (lines[1], "4:5", "policy"), (lines[2], "5:26", "b")]
    {
        assert!(line.starts_with(&format!("{file}:{place}: ")), "expected {place}: {line}");
        assert!(line.contains(about), "expected a word about {about}: {line}");
    }
}

#[tokio::test]
async fn a_file_that_is_not_there_fails_every_command_that_needs_it() {
    for arguments in
        [&["check", "/nowhere.yaml"][..], &["run", "--config", "/nowhere.yaml"], &["--config", "/nowhere.yaml"]]
    {
        let output = spillway(arguments).await;
        let (_, err) = texts(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {err}");
        assert!(err.contains("/nowhere.yaml"), "{arguments:?}: {err}");
    }
}

#[tokio::test]
async fn a_bad_file_is_reported_at_start_as_check_reports_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = written(directory.path(), "pools: {a: {endpoints: [\"http://h:1\"], polcy: ring}}\n");
    let (_, checked) = texts(&spillway(["check", &file]).await);
    let output = spillway(["--config", &file]).await;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(texts(&output).1, checked);
}

#[tokio::test]
async fn a_port_that_is_taken_ends_the_start_with_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap();
    let free = "127.0.0.1:0";
    for [gateway, metrics, admin] in
        [[taken.to_string().as_str(), free, free], [free, taken.to_string().as_str(), free]]
    {
        let text = format!(
            "server: {{listen: [{{address: \"{gateway}\"}}], metrics: {{address: \"{metrics}\"}}, admin: {{address: \"{admin}\"}}}}\n\
             pools: {{a: {{endpoints: [\"http://127.0.0.1:9\"]}}}}\n"
        );
        let output = spillway(["--config", &written(directory.path(), &text)]).await;
        let (_, err) = texts(&output);
        assert_eq!(output.status.code(), Some(1), "{err}");
        let told: Vec<&str> = err.lines().filter(|line| !line.starts_with('{')).collect();
        assert_eq!(told.len(), 1, "{err}");
        assert!(told[0].contains(&format!("cannot listen on {taken}")), "{err}");
    }
}

#[tokio::test]
async fn an_unknown_command_is_a_usage_error() {
    let output = spillway(["serve-everything"]).await;
    assert_eq!(output.status.code(), Some(2), "{}", texts(&output).1);
    assert!(texts(&spillway(["--version"]).await).0.starts_with("spillway "));
}

#[tokio::test]
async fn diff_says_what_changes_and_what_needs_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let old = written(directory.path(), "pools: {a: {endpoints: ['http://h:1']}}\n");
    let new = directory.path().join("new.yaml");
    std::fs::write(&new, "pools: {a: {endpoints: ['http://h:1'], policy: ring}}\nserver: {drain: 5s}\n").unwrap();
    let new = new.display().to_string();
    let output = spillway(["diff", &old, &new]).await;
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert_eq!(
        out,
        "~ pools.a.policy: \"adaptive\" -> \"ring\"\n~ server.drain: \"30s\" -> \"5s\"  (needs a restart)\n"
    );
    assert_eq!(spillway(["diff", &old, &old]).await.status.code(), Some(0));
    let trouble = spillway(["diff", &old, "/nowhere"]).await;
    assert_eq!((trouble.status.code(), texts(&trouble).0), (Some(2), String::new()));
}

#[tokio::test]
async fn schema_prints_what_conf_holds() {
    let output = spillway(["schema"]).await;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conf/schema.json");
    assert_eq!(texts(&output).0, std::fs::read_to_string(file).unwrap());
    let keys = texts(&spillway(["schema", "--keys"]).await).0;
    assert!(keys.contains("sha256") && keys.contains("tenant"), "{keys}");
}

#[tokio::test]
async fn completions_are_made_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = spillway(["completions", shell]).await;
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(0), "{shell}: {err}");
        assert!(out.contains("explain") && out.contains("diff"), "{shell} knows no commands: {out}");
    }
}

#[tokio::test]
async fn a_reader_that_has_seen_enough_is_no_error() {
    for arguments in [&["schema"][..], &["completions", "bash"]] {
        let mut child = tokio::process::Command::new(env!("CARGO_BIN_EXE_spillway"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the executable was built before its tests");
        drop(child.stdout.take());
        let output = child.wait_with_output().await.unwrap();
        assert_eq!((output.status.code(), texts(&output).1), (Some(0), String::new()), "{arguments:?}");
    }
}
