//! What one scrape of an endpoint said. `None` means unknown, never zero.
//!
//! The gateway's page parser fills these; ages and staleness are kept where the facts are stored, in `standing`.

pub(crate) mod standing;

use std::sync::Arc;

/// What an endpoint says of itself, as of one scrape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Requests the engine has accepted and not begun.
    pub queued: Option<f64>,
    /// Requests in the engine's current batch.
    pub running: Option<f64>,
    /// Share of the key-value cache in use, 0 to 1.
    pub kv_usage: Option<f64>,
    /// Tokens in one block of the key-value cache.
    pub block_size: Option<u32>,
    /// Blocks in the key-value cache.
    pub blocks: Option<u32>,
    /// LoRA adapters with a request running.
    pub adapters_running: Option<Vec<Arc<str>>>,
    /// LoRA adapters with requests that wait.
    pub adapters_waiting: Option<Vec<Arc<str>>>,
    /// LoRA adapters the engine can run at once.
    pub max_adapters: Option<u32>,
    /// Ids the endpoint lists as its models, adapters included, when known. `None` keeps what was known before.
    pub models: Option<Vec<Arc<str>>>,
    /// False when the engine has put its weights to sleep.
    pub awake: Option<bool>,
    /// Hash or sum of all counters on the page. Unchanged over several scrapes while we see tokens: the page is frozen.
    /// `None`: it has no counter, and whether it is frozen cannot be told.
    pub progress: Option<u64>,
}
