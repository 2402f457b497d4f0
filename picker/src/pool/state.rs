//! What is known of one endpoint, shared by all versions of it.

/// Everything of an endpoint that changes.
#[derive(Debug, Default)]
pub(crate) struct State {}
