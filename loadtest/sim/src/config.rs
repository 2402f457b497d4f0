//! Settings of one simulated server.
//!
//! Everything has a default that suits a test: fast steps, an ephemeral port, no faults.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde::Deserialize;

use crate::engine::{self, Preset};

/// Whose API, metrics and habits the server copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flavor {
    /// vLLM 0.32.
    Vllm,
    /// llama.cpp's server: its metrics, error and chat shapes; any model name; closes after each streamed reply.
    LlamaCpp,
}

/// Settings of one simulated server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name in the `x-sim-replica` header.
    pub replica: String,
    /// Address of the model port; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Address of a second listener for the admin surface, which outlives faults of the model port.
    pub admin_listen: Option<SocketAddr>,
    /// Id of the base model.
    pub model: String,
    /// LoRA adapters known from the start.
    pub adapters: Vec<String>,
    /// Whose server it looks like.
    pub flavor: Flavor,
    /// Size and speed.
    pub engine: engine::Config,
    /// Model seconds per wall second.
    pub time_scale: f64,
    /// Decides noise and text; replicas of equal seed answer alike.
    pub seed: u64,
    /// Prompt plus output tokens; more is refused with 400.
    pub max_model_len: usize,
    /// Output tokens of a request that names no limit, if its prompt leaves so many of `max_model_len`.
    pub default_max_tokens: u32,
    /// Mean of the exponential output length of requests without `ignore_eos`; `None` always runs to the limit.
    pub mean_output_tokens: Option<u32>,
    /// Output tokens per stream event, the first one excepted.
    pub stream_interval: u32,
    /// Holds the response head back until the first token.
    pub hold_head: bool,
    /// Fills `prompt_tokens_details` in `usage` (vLLM's `--enable-prompt-tokens-details`).
    pub prompt_tokens_details: bool,
    /// Says which tokens a prompt is (vLLM's `--enable-scale-out`).
    pub scale_out: bool,
    /// Wall time after which an idle connection is closed; uvicorn's default is 5 s.
    pub idle_timeout: Option<Duration>,
    /// Largest request body in bytes; more is refused with 413.
    pub max_body_bytes: usize,
    /// Publishes KV events here, and replays at the next port (`--kv-events-config`); 0 takes two free ones.
    pub kv_events_port: Option<u16>,
    /// Waiting sequences beyond which requests are refused with 503 (`--max-num-queued-reqs`).
    pub max_queued: Option<usize>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            replica: "sim".to_owned(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            admin_listen: None,
            model: "sim-model".to_owned(),
            adapters: Vec::new(),
            flavor: Flavor::Vllm,
            engine: Preset::Fast.config(),
            time_scale: 1.0,
            seed: 0,
            max_model_len: 131_072,
            default_max_tokens: 16,
            mean_output_tokens: None,
            stream_interval: 1,
            hold_head: false,
            prompt_tokens_details: true,
            scale_out: false,
            idle_timeout: Some(Duration::from_secs(5)),
            max_body_bytes: 128 << 20,
            kv_events_port: None,
            max_queued: None,
        }
    }
}
