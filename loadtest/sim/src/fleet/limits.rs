//! What a group may say: limits far beyond any real server, within which nothing overflows and nothing is allocated ahead.
//!
//! What a newcomer gets wrong: `default_max_tokens` may be more than `max_model_len`. A request that names no limit gets no
//! more than its prompt leaves, as with vLLM.

use std::collections::HashSet;

use hyper::header::HeaderValue;

use super::Group;
use crate::problems::Problems;

/// Endpoints of a fleet.
pub(super) const ENDPOINTS: usize = 100_000;
/// Sequences of a batch, and slots of the serial time model.
pub(super) const SEQUENCES: f64 = 65_536.0;
/// KV blocks.
pub(super) const BLOCKS: f64 = 1e8;
/// Any number of tokens.
const TOKENS: f64 = 1e8;
/// Adapters of an endpoint.
const ADAPTERS: usize = 10_000;
/// Bytes of a name.
const NAME: usize = 256;

impl Group {
    /// Everything that is wrong with it, each beginning with its key.
    pub fn problems(&self) -> Vec<String> {
        let mut found = Problems::default();
        self.check_numbers(&mut found);
        self.check_times(&mut found);
        self.check_names(&mut found);
        let port = usize::from(self.listen.port());
        found.unless(port == 0 || self.count <= 65_536 - port, "listen: there are not so many ports above it");
        let kv_ports = self.kv_events_port.map_or(0, |port| usize::from(port) + 2 * self.count);
        found.unless(kv_ports <= 65_536, "kv_events_port: there are not so many ports above it");
        self.check_serial(&mut found);
        found.lines()
    }

    fn check_numbers(&self, found: &mut Problems) {
        let given = |value: Option<usize>| value.map(|value| value as f64);
        for (key, value, range) in [
            ("count", given(Some(self.count)), 1.0..=65_535.0),
            // One holds nothing.
            ("blocks", given(self.blocks), 2.0..=BLOCKS),
            ("max_seqs", given(self.max_seqs), 1.0..=SEQUENCES),
            ("max_batched_tokens", given(self.max_batched_tokens), 1.0..=TOKENS),
            ("long_prefill_threshold", given(self.long_prefill_threshold), 1.0..=TOKENS),
            ("sigma", self.sigma, 0.0..=1.0),
            ("tail_chance", self.tail_chance, 0.0..=1.0),
            ("max_loras", given(Some(self.max_loras)), 1.0..=ADAPTERS as f64),
            ("max_cpu_loras", given(Some(self.max_cpu_loras)), 1.0..=ADAPTERS as f64),
            ("max_model_len", given(Some(self.max_model_len)), 1.0..=TOKENS),
            ("default_max_tokens", Some(self.default_max_tokens.into()), 1.0..=TOKENS),
            ("mean_output_tokens", self.mean_output_tokens.map(f64::from), 1.0..=TOKENS),
            ("stream_interval", Some(self.stream_interval.into()), 1.0..=TOKENS),
            ("max_queued", given(self.max_queued), 0.0..=1e6),
        ] {
            found.range(key, value, range);
        }
    }

    fn check_times(&self, found: &mut Problems) {
        for (key, value) in [
            ("adapter_load_ms", Some(self.adapter_load_ms)),
            ("adapter_host_load_ms", Some(self.adapter_host_load_ms)),
            ("host_ms", self.host_ms),
            ("host_us_per_sequence", self.host_us_per_sequence),
            ("front_end_ms", self.front_end_ms),
            ("front_end_us_per_token", self.front_end_us_per_token),
        ] {
            found.up_to_a_day(key, value);
        }
    }

    fn check_names(&self, found: &mut Problems) {
        let is_name = |name: &str| (1..=NAME).contains(&name.len());
        found.unless(is_name(&self.model), format!("model: must have 1 to {NAME} bytes"));
        let is_header = self.replica.len() <= NAME && HeaderValue::from_bytes(self.replica.as_bytes()).is_ok();
        found.unless(is_header, format!("replica: must be the value of a header, up to {NAME} bytes"));
        if self.adapters.len() > ADAPTERS {
            found.unless(false, "adapters: must be 10,000 at most");
            return;
        }
        let mut known = HashSet::from([self.model.as_str()]);
        for (place, name) in self.adapters.iter().enumerate() {
            if !is_name(name) {
                found.unless(false, format!("adapters[{place}]: must have 1 to {NAME} bytes"));
            } else if !known.insert(name) {
                found.unless(false, format!("adapters[{place}]: {name:?} is there already"));
            }
        }
    }

    fn check_serial(&self, found: &mut Problems) {
        let Some(serial) = &self.serial else { return };
        for (given, line) in [
            (self.preset.is_some(), "serial: there is a preset too; an endpoint has one of them"),
            (self.blocks.is_some(), "blocks: with serial, kv_tokens says it"),
            (self.max_seqs.is_some(), "max_seqs: with serial, slots says it"),
            (self.max_batched_tokens.is_some(), "max_batched_tokens: serial has no steps"),
            (self.long_prefill_threshold.is_some(), "long_prefill_threshold: serial has no steps"),
            (self.sigma.is_some(), "sigma: serial has no noise"),
            (self.tail_chance.is_some(), "tail_chance: serial has no noise"),
        ] {
            found.unless(!given, line);
        }
        serial.check(found);
    }
}
