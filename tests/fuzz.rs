//! Bytes from outside never bring the process down: mutations of what clients, servers and operators send, fed to every
//! function that reads such bytes.
//!
//! `FUZZ_SECONDS` is how long each function is fed (3), `FUZZ_SEED` repeats a run. On a panic the input is printed as a
//! Rust byte string, to be put into a unit test beside the code.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use fastrand::Rng;
use spillway::surface::{self, Surface};

/// Longest input. Long enough for a page of metrics with a few engines on it.
const LONGEST: usize = 128 * 1024;

/// Request bodies, small so that a mutation hits what matters.
const BODIES: &[&str] = &[
    r#"{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"\u00e9\ud83d\ude00\n"}]}"#,
    r#"{"messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"data:,a"}}]}],"model":"m"}"#,
    r#"{"model":"a","model":"b","stream":true,"stream_options":{"include_usage":true},"max_tokens":5,"n":2}"#,
    r#"{"model":"m","tools":[{"type":"function","function":{"name":"f","parameters":{"a":1e-7,"b":[{}]}}}],"tool_choice":"auto"}"#,
    r#"{"model":"m","messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1","function":{"name":"f","arguments":"{\"x\":1}"}}]},{"role":"tool","tool_call_id":"1","content":"y"}]}"#,
    r#"{"model":"m","prompt":[[1,2],[3]],"seed":9007199254740993}"#,
    r#"{"model":"m","prompt":["a","b"],"suffix":"c"}"#,
    r#"{"model":"m","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}],"instructions":"i","previous_response_id":"r"}"#,
    r#"{"model":"m","system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"x"}],"max_tokens":1}"#,
    r#"{"model":"m","query":"q","documents":["d",{"text":"e"}],"cache_salt":"s","prompt_cache_key":"k","priority":-1,"user":"u"}"#,
    "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\n\r\ndata:[DONE]\r\n\r\n",
    "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":5}}}\n\n",
    "\u{feff}: comment\n\ndata: {\"error\":{\"message\":\"m\"}}\n\nid\nretry: 1\n\n",
    "/v1/chat/completions",
    "/v1/models/org%2Fname",
    "/v1/responses/resp_1/cancel",
];

/// What mutations insert: the tokens at which readers of JSON, YAML, events and pages change their mind.
const WORDS: &[&str] = &[
    "\"",
    "\\",
    "\\u",
    "\\ud800",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "null",
    "true",
    "1e999",
    "-",
    "0.",
    "NaN",
    "\r",
    "\n",
    "\n\n",
    "\r\n\r\n",
    "data:",
    "event: ",
    "[DONE]",
    "\"model\":",
    "\"usage\":",
    "\"messages\":",
    "\"content\":",
    "# TYPE ",
    "# EOF",
    "vllm:num_requests_waiting",
    "{engine=\"0\"}",
    "sglang:num_queue_reqs{tp_rank=\"1\",priority=\"\"}",
    "nv_trt_llm_request_metrics{request_type=\"waiting\"}",
    "tgi_queue_size",
    "&a ",
    "*a",
    "<<: ",
    "- ",
    "? ",
    "|",
    ">",
    "!!str ",
    "---",
    "...",
    "\t",
    "pools:",
    "endpoints:",
    "http://[::1]:1",
    "1h",
    "9999999999999999999",
    "%",
    "%2F",
    "é",
    "\u{1F600}",
    "\0",
    "BlockStored",
    "block_hashes",
    "GPU",
];

fn corpus() -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut corpus: Vec<Vec<u8>> = BODIES.iter().map(|body| body.as_bytes().to_vec()).collect();
    for folder in ["fixtures", "fixtures/pages", "fixtures/kv-events", "../conf", "../conf/examples"] {
        let mut files: Vec<_> =
            std::fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
        // The order of a directory differs between machines, and a seed must mean the same everywhere.
        files.sort();
        corpus.extend(files.iter().filter(|path| path.is_file()).map(|path| std::fs::read(path).unwrap()));
    }
    assert!(corpus.len() > BODIES.len() + 10, "fixtures are missing");
    corpus
}

/// A mutation of one input, with parts of others.
fn mutated(corpus: &[Vec<u8>], random: &mut Rng) -> Vec<u8> {
    let mut input = random.choice(corpus).unwrap().clone();
    // A window of a long input: most of a long page is alike, and short inputs go faster.
    if input.len() > 1_024 && random.f64() < 0.7 {
        let start = random.usize(..input.len());
        let end = (start + random.usize(1..1_024)).min(input.len());
        input = input[start..end].to_vec();
    }
    for _ in 0..random.usize(0..6) {
        mutate(&mut input, corpus, random);
    }
    input.truncate(LONGEST);
    input
}

