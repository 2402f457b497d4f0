//! The requests of one pool of a trace, as they are played.

use std::sync::Arc;

use spillway_picker::prefix::Prompt;

use crate::trace::{Recorded, Trace};

/// The status of a client that left first.
const CLIENT_GONE: u16 = 499;

/// Bytes of a token, where neither server nor gateway has said.
const TOKEN_BYTES: u64 = 4;

/// The requests of one pool.
#[derive(Debug)]
pub struct Work<'a> {
    /// The trace they are from.
    pub trace: &'a Trace,
    /// The pool's name there.
    pub pool: Arc<str>,
    /// In the order in which they leave for their endpoints.
    pub asked: Vec<Asked<'a>>,
    /// Requests that endpoints answered with an error, or broke off before any output: they are no work, and not played.
    pub left_out: usize,
    /// Bytes of a token in these prompts, in the mean.
    pub bytes_per_token: f64,
}

/// A request to be played.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// As it was recorded.
    pub recorded: &'a Recorded,
    /// Tokens of its prompt.
    pub tokens: f64,
    /// Tokens of output it is given.
    pub output: u32,
}

impl<'a> Work<'a> {
    /// The requests of `pool`.
    pub fn of(trace: &'a Trace, pool: &Arc<str>) -> Self {
        let ours: Vec<&Recorded> = trace.requests.iter().filter(|one| one.request.pool == *pool).collect();
        let known: Vec<u32> = ours.iter().filter_map(|one| one.request.output).collect();
        let sum: u64 = known.iter().copied().map(u64::from).sum();
        let mean = u32::try_from(sum / (known.len() as u64).max(1)).unwrap_or(u32::MAX);
        let mut this = Self { trace, pool: Arc::clone(pool), asked: Vec::new(), left_out: 0, bytes_per_token: 0.0 };
        for recorded in ours {
            match output(recorded, mean) {
                Some(output) => this.asked.push(Asked { recorded, tokens: tokens(recorded), output }),
                None => this.left_out += 1,
            }
        }
        let bytes: f64 = this.asked.iter().map(|one| one.sizes().length() as f64).sum();
        let tokens: f64 = this.asked.iter().map(|one| one.tokens).sum();
        this.bytes_per_token = if tokens > 0.0 && bytes > 0.0 { bytes / tokens } else { TOKEN_BYTES as f64 };
        this
    }

    /// The prompt of a request.
    pub(super) fn prompt(&self, asked: &Asked<'_>) -> Prompt {
        Prompt { blocks: self.trace.chains.hashes(asked.recorded.tip), ..asked.sizes() }
    }

    /// From the first arrival to the last end, seconds.
    pub fn seconds(&self) -> f64 {
        let requests = || self.asked.iter().map(|one| &one.recorded.request);
        let first = requests().map(|request| request.at).min().unwrap_or(0);
        let last = requests().map(|request| request.at + request.duration).max().unwrap_or(0);
        last.saturating_sub(first) as f64 * 1e-6
    }
}

impl Asked<'_> {
    /// The endpoint it went to.
    pub fn endpoint(&self) -> Option<&Arc<str>> {
        self.recorded.request.endpoint.as_ref()
    }

    /// When it leaves for one, nanoseconds.
    pub(super) fn leaves(&self) -> u64 {
        self.recorded.left() * 1_000
    }

    /// The prompt without its hashes.
    fn sizes(&self) -> Prompt {
        let request = &self.recorded.request;
        Prompt {
            blocks: Vec::new(),
            ring_key: request.ring,
            bytes: request.bytes,
            wide_bytes: request.wide,
            media: request.media,
            token_ids: request.token_ids,
        }
    }
}

fn tokens(recorded: &Recorded) -> f64 {
    let request = &recorded.request;
    let guess = || u32::try_from(request.bytes / TOKEN_BYTES).unwrap_or(u32::MAX);
    let estimate = (request.estimate > 0).then_some(request.estimate);
    f64::from(request.prompt.or(estimate).unwrap_or_else(guess))
}

/// Output tokens of a request that is work for an endpoint. `mean` is that of the others.
fn output(recorded: &Recorded, mean: u32) -> Option<u32> {
    let request = &recorded.request;
    match request.output {
        Some(output) => Some(output.max(1)),
        // It had a first token, or left while it waited for one.
        None if request.ttft.is_some() || request.status == CLIENT_GONE => Some(1),
        // The gateway had no endpoint for it; another configuration may.
        None if request.endpoint.is_none() => Some(mean.max(1)),
        None if request.status < 400 => Some(if request.stream { 1 } else { mean.max(1) }),
        None => None,
    }
}
