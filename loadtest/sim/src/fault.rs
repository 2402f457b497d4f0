//! Faults on command: what goes wrong, for whom, how often and until when.
//!
//! A fault whose `count` is used up is gone from the list, but a request already caught by it stays caught: only its time
//! or a clear lets a hanging request go.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Reads requests and sends nothing.
    Hang,
    /// Steps take `factor` times as long.
    Slow,
    /// Answers with `code`.
    Status,
    /// TCP reset before the response head.
    Reset,
    /// TCP reset after `after` tokens of a stream.
    CrashMidstream,
    /// Ends a stream after `after` tokens without its finishing events.
    Truncate,
    /// Sends the surface's error event after `after` tokens.
    ErrorMidstream,
    /// Stops a stream after `after` tokens and leaves the connection open.
    Stall,
    /// Closes idle connections after `ms`.
    CloseIdle,
    /// Closes the connection after each streamed reply, unannounced.
    CloseAfterStream,
    /// Sends the response head `ms` later.
    DelayHead,
    /// Sends the first byte of the response body `ms` later.
    DelayBody,
    /// Spoils the metrics page as `mode` says.
    Metrics,
    /// The health check answers with `code`.
    HealthDown,
    /// Nobody listens on the model port.
    Refuse,
}

/// How the metrics page is spoiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricsMode {
    /// Status 404.
    NotFound,
    /// Status 500.
    Error,
    /// The page as it was when the fault came.
    Frozen,
    /// Bytes that are no metrics page.
    Garbage,
    /// Status 200 without a byte.
    Empty,
    /// All gauges are `NaN`.
    Nan,
    /// No queue, running and cache families.
    Missing,
    /// The names of vLLM 0.9.
    OldNames,
    /// A JSON array.
    Json,
    /// The page after `ms` (5,000 unless given).
    Slow,
    /// No answer until the fault ends.
    Hang,
}

/// One fault with its parameters; those a kind does not use are ignored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own on the admin surface")]
pub struct Fault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// Slowness: step times are multiplied by it.
    #[serde(default = "default_factor")]
    pub factor: f64,
    /// Status code to answer with.
    #[serde(default = "default_code")]
    pub code: u16,
    /// Value of a `Retry-After` header.
    #[serde(default)]
    pub retry_after: Option<String>,
    /// Body to answer with instead of the server's usual error.
    #[serde(default)]
    pub body: Option<String>,
    /// Strikes before the request body is read.
    #[serde(default)]
    pub early: bool,
    /// Strikes only requests on a connection that carried one before.
    #[serde(default)]
    pub reused: bool,
    /// Tokens sent before a stream goes wrong.
    #[serde(default = "default_after")]
    pub after: u32,
    /// A crash loses all connections and the cache.
    #[serde(default)]
    pub restart: bool,
    /// A truncated stream lacks its end at the HTTP level too.
    #[serde(default)]
    pub cut: bool,
    /// Wall milliseconds, meaning by kind.
    #[serde(default)]
    pub ms: Option<u64>,
    /// How the metrics page is spoiled.
    #[serde(default)]
    pub mode: Option<MetricsMode>,
    /// Strikes only paths that begin so; `None` is all model traffic.
    #[serde(default)]
    pub path: Option<String>,
    /// Wall milliseconds until it ends by itself.
    #[serde(default)]
    pub for_ms: Option<u64>,
    /// Times it strikes before it ends by itself.
    #[serde(default)]
    pub count: Option<u32>,
    /// Chance that it strikes, 0 to 1.
    #[serde(default)]
    pub probability: Option<f64>,
}

fn default_factor() -> f64 {
    10.0
}

fn default_code() -> u16 {
    503
}

fn default_after() -> u32 {
    1
}

impl Fault {
    /// A fault of a kind with every parameter at its default: strikes always, until cleared.
    pub fn new(kind: FaultKind) -> Self {
        Self {
            kind,
            factor: default_factor(),
            code: default_code(),
            retry_after: None,
            body: None,
            early: false,
            reused: false,
            after: default_after(),
            restart: false,
            cut: false,
            ms: None,
            mode: None,
            path: None,
            for_ms: None,
            count: None,
            probability: None,
        }
    }

    /// A spoiled metrics page.
    pub fn metrics(mode: MetricsMode) -> Self {
        Self { mode: Some(mode), ..Self::new(FaultKind::Metrics) }
    }

