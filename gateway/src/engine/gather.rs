//! Puts the samples of a page together into facts.
//!
//! With data parallelism one page has a series per engine, in any order and with any of them idle: everything here is
//! combined so that the order cannot matter. Only sums of whole numbers, maxima and sets are used.

use spillway_picker::facts::Facts;

use super::adapters::Adapters;
use super::names::{Names, Signal};
use super::page::{Page, Sample};

/// Reads the facts of a page by one engine's names.
pub(super) fn facts(names: &Names, page: &Page<'_>) -> Facts {
    let mut gathered = Gathered::default();
    for sample in page.samples() {
        let name = sample.name();
        // Three lines in four are buckets.
        if name.ends_with(b"_bucket") || !names.owns(name) {
            continue;
        }
        if let Some((_, signal)) = names.signals().iter().find(|(wanted, _)| sample.is(wanted)) {
            if let Some(value) = sample.value().filter(|value| *value >= 0.0) {
                gathered.take(*signal, &sample, value);
            }
        } else if is_counter(name)
            && let Some(value) = sample.value()
        {
            gathered.progress = gathered.progress.wrapping_add(spread(value.to_bits()));
        }
    }
    gathered.facts()
}

/// Only the engine's own names come here: the counters of the process and of its HTTP server move with every scrape,
/// also when the engine is stuck.
fn is_counter(name: &[u8]) -> bool {
    [b"_total".as_slice(), b"_count", b"_sum"].iter().any(|suffix| name.ends_with(suffix))
}

/// The finaliser of `SplitMix64`: a sum of spread values changes whenever one of them does, whatever their sizes, where a
/// sum of the values themselves loses a small step of one beside a large other.
fn spread(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[derive(Default)]
struct Gathered {
    queued: Option<f64>,
    running: Option<f64>,
    kv_usage: Option<f64>,
    old_kv_usage: Option<f64>,
    block_size: Option<u32>,
    blocks: Blocks,
    adapters: Option<Adapters>,
    awake: Option<bool>,
    progress: u64,
}

#[derive(Clone, Copy, Default)]
enum Blocks {
    #[default]
    NotSeen,
    Known(u32),
    /// One engine does not know its number yet: the sum of the others would be wrong.
    Unknown,
}

impl Gathered {
    fn take(&mut self, signal: Signal, sample: &Sample<'_>, value: f64) {
        match signal {
            Signal::Queued => *self.queued.get_or_insert(0.0) += value,
            Signal::Running => *self.running.get_or_insert(0.0) += value,
            // The fullest engine, not the mean: it is the one that preempts, and within an endpoint the gateway has no
            // say in which engine a request goes to.
            Signal::KvUsage => raise(&mut self.kv_usage, value),
            Signal::OldKvUsage => raise(&mut self.old_kv_usage, value),
            Signal::CacheConfig if value > 0.0 => self.take_cache_config(sample),
            Signal::Adapters => {
                if let Some(later) = Adapters::of_sample(sample, value) {
                    self.adapters = Some(match self.adapters.take() {
                        Some(earlier) => earlier.newest(later),
                        None => later,
                    });
                }
            }
            // One engine asleep is enough: the request may land on it.
            Signal::SleepState if sample.label("sleep_state").is_some_and(|state| state == "awake") => {
                self.awake = Some(self.awake.unwrap_or(true) && value > 0.0);
            }
            Signal::CacheConfig | Signal::SleepState => {}
        }
    }

    fn take_cache_config(&mut self, sample: &Sample<'_>) {
        let number = |name| sample.label(name).and_then(|text| text.parse::<u32>().ok()).filter(|number| *number > 0);
        self.block_size = self.block_size.max(number("block_size"));
        self.blocks = match (self.blocks, number("num_gpu_blocks")) {
            (Blocks::NotSeen, Some(blocks)) => Blocks::Known(blocks),
            (Blocks::Known(others), Some(blocks)) => Blocks::Known(others.saturating_add(blocks)),
            (_, None) | (Blocks::Unknown, _) => Blocks::Unknown,
        };
    }

    fn facts(self) -> Facts {
        let (adapters_running, adapters_waiting, max_adapters) = match self.adapters {
            Some(adapters) => {
                let Adapters { running, waiting, max, .. } = adapters;
                (Some(running.into_iter().collect()), Some(waiting.into_iter().collect()), max)
            }
            None => (None, None, None),
        };
        Facts {
            queued: self.queued,
            running: self.running,
            kv_usage: self.kv_usage.or(self.old_kv_usage),
            block_size: self.block_size,
            blocks: match self.blocks {
                Blocks::Known(blocks) => Some(blocks),
                Blocks::NotSeen | Blocks::Unknown => None,
            },
            adapters_running,
            adapters_waiting,
            max_adapters,
            models: None,
            awake: self.awake,
            progress: Some(self.progress),
        }
    }
}

fn raise(most: &mut Option<f64>, value: f64) {
    // A share of a cache: more than all of it is somebody's rounding.
    let value = value.min(1.0);
    *most = Some(most.map_or(value, |most| most.max(value)));
}
