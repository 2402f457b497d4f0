//! Equal endpoints: what they are, and how each of them answers.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Deserialize;

use super::serial::SerialSpeed;
use crate::engine::{self, LoraConfig, Preset, Speed};
use crate::{Config, Flavor, tokenizer};

/// A number of equal endpoints. Every key has a default.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own in a fleet file")]
pub struct Group {
    /// How many, up to 65,535.
    pub count: usize,
    /// Row of `presets.yaml`; `fast` if there is no `serial` either.
    pub preset: Option<Preset>,
    /// The serial time model in place of a preset.
    pub serial: Option<SerialSpeed>,
    /// KV blocks; the preset's.
    pub blocks: Option<usize>,
    /// Most sequences in the batch; the preset's.
    pub max_seqs: Option<usize>,
    /// Most tokens in a step; the preset's.
    pub max_batched_tokens: Option<usize>,
    /// Longest chunk of one prefill, tokens; without it only the step's limit cuts.
    pub long_prefill_threshold: Option<usize>,
    /// Whether prompts that begin alike share their beginning.
    pub prefix_caching: bool,
    /// Standard deviation of the logarithm of a step's time; the preset's.
    pub sigma: Option<f64>,
    /// Chance of a step that takes 50 to 200 ms longer; the preset's.
    pub tail_chance: Option<f64>,
    /// Host overhead of a step, model milliseconds; the preset's.
    pub host_ms: Option<f64>,
    /// Host overhead of each sequence in a step, model microseconds; the preset's.
    pub host_us_per_sequence: Option<f64>,
    /// Model milliseconds between a request's arrival and its place in the queue; the preset's.
    pub front_end_ms: Option<f64>,
    /// Model microseconds more for each prompt token; the preset's.
    pub front_end_us_per_token: Option<f64>,
    /// Id of the base model.
    pub model: String,
    /// LoRA adapters known from the start.
    pub adapters: Vec<String>,
    /// Adapters on the device at once.
    pub max_loras: usize,
    /// Adapters kept in host memory.
    pub max_cpu_loras: usize,
    /// Model milliseconds to load an adapter that is not in host memory.
    pub adapter_load_ms: f64,
    /// Model milliseconds to load one that is.
    pub adapter_host_load_ms: f64,
    /// Address of the first; ports count up from it. Port 0 gives each a free one.
    pub listen: SocketAddr,
    /// Name in `x-sim-replica`, followed by `-` and the number of the endpoint in the fleet, from 0.
    pub replica: String,
    /// Whose server they look like: `vllm` or `llamacpp`.
    pub flavor: Flavor,
    /// Prompt plus output tokens allowed.
    pub max_model_len: usize,
    /// Output tokens of a request that names no limit, if its prompt leaves so many of `max_model_len`.
    pub default_max_tokens: u32,
    /// Mean output tokens of requests without `ignore_eos`; without it they run to their limit.
    pub mean_output_tokens: Option<u32>,
    /// Output tokens per stream event, the first one excepted.
    pub stream_interval: u32,
    /// Holds the response head back until the first token.
    pub hold_head: bool,
    /// Fills `usage.prompt_tokens_details`.
    pub prompt_tokens_details: bool,
    /// Answers the paths that end in `/render`.
    pub scale_out: bool,
    /// Port at which the first publishes KV events; replays are at the next, and those of the next endpoint two further. 0
    /// takes free ones.
    pub kv_events_port: Option<u16>,
    /// Waiting sequences beyond which requests get 503.
    pub max_queued: Option<usize>,
}

