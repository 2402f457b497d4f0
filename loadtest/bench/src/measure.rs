//! What is measured of a run, and how runs are compared.

mod outcome;
pub mod statistics;
mod student;
mod summary;

pub use outcome::Outcome;
pub use summary::{Counted, Objective, Summary, Window};
