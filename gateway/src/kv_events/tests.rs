//! Batches, their order and their sources, by what real servers sent and by the cases that broke other consumers.

mod batches;
mod order;
mod peers;
mod sources;
