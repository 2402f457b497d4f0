//! The names under which each engine exposes what a gateway wants to know: one table per engine.
//!
//! Names stand without the engine's prefix and the colon or underscore after it: which of the two a page has depends on
//! its format and on who passed it on. Which versions used a name stands beside it, so that a dead one can be dropped one
//! day.

use super::Engine;
use super::page::Sample;

/// What a family means, and with it how the engines that share a page are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// Requests waiting for the engine; summed.
    Queued,
    /// More that wait and are not in `Queued`; added to it where that is known.
    AlsoQueued,
    /// Requests running; summed.
    Running,
    /// Share of the KV cache in use, 0 to 1; the largest.
    KvUsage,
    /// Tokens in a block of the KV cache; the largest.
    BlockSize,
    /// Blocks in the KV cache; summed.
    Blocks,
    /// The LoRA adapters with requests, in labels; the newest series.
    Adapters,
    /// LoRA adapters that fit into one batch; the largest.
    MaxAdapters,
    /// One series per sleep state, 1 for the state the engine is in.
    SleepState,
    /// A number that moves whenever the engine does, where counters move only when a request ends.
    Progress,
}

/// One name and its meaning. Of several rows with the same meaning the first that is on the page counts.
#[derive(Debug)]
pub(super) struct Row {
    name: &'static str,
    pub(super) signal: Signal,
    /// The label, with its value, of the only series that mean this.
    only: Option<(&'static str, &'static str)>,
    /// The label that holds the number, where the sample itself is only ever 1.
    pub(super) number_in: Option<&'static str>,
}

/// The names of one engine, and what is peculiar to its pages.
#[derive(Debug)]
pub(super) struct Names {
    /// What all its names start with, before the colon or underscore.
    prefix: &'static str,
    pub(super) rows: &'static [Row],
    /// Whether one engine may have several series of a family: one per rank of its process group, one per priority.
    pub(super) has_views: bool,
    /// The models, best first, of which only the best on a page counts, where it holds series of several that pass the
    /// same requests to each other.
    pub(super) models: &'static [&'static str],
    /// Whether a queue or batch that is not on the page is an empty one.
    pub(super) absent_is_zero: bool,
}

const fn row(name: &'static str, signal: Signal) -> Row {
    Row { name, signal, only: None, number_in: None }
}

impl Row {
    const fn only(self, label: &'static str, value: &'static str) -> Self {
        Self { only: Some((label, value)), ..self }
    }

    const fn number_in(self, label: &'static str) -> Self {
        Self { number_in: Some(label), ..self }
    }

    /// Returns whether a family of this name may have series of this meaning.
    pub(super) fn is_named(&self, name: &[u8]) -> bool {
        self.name.as_bytes() == name
    }

    /// Returns whether a sample of the right name has this meaning.
    pub(super) fn admits(&self, sample: &Sample<'_>) -> bool {
        self.only.is_none_or(|(label, value)| sample.label(label).is_some_and(|found| found == value))
    }
}

const PLAIN: Names = Names { prefix: "", rows: &[], has_views: false, models: &[], absent_is_zero: false };

static VLLM: Names = Names {
    prefix: "vllm",
    rows: &[
        row("num_requests_waiting", Signal::Queued),
        row("num_requests_swapped", Signal::AlsoQueued), // V0, up to 0.10: put out of the cache, to be resumed
        row("num_requests_running", Signal::Running),
        row("kv_cache_usage_perc", Signal::KvUsage),  // from 0.9.2
        row("gpu_cache_usage_perc", Signal::KvUsage), // alone up to 0.9.1, beside the other up to 0.10
        row("cache_config_info", Signal::BlockSize).number_in("block_size"),
        row("cache_config_info", Signal::Blocks).number_in("num_gpu_blocks"),
        row("lora_requests_info", Signal::Adapters), // only with --enable-lora, and after the first request
        row("engine_sleep_state", Signal::SleepState), // V1
    ],
    ..PLAIN
};

