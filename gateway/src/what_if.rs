//! `spillway replay`: a recorded trace, decided again under other configurations, in virtual time.
//!
//! What is real: the arrivals, the prompts' hashes and sizes, the picker with its learning and its index. What is not: the
//! endpoints. Each is a model of one: a lane of prefills, decode that all streams share, a cache of prefixes; its speed
//! is fitted to the trace. So a prediction is as good as that model is for the endpoints at hand, and the one check there
//! is comes first: the recorded decisions are played too, and what the model says of them stands beside what was measured.
//!
//! What it cannot say: how endpoints fail, what others send to them, what retries and admission would have done, that clients
//! who are answered sooner ask sooner. Arrivals stay where they were.

mod agenda;
mod cache;
mod endpoints;
mod fit;
mod model;
mod picker;
mod play;
mod regression;
mod report;
mod work;

pub use endpoints::{Modelled, cache_bytes, cache_tokens, modelled, recorded};
pub use fit::Fits;
pub use model::Speed;
pub use picker::{Decider, Picker};
pub use play::{Outcome, Played, play};
pub use report::{Column, ModelError, Quantiles, Report, Speeds};
pub use work::{Asked, Work};
