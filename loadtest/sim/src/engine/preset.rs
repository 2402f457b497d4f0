//! Ready-made engines, from `presets.yaml`: model, device and degree of tensor parallelism.
//!
//! The file says of each row where its numbers come from; none was measured by this project.

use std::sync::LazyLock;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::{Coefficients, Config, LoraConfig, Speed};

/// A named engine: a row of `presets.yaml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset(&'static str);

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    defaults: Rest,
    presets: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    model: String,
    device: String,
    devices: u32,
    source: String,
    fit_error_percent: Option<f64>,
    step: Step,
    #[serde(default)]
    decode_points: Vec<[f64; 2]>,
    blocks: usize,
    blocks_source: String,
    max_seqs: usize,
    max_batched_tokens: usize,
    rest: Option<Rest>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    weights_ms: f64,
    compute_us: f64,
    fixed_ms: f64,
    attention_ns: f64,
    decode_us: f64,
    kv_ns: f64,
}

/// What rows share unless they say otherwise.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rest {
    host_ms: f64,
    host_us: f64,
    sigma: f64,
    tail_chance: f64,
    tail_from_ms: f64,
    tail_to_ms: f64,
    front_end_ms: f64,
    front_end_us: f64,
}

static FILE: LazyLock<File> = LazyLock::new(|| {
    serde_yaml::from_str(include_str!("../../presets.yaml")).expect("the file is part of the program")
});

impl Preset {
    /// For tests: a step takes about a millisecond, prefill is nearly free, nothing is random. No real device.
    #[expect(non_upper_case_globals, reason = "reads as a variant, which it is but for the file")]
    pub const Fast: Self = Self("fast");
    /// Llama-3.1-8B bf16 on one H100.
    #[expect(non_upper_case_globals, reason = "reads as a variant, which it is but for the file")]
    pub const Llama8bH100: Self = Self("8b-h100");
    /// Llama-3.1-8B bf16 on one A10G.
    #[expect(non_upper_case_globals, reason = "reads as a variant, which it is but for the file")]
    pub const Llama8bA10g: Self = Self("8b-a10g");

    /// All of them, in the order of the file.
    pub fn all() -> impl Iterator<Item = Self> {
        FILE.presets.iter().map(|row| Self(&row.name))
    }

    /// The preset of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|preset| preset.0 == name)
    }

    /// Name in the file, as on the command line.
    pub const fn name(self) -> &'static str {
        self.0
    }

    /// Model, device and where the numbers come from, in a line.
    pub fn describe(self) -> String {
        let Row { model, device, devices, source, fit_error_percent, blocks_source, .. } = self.row();
        let error = fit_error_percent.map_or_else(String::new, |error| format!(", fit error {error} %"));
        format!("{model} on {devices} x {device}; speed: {source}{error}; KV blocks: {blocks_source}")
    }

    /// The whole engine.
    pub fn config(self) -> Config {
        let row = self.row();
        let rest = row.rest.as_ref().unwrap_or(&FILE.defaults);
        Config {
            block_size: 16,
            blocks: row.blocks,
            max_seqs: row.max_seqs,
            max_batched_tokens: row.max_batched_tokens,
            long_prefill_threshold: None,
            max_model_len: 131_072,
            prefix_caching: true,
            slots: false,
            lora: LoraConfig::default(),
            vocabulary: None,
            speed: Speed::Steps(Coefficients {
                weights_ms: row.step.weights_ms,
                compute_us: row.step.compute_us,
                fixed_ms: row.step.fixed_ms,
                attention_ns: row.step.attention_ns,
                decode_us: row.step.decode_us,
                kv_ns: row.step.kv_ns,
                decode_points: &row.decode_points,
                host_ms: rest.host_ms,
                host_us: rest.host_us,
                sigma: rest.sigma,
                tail_chance: rest.tail_chance,
                tail_ms: [rest.tail_from_ms, rest.tail_to_ms],
            }),
            front_end_base: Duration::from_secs_f64(rest.front_end_ms * 1e-3),
            front_end_per_token: Duration::from_secs_f64(rest.front_end_us * 1e-6),
        }
    }

    /// Names of all, for messages.
    pub fn names() -> String {
        Self::all().map(Self::name).collect::<Vec<_>>().join(", ")
    }

    fn row(self) -> &'static Row {
        FILE.presets.iter().find(|row| row.name == self.0).expect("only names of the file become presets")
    }
}

