//! The simulated server over real sockets.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]
#![expect(clippy::float_cmp, reason = "counts on a metrics page are whole numbers, written as floats")]

mod admin;
mod client;
mod disconnect;
mod faults;
mod fleet;
mod json_shape;
mod life;
mod metrics;
mod shapes;
mod surfaces;
