//! The faults of one server: which are in force, and whom they strike.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::{Fault, FaultKind};

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
    entries: Vec<Entry>,
    last_id: u64,
    random: fastrand::Rng,
    struck: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    state: ActiveFault,
    since: Instant,
    until: Option<Instant>,
}

impl Faults {
    pub(crate) fn new(seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self {
            inner: Mutex::new(Inner { entries: Vec::new(), last_id: 0, random, struck: 0 }),
            changes: watch::Sender::new(0),
            clears: watch::Sender::new(0),
        }
    }

    /// Adds a fault that is in force from `since`, and until `until` or the time it names itself.
    pub(crate) fn add(&self, mut fault: Fault, since: Instant, until: Option<Instant>) -> u64 {
        let until = until.or_else(|| fault.for_ms.map(|ms| since + Duration::from_millis(ms)));
        fault.factor = fault.factor();
        let mut inner = self.lock();
        inner.last_id += 1;
        let id = inner.last_id;
        inner.entries.push(Entry { state: ActiveFault { id, left: fault.count, fault }, since, until });
        drop(inner);
        self.changes.send_modify(|version| *version += 1);
        id
    }

    /// Ends all that are in force. Those yet to come stay.
    pub(crate) fn clear(&self) {
        let now = Instant::now();
        self.lock().entries.retain(|entry| entry.since > now);
        self.clears.send_modify(|version| *version += 1);
        self.changes.send_modify(|version| *version += 1);
    }

    /// Uses the first fault of a kind that is in force for a path and passes `wanted`.
    pub(crate) fn strike(&self, kind: FaultKind, path: &str, wanted: impl Fn(&Fault) -> bool) -> Option<Strike> {
        let mut inner = self.lock();
        let now = inner.prune();
        let Inner { entries, random, struck, .. } = &mut *inner;
        let entry = entries.iter_mut().find(|entry| {
            let fault = &entry.state.fault;
            entry.since <= now
                && fault.kind == kind
                && fault.reaches(path)
                && wanted(fault)
                && fault.probability.is_none_or(|chance| random.f64() < chance)
        })?;
        if let Some(left) = &mut entry.state.left {
            *left -= 1;
        }
        *struck += 1;
        Some(Strike { fault: entry.state.fault.clone(), until: entry.until })
    }

    /// The first fault of a kind in force, not used up by looking.
    pub(crate) fn standing(&self, kind: FaultKind) -> Option<Strike> {
        let mut inner = self.lock();
        let now = inner.prune();
        let entry = inner.entries.iter().find(|entry| entry.since <= now && entry.state.fault.kind == kind)?;
        Some(Strike { fault: entry.state.fault.clone(), until: entry.until })
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
        let now = inner.prune();
        inner.entries.iter().filter(|entry| entry.since <= now).map(|entry| entry.state.clone()).collect()
    }

    /// All faults with their times, those yet to come included.
    pub(crate) fn timed(&self) -> Vec<(Fault, Instant, Option<Instant>)> {
        let mut inner = self.lock();
        inner.prune();
        inner.entries.iter().map(|entry| (entry.state.fault.clone(), entry.since, entry.until)).collect()
    }

    /// Times any fault has struck.
    pub(crate) fn struck(&self) -> u64 {
        self.lock().struck
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Drops what is over and returns the time.
    fn prune(&mut self) -> Instant {
        let now = Instant::now();
        self.entries.retain(|entry| entry.state.left != Some(0) && entry.until.is_none_or(|until| now < until));
        now
    }
}
