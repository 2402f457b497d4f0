//! Writes the trace, in a thread of its own.
//!
//! A request hands over what is known of it and waits for nobody: in a full queue there is no place, and that is counted.
//! The hashes are shared, not copied. Where the trace goes may change at any time; changes are values that the thread takes up
//! before its next batch.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use prometheus::IntCounter;
use spillway_picker::prefix::Prompt;
use tracing::{error, info};

use super::file::TraceFile;
use super::line::{Request, Size};
use crate::config;
use crate::fleet::Fleet;

/// Requests that may wait for the writer: a second's worth at a rate one process can serve. Mostly a few hundred bytes each;
/// with prompts of `affinity.max` at its largest, 32 KiB.
const QUEUE: usize = 4096;

/// How long the writer lets them gather once there is one.
const GATHER: Duration = Duration::from_millis(20);

/// Time between two looks at what is known of the endpoints' caches. It changes when they restart.
const LOOK: Duration = Duration::from_secs(1);

/// A request at its end.
#[derive(Debug)]
pub struct Entry {
    /// When its head had been read.
    pub began: Instant,
    /// All but the times and hashes.
    pub request: Request,
    /// The hashes.
    pub prompt: Arc<Prompt>,
}

/// What a configuration asks for, made ready.
pub struct Change {
    settings: config::Trace,
    to: To,
}

enum To {
    /// What is in force.
    Same,
    /// The same file with another bound: opened twice, it would have lines of two parts between each other.
    Bound(u64),
    /// Nothing, or another file.
    Other(Option<Box<TraceFile>>),
}

/// Where requests are handed over.
pub struct Recorder {
    fleet: Arc<Fleet>,
    is_on: AtomicBool,
    settings: Mutex<config::Trace>,
    /// The thread's queue; there is none before the first file.
    queue: OnceLock<SyncSender<Message>>,
    next: Arc<Next>,
    dropped: IntCounter,
}

/// The changes that the writer is to take up, in order.
type Next = Mutex<Vec<To>>;

enum Message {
    Ended(Box<Entry>),
    /// Nothing but that there is a change.
    Changed,
}

impl Recorder {
    /// A recorder that records nothing yet.
    pub fn new(fleet: Arc<Fleet>) -> Self {
        let dropped = fleet.metrics().trace_records_total.with_label_values(&["dropped"]);
        let settings = Mutex::new(config::Trace::default());
        Self { fleet, is_on: AtomicBool::new(false), settings, queue: OnceLock::new(), next: Arc::default(), dropped }
    }

    /// Opens what `settings` ask for. Nothing changes before [`set`](Self::set).
    pub fn open(&self, settings: &config::Trace) -> std::io::Result<Change> {
        let before = self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let to = if *settings == before {
            To::Same
        } else if settings.file == before.file {
            To::Bound(settings.size)
        } else {
            let open = |path: &PathBuf| TraceFile::open(path, settings.size).map(Box::new);
            To::Other(settings.file.as_ref().map(open).transpose()?)
        };
        if matches!(to, To::Other(Some(_))) && self.queue.get().is_none() {
            let (sender, receiver) = sync_channel(QUEUE);
            let (next, fleet) = (Arc::clone(&self.next), Arc::clone(&self.fleet));
            std::thread::Builder::new().name("trace".into()).spawn(move || write(&receiver, &next, &fleet))?;
            let _ = self.queue.set(sender);
        }
        Ok(Change { settings: settings.clone(), to })
    }

    /// Puts a change in force.
    pub fn set(&self, change: Change) {
        if matches!(change.to, To::Same) {
            return;
        }
        self.is_on.store(change.settings.file.is_some(), Ordering::Relaxed);
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = change.settings;
        self.next.lock().unwrap_or_else(PoisonError::into_inner).push(change.to);
        if let Some(queue) = self.queue.get() {
            // A full queue wakes it just as well.
            let _ = queue.try_send(Message::Changed);
        }
    }

    /// Whether there is any use in making an entry.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Hands over a request.
    pub fn add(&self, entry: Entry) {
        let Some(queue) = self.queue.get() else { return };
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            queue.try_send(Message::Ended(Box::new(entry)))
        {
            self.dropped.inc();
        }
    }
}

