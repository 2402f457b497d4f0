//! What all requests of one server share.
//!
//! `received` counts model traffic only: scrapes and health checks would make it useless for assertions.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::connection::Connection;
use super::driver::Driver;
use super::kv_events;
use super::metrics;
use super::record::Records;
use crate::engine::{self, Engine, Pace};
use crate::fault::{ActiveFault, Fault, FaultKind, Faults, MetricsMode};
use crate::{Config, Flavor, tokenizer};

/// Ids of stored responses kept, newest last.
const KEPT_RESPONSES: usize = 10_000;

/// What `/admin/state` shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Name of the server.
    pub replica: String,
    /// Base model.
    pub model: String,
    /// Sequences in the batch, live.
    pub running: usize,
    /// Sequences before the batch, live.
    pub waiting: usize,
    /// Every sequence not yet ended.
    pub active: Vec<u64>,
    /// Sequences that ran to their end.
    pub completed: u64,
    /// Sequences whose client went away.
    pub aborted: u64,
    /// Output tokens.
    pub tokens_generated: u64,
    /// Prompt tokens of sequences past their first token.
    pub prompt_tokens: u64,
    /// Those of them found in the cache.
    pub cached_tokens: u64,
    /// Times a sequence lost its blocks.
    pub preemptions: u64,
    /// KV blocks.
    pub blocks_total: usize,
    /// KV blocks no sequence refers to.
    pub blocks_free: usize,
    /// Fraction of blocks referred to, live.
    pub kv_usage: f64,
    /// Model requests received.
    pub received: u64,
    /// Bytes of their bodies.
    pub received_bytes: u64,
    /// Model requests whose response has not ended.
    pub in_progress: usize,
    /// Connections open at the model port.
    pub connections_open: usize,
    /// Connections ever accepted there.
    pub connections_total: u64,
    /// Faults in force.
    pub faults: Vec<ActiveFault>,
    /// Times a fault has struck.
    pub faulted: u64,
}

/// Everything requests need.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: Config,
    pub(super) driver: Arc<Driver>,
    pub(super) faults: Faults,
    pub(super) records: Records,
    /// Unix time of the start, seconds.
    pub(super) started: f64,
    pub(super) received: AtomicU64,
    pub(super) in_progress: AtomicUsize,
    /// Requests refused because the queue was full.
    pub(super) rejected: AtomicU64,
    adapters: Mutex<Vec<Arc<str>>>,
    connections: Mutex<HashMap<u64, Weak<Connection>>>,
    connections_total: AtomicU64,
    responses: Mutex<VecDeque<String>>,
    frozen_page: Mutex<Option<String>>,
    ids: AtomicU64,
    /// Where KV events are published and replayed.
    pub(super) kv_ports: OnceLock<(SocketAddr, SocketAddr)>,
}

impl Shared {
    pub(super) fn new(config: Config) -> Self {
        let engine = engine::Config {
            vocabulary: Some(tokenizer::vocabulary()),
            max_model_len: config.max_model_len,
            slots: config.flavor == Flavor::LlamaCpp,
            ..config.engine.clone()
        };
        let engine = Engine::new(engine, config.seed);
        Self {
            driver: Arc::new(Driver::new(engine, config.time_scale)),
            faults: Faults::new(config.seed),
            records: Records::default(),
            started: unix_now(),
            received: AtomicU64::new(0),
            in_progress: AtomicUsize::new(0),
            rejected: AtomicU64::new(0),
            adapters: Mutex::new(config.adapters.iter().map(|name| name.as_str().into()).collect()),
            connections: Mutex::default(),
            connections_total: AtomicU64::new(0),
            responses: Mutex::default(),
            frozen_page: Mutex::default(),
            ids: AtomicU64::new(0),
            kv_ports: OnceLock::new(),
            config,
        }
    }

    pub(super) fn state(&self) -> State {
        let (faults, faulted) = (self.faults.list(), self.faults.struck());
        let connections_open = lock(&self.connections).len();
        self.driver.with_engine(|engine| State {
            replica: self.config.replica.clone(),
            model: self.config.model.clone(),
            running: engine.running(),
            waiting: engine.waiting(),
            active: engine.active(),
            completed: engine.stats().completed(),
            aborted: engine.stats().aborted,
            tokens_generated: engine.stats().generation_tokens,
            prompt_tokens: engine.stats().prompt_tokens,
            cached_tokens: engine.stats().prompt_tokens_cached,
            preemptions: engine.stats().preemptions,
            blocks_total: engine.config().usable_blocks(),
            blocks_free: engine.free_blocks(),
            kv_usage: engine.kv_usage(),
            received: self.received.load(Ordering::Relaxed),
            received_bytes: self.records.received_bytes(),
            in_progress: self.in_progress.load(Ordering::Relaxed),
            connections_open,
            connections_total: self.connections_total.load(Ordering::Relaxed),
            faults,
            faulted,
        })
    }