/// Retracted and paused requests are not here: their gauges count what happened since the last report, and the requests
/// are back in the queue by then.
static SGLANG: Names = Names {
    prefix: "sglang",
    rows: &[
        row("num_queue_reqs", Signal::Queued),
        row("num_grammar_queue_reqs", Signal::AlsoQueued),
        // Prefill and decode apart: the stages before the queue and around it. A request is in one at a time.
        row("num_prefill_bootstrap_queue_reqs", Signal::AlsoQueued),
        row("num_prefill_prealloc_queue_reqs", Signal::AlsoQueued), // older name of the same
        row("num_prefill_inflight_queue_reqs", Signal::AlsoQueued),
        row("num_decode_prealloc_queue_reqs", Signal::AlsoQueued),
        row("num_decode_transfer_queue_reqs", Signal::AlsoQueued),
        row("num_running_reqs", Signal::Running),
        row("token_usage", Signal::KvUsage), // of hybrid models the fullest of their caches
        row("page_size", Signal::BlockSize), // by 0.5.23
        row("num_pages", Signal::Blocks),    // by 0.5.23
        row("cache_config_info", Signal::BlockSize).number_in("page_size"), // mid-2025 to mid-2026
        row("cache_config_info", Signal::Blocks).number_in("num_pages"), // mid-2025 to mid-2026
        row("lora_pool_slots_total", Signal::MaxAdapters), // with --enable-lora; the page names no adapters
    ],
    has_views: true,
    ..PLAIN
};

/// 1.1.0rc has five families of finished requests and none of these; they need `enable_iter_perf_stats`.
static TRT_LLM: Names = Names {
    prefix: "trtllm",
    rows: &[
        row("num_requests_waiting", Signal::Queued),
        row("num_requests_running", Signal::Running),
        row("kv_cache_utilization", Signal::KvUsage),
        row("kv_cache_tokens_per_block", Signal::BlockSize),
        row("kv_cache_max_blocks", Signal::Blocks),
        row("iteration_latency_seconds", Signal::Progress),
    ],
    ..PLAIN
};

/// `nv_inference_pending_request_count` is not here: it has the same requests again, once per model they pass through.
static TRITON: Names = Names {
    prefix: "nv_trt_llm",
    rows: &[
        row("request_metrics", Signal::Queued).only("request_type", "waiting"),
        row("request_metrics", Signal::Running).only("request_type", "scheduled"),
        row("kv_cache_block_metrics", Signal::KvUsage).only("kv_cache_block_type", "fraction"),
        row("kv_cache_block_metrics", Signal::BlockSize).only("kv_cache_block_type", "tokens_per"),
        row("kv_cache_block_metrics", Signal::Blocks).only("kv_cache_block_type", "max"),
        row("general_metrics", Signal::Progress).only("general_type", "iteration_counter"),
    ],
    models: &["tensorrt_llm", "tensorrt_llm_bls"],
    ..PLAIN
};

static TGI: Names = Names {
    prefix: "tgi",
    rows: &[row("queue_size", Signal::Queued), row("batch_current_size", Signal::Running)],
    // Its exporter knows a family from its first use on: a server without a request has neither.
    absent_is_zero: true,
    ..PLAIN
};

static LLAMA_CPP: Names = Names {
    prefix: "llamacpp",
    rows: &[
        row("requests_deferred", Signal::Queued),
        row("requests_processing", Signal::Running),
        row("kv_cache_usage_ratio", Signal::KvUsage), // removed in 2025
    ],
    ..PLAIN
};

static LMDEPLOY: Names = Names {
    prefix: "lmdeploy",
    rows: &[
        row("num_requests_waiting", Signal::Queued),
        row("num_api_requests_waiting", Signal::AlsoQueued), // not yet handed to the engine
        row("num_requests_running", Signal::Running),
        row("gpu_cache_usage_perc", Signal::KvUsage),
        row("backend_config_info", Signal::BlockSize).number_in("block_size"), // PyTorch engine
        row("backend_config_info", Signal::BlockSize).number_in("cache_block_seq_len"), // TurboMind
        row("backend_config_info", Signal::Blocks).number_in("num_gpu_blocks"), // 0 when the engine chose it
    ],
    ..PLAIN
};

impl Engine {
    pub(super) fn names(self) -> &'static Names {
        match self {
            Self::Vllm => &VLLM,
            Self::Sglang => &SGLANG,
            Self::TrtLlm => &TRT_LLM,
            Self::Triton => &TRITON,
            Self::Tgi => &TGI,
            Self::LlamaCpp => &LLAMA_CPP,
            Self::LmDeploy => &LMDEPLOY,
        }
    }
}

impl Names {
    /// Returns what follows the engine's prefix; `None` for a name that is not its own.
    pub(super) fn strip<'a>(&self, name: &'a [u8]) -> Option<&'a [u8]> {
        match name.strip_prefix(self.prefix.as_bytes())? {
            [b':' | b'_', rest @ ..] => Some(rest),
            _ => None,
        }
    }

    /// Returns whether a name without its prefix is in the table.
    pub(super) fn tells(&self, name: &[u8]) -> bool {
        self.rows.iter().any(|row| row.is_named(name))
    }
}
