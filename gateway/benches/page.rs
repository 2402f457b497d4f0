//! What reading costs: one metrics page, and each event of a stream that passes.
//!
//! A page is read for every endpoint at every scrape, and its cost sets how often that may be; an event is looked at on
//! the way to the client.

#![expect(missing_docs, reason = "criterion's macros make public items without any")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use spillway::engine::{self, Engine};
use spillway::observe::{Dialect, Kind, Observer};

fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn page(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("page");
    for (name, file, engine) in
        [("vllm", "vllm-metrics-underload.txt", Engine::Vllm), ("llamacpp", "llamacpp-metrics.txt", Engine::LlamaCpp)]
    {
        let body = fixture(file);
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| engine::read(black_box(&body), Some(engine)).expect("a recorded page reads"));
        });
    }
    group.finish();
}

/// Chunks as vLLM sends them: one event a write.
fn event(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("event");
    for (name, chunk) in [
        (
            "chat",
            "data: {\"id\":\"chatcmpl-b4ee70de85fe6bdc\",\"object\":\"chat.completion.chunk\",\"created\":1795996391,\"model\":\"tiny\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"col\"},\"logprobs\":null,\"finish_reason\":null,\"token_ids\":null}]}\n\n",
        ),
        (
            "chat with usage",
            "data: {\"id\":\"chatcmpl-a0ceb1a1f50217b3\",\"object\":\"chat.completion.chunk\",\"created\":1795996391,\"model\":\"tiny\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"col\"},\"logprobs\":null,\"finish_reason\":null,\"token_ids\":null}],\"usage\":{\"prompt_tokens\":15,\"total_tokens\":16,\"completion_tokens\":1,\"completion_tokens_details\":null}}\n\n",
        ),
        (
            "responses",
            "event: response.output_text.delta\ndata: {\"content_index\":0,\"delta\":\" indi\",\"item_id\":\"msg_8643f729faef9141\",\"logprobs\":[],\"output_index\":0,\"sequence_number\":4,\"type\":\"response.output_text.delta\"}\n\n",
        ),
        (
            "messages",
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"LIN\"},\"index\":0}\n\n",
        ),
    ] {
        group.throughput(Throughput::Bytes(chunk.len() as u64));
        group.bench_function(name, |bencher| {
            let mut observer = Observer::new(Kind::EventStream(Dialect::Chat));
            bencher.iter(|| observer.observe(black_box(chunk.as_bytes())));
        });
    }
    group.finish();
}

/// A reply without a stream, in chunks of a usual read: 4,000 numbers of an embedding.
fn document(criterion: &mut Criterion) {
    let body = format!(
        "{{\"data\":[{{\"embedding\":[{}0.5]}}],\"usage\":{{\"prompt_tokens\":8}}}}",
        "-0.01234567,".repeat(4000)
    );
    let mut group = criterion.benchmark_group("document");
    group.throughput(Throughput::Bytes(body.len() as u64));
    group.bench_function("embedding", |bencher| {
        bencher.iter(|| {
            let mut observer = Observer::new(Kind::Json);
            for chunk in black_box(body.as_bytes()).chunks(16 << 10) {
                observer.observe(chunk);
            }
            observer.finish()
        });
    });
    group.finish();
}

criterion_group!(benches, page, event, document);
criterion_main!(benches);
