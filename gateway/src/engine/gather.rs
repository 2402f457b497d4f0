//! Puts the samples of a page together into facts.
//!
//! With data parallelism one page has a series per engine, in any order and with any of them idle: everything here is
//! combined so that the order cannot matter. Only sums of whole numbers, maxima and sets are used.

use spillway_picker::facts::Facts;

use super::adapters::Adapters;
use super::names::{Names, Row, Signal};
use super::page::{Page, Sample};
use super::series::{self, Series};

/// Reads the facts of a page by one engine's names.
pub(super) fn facts(names: &'static Names, page: &Page<'_>) -> Facts {
    let mut gathered = Gathered::new(names);
    for sample in page.samples() {
        gathered.is_empty = false;
        // Three lines in four are buckets.
        if !sample.name().ends_with(b"_bucket")
            && let Some(name) = names.strip(sample.name())
        {
            gathered.take(name, &sample);
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

struct Gathered {
    names: &'static Names,
    /// Whether the page has no sample at all.
    is_empty: bool,
    /// Whether it has any of the engine's.
    is_own: bool,
    found: Vec<Found>,
    /// Which rows of the table have a sample on the page, usable or not, as bits.
    present: u32,
    adapters: Option<Adapters>,
    awake: Option<bool>,
    progress: Option<u64>,
}

/// A series of a row of the table.
#[derive(Clone, Copy)]
struct Found {
    row: usize,
    /// Place of its model in the engine's list, behind it when it is not there.
    model: usize,
    series: Series,
}

impl Gathered {
    fn new(names: &'static Names) -> Self {
        Self {
            names,
            is_empty: true,
            is_own: false,
            found: Vec::new(),
            present: 0,
            adapters: None,
            awake: None,
            progress: None,
        }
    }

    fn take(&mut self, name: &[u8], sample: &Sample<'_>) {
        self.is_own = true;
        let mut is_known = false;
        for (index, row) in self.names.rows.iter().enumerate() {
            if row.is_named(name) {
                is_known = true;
                if row.admits(sample) {
                    self.present |= 1 << index;
                    self.take_row(index, row, sample);
                }
            }
        }
        if !is_known && is_counter(name) {
            self.take_progress(sample.value());
        }
    }

    fn take_row(&mut self, index: usize, row: &Row, sample: &Sample<'_>) {
        let Some(value) = sample.value().filter(|value| *value >= 0.0) else { return };
        match (row.signal, row.number_in) {
            (Signal::Adapters, _) => {
                if let Some(later) = Adapters::of_sample(sample, value) {
                    self.adapters = Some(match self.adapters.take() {
                        Some(earlier) => earlier.newest(later),
                        None => later,
                    });
                }
            }
            // One engine asleep is enough: the request may land on it.
            (Signal::SleepState, _) => {
                if sample.label("sleep_state").is_some_and(|state| state == "awake") {
                    self.awake = Some(self.awake.unwrap_or(true) && value > 0.0);
                }
            }
            (Signal::Progress, _) => self.take_progress(Some(value)),
            (_, None) => self.push(index, sample, value),
            (_, Some(label)) if value > 0.0 => {
                let number = sample.label(label).and_then(|text| text.trim().parse().ok());
                // An engine that has not made up its mind says `None`, or 0: the sum of the others would be wrong.
                self.push(index, sample, number.filter(|number| *number >= 1.0).unwrap_or(f64::NAN));
            }
            (_, Some(_)) => {}
        }
    }

    fn push(&mut self, row: usize, sample: &Sample<'_>, value: f64) {
        let models = self.names.models;
        let model = if models.is_empty() { None } else { sample.label("model") };
        let model = model.and_then(|model| models.iter().position(|known| *known == model)).unwrap_or(models.len());
        let series =
            if self.names.has_views { Series::view(sample, value) } else { Series::whole(self.found.len(), value) };
        self.found.push(Found { row, model, series });
    }

    fn take_progress(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            self.progress = Some(self.progress.unwrap_or(0).wrapping_add(spread(value.to_bits())));
        }
    }

    /// The numbers of a row, one per engine, as one. `None` when one of them is not known.
    fn combined(&self, row: usize, combine: fn(f64, f64) -> f64) -> Option<f64> {
        let found = self.found.iter().filter(|found| found.row == row);
        let numbers = series::per_engine(found.map(|found| found.series).collect());
        numbers.reduce(combine).filter(|number| number.is_finite())
    }

    fn rows(&self, signal: Signal) -> impl Iterator<Item = usize> {
        let rows = self.names.rows.iter().enumerate();
        rows.filter(move |(_, row)| row.signal == signal).map(|(index, _)| index)
    }

    /// What the first row of this meaning says that says anything.
    fn sum(&self, signal: Signal) -> Option<f64> {
        self.rows(signal).find_map(|row| self.combined(row, |one, other| one + other))
    }

    /// The same of the largest.
    fn most(&self, signal: Signal) -> Option<f64> {
        self.rows(signal).find_map(|row| self.combined(row, f64::max))
    }

    /// A sum that is zero when nothing is said of it, where the engine means that. Another engine's page means nothing.
    fn count(&self, signal: Signal) -> Option<f64> {
        let is_absent = self.rows(signal).all(|row| self.present & (1 << row) == 0);
        let is_zero = self.names.absent_is_zero && is_absent && (self.is_own || self.is_empty);
        self.sum(signal).or(is_zero.then_some(0.0))
    }

    fn facts(mut self) -> Facts {
        if let Some(best) = self.found.iter().map(|found| found.model).min() {
            self.found.retain(|found| found.model == best);
        }
        let also = self.rows(Signal::AlsoQueued).filter_map(|row| self.combined(row, |one, other| one + other));
        let also: f64 = also.sum();
        let whole = |number: f64| Some(number as u32).filter(|number| *number > 0);
        let (adapters_running, adapters_waiting, max_adapters) = match self.adapters.take() {
            Some(Adapters { running, waiting, max, .. }) => {
                (Some(running.into_iter().collect()), Some(waiting.into_iter().collect()), max)
            }
            None => (None, None, self.most(Signal::MaxAdapters).and_then(whole)),
        };
        Facts {
            queued: self.count(Signal::Queued).map(|queued| queued + also),
            running: self.count(Signal::Running),
            // The fullest engine, not the mean: it is the one that preempts, and within an endpoint the gateway has no say
            // in which engine a request goes to. A share of a cache above all of it is somebody's rounding.
            kv_usage: self.most(Signal::KvUsage).map(|usage| usage.min(1.0)),
            block_size: self.most(Signal::BlockSize).and_then(whole),
            blocks: self.sum(Signal::Blocks).and_then(whole),
            adapters_running,
            adapters_waiting,
            max_adapters,
            models: None,
            awake: self.awake,
            progress: self.progress,
        }
    }
}
