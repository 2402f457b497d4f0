//! One JSON line per request on standard output, written by a thread of its own.
//!
//! A blocked pipe must not stall a stream, so lines wait in a buffer of bounded size; what does not fit is counted and
//! dropped, and the count is in the next line that fits. Lines are written in batches: waking a thread for each would cost
//! more than all the rest of logging it. Never holds prompts, completions or keys.

use std::cell::RefCell;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

/// Bytes of lines that may wait: a second's worth, some 16,000 lines, at a rate one process can serve.
const QUEUE: usize = 8 << 20;

/// How long the writer lets lines gather once there is one. Nobody reads a log faster, and no more is lost in a crash.
const GATHER: Duration = Duration::from_millis(20);

/// What is logged of a request, at its end. Times are in milliseconds, sizes in bytes.
#[derive(Debug, Default, Serialize)]
pub struct Line<'a> {
    /// Wall-clock time of the end, RFC 3339 in UTC.
    pub time: String,
    /// `x-request-id`.
    pub request_id: &'a str,
    /// HTTP method.
    pub method: &'a str,
    /// Path without its query.
    pub path: &'a str,
    /// The status the client got; 499 when it left first.
    pub status: u16,
    /// The model asked for, if it is one that is served.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub model: &'a str,
    /// The name sent on, where it is another.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub target: &'a str,
    /// The pool it led to.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub pool: &'a str,
    /// Whose API key it came with.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub tenant: &'a str,
    /// The endpoint of the last attempt.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub endpoint: &'a str,
    /// Why that endpoint.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reason: &'a str,
    /// The arm of the pool's trial that decided: try or control.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub arm: &'a str,
    /// Attempts made.
    pub attempts: u32,
    /// Whether the client asked for a stream.
    pub stream: bool,
    /// Request body.
    pub request_bytes: u64,
    /// Response body.
    pub response_bytes: u64,
    /// Prompt tokens as the server counted them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u32>,
    /// Of these, served from the prefix cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u32>,
    /// Output tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_tokens: Option<u32>,
    /// Time until the body was whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_ms: Option<f64>,
    /// Time of the last pick.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pick_ms: Option<f64>,
    /// Time to the first output token of a stream, from the request head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<f64>,
    /// What the picker expected of the last attempt, from the pick on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_ttft_ms: Option<f64>,
    /// Time of the whole request.
    pub duration_ms: f64,
    /// What went wrong, in a word; absent when nothing did.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub error: &'a str,
    /// Detail of it, for the operator.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub detail: &'a str,
    /// Lines that were dropped before this one because the reader of the log was too slow.
    #[serde(skip_serializing_if = "is_zero")]
    pub dropped: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The log's end in the request path.
pub struct AccessLog {
    queue: Arc<Queue>,
    dropped: AtomicU64,
}

/// Lines on their way to the writer.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Default)]
struct Waiting {
    text: Vec<u8>,
    is_closed: bool,
}

thread_local! {
    /// Where a line is put together before the lock is taken.
    static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl AccessLog {
    /// Starts the writer thread. It ends when the log is dropped.
    pub fn to(out: impl Write + Send + 'static) -> std::io::Result<Self> {
        let queue = Arc::<Queue>::default();
        let lines = Arc::clone(&queue);
        std::thread::Builder::new().name("access-log".into()).spawn(move || write_lines(&lines, out))?;
        Ok(Self { queue, dropped: AtomicU64::new(0) })
    }

    /// Queues a line. Waits for nobody but another line being copied.
    pub fn write(&self, mut line: Line<'_>) {
        line.dropped = self.dropped.swap(0, Ordering::Relaxed);
        LINE.with_borrow_mut(|text| {
            text.clear();
            if serde_json::to_writer(&mut *text, &line).is_err() {
                return;
            }
            text.push(b'\n');
            if !self.queue.add(text) {
                self.dropped.fetch_add(line.dropped + 1, Ordering::Relaxed);
            }
        });
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.queue.lock().is_closed = true;
        self.queue.arrived.notify_one();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line if there is room.
    fn add(&self, line: &[u8]) -> bool {
        let mut waiting = self.lock();
        if waiting.text.len() + line.len() > QUEUE {
            return false;
        }
        let is_first = waiting.text.is_empty();
        waiting.text.extend_from_slice(line);
        drop(waiting);
        if is_first {
            self.arrived.notify_one();
        }
        true
    }

    /// Waits for lines and moves them to `batch`; false when there will be no more.
    fn take(&self, batch: &mut Vec<u8>) -> bool {
        batch.clear();
        let mut waiting = self.lock();
        while waiting.text.is_empty() && !waiting.is_closed {
            waiting = self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        if !waiting.is_closed {
            let gathered = self.arrived.wait_timeout_while(waiting, GATHER, |waiting| !waiting.is_closed);
            waiting = gathered.unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::swap(batch, &mut waiting.text);
        !batch.is_empty()
    }
}

fn write_lines(queue: &Queue, mut out: impl Write) {
    let mut batch = Vec::new();
    while queue.take(&mut batch) {
        // A closed standard output is no reason to stop serving.
        let _ = out.write_all(&batch).and_then(|()| out.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>, Arc<Mutex<()>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _gate = self.1.lock().unwrap();
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stuck_reader_costs_lines_and_says_how_many() {
        let sink = Sink::default();
        let gate = sink.1.clone();
        let stuck = gate.lock().unwrap();
        let log = AccessLog::to(sink.clone()).unwrap();
        let path = "/x".repeat(2_000);
        for _ in 0..2 * QUEUE / path.len() + 1_000 {
            log.write(Line { path: &path, ..Line::default() });
        }
        assert!(log.dropped.load(Ordering::Relaxed) > 0, "the queue has no bound");
        drop(stuck);
        // The writer drains; the next line that fits carries the count.
        while log.dropped.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
            log.write(Line { path: "/after", ..Line::default() });
        }
        drop(log);
        while Arc::strong_count(&sink.0) > 1 {
            std::thread::yield_now();
        }
        let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        assert!(text.lines().any(|line| line.contains("\"dropped\":")), "the count of dropped lines was lost");
    }
}
