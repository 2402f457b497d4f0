//! What the pool learns as a whole: how often requests come, how large they are, how long they stay.
//!
//! Priors stand until there is evidence, so the first decision of a pool already has plausible sizes.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::prefix::Prompt;
use crate::request::RequestInfo;
use crate::time::Time;
use crate::view::PoolView;

/// Over how many seconds arrivals are averaged: a burst shows within seconds, and a pool at one request a second still
/// gets a steady figure.
const RATE_SECONDS: f64 = 10.0;

/// Weight of the newest request in running means of the pool: about the last fifty.
const WEIGHT: f64 = 0.02;

/// Bytes of mostly ASCII text per token until learned: what common tokenisers make of English.
const NARROW_PRIOR: f64 = 4.0;

/// The same for text of mostly multi-byte characters, for example Chinese: three bytes a character, rather more than one
/// token.
const WIDE_PRIOR: f64 = 2.5;

/// Tokens the prior ratio counts for, and the most that older evidence does: a few prompts correct a wrong prior, and a
/// change of traffic shows after some dozens.
const RATIO_PRIOR_TOKENS: f64 = 2_000.0;
const RATIO_MAX_TOKENS: f64 = 100_000.0;

/// A learned ratio outside this range is a server that counts something else than the prompt.
const RATIO_RANGE: (f64, f64) = (0.5, 16.0);

/// Time a request stays in an engine until one has completed, seconds.
const RESIDENCE_PRIOR: f64 = 5.0;

/// Pool-wide knowledge, behind one short lock.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    means: Mutex<Means>,
}

#[derive(Debug, Default)]
struct Means {
    arrivals: Arrivals,
    service: Mean,
    uncached: Mean,
    residence: Mean,
    output: Mean,
    narrow: Option<Ratio>,
    wide: Option<Ratio>,
}

/// Requests per second, exponentially averaged over time.
#[derive(Debug, Default)]
struct Arrivals {
    first: Option<Time>,
    last: Time,
    /// Requests, each weighted by `exp(-age / RATE_SECONDS)`.
    weighted: f64,
}

#[derive(Debug, Default)]
struct Mean(Option<f64>);

/// Bytes over tokens, both decaying together.
#[derive(Clone, Copy, Debug)]
struct Ratio {
    bytes: f64,
    tokens: f64,
}

impl Tally {
    fn means(&self) -> MutexGuard<'_, Means> {
        self.means.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What one decision sees. `gateways` is configuration, `media_tokens` too.
    pub(crate) fn view(&self, request: &RequestInfo, gateways: u32, media_tokens: u32, now: Time) -> PoolView {
        let means = self.means();
        let bytes_per_token = means.ratio(&request.prompt).value();
        let prompt_tokens = means.tokens(&request.prompt, media_tokens);
        let output = means.output.or(128.0);
        PoolView {
            arrival_rate: means.arrivals.per_second(now),
            mean_service: means.service.or(0.0),
            mean_uncached: means.uncached.or(prompt_tokens),
            mean_residence: means.residence.or(RESIDENCE_PRIOR),
            gateways,
            prompt_tokens,
            output_tokens: request.max_tokens.map_or(output, |max| output.min(f64::from(max))),
            bytes_per_token,
        }
    }

    /// Bytes of text per token, of mostly ASCII text.
    pub(crate) fn bytes_per_token(&self) -> f64 {
        self.means().ratio(&Prompt::default()).value()
    }

    /// Estimated tokens of a prompt.
    pub(crate) fn tokens(&self, prompt: &Prompt, media_tokens: u32) -> f64 {
        self.means().tokens(prompt, media_tokens)
    }

    pub(crate) fn dispatched(&self, service: Duration, uncached: f64, now: Time) {
        let mut means = self.means();
        means.arrivals.add(now);
        means.service.add(service.as_secs_f64());
        means.uncached.add(uncached);
    }

    pub(crate) fn completed(&self, tenant: u64, model: &str, residence: Duration, output: Option<u32>) {
        let _ = (tenant, model);
        let mut means = self.means();
        means.residence.add(residence.as_secs_f64());
        if let Some(output) = output {
            means.output.add(f64::from(output));
        }
    }

    /// The server counted the tokens of a prompt. Prompts with media or ids teach nothing of text.
    pub(crate) fn counted(&self, prompt: &Prompt, tokens: u32) {
        if prompt.media == 0 && prompt.token_ids == 0 && prompt.bytes > 0 && tokens > 0 {
            let mut means = self.means();
            let ratio = means.ratio(prompt).add(prompt.bytes as f64, f64::from(tokens));
            *(if is_wide(prompt) { &mut means.wide } else { &mut means.narrow }) = Some(ratio);
        }
    }
}

