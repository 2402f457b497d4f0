//! Decides which endpoint of a pool serves a request. No sockets, no tasks, no clock.
//!
//! Two ways in, and no other: [`pool::Pool::observe`] tells what happened, [`pool::Pool::decide`] chooses. Time and
//! randomness are arguments, so equal input gives an equal decision.
//!
//! ```
//! use spillway_picker::config::PoolConfig;
//! use spillway_picker::pool::{EndpointSpec, Event, Outcome, Pool};
//! use spillway_picker::registry::Registry;
//! use spillway_picker::request::{RequestInfo, Turn};
//! use spillway_picker::time::Time;
//!
//! let pool = Pool::new(PoolConfig::default(), &Registry::default())?;
//! let now = Time::from_nanos(1);
//! pool.set_endpoints(vec![EndpointSpec::new("http://10.0.0.11:8000")], now);
//!
//! let request = RequestInfo { model: "llama".into(), streams: true, ..RequestInfo::default() };
//! let pick = pool.decide(&request, Turn::default(), now, None)?;
//! let mut flight = pick.flight.expect("reserved, since no trace was asked for");
//! pool.observe(Event::FirstToken { flight: &mut flight }, now);
//! pool.observe(Event::Ended { flight, outcome: Outcome::Completed }, now);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod config;
pub mod cost;
pub mod decide;
pub mod explain;
pub mod facts;
pub mod filter;
pub mod flight;
mod health;
pub mod index;
pub mod kv;
pub mod learn;
mod ledger;
mod policy;
pub mod pool;
pub mod prefix;
pub mod registry;
pub mod request;
pub mod ring;
pub mod scorer;
pub mod select;
pub mod time;
pub mod trial;
pub mod view;
