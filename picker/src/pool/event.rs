//! What the caller tells the pool. All knowledge of the pool comes in this way.
//!
//! A flight that is dropped without an `Ended` event counts as a client that left: counts return, nothing is learned.

use std::sync::Arc;
use std::time::Duration;

use crate::facts::Facts;
use crate::flight::Flight;
use crate::kv::Change;
use crate::pool::{Count, Slot, Word};

/// Something that happened at an endpoint or to a request there.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The endpoint's metrics page was read.
    Scraped {
        /// The endpoint.
        endpoint: Slot,
        /// What the page said.
        facts: Facts,
    },
    /// The endpoint said which models it serves, adapters included.
    Listed {
        /// The endpoint.
        endpoint: Slot,
        /// Their ids.
        models: Vec<Arc<str>>,
    },
    /// The page could not be read. Older facts stay until they are stale.
    ScrapeFailed {
        /// The endpoint.
        endpoint: Slot,
    },
    /// The endpoint told how its cache changed. Nothing is tied to requests before [`Change::Current`].
    Cache {
        /// The endpoint.
        endpoint: Slot,
        /// Which of its caches: the data-parallel rank.
        rank: u32,
        /// What changed, in order.
        changes: &'a [Change],
    },
    /// Another gateway told of one of its requests. Nothing counts before it has told how many it has.
    Peer {
        /// The gateway.
        peer: u64,
        /// What it told.
        word: Word<'a>,
    },
    /// Another gateway told how many requests it has in flight. From then on it counts among those that talk.
    PeerCounts {
        /// The gateway.
        peer: u64,
        /// Requests by endpoint; none where nothing is said.
        counts: &'a [(Slot, Count)],
    },
    /// Another gateway left, or has not been heard for too long.
    PeerLeft {
        /// The gateway.
        peer: u64,
    },
    /// An active probe succeeded or failed, after whatever threshold the caller applies. May be repeated.
    Probed {
        /// The endpoint.
        endpoint: Slot,
        /// Whether it may be used.
        healthy: bool,
    },
    /// The endpoint was told to drain, or no longer is: draining, it finishes what it has and gets nothing new.
    Drain {
        /// The endpoint.
        endpoint: Slot,
        /// Whether it drains.
        draining: bool,
    },
    /// The connection stands on which the request goes out. Without this event the time to connect counts as the
    /// endpoint's own.
    Connected {
        /// The request.
        flight: &'a mut Flight,
        /// What a packet takes there and back on that connection; `None` stands for what was last told of the endpoint.
        round_trip: Option<Duration>,
    },
    /// The first output token of a streaming request arrived. Ignored for other requests and when repeated.
    FirstToken {
        /// The request.
        flight: &'a mut Flight,
    },
    /// More output tokens arrived, after the first.
    Token {
        /// The request.
        flight: &'a mut Flight,
        /// Tokens in this chunk.
        count: u32,
    },
    /// The server said how many tokens there were. May come before the first token, or at the end.
    Usage {
        /// The request.
        flight: &'a mut Flight,
        /// Tokens of the prompt.
        prompt: Option<u32>,
        /// How many of them the server took from its cache.
        cached: Option<u32>,
        /// Tokens of output.
        completion: Option<u32>,
    },
    /// The request ended at this endpoint.
    Ended {
        /// The request.
        flight: Flight,
        /// How.
        outcome: Outcome,
    },
}

/// How one attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The whole response arrived, with a status below 400.
    Completed,
    /// The client left.
    ClientGone,
    /// No connection.
    ConnectFailed,
    /// The connection broke before the first byte of the response.
    Reset,
    /// A deadline passed.
    TimedOut,
    /// The endpoint answered with this status, 400 or above.
    Status(u16),
    /// The response broke off, or reported an error in its stream.
    Failed,
}