impl Means {
    fn ratio(&self, prompt: &Prompt) -> Ratio {
        let prior = |ratio: f64| Ratio { bytes: ratio * RATIO_PRIOR_TOKENS, tokens: RATIO_PRIOR_TOKENS };
        if is_wide(prompt) {
            self.wide.unwrap_or(prior(WIDE_PRIOR))
        } else {
            self.narrow.unwrap_or(prior(NARROW_PRIOR))
        }
    }

    fn tokens(&self, prompt: &Prompt, media_tokens: u32) -> f64 {
        let text = prompt.bytes as f64 / self.ratio(prompt).value();
        text + f64::from(prompt.media) * f64::from(media_tokens) + prompt.token_ids as f64
    }
}

fn is_wide(prompt: &Prompt) -> bool {
    prompt.wide_bytes * 2 > prompt.bytes
}

impl Ratio {
    fn value(self) -> f64 {
        (self.bytes / self.tokens).clamp(RATIO_RANGE.0, RATIO_RANGE.1)
    }

    fn add(self, bytes: f64, tokens: f64) -> Self {
        let keep = (RATIO_MAX_TOKENS / (self.tokens + tokens)).min(1.0);
        Self { bytes: (self.bytes + bytes) * keep, tokens: (self.tokens + tokens) * keep }
    }
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.0 = Some(self.0.map_or(value, |mean| mean + WEIGHT * (value - mean)));
    }

    fn or(&self, prior: f64) -> f64 {
        self.0.unwrap_or(prior)
    }
}

impl Arrivals {
    fn add(&mut self, now: Time) {
        self.weighted = self.weighted_at(now) + 1.0;
        self.last = self.last.max(now);
        self.first.get_or_insert(now);
    }

    fn weighted_at(&self, now: Time) -> f64 {
        self.weighted * (-now.seconds_since(self.last) / RATE_SECONDS).exp()
    }

    /// Corrected for the time before the first arrival, of which nothing is known.
    fn per_second(&self, now: Time) -> f64 {
        let Some(first) = self.first else { return 0.0 };
        // One second at least: two requests in one millisecond are not two thousand a second.
        let age = now.seconds_since(first).max(1.0);
        self.weighted_at(now) / (RATE_SECONDS * (1.0 - (-age / RATE_SECONDS).exp()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn the_arrival_rate_is_right_from_the_first_seconds_on() {
        let mut arrivals = Arrivals::default();
        assert!(arrivals.per_second(at(0)) == 0.0);
        for i in 0..2_000 {
            arrivals.add(at(i * 50));
            if i >= 60 {
                let rate = arrivals.per_second(at(i * 50));
                assert!((rate - 20.0).abs() < 2.5, "20 a second after {} ms, estimated {rate}", i * 50);
            }
        }
        assert!(arrivals.per_second(at(200_000)) < 0.01, "silence brings it down");
    }

    #[test]
    fn bytes_per_token_follow_what_servers_count() {
        let tally = Tally::default();
        let text = |bytes, wide_bytes| Prompt { bytes, wide_bytes, ..Prompt::default() };
        assert!((tally.tokens(&text(4_000, 0), 1_000) - 1_000.0).abs() < 1.0, "prior");
        assert!((tally.tokens(&text(5_000, 4_000), 1_000) - 2_000.0).abs() < 1.0, "prior of wide text");
        for _ in 0..50 {
            tally.counted(&text(6_000, 0), 2_000);
        }
        assert!((tally.tokens(&text(3_000, 0), 1_000) - 1_000.0).abs() < 50.0, "3 bytes a token were counted");
        assert!((tally.tokens(&text(5_000, 4_000), 1_000) - 2_000.0).abs() < 1.0, "wide text is apart");
    }

    #[test]
    fn media_count_by_the_piece_and_ids_by_themselves() {
        let tally = Tally::default();
        let prompt = Prompt { bytes: 400, media: 2, token_ids: 30, ..Prompt::default() };
        assert!((tally.tokens(&prompt, 1_000) - 2_130.0).abs() < 1e-6);
        tally.counted(&prompt, 5);
        assert!((tally.tokens(&prompt, 1_000) - 2_130.0).abs() < 1e-6, "such prompts teach nothing of text");
    }
}
