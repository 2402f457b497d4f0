//! The engine behind HTTP: real time, real sockets.
//!
//! Each request runs in its own future. Dropping that future, or the body it answered with, is what ends its generation:
//! nothing polls for gone clients.

mod admin;
mod api;
mod body;
mod broken;
mod connection;
mod driver;
mod exchange;
mod kv_events;
mod listen;
mod metrics;
mod models;
mod prompt;
mod record;
mod render;
mod reply;
mod route;
mod server;
mod shared;
mod side;
mod sse;
mod surface;

pub use record::Received;
pub use server::Server;
pub use shared::State;
