//! The `server` and `limits` sections: listeners, threads, and what requests may take.
//!
//! `server` is read once, at start; `limits` is hot.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::field;

/// Listeners and threads. Read at start: a change needs a restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// Where clients are served.
    #[schemars(length(min = 1))]
    pub listen: Vec<Listen>,
    /// Where `/metrics`, `/healthz` and `/readyz` are: read-only, no secrets.
    pub metrics: Metrics,
    /// Where `/config`, `/pools`, `/peers`, `/explain`, `/reload` and `/drain` are.
    pub admin: Admin,
    /// How long requests in flight may go on after SIGTERM. Zero ends them at once.
    #[serde(with = "field::duration")]
    #[schemars(schema_with = "field::span_or_zero")]
    pub drain: Duration,
    /// Threads that carry requests; `auto` is one per core.
    #[serde(with = "field::auto")]
    #[schemars(schema_with = "field::threads_or_auto")]
    pub threads: Option<usize>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: vec![Listen { address: any(8080), h2c: false }],
            metrics: Metrics::default(),
            admin: Admin::default(),
            // What Kubernetes waits between SIGTERM and SIGKILL by default.
            drain: Duration::from_secs(30),
            threads: None,
        }
    }
}

/// One address where clients are served, with HTTP/1.1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// IP address and port; port 0 takes any free one.
    #[schemars(schema_with = "field::address")]
    pub address: SocketAddr,
    /// Whether HTTP/2 without TLS is served too, to clients that begin with it.
    #[serde(default)]
    pub h2c: bool,
}

/// The read-only port for probes and Prometheus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Metrics {
    /// IP address and port.
    #[schemars(schema_with = "field::address")]
    pub address: SocketAddr,
}

impl Default for Metrics {
    fn default() -> Self {
        Self { address: any(9091) }
    }
}

/// The port that changes things.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Admin {
    /// IP address and port. Beyond loopback it needs `token_file`.
    #[schemars(schema_with = "field::address")]
    pub address: SocketAddr,
    /// A file whose content callers send as a bearer token. It is read by the admin port, not when the configuration is
    /// checked, so that a configuration can be checked on another machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub token_file: Option<PathBuf>,
}

impl Default for Admin {
    fn default() -> Self {
        Self { address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9090), token_file: None }
    }
}

/// What one request and all requests together may take of this process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Largest request body; more is answered 413.
    #[serde(with = "field::size")]
    #[schemars(schema_with = "field::bytes", extend("minimum" = 1024))]
    pub body: u64,
    /// Memory for the bodies of all requests together; a request that finds no room is answered 503. At least `body`.
    #[serde(with = "field::size")]
    #[schemars(schema_with = "field::bytes", extend("minimum" = 1024))]
    pub body_memory: u64,
    /// Longest time from request head to the end of the body; more is answered 408.
    #[serde(with = "field::duration")]
    #[schemars(schema_with = "field::span")]
    pub body_timeout: Duration,
    /// Longest pause within a body; more is answered 408.
    #[serde(with = "field::duration")]
    #[schemars(schema_with = "field::span")]
    pub body_idle: Duration,
    /// Largest request line and headers together; more is answered 431.
    #[serde(with = "field::size")]
    #[schemars(schema_with = "field::bytes", extend("minimum" = 1024, "maximum" = 1_048_576))]
    pub headers: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // A million tokens of text are 4 MiB; the rest is room for a dozen images in base64.
            body: 64 << 20,
            // Sixteen of the largest, or 30,000 of 32 KiB, at once.
            body_memory: 1 << 30,
            // The largest body over a 5 Mbit/s line, with some to spare.
            body_timeout: Duration::from_secs(120),
            // Longer than a retransmission on a bad line; a client that says less holds memory for nothing.
            body_idle: Duration::from_secs(15),
            // Several large tokens and cookies; common servers stop between 8 and 64 KiB.
            headers: 64 << 10,
        }
    }
}

fn any(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)
}
