//! Request bodies: every byte arrives, on every attempt, within limits of size, memory and time.

mod limits;
mod matrix;
mod odd;
mod time;