fn write(queue: &Receiver<Message>, next: &Next, fleet: &Fleet) {
    let mut writer = Writer::new(fleet);
    while let Ok(first) = queue.recv() {
        std::thread::sleep(GATHER);
        let changes = std::mem::take(&mut *next.lock().unwrap_or_else(PoisonError::into_inner));
        let messages = std::iter::once(first).chain(queue.try_iter().take(QUEUE));
        // What waits was recorded for the file there is, if there is one.
        if writer.file.is_some() {
            writer.add_all(messages);
            writer.turn_all(changes);
        } else {
            writer.turn_all(changes);
            writer.add_all(messages);
        }
    }
}

/// The thread's end.
struct Writer<'a> {
    fleet: &'a Fleet,
    file: Option<Box<TraceFile>>,
    looked: Option<Instant>,
    /// Whether the last thing that was tried failed, and was said to.
    fails: bool,
    written: IntCounter,
    dropped: IntCounter,
}

impl<'a> Writer<'a> {
    fn new(fleet: &'a Fleet) -> Self {
        let count = |result| fleet.metrics().trace_records_total.with_label_values(&[result]);
        let (written, dropped) = (count("written"), count("dropped"));
        Self { fleet, file: None, looked: None, fails: false, written, dropped }
    }

    fn turn(&mut self, to: To) {
        match to {
            To::Same => {}
            To::Bound(size) => {
                if let Some(file) = &mut self.file {
                    file.set_limit(size);
                }
            }
            To::Other(file) => (self.file, self.looked, self.fails) = (file, None, false),
        }
    }

    fn turn_all(&mut self, changes: Vec<To>) {
        for to in changes {
            self.turn(to);
        }
    }

    fn add_all(&mut self, messages: impl Iterator<Item = Message>) {
        for message in messages {
            if let Message::Ended(entry) = message {
                self.add(*entry);
            }
        }
        self.write_out();
    }

    fn add(&mut self, entry: Entry) {
        // One that began before has its times from before, and most of what ran beside it is not here.
        let Some(began) = self.file.as_ref().map(|file| file.began()) else { return };
        let Some(at) = entry.began.checked_duration_since(began) else { return };
        let is_time = self.looked.is_none_or(|looked| looked.elapsed() >= LOOK);
        if !self.has_room(is_time) {
            return self.dropped.inc();
        }
        let Some(file) = &mut self.file else { return };
        if is_time {
            self.looked = Some(Instant::now());
            sizes(self.fleet, file);
        }
        let at = u64::try_from(at.as_micros()).unwrap_or(u64::MAX);
        file.request(Request { at, ..entry.request }, &entry.prompt.blocks);
    }

    /// Whether the file takes more; one at its bound first makes way for another, and one that is gone begins anew, for
    /// which it is looked now and then.
    fn has_room(&mut self, looks: bool) -> bool {
        let Some(file) = &mut self.file else { return false };
        let result = if (looks || file.is_full()) && file.is_gone() {
            file.begin_anew()
        } else if file.is_full() {
            self.write_out();
            let Some(file) = &mut self.file else { return false };
            file.rotate()
        } else {
            return true;
        };
        self.looked = None;
        self.tell(&result)
    }

    fn write_out(&mut self) {
        let Some(file) = &mut self.file else { return };
        let pending = file.pending();
        if pending == 0 {
            return;
        }
        let result = file.write_out();
        match &result {
            Ok(requests) => self.written.inc_by(*requests),
            Err(_) => self.dropped.inc_by(pending),
        }
        self.tell(&result);
    }

    /// Says what fails, once; and when it no longer does. Returns whether it went well.
    fn tell<T>(&mut self, result: &std::io::Result<T>) -> bool {
        match result {
            Ok(_) if std::mem::take(&mut self.fails) => info!("the trace is written again"),
            Err(error) if !std::mem::replace(&mut self.fails, true) => error!(%error, "the trace cannot be written"),
            Ok(_) | Err(_) => {}
        }
        result.is_ok()
    }
}

/// Adds what is known of the endpoints' caches.
fn sizes(fleet: &Fleet, file: &mut TraceFile) {
    let live = fleet.live_full();
    let now = fleet.now();
    for pool in live.pools.values() {
        for one in pool.state.picker.snapshot(now) {
            if let Some(kv_tokens) = one.kv_tokens {
                let (pool, endpoint) = (Arc::clone(&pool.state.name), one.id);
                file.size_of(&Size { pool, endpoint, kv_tokens: kv_tokens as u64 });
            }
        }
    }
}