impl<'de> Deserialize<'de> for Preset {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let unknown = || D::Error::custom(format!("no preset {name:?}; there are {}", Self::names()));
        Self::from_name(&name).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::StepLoad;

    fn step(preset: &str) -> Coefficients {
        match Preset::from_name(preset).unwrap().config().speed {
            Speed::Steps(step) => Coefficients { host_ms: 0.0, host_us: 0.0, ..step },
            Speed::Serial(_) => panic!("{preset} has no steps"),
        }
    }

    fn ms(preset: &str, load: &StepLoad) -> f64 {
        step(preset).time(load).as_secs_f64() * 1e3
    }

    #[test]
    fn every_row_is_found_by_its_name_and_is_whole() {
        let names: Vec<_> = Preset::all().map(Preset::name).collect();
        assert_eq!(names.len(), 16, "fast and the fifteen rows of the table: {names:?}");
        for name in &names {
            assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name} twice");
            let preset = Preset::from_name(name).unwrap();
            let config = preset.config();
            assert!(config.blocks > 0 && config.max_seqs > 0 && config.max_batched_tokens > 0, "{name}");
            let row = preset.row();
            assert!(row.fit_error_percent.is_some() == row.source.starts_with("computed"), "{}", preset.describe());
        }
        for preset in [Preset::Fast, Preset::Llama8bH100, Preset::Llama8bA10g] {
            assert_eq!(Preset::from_name(preset.name()), Some(preset));
        }
        assert_eq!(Preset::from_name("9b-h100"), None);
    }

    #[test]
    fn step_times_are_those_worked_out_by_hand() {
        let close = |what: &str, got: f64, wanted: f64| assert!((got - wanted).abs() < 0.01, "{what}: {got} ms");
        let chunk = |tokens: usize| StepLoad {
            prefill: tokens,
            sequences: 1,
            attention: (tokens * tokens) as f64 / 2.0,
            ..StepLoad::default()
        };
        // A small chunk rides free on the weight read: 1.53 + (5.11^4 + 2.61^4)^(1/4) + 0.01.
        close("8B H100, 128 tokens", ms("8b-h100", &chunk(128)), 6.73);
        // 1.53 + (5.11^4 + 10.42^4)^(1/4) + 0.10.
        close("8B H100, 512 tokens", ms("8b-h100", &chunk(512)), 12.20);
        // 1.53 + 5.11 + 32 * 5.7 us + 32 * 1024 * 41.45 ns, the arithmetic of 32 tokens lost in the maximum.
        let decode = StepLoad { decodes: 32, sequences: 32, context: 32 * 1_024, ..StepLoad::default() };
        close("8B H100, 32 decodes", ms("8b-h100", &decode), 8.18);
        // 4 + (28^4 + 145.9^4)^(1/4) + 0.79.
        close("8B A10G, 512 tokens", ms("8b-a10g", &chunk(512)), 150.76);
        // 4.23 + (21.85^4 + 92.16^4)^(1/4) + 1.66.
        close("32B H100, 1,024 tokens", ms("32b-h100-tp1", &chunk(1_024)), 98.12);
    }

    #[test]
    fn the_mixture_of_experts_decodes_through_its_points() {
        let decode = |decodes: usize, each: usize| StepLoad {
            decodes,
            sequences: decodes,
            context: decodes * each,
            long_context: decodes * each.saturating_sub(1_024),
            ..StepLoad::default()
        };
        let near = |decodes, each, wanted: f64| {
            let got = ms("235b-h100-tp8", &decode(decodes, each));
            assert!((got - wanted).abs() < 0.01, "{decodes} sequences of {each} tokens: {got} ms, not {wanted}");
        };
        for (batch, wanted) in [(1, 18.0), (6, 22.5), (16, 24.5), (24, 29.0), (48, 33.5), (96, 35.75), (256, 43.0)] {
            near(batch, 1_024, wanted);
        }
        near(384, 1_024, 48.0);
        near(16, 500, 24.5);
        // 3,072 tokens beyond 1,024 in each of 16, at 9.43 ns.
        near(16, 4_096, 24.5 + 0.464);
        let mixed = StepLoad { prefill: 2_048, sequences: 17, attention: 2_048.0 * 1_024.0, ..decode(16, 1_024) };
        // 24.73 of a chunk that touches all experts, 62.07 of arithmetic, 1.20 of attention.
        assert!((ms("235b-h100-tp8", &mixed) - 88.01).abs() < 0.01, "{} ms", ms("235b-h100-tp8", &mixed));
    }
}