    /// `ms` as a duration, or what the kind does without.
    pub(crate) fn delay(&self, otherwise_ms: u64) -> Duration {
        Duration::from_millis(self.ms.unwrap_or(otherwise_ms))
    }
}

/// A fault in force, as `/admin/state` shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActiveFault {
    /// Number it was given.
    pub id: u64,
    /// Times left to strike.
    pub left: Option<u32>,
    /// The fault.
    #[serde(flatten)]
    pub fault: Fault,
}

/// A fault that has struck: what, and when it lets go.
#[derive(Clone, Debug)]
pub(crate) struct Strike {
    pub(crate) fault: Fault,
    pub(crate) until: Option<Instant>,
}

/// The faults of a server.
#[derive(Debug)]
pub(crate) struct Faults {
    inner: Mutex<Inner>,
    changes: watch::Sender<u64>,
    clears: watch::Sender<u64>,
}

#[derive(Debug)]
struct Inner {
    active: Vec<(ActiveFault, Option<Instant>)>,
    last_id: u64,
    random: fastrand::Rng,
    struck: u64,
}

/// Paths that are not model traffic: faults reach them only by name.
const ASIDE: [&str; 6] = ["/health", "/ping", "/metrics", "/version", "/load", "/v1/models"];

impl Faults {
    pub(crate) fn new(seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self {
            inner: Mutex::new(Inner { active: Vec::new(), last_id: 0, random, struck: 0 }),
            changes: watch::Sender::new(0),
            clears: watch::Sender::new(0),
        }
    }

    pub(crate) fn add(&self, fault: Fault) -> u64 {
        let until = fault.for_ms.map(|ms| Instant::now() + Duration::from_millis(ms));
        let mut inner = self.lock();
        inner.last_id += 1;
        let id = inner.last_id;
        inner.active.push((ActiveFault { id, left: fault.count, fault }, until));
        drop(inner);
        self.changes.send_modify(|version| *version += 1);
        id
    }

    pub(crate) fn clear(&self) {
        self.lock().active.clear();
        self.clears.send_modify(|version| *version += 1);
        self.changes.send_modify(|version| *version += 1);
    }

    /// Uses the first fault of a kind that is in force for a path and passes `wanted`.
    pub(crate) fn strike(&self, kind: FaultKind, path: &str, wanted: impl Fn(&Fault) -> bool) -> Option<Strike> {
        let mut inner = self.lock();
        inner.prune();
        let Inner { active, random, struck, .. } = &mut *inner;
        let (state, until) = active.iter_mut().find(|(state, _)| {
            let fault = &state.fault;
            fault.kind == kind
                && fault.reaches(path)
                && wanted(fault)
                && fault.probability.is_none_or(|chance| random.f64() < chance)
        })?;
        if let Some(left) = &mut state.left {
            *left -= 1;
        }
        *struck += 1;
        Some(Strike { fault: state.fault.clone(), until: *until })
    }

    /// The first fault of a kind in force, not used up by looking.
    pub(crate) fn standing(&self, kind: FaultKind) -> Option<Strike> {
        let mut inner = self.lock();
        inner.prune();
        let (state, until) = inner.active.iter().find(|(state, _)| state.fault.kind == kind)?;
        Some(Strike { fault: state.fault.clone(), until: *until })
    }

    /// Waits until the strike's time is over or faults are cleared.
    pub(crate) async fn released(&self, strike: &Strike) {
        let mut clears = self.clears.subscribe();
        match strike.until {
            Some(until) => {
                let _ = tokio::time::timeout_at(until.into(), clears.changed()).await;
            }
            None => {
                let _ = clears.changed().await;
            }
        }
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(crate) fn list(&self) -> Vec<ActiveFault> {
        let mut inner = self.lock();
        inner.prune();
        inner.active.iter().map(|(state, _)| state.clone()).collect()
    }

    /// Times any fault has struck.
    pub(crate) fn struck(&self) -> u64 {
        self.lock().struck
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fault {
    fn reaches(&self, path: &str) -> bool {
        match (&self.path, self.kind) {
            (Some(prefix), _) => path.starts_with(prefix.as_str()),
            (None, FaultKind::Metrics | FaultKind::HealthDown) => true,
            (None, _) => !ASIDE.contains(&path),
        }
    }
}

impl Inner {
    fn prune(&mut self) {
        let now = Instant::now();
        self.active.retain(|(state, until)| state.left != Some(0) && until.is_none_or(|until| now < until));
    }
}
