//! What the pool learns as a whole: how often requests come, how large they are, how long they stay.
//!
//! Priors stand until there is evidence, so the first decision of a pool already has plausible sizes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::learn::{ArrivalRate, Heat, OutputMean, RunningMean};
use crate::prefix::Prompt;
use crate::request::RequestInfo;
use crate::time::Time;
use crate::view::PoolView;

/// Bytes of mostly ASCII text per token until learned: what common tokenisers make of English.
const NARROW_PRIOR: f64 = 4.0;

/// The same for text of mostly multi-byte characters, for example Chinese: three bytes a character, rather more than one
/// token.
const WIDE_PRIOR: f64 = 2.5;

/// Tokens the prior ratio counts for, and the most that older evidence does: a few prompts correct a wrong prior, and a
/// change of traffic shows after some dozens.
const RATIO_PRIOR_TOKENS: f64 = 2_000.0;
const RATIO_MAX_TOKENS: f64 = 100_000.0;

/// Time to load an adapter until one has been, seconds: between some milliseconds from the host's memory and more than a
/// second from a disk.
const ADAPTER_LOAD_PRIOR: f64 = 0.1;

/// A learned ratio outside this range is a server that counts something else than the prompt.
const RATIO_RANGE: (f64, f64) = (0.5, 16.0);

/// Share of a prompt that nobody is known to hold that counts as cached on its ring owner, when other gateways may have sent
/// it there, until servers have said how much was. Below one, since it is a guess; high enough to outweigh the noise of the
/// cost.
const GUESS_PRIOR: f64 = 0.75;

/// Weight of the newest guess. Slow: when a fleet starts with empty caches all guesses are wrong, and just then gateways must
/// not stop agreeing.
const GUESS_WEIGHT: f64 = 0.005;

/// The least that it falls to: what is never tried is never known.
const GUESS_LEAST: f64 = 0.1;

/// Time a request stays in an engine until one has completed, seconds.
const RESIDENCE_PRIOR: f64 = 5.0;

/// Pool-wide knowledge, behind one short lock.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    means: Mutex<Means>,
    /// Requests dispatched since the pool was made.
    dispatched: AtomicU64,
}

#[derive(Debug, Default)]
struct Means {
    arrivals: ArrivalRate,
    /// Each is `None` until its first value, which then is its mean.
    service: Option<RunningMean>,
    uncached: Option<RunningMean>,
    residence: Option<RunningMean>,
    adapter_load: Option<RunningMean>,
    heat: Heat,
    /// Share of prompts that was cached where it was guessed to be.
    guess: Option<f64>,
    output: OutputMean,
    narrow: Option<Ratio>,
    wide: Option<Ratio>,
}

fn add(mean: &mut Option<RunningMean>, value: f64) {
    mean.get_or_insert(RunningMean::new(value)).observe(value);
}

fn mean_or(mean: Option<RunningMean>, prior: f64) -> f64 {
    mean.map_or(prior, |mean| mean.mean())
}

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
        PoolView {
            arrival_rate: means.arrivals.per_second(now),
            mean_service: mean_or(means.service, 0.0),
            mean_uncached: mean_or(means.uncached, prompt_tokens),
            mean_residence: mean_or(means.residence, RESIDENCE_PRIOR),
            adapter_load: mean_or(means.adapter_load, ADAPTER_LOAD_PRIOR),
            adapter_share: request.adapter.as_ref().map_or(0.0, |adapter| means.heat.share(adapter)),
            adapters: means.heat.adapters() as f64,
            guess: means.guess.unwrap_or(GUESS_PRIOR).clamp(GUESS_LEAST, 1.0),
            gateways,
            prompt_tokens,
            output_tokens: means.output.expected(request.tenant, &request.model, request.max_tokens),
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

    pub(crate) fn dispatched(&self, service: Duration, uncached: f64, adapter: Option<&Arc<str>>, now: Time) {
        self.dispatched.fetch_add(1, Ordering::Relaxed);
        let mut means = self.means();
        means.arrivals.observe(now);
        means.heat.observe(adapter);
        add(&mut means.service, service.as_secs_f64());
        add(&mut means.uncached, uncached);
    }

    /// A request whose adapter had to be loaded got its first token so much later than was predicted without the load. A wait
    /// for a place is part of it: it is what others who lose their place will pay, too.
    pub(crate) fn adapter_loaded(&self, delay: Duration) {
        add(&mut self.means().adapter_load, delay.as_secs_f64());
    }

    /// Mean tokens that are computed of a prompt.
    pub(crate) fn mean_uncached(&self) -> f64 {
        mean_or(self.means().uncached, 0.0)
    }

    /// A request that was sent where another gateway's were guessed to have left its prompt found this share of it.
    pub(crate) fn guessed(&self, share: f64) {
        let mut means = self.means();
        let guess = means.guess.get_or_insert(GUESS_PRIOR);
        *guess += (share - *guess) * GUESS_WEIGHT;
    }

    /// Requests dispatched since the pool was made.
    pub(crate) fn dispatches(&self) -> u64 {
        self.dispatched.load(Ordering::Relaxed)
    }

    pub(crate) fn completed(&self, tenant: u64, model: &str, residence: Duration, output: Option<u32>) {
        let mut means = self.means();
        add(&mut means.residence, residence.as_secs_f64());
        if let Some(output) = output {
            means.output.observe(tenant, model, output);
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

#[cfg(test)]
mod tests {
    use super::*;

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