impl Default for Group {
    fn default() -> Self {
        let (server, lora) = (Config::default(), LoraConfig::default());
        Self {
            count: 1,
            preset: None,
            serial: None,
            blocks: None,
            max_seqs: None,
            max_batched_tokens: None,
            long_prefill_threshold: None,
            prefix_caching: true,
            sigma: None,
            tail_chance: None,
            host_ms: None,
            host_us_per_sequence: None,
            front_end_ms: None,
            front_end_us_per_token: None,
            model: server.model,
            adapters: server.adapters,
            max_loras: lora.slots,
            max_cpu_loras: lora.host_slots,
            adapter_load_ms: lora.load_from_disk.as_secs_f64() * 1e3,
            adapter_host_load_ms: lora.load_from_host.as_secs_f64() * 1e3,
            listen: server.listen,
            replica: server.replica,
            flavor: server.flavor,
            max_model_len: server.max_model_len,
            default_max_tokens: server.default_max_tokens,
            mean_output_tokens: server.mean_output_tokens,
            stream_interval: server.stream_interval,
            hold_head: server.hold_head,
            prompt_tokens_details: server.prompt_tokens_details,
            scale_out: server.scale_out,
            kv_events_port: server.kv_events_port,
            max_queued: server.max_queued,
        }
    }
}

impl Group {
    /// Size and speed of each; output is of the tokenizer's vocabulary, as behind HTTP.
    pub fn engine(&self) -> engine::Config {
        let mut config = match &self.serial {
            Some(serial) => serial.engine(),
            None => self.preset.unwrap_or(Preset::Fast).config(),
        };
        config.blocks = self.blocks.unwrap_or(config.blocks);
        config.max_seqs = self.max_seqs.unwrap_or(config.max_seqs);
        config.max_batched_tokens = self.max_batched_tokens.unwrap_or(config.max_batched_tokens);
        config.long_prefill_threshold = self.long_prefill_threshold;
        config.prefix_caching = self.prefix_caching;
        config.slots = self.flavor == Flavor::LlamaCpp;
        config.front_end_base = self.front_end_ms.map_or(config.front_end_base, milliseconds);
        let per_token = self.front_end_us_per_token.map(|us| milliseconds(us * 1e-3));
        config.front_end_per_token = per_token.unwrap_or(config.front_end_per_token);
        config.vocabulary = Some(tokenizer::vocabulary());
        config.max_model_len = self.max_model_len;
        config.lora.slots = self.max_loras;
        config.lora.host_slots = self.max_cpu_loras;
        config.lora.load_from_disk = milliseconds(self.adapter_load_ms);
        config.lora.load_from_host = milliseconds(self.adapter_host_load_ms);
        if let Speed::Steps(step) = &mut config.speed {
            step.host_ms = self.host_ms.unwrap_or(step.host_ms);
            step.host_us = self.host_us_per_sequence.unwrap_or(step.host_us);
            step.sigma = self.sigma.unwrap_or(step.sigma);
            step.tail_chance = self.tail_chance.unwrap_or(step.tail_chance);
        }
        config
    }

    /// Settings of the server that is the `nth` of its group and has this number in the fleet.
    pub(super) fn server(&self, nth: usize, number: usize) -> Config {
        Config {
            replica: format!("{}-{number}", self.replica),
            listen: self.address(nth),
            model: self.model.clone(),
            adapters: self.adapters.clone(),
            flavor: self.flavor,
            engine: self.engine(),
            max_model_len: self.max_model_len,
            default_max_tokens: self.default_max_tokens,
            mean_output_tokens: self.mean_output_tokens,
            stream_interval: self.stream_interval,
            hold_head: self.hold_head,
            prompt_tokens_details: self.prompt_tokens_details,
            scale_out: self.scale_out,
            kv_events_port: self
                .kv_events_port
                .map(|port| if port == 0 { 0 } else { port.saturating_add((nth * 2) as u16) }),
            max_queued: self.max_queued,
            ..Config::default()
        }
    }

    /// The addresses it names, as far as there are ports.
    pub(super) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        let ports = match self.listen.port() {
            0 => 0,
            first => 65_536 - usize::from(first),
        };
        (0..self.count.min(ports)).map(|nth| self.address(nth))
    }

    fn address(&self, nth: usize) -> SocketAddr {
        let port = self.listen.port();
        let port = if port == 0 { 0 } else { port.saturating_add(u16::try_from(nth).unwrap_or(u16::MAX)) };
        SocketAddr::new(self.listen.ip(), port)
    }
}

fn milliseconds(ms: f64) -> Duration {
    Duration::from_secs_f64(ms.max(0.0) * 1e-3)
}
