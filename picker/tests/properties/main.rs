//! What must hold of every decision, whatever the traffic. One binary; a module for each subject of claims.

mod adaptive;
mod counts;
mod events;
mod every_policy;
mod explain;
mod facts;
mod latency;
mod peers;
mod policies;
mod ring;
mod support;
mod trial;
