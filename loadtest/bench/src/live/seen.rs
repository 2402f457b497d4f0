//! What a client saw of one request, by the clock, and what that is in model time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::events::Usage;
use crate::measure::Outcome;

/// One request that was sent.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// Its place in the trace.
    pub(super) request: usize,
    /// When it was due.
    pub(super) due: Instant,
    /// When it was handed to a connection.
    pub(super) began: Option<Instant>,
    /// When its first token came.
    pub(super) first: Option<Instant>,
    /// When its latest token came.
    pub(super) last: Option<Instant>,
    /// When its answer was over, whole or not.
    pub(super) ended: Option<Instant>,
    /// Longest time between two events with tokens.
    pub(super) longest_gap: Duration,
    /// Events with tokens.
    pub(super) events: u32,
    /// What the server counted.
    pub(super) usage: Option<Usage>,
    /// Who answered, by `x-sim-replica`.
    pub(super) endpoint: Option<usize>,
    /// What went wrong, in a few words; `None` for nothing so far.
    pub(super) failure: Option<String>,
    /// Whether the whole answer came.
    pub(super) completed: bool,
    /// The answer.
    pub(super) text: String,
}

impl Seen {
    /// One that is due.
    pub(super) fn new(request: usize, due: Instant) -> Self {
        Self {
            request,
            due,
            began: None,
            first: None,
            last: None,
            ended: None,
            longest_gap: Duration::ZERO,
            events: 0,
            usage: None,
            endpoint: None,
            failure: None,
            completed: false,
            text: String::new(),
        }
    }

    /// Output came.
    pub(super) fn token(&mut self, now: Instant, text: &str) {
        if let Some(last) = self.last {
            self.longest_gap = self.longest_gap.max(now - last);
        }
        self.first.get_or_insert(now);
        self.last = Some(now);
        self.events += 1;
        self.text.push_str(text);
    }

    /// How late it was sent.
    pub(super) fn lag(&self) -> Option<Duration> {
        self.began.map(|began| began.saturating_duration_since(self.due))
    }
}

/// How clock time becomes model time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// When the run began.
    pub(super) origin: Instant,
    /// Model seconds per second.
    pub(super) factor: f64,
    /// What the gateway adds to the first token, by the clock: it is counted once, not `factor` times.
    pub(super) overhead: Duration,
}

impl Scale {
    /// Model time of a span by the clock.
    pub(super) fn model(&self, wall: Duration) -> Duration {
        wall.mul_f64(self.factor)
    }

    /// A request's outcome in model time. An event has up to `interval` tokens; what usage says of them goes before.
    pub(super) fn outcome(&self, seen: &Seen, interval: u32) -> Outcome {
        let sent = self.model(seen.due.saturating_duration_since(self.origin));
        let since_sent = |at: Instant| {
            let wall = at.saturating_duration_since(seen.due);
            sent + self.model(wall.saturating_sub(self.overhead)) + self.overhead.min(wall)
        };
        let counted = seen.usage.map(|usage| usage.completion);
        Outcome {
            endpoint: seen.endpoint,
            first: seen.first.map(since_sent),
            last: seen.last.map(since_sent),
            longest_gap: self.model(seen.longest_gap),
            tokens: counted.unwrap_or(seen.events.saturating_sub(1) * interval + seen.events.min(1)),
            cached: seen.usage.map_or(0, |usage| usage.cached),
            completed: seen.completed,
            ..Outcome::sent(seen.request, sent)
        }
    }
}

/// Most requests at one endpoint at once, as clients saw it.
pub(super) fn peak_in_flight(all: &[Seen]) -> usize {
    let mut changes: BTreeMap<usize, Vec<(Instant, i64)>> = BTreeMap::new();
    for seen in all {
        if let (Some(endpoint), Some(began)) = (seen.endpoint, seen.began) {
            let of = changes.entry(endpoint).or_default();
            of.push((began, 1));
            of.extend(seen.ended.map(|ended| (ended, -1)));
        }
    }
    let peak = |mut changes: Vec<(Instant, i64)>| {
        changes.sort_unstable();
        changes
            .into_iter()
            .scan(0, |now, (_, change)| {
                *now += change;
                Some(*now)
            })
            .max()
            .unwrap_or(0)
    };
    changes.into_values().map(peak).max().unwrap_or(0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_gateway_adds_is_counted_once_and_all_else_as_often_as_the_scale_says() {
        let origin = Instant::now();
        let ms = Duration::from_millis;
        let mut seen = Seen::new(3, origin + ms(100));
        seen.token(origin + ms(111), " a");
        seen.token(origin + ms(121), " b");
        let scale = Scale { origin, factor: 4.0, overhead: ms(1) };
        let outcome = scale.outcome(&seen, 1);
        assert_eq!((outcome.sent, outcome.first), (ms(400), Some(ms(400 + 4 * 10 + 1))));
        assert_eq!((outcome.longest_gap, outcome.tokens), (ms(40), 2));
        let plain = Scale { overhead: Duration::ZERO, ..scale }.outcome(&seen, 1);
        assert_eq!(plain.first, Some(ms(444)));
    }

    #[test]
    fn events_without_usage_are_counted_by_what_each_holds() {
        let now = Instant::now();
        let scale = Scale { origin: now, factor: 1.0, overhead: Duration::ZERO };
        let mut seen = Seen::new(0, now);
        assert_eq!(scale.outcome(&seen, 8).tokens, 0);
        (0..3).for_each(|_| seen.token(now, " a"));
        assert_eq!(scale.outcome(&seen, 8).tokens, 17, "the first event holds one");
    }

    #[test]
    fn the_peak_is_of_one_endpoint_and_of_what_overlaps() {
        let now = Instant::now();
        let at = |endpoint, began: u64, ended: u64| Seen {
            endpoint: Some(endpoint),
            began: Some(now + Duration::from_millis(began)),
            ended: Some(now + Duration::from_millis(ended)),
            ..Seen::new(0, now)
        };
        assert_eq!(peak_in_flight(&[at(0, 0, 10), at(0, 5, 15), at(0, 10, 20), at(1, 0, 20)]), 2);
        assert_eq!(peak_in_flight(&[]), 0);
    }
}
