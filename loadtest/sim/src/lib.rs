//! A model server without a GPU: vLLM's API, metrics and scheduling, with time made up by a formula.
//!
//! [`engine`] is pure and knows neither clock nor socket; [`Server`] puts it behind HTTP in real time. Nothing here is
//! shared with the gateway, on purpose: neither tokenizer nor hash.

mod config;
pub mod engine;
mod fault;
pub mod fleet;
mod http;
mod problems;
mod timer;
pub mod tokenizer;

pub use config::{Config, Flavor};
pub use fault::{ActiveFault, Fault, FaultKind, MetricsMode};
pub use http::{Received, Server, State};
pub use problems::Problems;
pub use timer::Timer;
