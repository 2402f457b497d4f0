//! Equal endpoints: what they are, and how each of them answers.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Deserialize;

use super::serial::{SerialSpeed, is_time};
use crate::engine::{self, LoraConfig, Preset, Speed};
use crate::{Config, Flavor, tokenizer};

/// A number of equal endpoints. Every key has a default.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Group {
    /// How many.
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
    /// Output tokens of a request that names no limit.
    pub default_max_tokens: u32,
    /// Mean output tokens of requests without `ignore_eos`; without it they run to their limit.
    pub mean_output_tokens: Option<u32>,
    /// Output tokens per stream event, the first one excepted.
    pub stream_interval: u32,
    /// Holds the response head back until the first token.
    pub hold_head: bool,
    /// Fills `usage.prompt_tokens_details`.
    pub prompt_tokens_details: bool,
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
        config.front_end_base = self.front_end_ms.map_or(config.front_end_base, milliseconds);
        let per_token = self.front_end_us_per_token.map(|us| milliseconds(us * 1e-3));
        config.front_end_per_token = per_token.unwrap_or(config.front_end_per_token);
        config.vocabulary = Some(tokenizer::vocabulary());
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
            max_queued: self.max_queued,
            ..Config::default()
        }
    }

    /// Addresses of all.
    pub(super) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        (0..self.count.min(usize::from(u16::MAX))).map(|nth| self.address(nth))
    }

    fn address(&self, nth: usize) -> SocketAddr {
        let port = self.listen.port();
        let port = if port == 0 { 0 } else { port.saturating_add(u16::try_from(nth).unwrap_or(u16::MAX)) };
        SocketAddr::new(self.listen.ip(), port)
    }

    /// Everything that is wrong with it, each beginning with its key.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut check = |right: bool, what: &str| {
            if !right {
                problems.push(what.to_owned());
            }
        };
        let at_least_1 = [
            (self.count, "count"),
            (self.max_seqs.unwrap_or(1), "max_seqs"),
            (self.max_batched_tokens.unwrap_or(1), "max_batched_tokens"),
            (self.long_prefill_threshold.unwrap_or(1), "long_prefill_threshold"),
            (self.max_loras, "max_loras"),
            (self.max_cpu_loras, "max_cpu_loras"),
            (self.max_model_len, "max_model_len"),
            (self.default_max_tokens as usize, "default_max_tokens"),
            (self.mean_output_tokens.unwrap_or(1) as usize, "mean_output_tokens"),
            (self.stream_interval as usize, "stream_interval"),
        ];
        for (value, key) in at_least_1 {
            check(value >= 1, &format!("{key}: must be at least 1"));
        }
        check(self.blocks.is_none_or(|blocks| blocks >= 2), "blocks: must be at least 2, since one holds nothing");
        let port = usize::from(self.listen.port());
        check(port == 0 || port + self.count <= 65_536, "listen: there are not so many ports above it");
        check(self.sigma.is_none_or(|sigma| (0.0..=1.0).contains(&sigma)), "sigma: must be 0 to 1");
        check(self.tail_chance.is_none_or(|chance| (0.0..=1.0).contains(&chance)), "tail_chance: must be 0 to 1");
        for (value, key) in [
            (self.adapter_load_ms, "adapter_load_ms"),
            (self.adapter_host_load_ms, "adapter_host_load_ms"),
            (self.host_ms.unwrap_or(0.0), "host_ms"),
            (self.host_us_per_sequence.unwrap_or(0.0), "host_us_per_sequence"),
            (self.front_end_ms.unwrap_or(0.0), "front_end_ms"),
            (self.front_end_us_per_token.unwrap_or(0.0), "front_end_us_per_token"),
        ] {
            check(is_time(value), &format!("{key}: must be 0 or more, up to a day"));
        }
        check(!self.model.is_empty(), "model: must not be empty");
        for (place, name) in self.adapters.iter().enumerate() {
            let known = *name == self.model || self.adapters[..place].contains(name);
            check(!name.is_empty() && !known, &format!("adapters: {name:?} is empty or there already"));
        }
        if let Some(serial) = &self.serial {
            check(self.preset.is_none(), "serial: there is a preset too; an endpoint has one of them");
            for (given, key) in [
                (self.blocks.is_some(), "blocks: with serial, kv_tokens says it"),
                (self.max_seqs.is_some(), "max_seqs: with serial, slots says it"),
                (self.max_batched_tokens.is_some(), "max_batched_tokens: serial has no steps"),
                (self.long_prefill_threshold.is_some(), "long_prefill_threshold: serial has no steps"),
                (self.sigma.is_some(), "sigma: serial has no noise"),
                (self.tail_chance.is_some(), "tail_chance: serial has no noise"),
            ] {
                check(!given, key);
            }
            problems.extend(serial.problems());
        }
        problems
    }
}

fn milliseconds(ms: f64) -> Duration {
    Duration::from_secs_f64(ms.max(0.0) * 1e-3)
}
