//! LoRA slots on the device, a larger set of adapters in host memory, and the time to move one in.
//!
//! A load blocks only the sequences that need the adapter; a slot in use or loading is never taken away.

use std::sync::Arc;
use std::time::Duration;

/// Slots and load times.
#[derive(Clone, Debug)]
pub struct LoraConfig {
    /// Adapters on the device at once (`--max-loras`).
    pub slots: usize,
    /// Adapters kept in host memory, least recently used first out.
    pub host_slots: usize,
    /// Model time from host memory to the device.
    pub load_from_host: Duration,
    /// Model time from disk, for an adapter not in host memory.
    pub load_from_disk: Duration,
    /// Step time grows by this part per distinct adapter in the batch.
    pub step_factor: f64,
}

impl Default for LoraConfig {
    fn default() -> Self {
        Self {
            slots: 4,
            host_slots: 16,
            // Rank 16 on an 8B model: 84 MB at 25 GB/s, 1.5 ms of setup before it.
            load_from_host: Duration::from_micros(4_900),
            // A local disk gives 30 to 500 ms (assumed); tests want the low end.
            load_from_disk: Duration::from_millis(30),
            step_factor: 0.035,
        }
    }
}

#[derive(Debug)]
pub(super) struct LoraSlots {
    config: LoraConfig,
    /// Least recently admitted first.
    slots: Vec<Slot>,
    /// Least recently used first.
    host: Vec<Arc<str>>,
    loads: u64,
}

#[derive(Debug)]
struct Slot {
    adapter: Arc<str>,
    ready: Duration,
    users: usize,
}

impl LoraSlots {
    pub(super) fn new(config: LoraConfig) -> Self {
        Self { config, slots: Vec::new(), host: Vec::new(), loads: 0 }
    }

    /// Whether a sequence of `adapter` may enter the batch at `now`; starts the load when it is the load that is missing.
    /// That takes `factor` times as long as usual.
    pub(super) fn is_ready(&mut self, adapter: Option<&Arc<str>>, now: Duration, factor: f64) -> bool {
        let Some(adapter) = adapter else {
            return true;
        };
        if let Some(slot) = self.slots.iter().find(|slot| slot.adapter == *adapter) {
            return slot.ready <= now;
        }
        if self.slots.len() >= self.config.slots.max(1) {
            let Some(idle) = self.slots.iter().position(|slot| slot.users == 0 && slot.ready <= now) else {
                return false;
            };
            self.slots.remove(idle);
        }
        let time = self.fetch(adapter).mul_f64(factor);
        self.slots.push(Slot { adapter: adapter.clone(), ready: now + time, users: 0 });
        time.is_zero()
    }

    /// Whether it is in a slot and loaded.
    pub(super) fn holds(&self, adapter: &Arc<str>, now: Duration) -> bool {
        self.slots.iter().any(|slot| slot.adapter == *adapter && slot.ready <= now)
    }

    /// As [`LoraSlots::is_ready`], or with a slot to load into; starts nothing.
    pub(super) fn could_admit(&self, adapter: Option<&Arc<str>>, now: Duration) -> bool {
        let Some(adapter) = adapter else {
            return true;
        };
        match self.slots.iter().find(|slot| slot.adapter == *adapter) {
            Some(slot) => slot.ready <= now,
            None => {
                self.slots.len() < self.config.slots.max(1)
                    || self.slots.iter().any(|slot| slot.users == 0 && slot.ready <= now)
            }
        }
    }

    /// Counts a sequence that entered the batch.
    pub(super) fn acquire(&mut self, adapter: Option<&Arc<str>>) {
        let place = adapter.and_then(|adapter| self.slots.iter().position(|slot| slot.adapter == *adapter));
        if let Some(place) = place {
            let mut slot = self.slots.remove(place);
            slot.users += 1;
            self.slots.push(slot);
        }
    }

    /// Counts a sequence that left the batch.
    pub(super) fn release(&mut self, adapter: Option<&Arc<str>>) {
        let slot = adapter.and_then(|adapter| self.slots.iter_mut().find(|slot| slot.adapter == *adapter));
        if let Some(slot) = slot {
            slot.users -= 1;
        }
    }

    /// When the next load after `now` ends.
    pub(super) fn next_ready(&self, now: Duration) -> Option<Duration> {
        self.slots.iter().map(|slot| slot.ready).filter(|&ready| ready > now).min()
    }

    /// Factor on the time of a step.
    pub(super) fn step_factor(&self) -> f64 {
        let distinct = self.slots.iter().filter(|slot| slot.users > 0).count();
        1.0 + self.config.step_factor * distinct as f64
    }

    /// Loads begun.
    pub(super) fn loads(&self) -> u64 {
        self.loads
    }

    fn fetch(&mut self, adapter: &Arc<str>) -> Duration {
        self.loads += 1;
        let known = self.host.iter().position(|name| name == adapter);
        if let Some(place) = known {
            self.host.remove(place);
        } else if self.host.len() >= self.config.host_slots.max(1) {
            self.host.remove(0);
        }
        self.host.push(adapter.clone());
        if known.is_some() { self.config.load_from_host } else { self.config.load_from_disk }
    }
}