fn mutate(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Rng) {
    let at = random.usize(..=input.len());
    let to = (at + random.usize(0..16)).min(input.len());
    match random.u8(0..7) {
        0 if at < input.len() => input[at] ^= 1 << random.u8(0..8),
        1 if at < input.len() => input[at] = random.u8(..),
        2 => drop(input.drain(at..to)),
        3 => {
            let part = input[at..to].to_vec();
            for _ in 0..random.usize(1..40) {
                input.splice(at..at, part.iter().copied());
            }
        }
        4 => input.truncate(at),
        5 => {
            let other = random.choice(corpus).unwrap();
            let start = random.usize(..=other.len());
            let end = (start + random.usize(0..64)).min(other.len());
            input.splice(at..to, other[start..end].iter().copied());
        }
        _ => drop(input.splice(at..to, random.choice(WORDS).unwrap().bytes())),
    }
}

/// Feeds mutations to `target` for `FUZZ_SECONDS`.
fn feed(name: &str, target: impl Fn(&[u8])) {
    let number = |key: &str| std::env::var(key).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seed = number("FUZZ_SEED").unwrap_or_else(|| fastrand::u64(..));
    let seconds = number("FUZZ_SECONDS").unwrap_or(3);
    println!("FUZZ_SEED={seed} for {name}, {seconds} s");
    let corpus = corpus();
    let mut random = Rng::with_seed(seed);
    let run = |input: &[u8]| {
        let began = Instant::now();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(input))) {
            eprintln!("{name} panics (FUZZ_SEED={seed}) on b\"{}\"", input.escape_ascii());
            resume_unwind(panic);
        }
        // A hostile input may cost no more than any other of its length.
        let took = began.elapsed();
        assert!(
            took < Duration::from_secs(5),
            "{name} takes {took:?} (FUZZ_SEED={seed}) for b\"{}\"",
            input.escape_ascii()
        );
    };
    for input in &corpus {
        run(input);
    }
    let (began, mut count) = (Instant::now(), corpus.len());
    while began.elapsed() < Duration::from_secs(seconds) {
        run(&mutated(&corpus, &mut random));
        count += 1;
    }
    println!("{name}: {count} inputs");
}

#[test]
fn request_bodies() {
    feed("scan", spillway::scan::fuzz::fuzz);
}

#[test]
fn response_bodies() {
    feed("observe", spillway::observe::fuzz);
}

#[test]
fn metrics_pages_and_model_lists() {
    feed("engine", spillway::engine::fuzz);
}

#[test]
fn kv_events() {
    feed("kv_events", spillway::kv_events::fuzz);
}

#[test]
fn packets_of_peers() {
    feed("peers", |bytes| {
        spillway::peers::fuzz(bytes);
        // Whole records before and behind.
        let mut records = Vec::new();
        spillway::peers::records::Record::Pool(7).encode(&mut records);
        spillway::peers::fuzz(&[&records, bytes].concat());
    });
}

#[test]
fn configuration_files() {
    let known = spillway::picker_config::known(&spillway::Registry::default());
    feed("config", move |bytes| match spillway::config::load(bytes, &known) {
        Ok(config) => {
            // What loads can be served: routes are built and pools accept their policies.
            let again = config.clone();
            assert_eq!(config.fingerprint(), again.fingerprint());
            if let Err(error) = spillway::fleet::Fleet::new(config, spillway::Registry::default()) {
                panic!("a file that loads cannot be brought into force: {error}");
            }
        }
        Err(problems) => {
            assert!(!problems.0.is_empty(), "refused without a reason");
            let lines = bytes.split(|byte| *byte == b'\n' || *byte == b'\r').count();
            for problem in &problems.0 {
                assert!(problem.line >= 1 && problem.column >= 1, "no place in the file: {problem:?}");
                // A document that ends too early is wrong at the line after its last.
                assert!(problem.line <= lines + 1, "a line that is not there: {problem:?}");
                assert!(!problem.message.is_empty(), "{problem:?}");
            }
        }
    });
}

#[test]
fn facts_files() {
    let config = "pools: {a: {endpoints: [\"http://h:1\", \"http://h:2\"]}}";
    let known = spillway::picker_config::known(&spillway::Registry::default());
    let config = spillway::config::load(config.as_bytes(), &known).unwrap();
    let fleet = spillway::fleet::Fleet::new(config, spillway::Registry::default()).unwrap();
    feed("facts", move |bytes| {
        let _ = spillway::facts_file::apply(&fleet, bytes);
        let wrapped = [br#"{"http://h:1": "#, bytes, b"}"].concat();
        let _ = spillway::facts_file::apply(&fleet, &wrapped);
        let body = bytes::Bytes::copy_from_slice(bytes);
        let path = spillway::explain::guess_path(&body);
        if let Ok(explanation) = spillway::explain::explain(&fleet, &fleet.live_full(), path, &body) {
            assert!(explanation.to_string().contains("chosen: "), "{explanation}");
        }
    });
}

#[test]
fn paths() {
    feed("paths", |bytes| {
        let text = String::from_utf8_lossy(bytes);
        for method in ["GET", "POST", "DELETE", "OPTIONS"] {
            let surface = Surface::classify(method, &text);
            let _ = (surface.name(), surface.reads_body(), surface.can_stream(), surface.error_shape());
        }
        let _ = (surface::model_in_path(&text), surface::response_in_path(&text));
    });
}
