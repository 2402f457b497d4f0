//! The families of vLLM 0.32.
//!
//! `vllm:iteration_tokens_total` is a histogram in spite of its name; prefix cache counters are in tokens; the adapter
//! gauge has one series per pair of lists ever seen, and only the one with the largest value is true.

use std::sync::atomic::Ordering;

use super::super::shared::Shared;
use super::page::{Page, escaped};
use crate::engine::{Engine, Stats};

pub(super) fn page(shared: &Shared) -> String {
    shared.driver.with_engine(|engine| {
        let mut page = Page::new(&shared.config.model, shared.started);
        let stats = engine.stats();
        work(&mut page);
        gauges(&mut page, stats);
        counters(&mut page, stats);
        page.counter_of_model(
            "vllm:admission_rejections",
            "Requests refused by a full queue.",
            ("reason", "max_num_queued_reqs", "max_num_queued_tokens"),
            shared.rejected.load(Ordering::Relaxed) as f64,
        );
        histograms(&mut page, stats);
        if !shared.adapters().is_empty() || !stats.adapters.is_empty() {
            adapters(&mut page, shared, engine);
        }
        cache_config(&mut page, engine);
        page.finish()
    })
}

/// Estimates of arithmetic and memory traffic; there is none here.
fn work(page: &mut Page) {
    page.counter("vllm:estimated_flops_per_gpu", "Operations, estimated.", 0.0);
    page.counter("vllm:estimated_read_bytes_per_gpu", "Bytes read, estimated.", 0.0);
    page.counter("vllm:estimated_write_bytes_per_gpu", "Bytes written, estimated.", 0.0);
}

fn gauges(page: &mut Page, stats: &Stats) {
    let gauges = stats.gauges;
    let (capacity, deferred) = (gauges.waiting_capacity as f64, gauges.waiting_deferred as f64);
    page.gauge("vllm:num_requests_running", "Requests in the batch.", gauges.running as f64);
    page.gauge("vllm:num_requests_waiting", "Requests in the queue.", capacity + deferred);
    page.gauge_by(
        "vllm:num_requests_waiting_by_reason",
        "Requests in the queue, by what they wait for.",
        "reason",
        &[("capacity", capacity), ("deferred", deferred)],
    );
    page.gauge_by(
        "vllm:engine_sleep_state",
        "Whether the engine is awake, or how deep it sleeps.",
        "sleep_state",
        &[("awake", 1.0), ("weights_offloaded", 0.0), ("discard_all", 0.0)],
    );
    page.gauge("vllm:kv_cache_usage_perc", "Part of the KV cache in use, 1 is all.", gauges.kv_usage);
}

fn counters(page: &mut Page, stats: &Stats) {
    let cached = stats.prompt_tokens_cached as f64;
    let computed = stats.prompt_tokens as f64 - cached;
    page.counter("vllm:prefix_cache_queries", "Tokens looked up in the prefix cache.", stats.prefix_queries as f64);
    page.counter("vllm:prefix_cache_hits", "Tokens found in the prefix cache.", stats.prefix_hits as f64);
    page.counter("vllm:external_prefix_cache_queries", "Tokens looked up in other instances' caches.", 0.0);
    page.counter("vllm:external_prefix_cache_hits", "Tokens found in other instances' caches.", 0.0);
    page.counter("vllm:mm_cache_queries", "Items looked up in the media cache.", 0.0);
    page.counter("vllm:mm_cache_hits", "Items found in the media cache.", 0.0);
    page.counter("vllm:num_preemptions", "Times a request lost its blocks.", stats.preemptions as f64);
    page.counter("vllm:prompt_tokens", "Prompt tokens processed.", stats.prompt_tokens as f64);
    page.counter_by(
        "vllm:prompt_tokens_by_source",
        "Prompt tokens, by where they came from.",
        "source",
        &[("local_compute", computed), ("local_cache_hit", cached), ("external_kv_transfer", 0.0)],
    );
    page.counter("vllm:prompt_tokens_cached", "Prompt tokens found in a cache.", cached);
    page.counter_by(
        "vllm:prompt_tokens_cached_by_source",
        "Prompt tokens found in a cache, by its tier.",
        "source",
        &[
            ("device", stats.prefix_hits as f64),
            ("host", 0.0),
            ("p2p", 0.0),
            ("disk", 0.0),
            ("external_unspecified", 0.0),
        ],
    );
    page.counter("vllm:generation_tokens", "Output tokens.", stats.generation_tokens as f64);
    page.counter_by(
        "vllm:request_success",
        "Requests that ended, by why.",
        "finished_reason",
        &[
            ("stop", stats.finished_stop as f64),
            ("length", stats.finished_length as f64),
            ("abort", stats.aborted as f64),
            ("error", 0.0),
            ("repetition", 0.0),
        ],
    );
}

