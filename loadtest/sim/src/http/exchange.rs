//! One request and its response, from the first byte in to the last byte out.
//!
//! The guard ends with whatever ends first: the body that was handed over, or a future that was dropped.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::connection::Connection;
use super::shared::Shared;

/// Guard of one exchange.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) shared: Arc<Shared>,
    pub(super) connection: Arc<Connection>,
    /// Number of its record.
    pub(super) seq: Option<u64>,
    /// Whether its connection ends after it, as llama.cpp's does after a stream.
    pub(super) closes: bool,
    complete: bool,
}

impl Exchange {
    /// Begins an exchange that `connection.begin()` has counted. Model traffic has a record.
    pub(super) fn new(shared: Arc<Shared>, connection: Arc<Connection>, seq: Option<u64>) -> Self {
        if seq.is_some() {
            shared.in_progress.fetch_add(1, Ordering::Relaxed);
        }
        Self { shared, connection, seq, closes: false, complete: false }
    }

    /// The whole response was handed over.
    pub(super) fn complete(&mut self) {
        if !self.complete && self.closes {
            self.connection.end_after_response();
        }
        self.complete = true;
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if let Some(seq) = self.seq {
            self.shared.in_progress.fetch_sub(1, Ordering::Relaxed);
            let ended = if self.complete { "complete" } else { "aborted" };
            self.shared.records.change(seq, |record| ended.clone_into(&mut record.ended));
        }
        self.connection.end();
    }
}
