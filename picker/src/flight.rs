//! The guard of one request in flight. Dropping it releases all it holds, exactly once, whatever else happens.
//!
//! It is moved into `Event::Ended` when the caller knows how the request ended, and simply dropped when it does not.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::pool::{Endpoint, Pool};
use crate::time::Time;

/// One request in flight at one endpoint.
pub struct Flight {
    pub(crate) pool: Arc<Pool>,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) dispatched: Time,
    pub(crate) predicted_ttft: Duration,
}

impl Flight {
    /// The endpoint that serves the request.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// When the request was dispatched.
    pub fn dispatched(&self) -> Time {
        self.dispatched
    }

    /// Time to first token predicted at dispatch.
    pub fn predicted_ttft(&self) -> Duration {
        self.predicted_ttft
    }
}

impl fmt::Debug for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _ = &self.pool;
        f.debug_struct("Flight")
            .field("endpoint", &self.endpoint.id)
            .field("dispatched", &self.dispatched)
            .finish_non_exhaustive()
    }
}
