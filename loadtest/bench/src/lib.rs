//! Measures routing: the same traces under every policy, in virtual time or against running gateways.
//!
//! A scenario is a file: a fleet, a workload, loads and the bars it has to pass, written down before the run. A report is
//! made of what clients saw and servers counted, and of nothing the gateway says of itself.

pub mod limits;
pub mod live;
pub mod matrix;
pub mod measure;
pub mod progress;
pub mod report;
pub mod say;
pub mod scenario;
pub mod virtual_time;
pub mod workload;
