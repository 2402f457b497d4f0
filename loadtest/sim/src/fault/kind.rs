//! What can go wrong, by name.

use serde::{Deserialize, Serialize};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Reads requests and sends nothing.
    Hang,
    /// Steps take `factor` times as long.
    Slow,
    /// Steps take up to `factor` times as long, in a straight line over `ramp_ms`, as on a device that grows hot; with
    /// `period_ms` it swings after that.
    Thermal,
    /// The first `steps` steps are slow, by `factor` at first and ever less; with `requests`, everything is slow by `factor`
    /// until so many have ended.
    WarmUp,
    /// Loads of adapters take `factor` times as long.
    AdapterSlow,
    /// Requests for an adapter that is not on the device, and commands to load one, get 500.
    AdapterFail,
    /// Answers with `code`.
    Status,
    /// The model is being loaded: everything, health included, answers 503. With `restart` the server loses its
    /// connections and its cache first.
    ColdStart,
    /// The model is being loaded, but health says that it is ready: requests get 503.
    Loading,
    /// Health and new requests get 503; what runs goes on to its end.
    Drain,
    /// TCP reset before the response head.
    Reset,
    /// The connection of a request is dead without a sign: neither read, written nor closed, until the fault ends.
    HalfOpen,
    /// TCP reset after `after` tokens of a stream.
    CrashMidstream,
    /// Ends a stream after `after` tokens without its finishing events.
    Truncate,
    /// Sends the surface's error event after `after` tokens.
    ErrorMidstream,
    /// Stops a stream after `after` tokens and leaves the connection open.
    Stall,
    /// `usage` says `factor` times as many tokens as there were.
    WrongUsage,
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
    /// Batches of KV events are not sent; a replay has them.
    EventsLost,
    /// Connections for KV events and their replays are accepted, and nothing is said there.
    EventsSilent,
}

impl FaultKind {
    /// Whether it only changes the engine's speed, which virtual time can play too.
    pub const fn is_of_speed(self) -> bool {
        matches!(self, Self::Slow | Self::Thermal | Self::WarmUp | Self::AdapterSlow)
    }

    /// Whether it strikes requests one by one; others just last.
    pub(super) const fn strikes_requests(self) -> bool {
        !self.is_of_speed() && !matches!(self, Self::Refuse | Self::CloseIdle | Self::EventsSilent)
    }

    /// Keys that mean something to it, besides those of every kind and of all that strike requests.
    pub(super) const fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Slow | Self::AdapterSlow | Self::WrongUsage => &["factor"],
            Self::Thermal => &["factor", "ramp_ms", "period_ms"],
            Self::WarmUp => &["factor", "steps", "requests"],
            Self::Status => &["code", "retry_after", "body", "early", "reused"],
            Self::HealthDown => &["code"],
            Self::Reset => &["early", "reused"],
            Self::ColdStart => &["restart"],
            Self::CrashMidstream => &["after", "restart"],
            Self::Truncate => &["after", "cut"],
            Self::ErrorMidstream => &["after"],
            Self::Stall => &["after", "ms"],
            Self::CloseIdle | Self::DelayHead | Self::DelayBody => &["ms"],
            Self::Metrics => &["mode", "ms"],
            Self::Hang
            | Self::AdapterFail
            | Self::Loading
            | Self::Drain
            | Self::HalfOpen
            | Self::CloseAfterStream
            | Self::Refuse
            | Self::EventsLost
            | Self::EventsSilent => &[],
        }
    }

    /// Its name, as faults are written.
    pub(super) fn name(self) -> String {
        let written = serde_json::to_value(self).expect("a kind is written as its name");
        written.as_str().unwrap_or_default().to_owned()
    }

    /// What `factor` is when none is given.
    pub(super) const fn usual_factor(self) -> f64 {
        match self {
            Self::Thermal => 1.25,
            Self::WarmUp => 3.0,
            _ => 10.0,
        }
    }
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
