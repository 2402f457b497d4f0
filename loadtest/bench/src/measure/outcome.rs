//! What became of one request, as its client saw it.
//!
//! Times count from when it should have been sent, not from when the load generator got round to it.

use std::time::Duration;

/// One request that was sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Its place in the trace.
    pub request: usize,
    /// When it was, or should have been, sent.
    pub sent: Duration,
    /// Where it went; `None` when it was refused.
    pub endpoint: Option<usize>,
    /// When it reached its engine; unknown over HTTP.
    pub reached: Option<Duration>,
    /// When it left its engine; unknown over HTTP.
    pub left: Option<Duration>,
    /// When its first token came.
    pub first: Option<Duration>,
    /// When its latest token came.
    pub last: Option<Duration>,
    /// Longest time between two tokens.
    pub longest_gap: Duration,
    /// Output tokens so far.
    pub tokens: u32,
    /// Prompt tokens the engine had cached.
    pub cached: u32,
    /// Time in the engine's queue.
    pub queued: Duration,
    /// Whether the whole answer came.
    pub completed: bool,
    /// Wall time the decision took; zero over HTTP.
    pub decision: Duration,
}

impl Outcome {
    /// One that has just been sent.
    pub fn sent(request: usize, sent: Duration) -> Self {
        Self {
            request,
            sent,
            endpoint: None,
            reached: None,
            left: None,
            first: None,
            last: None,
            longest_gap: Duration::ZERO,
            tokens: 0,
            cached: 0,
            queued: Duration::ZERO,
            completed: false,
            decision: Duration::ZERO,
        }
    }

    /// A token came.
    pub fn token(&mut self, now: Duration) {
        self.tokens += 1;
        if let Some(last) = self.last {
            self.longest_gap = self.longest_gap.max(now.saturating_sub(last));
        }
        self.first.get_or_insert(now);
        self.last = Some(now);
    }

    /// Time to first token. One that has none by `end` has waited at least until then, and counts so: else a policy
    /// would look the better the more it leaves undone.
    pub fn ttft(&self, end: Duration) -> Duration {
        self.first.unwrap_or(end).saturating_sub(self.sent)
    }

    /// Time to the last token, counted as [`Outcome::ttft`].
    pub fn whole(&self, end: Duration) -> Duration {
        let last = if self.completed { self.last } else { None };
        last.unwrap_or(end).saturating_sub(self.sent)
    }

    /// Mean time between tokens; `None` with fewer than two.
    pub fn tpot(&self) -> Option<Duration> {
        let (first, last) = (self.first?, self.last?);
        (self.tokens > 1).then(|| last.saturating_sub(first) / (self.tokens - 1))
    }
}
