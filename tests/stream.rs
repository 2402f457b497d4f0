//! Responses: every byte as it came and as soon as it came, whole answers and streams, and how a broken one is told.

mod broken;
mod bytes;
mod errors;
mod head;
mod odd;
mod slow;
mod usage;
