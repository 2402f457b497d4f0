//! The LoRA adapters that have requests on an engine, out of vLLM's `lora_requests_info`.
//!
//! The gauge keeps a series for every combination it ever had; its value is the time of the last use, and only the
//! newest says anything. With several API servers the values are sums of times: they rank series within one page and
//! mean nothing else.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::page::Sample;

/// One series of the gauge.
#[derive(Clone, Debug)]
pub(super) struct Adapters {
    time: f64,
    pub(super) running: BTreeSet<Arc<str>>,
    pub(super) waiting: BTreeSet<Arc<str>>,
    /// Adapters that fit into one batch.
    pub(super) max: Option<u32>,
}

impl Adapters {
    /// Returns what a series says; `None` when it lacks its labels.
    pub(super) fn of_sample(sample: &Sample<'_>, time: f64) -> Option<Self> {
        let names = |label| {
            let list = sample.label(label)?;
            Some(list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(Arc::from).collect())
        };
        Some(Self {
            time,
            running: names("running_lora_adapters")?,
            waiting: names("waiting_lora_adapters")?,
            max: sample.label("max_lora").and_then(|text| text.trim().parse().ok()),
        })
    }

    /// Returns the newer of two series, and both together when they are of the same time.
    pub(super) fn newest(mut self, other: Self) -> Self {
        match other.time.total_cmp(&self.time) {
            Ordering::Less => {}
            Ordering::Greater => return other,
            Ordering::Equal => {
                self.running.extend(other.running);
                self.waiting.extend(other.waiting);
                self.max = self.max.max(other.max);
            }
        }
        self
    }
}
