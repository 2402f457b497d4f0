//! What reached the server, for tests that ask whether a gateway passed it on unharmed.
//!
//! Only the last requests are kept, and of their bodies only those of moderate size.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Requests kept; a test sends fewer between two looks.
const KEPT: usize = 256;
/// Bodies kept whole up to this size, so that all records stay below 256 MiB.
const KEPT_BODY_BYTES: usize = 1 << 20;

/// One received request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// Counts from 1 over the life of the server.
    pub seq: u64,
    /// Method as sent.
    pub method: String,
    /// Path without query.
    pub path: String,
    /// Query without `?`.
    pub query: Option<String>,
    /// `HTTP/1.1` or `HTTP/2.0`.
    pub version: String,
    /// Connection it came on, from 1.
    pub connection: u64,
    /// Which request of that connection it was, from 1.
    pub connection_requests: u64,
    /// Header names (lower case) and values in order of arrival.
    pub headers: Vec<(String, String)>,
    /// Bytes of the body.
    pub body_bytes: u64,
    /// xxh3-64 of the body, 16 hex digits; empty until the body was read.
    pub body_xxh3: String,
    /// `content-length:N`, `chunked`, `h2` or `none`.
    pub framing: String,
    /// Model named in the body.
    pub model: Option<String>,
    /// Status answered; `None` before the head.
    pub status: Option<u16>,
    /// `open`, `complete` or `aborted`.
    pub ended: String,
}

#[derive(Debug, Default)]
pub(super) struct Records {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    last_seq: u64,
    kept: VecDeque<(Received, Option<Bytes>)>,
    received_bytes: u64,
}

impl Records {
    /// Adds a record, fills in its number and returns it.
    pub(super) fn add(&self, mut received: Received) -> u64 {
        let mut inner = self.lock();
        inner.last_seq += 1;
        let seq = inner.last_seq;
        received.seq = seq;
        inner.kept.push_back((received, None));
        if inner.kept.len() > KEPT {
            inner.kept.pop_front();
        }
        seq
    }

    /// Changes a record, if it is still kept.
    pub(super) fn change(&self, seq: u64, change: impl FnOnce(&mut Received)) {
        let mut inner = self.lock();
        if let Some((record, _)) = inner.kept.iter_mut().rev().find(|(record, _)| record.seq == seq) {
            change(record);
        }
    }

    /// Adds the body to a record.
    pub(super) fn body(&self, seq: u64, body: &Bytes, xxh3: &str, model: Option<String>) {
        let mut inner = self.lock();
        inner.received_bytes += body.len() as u64;
        if let Some((record, kept)) = inner.kept.iter_mut().rev().find(|(record, _)| record.seq == seq) {
            record.body_bytes = body.len() as u64;
            xxh3.clone_into(&mut record.body_xxh3);
            record.model = model;
            *kept = (body.len() <= KEPT_BODY_BYTES).then(|| body.clone());
        }
    }

    pub(super) fn last(&self, count: usize) -> Vec<Received> {
        let inner = self.lock();
        let skip = inner.kept.len().saturating_sub(count);
        inner.kept.iter().skip(skip).map(|(record, _)| record.clone()).collect()
    }

    pub(super) fn body_of(&self, seq: u64) -> Option<Bytes> {
        self.lock().kept.iter().find(|(record, _)| record.seq == seq)?.1.clone()
    }

    /// Forgets requests and totals; numbers go on.
    pub(super) fn clear(&self) {
        let mut inner = self.lock();
        inner.kept.clear();
        inner.received_bytes = 0;
    }

    pub(super) fn received_bytes(&self) -> u64 {
        self.lock().received_bytes
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
