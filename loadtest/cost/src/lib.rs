//! What stands on both sides of a proxy whose cost is measured: servers that answer at little cost, and clients.
//!
//! `loadtest/cost/run.py` starts them, the proxies, and reads what a proxy used from `/proc`.

pub mod client;
pub mod load;
pub mod origin;
pub mod prompt;
