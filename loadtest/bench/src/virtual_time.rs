//! A run without a clock or a socket: the picker that the gateway links, over the simulator's engines, in the order of
//! events.
//!
//! A day of a fleet takes seconds and is the same every time. What is real: every decision, the picker's learning and its
//! index, the engines' scheduling. What is not: HTTP, JSON, the gateway's own time, which is one constant for all
//! policies. The gateways here see what real ones do: their own events, usage, and metrics pages of some age.

mod agenda;
mod fleet;
mod gateway;
mod oracle;
mod run;
mod variants;
mod words;

pub use fleet::{Counters, Endpoint, EndpointTotals};
pub use gateway::Routing;
pub use run::{Broken, MODEL, Run, Setup, run};
pub use variants::registry;

#[cfg(test)]
mod tests;
