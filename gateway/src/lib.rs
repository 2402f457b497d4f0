//! Spillway: an inference gateway. Reads the model name in the body, finds its pool, picks the endpoint that will give
//! the first token soonest, and carries the answer back untouched.

pub mod body;
pub mod patience;
pub mod replay;
