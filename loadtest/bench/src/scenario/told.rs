//! What gateways are told in a load, where that is less than everything: no policy may rest on what servers may not say.

use serde::Deserialize;

use crate::limits::SHARE;
use spillway_sim::Problems;

/// What gateways are told. By default what vLLM tells of streams.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Told {
    /// Whether servers say how many tokens there were, and how many of them were cached.
    pub usage: bool,
    /// Part of the streams whose tokens are noticed as they come; of the others only the end is.
    pub tokens: f64,
    /// Part of the requests that stream, of those that would.
    pub streaming: f64,
    /// `max_tokens` of requests, as a multiple of what is answered; 0 for requests that do not say it.
    pub max_tokens: f64,
    /// Size of a server's cache on its page, as a multiple of its real size.
    pub cache: f64,
}

impl Default for Told {
    fn default() -> Self {
        Self { usage: true, tokens: 1.0, streaming: 1.0, max_tokens: 1.0, cache: 1.0 }
    }
}

impl Told {
    pub(super) fn check(&self, problems: &mut Problems) {
        problems.range("tokens", self.tokens, 0.0..=1.0);
        problems.range("streaming", self.streaming, 0.0..=1.0);
        if self.max_tokens != 0.0 {
            problems.range("max_tokens", self.max_tokens, SHARE);
        }
        problems.range("cache", self.cache, SHARE);
    }

    /// The limit that a request of so many output tokens states.
    pub fn max_tokens(&self, output: u32) -> Option<u32> {
        (self.max_tokens > 0.0).then(|| ((f64::from(output) * self.max_tokens) as u32).max(1))
    }
}
