//! Decides which endpoint of a pool serves a request. No sockets, no tasks, no clock.
//!
//! Two ways in, and no other: [`pool::Pool::observe`] tells what happened, [`pool::Pool::decide`] chooses. Time and
//! randomness are arguments, so equal input gives an equal decision.

pub mod config;
pub mod cost;
pub mod decide;
pub mod explain;
pub mod facts;
pub mod filter;
pub mod flight;
mod health;
pub mod index;
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
pub mod view;
