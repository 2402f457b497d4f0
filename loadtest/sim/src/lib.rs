//! A model server without a GPU: vLLM's API, metrics and scheduling, with time made up by a formula.
//!
//! [`engine`] is pure and knows neither clock nor socket.
//!
//! Nothing here is shared with the gateway, on purpose: neither tokenizer nor hash.

pub mod engine;
