//! What must hold of every decision, whatever the traffic. One binary; a module for each subject of claims.

mod adaptive;
mod counts;
mod events;
mod explain;
mod facts;
mod policies;
mod ring;
mod support;
