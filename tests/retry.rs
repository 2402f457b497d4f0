//! A failure before the first byte costs no client an error that another endpoint could have saved; after it, never a
//! second try.

mod connect;
mod deadline;
mod limits;
mod reset;
mod stale;
