//! End-to-end tests: the real executable, real sockets, simulated model servers.
//!
//! Each test starts a gateway and sims of its own and takes both down with it. What a newcomer gets wrong: nothing here
//! sleeps to let something happen; [`harness::eventually`] polls for what must become true.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![expect(clippy::float_cmp, reason = "metrics compared here are counts, exact as f64")]

mod affinity;
mod body;
mod cli;
mod disconnect;
mod discovery;
mod documents;
mod explain;
mod facts;
mod harness;
mod keys;
mod kv_events;
mod models;
mod operate;
mod peers;
mod reload;
mod replay;
mod retry;
mod soak;
mod split;
mod stream;
mod trial;
