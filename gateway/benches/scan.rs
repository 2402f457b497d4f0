//! What reading a request costs: the scan while the body arrives, and the hashing of its prompt once it is whole.
//!
//! Targets, on the machine of the published figures: scan and hash of 1 KB in 1.5 us, of a 38 KB chat in 15 us, of
//! 1 MB in 300 us.

use std::hint::black_box;

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_main};
use spillway::scan::{Scan, Scanner};
use spillway::surface::{Inspected, Surface};
use spillway_picker::prefix::Depths;

/// How large pieces of a body are when they come from the network.
const CHUNK_BYTES: usize = 16 << 10;

fn scan(chunks: &[Bytes]) -> Scan {
    let mut scanner = Scanner::new();
    for chunk in chunks {
        scanner.feed(chunk).expect("the bodies here are JSON");
    }
    scanner.finish().expect("the bodies here are whole")
}

fn scan_and_hash(chunks: &[Bytes]) {
    let seen = Inspected::new(Surface::ChatCompletions, scan(chunks), chunks).expect("the bodies here name a model");
    black_box(seen.prompt(seen.hash(chunks, Depths::default()), chunks, "m", "", None));
}

/// A chat of about `bytes` bytes, in messages of up to `message_bytes`, each line of which ends with an escape.
fn chat(bytes: usize, message_bytes: usize) -> String {
    let line = "The quick brown fox jumps over the lazy dog, and then it sleeps until noon.\\n";
    let mut body = r#"{"model":"llama-3.1-8b","messages":["#.to_owned();
    let mut role = "system";
    while body.len() + 150 < bytes {
        let lines = message_bytes.min(bytes - body.len() - 100) / line.len();
        body.extend([r#"{"role":""#, role, r#"","content":""#, &line.repeat(lines.max(1)), r#""},"#]);
        role = if role == "user" { "assistant" } else { "user" };
    }
    body.pop();
    body + r#"],"stream":true,"max_tokens":256}"#
}

/// An agent's request: tool schemas in many small pieces, and arguments that are JSON inside strings. With spaces after
/// commas and colons, as Python writes it.
fn agent(bytes: usize) -> String {
    let tool = r#"{"type": "function", "function": {"name": "read_file", "description": "Reads a file.", "parameters": {"type": "object", "properties": {"path": {"type": "string", "description": "The path."}, "limit": {"type": "integer"}}, "required": ["path"]}}}"#;
    let turn = r#"{"role": "assistant", "content": null, "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "read_file", "arguments": "{\"path\": \"/etc/hosts\", \"limit\": 10}"}}]}, {"role": "tool", "tool_call_id": "call_1", "content": "127.0.0.1\tlocalhost\n::1\tlocalhost\n"}, "#;
    let tools = vec![tool; bytes / 2 / tool.len()].join(", ");
    let turns = turn.repeat(bytes / 2 / turn.len());
    format!(
        r#"{{"model": "llama-3.1-8b", "tools": [{tools}], "messages": [{turns}{{"role": "user", "content": "go on"}}]}}"#
    )
}

fn bench(criterion: &mut Criterion) {
    let bodies = [
        ("chat_1k", chat(1 << 10, 600)),
        ("chat_38k", chat(38 << 10, 4 << 10)),
        ("chat_1m", chat(1 << 20, 16 << 10)),
        ("agent_38k", agent(38 << 10)),
    ];
    let mut group = criterion.benchmark_group("scan");
    for (name, body) in bodies {
        let chunks: Vec<Bytes> = body.as_bytes().chunks(CHUNK_BYTES).map(Bytes::copy_from_slice).collect();
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_with_input(BenchmarkId::new("scan", name), &chunks, |bencher, chunks| {
            bencher.iter(|| black_box(scan(black_box(chunks))));
        });
        group.bench_with_input(BenchmarkId::new("scan_and_hash", name), &chunks, |bencher, chunks| {
            bencher.iter(|| scan_and_hash(black_box(chunks)));
        });
    }
    group.finish();
}

/// Named here and not by `criterion_group!`, which makes a public function without a word on it.
fn benches() {
    bench(&mut Criterion::default().configure_from_args());
}

criterion_main!(benches);
