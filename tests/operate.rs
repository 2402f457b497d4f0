//! What an operator sees and does: probes, shutdown, drain, the admin token, limits, series and log lines.

mod drain;
mod limits;
mod log;
mod policies;
mod probes;
mod series;
mod shutdown;
mod token;