    /// What `/kv_event_sources` says.
    pub(super) fn kv_event_sources(&self) -> String {
        let Some((live, replay)) = self.kv_ports.get() else {
            return r#"{"0":{"enable_kv_cache_events":false}}"#.to_owned();
        };
        let topic = kv_events::TOPIC;
        // As vLLM: what it binds, not where it is reached.
        format!(
            r#"{{"0":{{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:{}","replay_endpoint":"tcp://127.0.0.1:{}","buffer_steps":10000,"hwm":100000,"max_queue_size":100000,"topic":"{topic}"}}}}"#,
            live.port(),
            replay.port()
        )
    }

    /// Puts a fault in force from now on.
    pub(super) fn fault(&self, fault: Fault) -> u64 {
        self.fault_between(fault, Instant::now(), None)
    }

    /// Puts a fault in force. One that is no matter of speed alone must come at its time, which is `since`.
    pub(super) fn fault_between(&self, fault: Fault, since: Instant, until: Option<Instant>) -> u64 {
        if fault.mode == Some(MetricsMode::Frozen) {
            *lock(&self.frozen_page) = Some(metrics::page(self));
        }
        if fault.kind == FaultKind::ColdStart && fault.restart {
            self.crash(0);
        }
        let of_speed = fault.kind.is_of_speed();
        let id = self.faults.add(fault, since, until);
        if of_speed {
            self.set_pace();
        }
        id
    }

    /// Lifts all faults in force.
    pub(super) fn clear(&self) {
        self.faults.clear();
        self.set_pace();
    }

    fn set_pace(&self) {
        let speed = |(fault, since, until): (Fault, Instant, Option<Instant>)| {
            fault.speed(self.driver.model(since), until.map(|until| self.driver.model(until)))
        };
        self.driver.set_pace(|| Pace::new(self.faults.timed().into_iter().filter_map(speed)));
    }

    /// Empties the engine, counters and records. Faults stay.
    pub(super) fn reset(&self) {
        self.driver.reset();
        self.records.clear();
        self.received.store(0, Ordering::Relaxed);
        self.rejected.store(0, Ordering::Relaxed);
        lock(&self.responses).clear();
    }

    /// Loses every connection and the engine's state, then refuses for `down_ms`.
    pub(super) fn crash(&self, down_ms: u64) {
        if down_ms > 0 {
            self.fault(Fault { for_ms: Some(down_ms), ..Fault::new(FaultKind::Refuse) });
        }
        self.reset_connections();
        self.driver.reset();
    }

    /// Resets every open connection of the model port.
    pub(super) fn reset_connections(&self) {
        for connection in lock(&self.connections).values().filter_map(Weak::upgrade) {
            connection.reset();
        }
    }

    /// Registers a connection that was accepted at the model port.
    pub(super) fn connect(&self) -> Arc<Connection> {
        let number = self.connections_total.fetch_add(1, Ordering::Relaxed) + 1;
        let connection = Arc::new(Connection::new(number));
        lock(&self.connections).insert(number, Arc::downgrade(&connection));
        connection
    }

    pub(super) fn disconnect(&self, connection: &Connection) {
        lock(&self.connections).remove(&connection.number);
    }

    pub(super) fn adapters(&self) -> Vec<Arc<str>> {
        lock(&self.adapters).clone()
    }

    pub(super) fn adapter(&self, name: &str) -> Option<Arc<str>> {
        lock(&self.adapters).iter().find(|known| ***known == *name).cloned()
    }

    /// False when it is already there.
    pub(super) fn load_adapter(&self, name: &str) -> bool {
        let mut adapters = lock(&self.adapters);
        let fresh = !adapters.iter().any(|known| **known == *name);
        if fresh {
            adapters.push(name.into());
        }
        fresh
    }

    /// False when it is not there.
    pub(super) fn unload_adapter(&self, name: &str) -> bool {
        let mut adapters = lock(&self.adapters);
        let before = adapters.len();
        adapters.retain(|known| **known != *name);
        adapters.len() < before
    }

    pub(super) fn store_response(&self, id: &str) {
        let mut responses = lock(&self.responses);
        responses.push_back(id.to_owned());
        if responses.len() > KEPT_RESPONSES {
            responses.pop_front();
        }
    }

    pub(super) fn has_response(&self, id: &str) -> bool {
        lock(&self.responses).iter().any(|known| known == id)
    }

    pub(super) fn frozen_page(&self) -> Option<String> {
        lock(&self.frozen_page).clone()
    }

    /// Sixteen hex digits, different each time and between servers.
    pub(super) fn fresh_id(&self) -> String {
        let count = self.ids.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}", crate::engine::mix(self.started.to_bits() ^ self.config.seed, count))
    }

    pub(super) fn is_llama_cpp(&self) -> bool {
        self.config.flavor == Flavor::LlamaCpp
    }
}

pub(super) fn unix_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
