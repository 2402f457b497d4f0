//! What the tests are written with: a gateway process, sims, clients, and ways to look at all of them.
//!
//! ```ignore
//! let sims = sims(2).await;
//! let gateway = Gateway::start(&config_for(&sims)).await;
//! let answer = gateway.post("/v1/chat/completions", chat("hello")).await;
//! gateway.assert_idle().await;
//! ```
//!
//! The sims run on the test's own runtime: a test that blocks its thread stops its model servers too.

mod bodies;
mod client;
mod config;
mod dns;
mod fetch;
mod full;
mod gateway;
mod log;
mod metrics;
mod ports;
mod process;
mod raw;
mod scripted;
mod sims;
mod sse;
mod wait;

pub(crate) use bodies::{chat, hash, json_of_size, noise, streamed};
pub(crate) use client::{Answer, Client, ReqBody, chunked, get, post, request};
pub(crate) use config::{Config, ENDPOINT_HTTP, config_for};
pub(crate) use dns::{NameServer, Says};
pub(crate) use fetch::fetch;
pub(crate) use full::Full;
pub(crate) use gateway::Gateway;
pub(crate) use ports::free_udp;
pub(crate) use scripted::{Call, Scripted};
pub(crate) use sims::{calls, record_of, sim_of, sims, wait_until_quiet};
pub(crate) use sse::{End, Event, Events};
pub(crate) use wait::eventually;
