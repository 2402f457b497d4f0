//! The names under which each engine exposes what a gateway wants to know: one table, one entry per engine.
//!
//! Names are written with underscores; a colon on the page matches them too. Which versions used which name stands
//! beside it, so that a dead name can be dropped one day.

use super::Engine;

/// What a series means, and with it how several of them on one page are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// Requests waiting in the engine; summed.
    Queued,
    /// Requests running; summed.
    Running,
    /// Share of the KV cache in use, 0 to 1; the largest.
    KvUsage,
    /// The same under an older name: only looked at when the other is absent, as some versions expose both.
    OldKvUsage,
    /// The cache's configuration, in labels.
    CacheConfig,
    /// The LoRA adapters with requests, in labels; the newest series.
    Adapters,
    /// One series per sleep state, 1 for the state the engine is in.
    SleepState,
}

/// The names of one engine.
#[derive(Debug)]
pub(super) struct Names {
    /// What all its names start with, before the colon or underscore.
    prefix: &'static str,
    signals: &'static [(&'static str, Signal)],
}

static VLLM: Names = Names {
    prefix: "vllm",
    signals: &[
        ("vllm_num_requests_waiting", Signal::Queued),
        ("vllm_num_requests_running", Signal::Running),
        ("vllm_kv_cache_usage_perc", Signal::KvUsage),     // from 0.9.2
        ("vllm_gpu_cache_usage_perc", Signal::OldKvUsage), // alone up to 0.9.1, beside the new one up to 0.10
        ("vllm_cache_config_info", Signal::CacheConfig),
        ("vllm_lora_requests_info", Signal::Adapters), // only with --enable-lora, and after the first request
        ("vllm_engine_sleep_state", Signal::SleepState),
    ],
};

static LLAMA_CPP: Names = Names {
    prefix: "llamacpp",
    signals: &[
        ("llamacpp_requests_deferred", Signal::Queued),
        ("llamacpp_requests_processing", Signal::Running),
        ("llamacpp_kv_cache_usage_ratio", Signal::KvUsage), // removed in 2025
    ],
};

impl Engine {
    pub(super) fn names(self) -> &'static Names {
        match self {
            Self::Vllm => &VLLM,
            Self::LlamaCpp => &LLAMA_CPP,
        }
    }
}

impl Names {
    /// Returns whether a name on the page is one of this engine's.
    pub(super) fn owns(&self, name: &[u8]) -> bool {
        name.strip_prefix(self.prefix.as_bytes()).is_some_and(|rest| matches!(rest.first(), Some(b':' | b'_')))
    }

    /// Returns every name with its meaning.
    pub(super) fn signals(&self) -> &'static [(&'static str, Signal)] {
        self.signals
    }
}
