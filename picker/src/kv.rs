//! What servers say of their caches (KV events), and which of our prompts it is about.
//!
//! A server names its blocks by hashes of *tokens*; the gateway names prompts by hashes of *text*, and no tokenizer is at
//! hand to get from one to the other. So the two are tied by the requests themselves: blocks that a server stores are
//! attributed to the request of ours that made it store them.
//!
//! **What is matched.** A run of stored blocks that continues where a request's blocks ended is that request's. A run that
//! begins anew is the oldest request's in flight there that it fits: its prompt begins with what the blocks above were stored for, its
//! expected tokens are about as many as the run is deep, its adapter is the same, and what the run begins with is
//! not known to be cached already. What fits none (another gateway, another client) is counted and left alone. When the
//! request ends, the server's own count of its tokens checks the match; one that was wrong is undone.
//!
//! A block of text then counts as held while the block of tokens in which it ends is held. **What is told by it is only
//! the end of beliefs**, and their return: a belief begins with the dispatch as without events, and ends when its blocks are
//! removed, the cache is cleared or the server restarts, and not later, when it would have been our guess.
//!
//! **How it errs.** Requests of equal size under one prefix that overtake each other may swap their tails; text is
//! laid over tokens evenly, which is off by some blocks where it is not even; a prompt whose blocks were never attributed
//! ends by the index's own guess. Each error makes the index believe in a block too long or too short, which
//! costs the computation of that block once. A server whose events fall silent, or whose gaps cannot be filled, is
//! believed of as one without events: [`Change::Lost`] takes all attributions and no belief.

mod attribution;
mod cache;
mod open;
mod tree;

#[cfg(test)]
mod tests;

pub(crate) use attribution::Ended;
pub(crate) use cache::Cache;

/// A change of a server's cache of full-attention blocks on its device, in the order in which it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A run of blocks was stored, one after the other. Storing again what is there is legal and changes nothing.
    Stored {
        /// Their names.
        blocks: Vec<u64>,
        /// The block before the first; `None` at the start of a prompt.
        parent: Option<u64>,
        /// Tokens in each.
        block_tokens: u32,
        /// What they were computed with.
        adapter: Adapter,
    },
    /// These blocks are gone. Unknown ones are ignored.
    Removed {
        /// Their names.
        blocks: Vec<u64>,
    },
    /// All blocks are gone.
    Cleared,
    /// The server is another process, with an empty cache. What was in flight there is gone too.
    Restarted,
    /// Changes may have been missed. What is tied to prompts is forgotten; what is believed stays.
    Lost,
    /// What follows is told as it happens, so that it may be about requests of ours; what came before may be history.
    Current,
    /// Nothing more is told. What is tied to prompts is forgotten; what is believed stays.
    Ended,
}

/// What blocks were computed with, as far as the server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Adapter {
    /// The base model.
    None,
    /// An adapter.
    Named(Box<str>),
    /// An adapter whose name is not told.
    Unnamed,
}

/// What is known by the events of one endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Standing {
    /// Blocks of the server that are known to be stored.
    pub blocks: u64,
    /// Blocks of our prompts that are held as a fact, not as a guess.
    pub held: u64,
    /// Stored blocks that were attributed to a request, since the events began.
    pub attributed: u64,
    /// Stored blocks that were not.
    pub unattributed: u64,
    /// Requests whose attribution their own count of tokens disproved.
    pub mismatched: u64,
}
