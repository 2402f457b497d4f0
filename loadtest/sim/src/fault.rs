//! Faults on command: what goes wrong, for whom, how often and until when.
//!
//! A fault whose `count` is used up is gone from the list, but a request already caught by it stays caught: only its time
//! or a clear lets a hanging request go. Faults of speed know no requests, so they have no `count`, `probability` or `path`.
//! [`Fault::problems`] says what a fault from outside may not say; one made in a program is taken as it is.

mod check;
mod kind;
mod list;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use kind::{FaultKind, MetricsMode};
pub use list::ActiveFault;
pub(crate) use list::{Faults, Strike};

use crate::engine::{Slowness, SpeedFault};

/// One fault with its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own on the admin surface")]
pub struct Fault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// How much, by kind; 0 is what is usual for the kind: 10, thermal 1.25, warm-up 3.
    #[serde(default)]
    pub factor: f64,
    /// Model milliseconds until a device that grows hot is as slow as it gets; 20,000 unless given.
    #[serde(default)]
    pub ramp_ms: Option<u64>,
    /// Model milliseconds in which its speed swings once after that.
    #[serde(default)]
    pub period_ms: Option<u64>,
    /// Steps until the server is warm; 20 unless given.
    #[serde(default)]
    pub steps: Option<u64>,
    /// Requests until the server is warm, in place of steps.
    #[serde(default)]
    pub requests: Option<u64>,
    /// Status code to answer with, 200 to 599.
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
    /// A crash, or a cold start, loses all connections and the cache.
    #[serde(default)]
    pub restart: bool,
    /// A truncated stream lacks its end at the HTTP level too.
    #[serde(default)]
    pub cut: bool,
    /// Wall milliseconds, meaning by kind.
    #[serde(default)]
    pub ms: Option<u64>,
    /// How the metrics page is spoiled; an error unless given.
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

fn default_code() -> u16 {
    503
}

fn default_after() -> u32 {
    1
}

/// Paths that are not model traffic: faults reach them only by name.
const ASIDE: [&str; 6] = ["/health", "/ping", "/metrics", "/version", "/load", "/v1/models"];

impl Fault {
    /// A fault of a kind with every parameter at its default: strikes always, until cleared.
    pub fn new(kind: FaultKind) -> Self {
        Self {
            kind,
            factor: kind.usual_factor(),
            ramp_ms: None,
            period_ms: None,
            steps: None,
            requests: None,
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

    /// What it does to the engine's speed between two model times; `None` for other kinds.
    pub fn speed(&self, from: Duration, until: Option<Duration>) -> Option<SpeedFault> {
        let factor = self.factor();
        let slowness = match self.kind {
            FaultKind::Slow => Slowness::Slow { factor },
            FaultKind::Thermal => Slowness::Thermal {
                factor,
                ramp: Duration::from_millis(self.ramp_ms.unwrap_or(20_000)),
                period: self.period_ms.map(Duration::from_millis),
            },
            FaultKind::WarmUp => match self.requests {
                Some(requests) => Slowness::FirstRequests { factor, requests },
                None => Slowness::FirstSteps { factor, steps: self.steps.unwrap_or(20) },
            },
            FaultKind::AdapterSlow => Slowness::AdapterLoads { factor },
            _ => return None,
        };
        Some(SpeedFault { from, until, slowness })
    }

    /// `factor`, or what is usual for the kind.
    pub(crate) fn factor(&self) -> f64 {
        if self.factor > 0.0 { self.factor } else { self.kind.usual_factor() }
    }

    /// `ms` as a duration, or what the kind does without.
    pub(crate) fn delay(&self, otherwise_ms: u64) -> Duration {
        Duration::from_millis(self.ms.unwrap_or(otherwise_ms))
    }

    fn reaches(&self, path: &str) -> bool {
        match (&self.path, self.kind) {
            (Some(prefix), _) => path.starts_with(prefix.as_str()),
            (None, FaultKind::Metrics | FaultKind::HealthDown | FaultKind::ColdStart) => true,
            (None, FaultKind::Drain) => path == "/health" || path == "/ping" || !ASIDE.contains(&path),
            (None, _) => !ASIDE.contains(&path),
        }
    }
}
