//! One JSON line per request on standard output, written by a thread of its own.
//!
//! A blocked pipe must not stall a stream, so lines wait in a buffer of bounded size; what does not fit is counted and
//! dropped, and the count is in the next line that fits. Lines are written in batches: waking a thread for each would cost
//! more than all the rest of logging it. Never holds prompts, completions or keys.

mod object;

use std::cell::RefCell;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use object::Object;

/// Bytes of lines that may wait: a second's worth, some 16,000 lines, at a rate one process can serve.
const QUEUE: usize = 8 << 20;

/// How long the writer lets lines gather once there is one. Nobody reads a log faster, and no more is lost in a crash.
const GATHER: Duration = Duration::from_millis(20);

/// What is logged of a request, at its end. Sizes are in bytes; texts that are empty and values that are not known are
/// left out.
#[derive(Debug)]
pub struct Line<'a> {
    /// Wall-clock time of the end.
    pub time: SystemTime,
    /// `x-request-id`.
    pub request_id: &'a str,
    /// HTTP method.
    pub method: &'a str,
    /// Path without its query.
    pub path: &'a str,
    /// The status the client got; 499 when it left first.
    pub status: u16,
    /// The model asked for, if it is one that is served.
    pub model: &'a str,
    /// The name sent on, where it is another.
    pub target: &'a str,
    /// The pool it led to.
    pub pool: &'a str,
    /// Whose API key it came with.
    pub tenant: &'a str,
    /// The endpoint of the last attempt.
    pub endpoint: &'a str,
    /// Why that endpoint.
    pub reason: &'a str,
    /// The arm of the pool's trial that decided: try or control.
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
    pub prompt_tokens: Option<u32>,
    /// Of these, served from the prefix cache.
    pub cached_tokens: Option<u32>,
    /// Output tokens.
    pub completion_tokens: Option<u32>,
    /// Time until the body was whole.
    pub body: Option<Duration>,
    /// Time of the last pick.
    pub pick: Option<Duration>,
    /// Time to the first output token of a stream, from the request head.
    pub ttft: Option<Duration>,
    /// What the picker expected of the last attempt, from the pick on.
    pub predicted_ttft: Option<Duration>,
    /// Time of the whole request.
    pub duration: Duration,
    /// What went wrong, in a word; absent when nothing did.
    pub error: &'a str,
    /// Detail of it, for the operator.
    pub detail: &'a str,
}

impl Line<'_> {
    /// Writes the line, without its end. `dropped` lines before it found no room.
    fn write(&self, dropped: u64, out: &mut Vec<u8>) {
        let mut line = Object::open(out);
        line.time("time", self.time);
        line.text("request_id", self.request_id);
        line.text("method", self.method);
        line.text("path", self.path);
        line.number("status", u64::from(self.status));
        line.text("model", self.model);
        line.text("target", self.target);
        line.text("pool", self.pool);
        line.text("tenant", self.tenant);
        line.text("endpoint", self.endpoint);
        line.text("reason", self.reason);
        line.text("arm", self.arm);
        line.number("attempts", u64::from(self.attempts));
        line.flag("stream", self.stream);
        line.number("request_bytes", self.request_bytes);
        line.number("response_bytes", self.response_bytes);
        line.number("prompt_tokens", self.prompt_tokens.map(u64::from));
        line.number("cached_tokens", self.cached_tokens.map(u64::from));
        line.number("completion_tokens", self.completion_tokens.map(u64::from));
        line.millis("body_ms", self.body);
        line.millis("pick_ms", self.pick);
        line.millis("ttft_ms", self.ttft);
        line.millis("predicted_ttft_ms", self.predicted_ttft);
        line.millis("duration_ms", Some(self.duration));
        line.text("error", self.error);
        line.text("detail", self.detail);
        line.number("dropped", Some(dropped).filter(|count| *count > 0));
        line.close();
    }
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
    pub fn write(&self, line: &Line<'_>) {
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        LINE.with_borrow_mut(|text| {
            text.clear();
            line.write(dropped, text);
            text.push(b'\n');
            if !self.queue.add(text) {
                self.dropped.fetch_add(dropped + 1, Ordering::Relaxed);
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

    fn line(path: &str) -> Line<'_> {
        Line {
            time: SystemTime::UNIX_EPOCH,
            request_id: "1",
            method: "GET",
            path,
            status: 200,
            model: "",
            target: "",
            pool: "",
            tenant: "",
            endpoint: "",
            reason: "",
            arm: "",
            attempts: 0,
            stream: false,
            request_bytes: 0,
            response_bytes: 0,
            prompt_tokens: None,
            cached_tokens: None,
            completion_tokens: None,
            body: None,
            pick: None,
            ttft: None,
            predicted_ttft: None,
            duration: Duration::ZERO,
            error: "",
            detail: "",
        }
    }

    #[test]
    fn a_line_is_json_with_what_is_known() {
        let mut whole = line("/a\"b\\\n\u{1}\u{e9}\u{2028}");
        (whole.pool, whole.prompt_tokens, whole.duration) = ("p", Some(12), Duration::from_nanos(1_234_567_890));
        (whole.body, whole.pick) = (Some(Duration::from_micros(7)), Some(Duration::from_nanos(400)));
        let mut out = Vec::new();
        whole.write(3, &mut out);
        let read: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let expected = serde_json::json!({
            "time": "1970-01-01T00:00:00.000Z", "request_id": "1", "method": "GET", "path": whole.path, "status": 200,
            "pool": "p", "attempts": 0, "stream": false, "request_bytes": 0, "response_bytes": 0, "prompt_tokens": 12,
            "body_ms": 0.007, "pick_ms": 0.0, "duration_ms": 1234.568, "dropped": 3,
        });
        assert_eq!(read, expected, "{}", String::from_utf8_lossy(&out));
        out.clear();
        line("/").write(0, &mut out);
        assert!(!String::from_utf8(out).unwrap().contains("dropped"));
    }

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
            log.write(&line(&path));
        }
        assert!(log.dropped.load(Ordering::Relaxed) > 0, "the queue has no bound");
        drop(stuck);
        // The writer drains; the next line that fits carries the count.
        while log.dropped.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
            log.write(&line("/after"));
        }
        drop(log);
        while Arc::strong_count(&sink.0) > 1 {
            std::thread::yield_now();
        }
        let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        assert!(text.lines().any(|line| line.contains("\"dropped\":")), "the count of dropped lines was lost");
    }
}
