//! How fast the endpoints are, by what the trace says.
//!
//! Of each first token it is known when the request left and when the first token before it came: what lies between is the
//! prefill, if prefills come one after the other. It is fitted to the tokens that were not cached and the streams beside it.
//! Of each stream it is known how long its tokens took in the mean; that is fitted to the streams there were in that time.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cache::Cache;
use super::model::Speed;
use super::regression::fit;
use super::work::{Asked, Work};

/// Samples from which on an endpoint has a speed of its own. With fewer, noise would be taken for a difference.
const OWN: usize = 64;

/// First tokens below which prefill is fitted to whole answers instead.
const FEW: usize = 8;

/// Speeds fitted to a trace.
#[derive(Clone, Debug, Default)]
pub struct Fits {
    /// Of endpoints with enough samples.
    pub own: BTreeMap<Arc<str>, Speed>,
    /// Of all the others.
    pub shared: Speed,
    /// First tokens, or whole answers where there are too few of these, that prefill was fitted to.
    pub prefills: usize,
    /// Streams that decoding was fitted to.
    pub streams: usize,
}

impl Fits {
    /// Fits the speeds of the endpoints in `work`. `capacity` is that of an endpoint's cache in bytes of prompts.
    pub fn of(work: &Work<'_>, capacity: impl Fn(&str) -> f64) -> Self {
        let mut there: BTreeMap<&Arc<str>, Vec<Seen>> = BTreeMap::new();
        let mut caches: BTreeMap<&Arc<str>, Cache> = BTreeMap::new();
        for asked in &work.asked {
            let Some(endpoint) = asked.endpoint() else { continue };
            let cache = caches.entry(endpoint).or_insert_with(|| Cache::new(capacity(endpoint)));
            there.entry(endpoint).or_default().push(Seen::of(work, asked, cache));
        }
        let samples: BTreeMap<&Arc<str>, Samples> = there.iter().map(|(id, seen)| (*id, Samples::of(seen))).collect();
        let mut all = Samples::default();
        for one in samples.values() {
            all.add(one);
        }
        let shared = all.speed();
        let is_enough = |one: &Samples| one.prefills.len() >= OWN && one.streams.len() >= OWN;
        let own = samples.iter().filter(|(_, one)| is_enough(one)).map(|(id, one)| (Arc::clone(id), one.speed()));
        Self { own: own.collect(), shared, prefills: all.told(), streams: all.streams.len() }
    }

    /// The speed of an endpoint.
    pub fn speed(&self, endpoint: &str) -> Speed {
        self.own.get(endpoint).copied().unwrap_or(self.shared)
    }
}

/// What was seen of a request at its endpoint. Times are seconds.
struct Seen {
    left: f64,
    first: Option<f64>,
    ended: f64,
    uncached: f64,
    output: u32,
    is_whole: bool,
}

impl Seen {
    fn of(work: &Work<'_>, asked: &Asked<'_>, cache: &mut Cache) -> Self {
        let request = &asked.recorded.request;
        let prompt = work.prompt(asked);
        let believed = asked.tokens * prompt.share(cache.matched(&prompt.blocks));
        cache.insert(&prompt.blocks);
        let cached = request.cached.map_or(believed, f64::from);
        let seconds = |micros: u64| micros as f64 * 1e-6;
        Self {
            left: seconds(asked.recorded.left()),
            first: request.ttft.map(|ttft| seconds(request.at + ttft)),
            ended: seconds(request.at + request.duration),
            uncached: (asked.tokens - cached).max(1.0),
            output: asked.output,
            is_whole: request.status < 400 && request.error.is_none(),
        }
    }
}

/// What a fit is made of.
#[derive(Default)]
struct Samples {
    /// Fixed, uncached tokens, streams beside it; seconds.
    prefills: Vec<([f64; 3], f64)>,
    /// Fixed, streams in the mean; seconds of a token.
    streams: Vec<([f64; 2], f64)>,
    /// Fixed, uncached tokens, output tokens; seconds of a whole answer.
    answers: Vec<([f64; 3], f64)>,
}

