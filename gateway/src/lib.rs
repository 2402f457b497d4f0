//! Spillway: an inference gateway. Reads the model name in the body, finds its pool, picks the endpoint that will give
//! the first token soonest, and carries the answer back untouched.
//!
//! The library exists so that a build with scorers or filters of one's own is a main of a few lines:
//! [`main`] with a [`Registry`] that knows them. `ARCHITECTURE.md` is the map of the modules.

pub mod access_log;
pub mod address;
pub mod admin;
pub mod attempt;
pub mod auth;
pub mod body;
pub mod budget;
pub mod catalogue;
pub mod cli;
pub mod config;
pub mod ctx;
#[cfg(feature = "demo")]
pub mod demo;
pub mod detail;
pub mod dns;
pub mod engine;
pub mod error;
pub mod explain;
pub mod facts_file;
pub mod fetch;
pub mod fleet;
pub mod intake;
pub mod keeper;
pub mod kv_events;
mod lanes;
pub mod metrics;
pub mod models_list;
pub mod observe;
pub mod patience;
pub mod peers;
pub mod picker_config;
pub mod proxy;
pub mod record;
pub mod reload;
pub mod replay;
pub mod respond;
pub mod retry;
pub mod rewrite;
pub mod routes;
pub mod run;
pub mod scan;
pub mod select_target;
pub mod split;
pub mod surface;
pub mod trace;
pub mod trial;
pub mod upstream_head;
pub mod what_if;

pub use cli::main;
pub use spillway_picker::registry::Registry;