fn histograms(page: &mut Page, stats: &Stats) {
    let families = [
        ("vllm:request_prompt_tokens", "Prompt tokens per request.", &stats.request_prompt_tokens),
        ("vllm:request_generation_tokens", "Output tokens per request.", &stats.request_generation_tokens),
        ("vllm:iteration_tokens_total", "Tokens per engine step.", &stats.iteration_tokens),
        (
            "vllm:request_max_num_generation_tokens",
            "Most output tokens of a request's choices.",
            &stats.max_num_generation_tokens,
        ),
        ("vllm:request_params_n", "Choices asked for.", &stats.params_n),
        ("vllm:request_params_max_tokens", "Output tokens allowed.", &stats.params_max_tokens),
        ("vllm:time_to_first_token_seconds", "Time to the first token.", &stats.time_to_first_token),
        ("vllm:inter_token_latency_seconds", "Time between two tokens.", &stats.inter_token_latency),
        (
            "vllm:request_time_per_output_token_seconds",
            "Mean time per output token of a request.",
            &stats.time_per_output_token,
        ),
        ("vllm:e2e_request_latency_seconds", "Time from arrival to end.", &stats.e2e_latency),
        ("vllm:request_queue_time_seconds", "Time in the queue.", &stats.queue_time),
        ("vllm:request_inference_time_seconds", "Time from first admission to end.", &stats.inference_time),
        ("vllm:request_prefill_time_seconds", "Time from first admission to first token.", &stats.prefill_time),
        ("vllm:request_decode_time_seconds", "Time from first to last token.", &stats.decode_time),
        ("vllm:request_num_preemptions", "Preemptions per request.", &stats.num_preemptions),
        (
            "vllm:request_prefill_kv_computed_tokens",
            "Prompt tokens computed, without cached ones.",
            &stats.kv_computed_tokens,
        ),
    ];
    for (name, help, histogram) in families {
        page.histogram(name, help, histogram);
    }
}

fn adapters(page: &mut Page, shared: &Shared, engine: &Engine) {
    let name = "vllm:lora_requests_info";
    page.head(name, "gauge", "Adapters with requests, and when that was last so.");
    let slots = engine.config().lora.slots;
    for series in &engine.stats().adapters {
        let (running, waiting) = (escaped(&series.running), escaped(&series.waiting));
        let labels =
            format!(r#"max_lora="{slots}",running_lora_adapters="{running}",waiting_lora_adapters="{waiting}""#);
        page.sample(name, &labels, shared.started + shared.driver.wall(series.set_at).as_secs_f64());
    }
}

fn cache_config(page: &mut Page, engine: &Engine) {
    let (config, name) = (engine.config(), "vllm:cache_config_info");
    let (size, blocks) = (config.block_size, config.blocks);
    let caching = if config.prefix_caching { "True" } else { "False" };
    let labels = format!(
        r#"_block_size_resolved="True",block_size="{size}",cache_dtype="auto",cache_hit_alignment_tokens="None",effective_attention_block_size="{size}",enable_mamba_shared_prefix_checkpoint="False",enable_prefix_caching="{caching}",engine="0",gpu_memory_utilization="0.92",hash_block_size="None",is_attention_free="False",kv_cache_dtype_skip_layers="[]",kv_cache_layout="None",kv_cache_max_concurrency="4.0",kv_cache_memory_bytes="None",kv_cache_size_tokens="{tokens}",kv_offloading_backend="native",kv_offloading_size="None",kv_sharing_fast_prefill="False",mamba_block_size="None",mamba_cache_dtype="auto",mamba_cache_mode="none",mamba_page_size_padded="None",mamba_ssm_cache_dtype="float32",num_cpu_blocks="None",num_gpu_blocks="{blocks}",num_gpu_blocks_override="None",prefix_cache_retention_interval="0",prefix_caching_hash_algo="sha256",prefix_match_unit="None",replayssm_buffer_len="16",skip_page_size_padded="None",sliding_window="None",swa_bounded_replay="True",use_kda_recoverssm="False",use_replayssm="False",user_specified_block_size="False""#,
        tokens = size * blocks
    );
    page.head(name, "gauge", "Configuration of the KV cache.");
    page.sample(name, &labels, 1.0);
}