impl Samples {
    fn of(seen: &[Seen]) -> Self {
        let decoding = Concurrency::of(seen.iter().filter_map(|one| Some((one.first?, one.ended))));
        let mut this = Self::default();
        let mut by_first: Vec<(f64, &Seen)> = seen.iter().filter_map(|one| Some((one.first?, one))).collect();
        by_first.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut before = f64::NEG_INFINITY;
        for (first, one) in by_first {
            let began = one.left.max(before);
            this.prefills.push(([1.0, one.uncached, decoding.at(began)], (first - began).max(0.0)));
            before = first;
            let took = one.ended - first;
            if one.is_whole && one.output > 1 && took > 0.0 {
                let streams = decoding.mean(first, one.ended);
                this.streams.push(([1.0, streams], took / f64::from(one.output - 1)));
            }
        }
        for one in seen.iter().filter(|one| one.first.is_none() && one.is_whole) {
            this.answers.push(([1.0, one.uncached, f64::from(one.output)], (one.ended - one.left).max(0.0)));
        }
        this
    }

    fn add(&mut self, other: &Self) {
        self.prefills.extend_from_slice(&other.prefills);
        self.streams.extend_from_slice(&other.streams);
        self.answers.extend_from_slice(&other.answers);
    }

    fn has_first_tokens(&self) -> bool {
        self.prefills.len() >= FEW || self.answers.len() < self.prefills.len()
    }

    /// Samples that tell of prefill.
    fn told(&self) -> usize {
        if self.has_first_tokens() { self.prefills.len() } else { self.answers.len() }
    }

    fn speed(&self) -> Speed {
        let [step, step_stream] = fit(&self.streams);
        if self.has_first_tokens() {
            let [prefill, prefill_token, prefill_stream] = fit(&self.prefills);
            return Speed { prefill, prefill_token, prefill_stream, step, step_stream };
        }
        let [prefill, prefill_token, token] = fit(&self.answers);
        let step = if self.streams.is_empty() { token } else { step };
        Speed { prefill, prefill_token, prefill_stream: 0.0, step, step_stream }
    }
}

/// How many there were, over time.
struct Concurrency {
    /// From when on: how many, and the integral until then.
    steps: Vec<(f64, f64, f64)>,
}

impl Concurrency {
    fn of(spans: impl Iterator<Item = (f64, f64)>) -> Self {
        let mut turns: Vec<(f64, f64)> = spans.flat_map(|(from, to)| [(from, 1.0), (to.max(from), -1.0)]).collect();
        turns.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut steps = Vec::with_capacity(turns.len());
        let (mut now, mut count, mut area) = (0.0, 0.0, 0.0);
        for (at, turn) in turns {
            area += count * (at - now);
            count += turn;
            now = at;
            steps.push((now, count, area));
        }
        Self { steps }
    }

    /// The step that holds at `at`.
    fn step(&self, at: f64) -> Option<&(f64, f64, f64)> {
        self.steps.partition_point(|step| step.0 <= at).checked_sub(1).map(|index| &self.steps[index])
    }

    fn at(&self, at: f64) -> f64 {
        self.step(at).map_or(0.0, |step| step.1)
    }

    fn area(&self, until: f64) -> f64 {
        self.step(until).map_or(0.0, |(from, count, area)| area + count * (until - from))
    }

    fn mean(&self, from: f64, to: f64) -> f64 {
        if to > from { (self.area(to) - self.area(from)) / (to - from) } else { self.at(to) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_many_there_were_is_a_mean_over_time() {
        let streams = Concurrency::of([(0.0, 4.0), (1.0, 3.0)].into_iter());
        assert!((streams.mean(0.0, 4.0) - 1.5).abs() < 1e-12);
        assert!((streams.mean(1.0, 3.0) - 2.0).abs() < 1e-12);
        assert!((streams.at(2.0) - 2.0).abs() < 1e-12);
        assert!((streams.at(3.0) - 1.0).abs() < 1e-12 && streams.at(-1.0).abs() < 1e-12);
        assert!(streams.mean(9.0, 9.0).abs() < 1e-12);
    }
}
