//! Learns how fast one endpoint is, from the gaps between first tokens and between later ones.

use std::sync::Arc;
use std::time::Duration;

use crate::learn::Rates;
use crate::pool::{Endpoint, EndpointSpec};
use crate::time::Time;

/// What is learned of the speed of one endpoint.
#[derive(Debug, Default)]
pub(crate) struct Speed {
    rates: Rates,
}

impl Speed {
    /// The speed to expect of an endpoint that joins `others`.
    pub(crate) fn like(others: &[Arc<Endpoint>], spec: &EndpointSpec) -> Self {
        let _ = (others, spec);
        Self::default()
    }

    pub(crate) fn rates(&self) -> Rates {
        self.rates
    }

    pub(crate) fn learned(&self) -> Option<Rates> {
        None
    }

    pub(crate) fn first_token(&mut self, gap: Duration, uncached: f64, now: Time) {
        let _ = (gap, uncached, now);
    }

    pub(crate) fn gap(&mut self, streams: u32, gap: Duration) {
        let _ = (streams, gap);
    }
}
