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
}

impl FaultKind {
    /// Whether it only changes the engine's speed, which virtual time can play too.
    pub const fn is_of_speed(self) -> bool {
        matches!(self, Self::Slow | Self::Thermal | Self::WarmUp | Self::AdapterSlow)
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
