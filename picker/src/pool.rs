//! The endpoints that serve one base model, and the only two ways in: `observe` and `decide`.

mod endpoint;
mod event;
mod snapshot;
mod state;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::config::PoolConfig;
use crate::decide::{AffinityResult, NoPick, Pick, Reason};
use crate::explain::Trace;
use crate::flight::Flight;
use crate::prefix::Prompt;
use crate::registry::{PolicyError, Registry};
use crate::request::{RequestInfo, Turn};
use crate::time::Time;

pub use endpoint::{Endpoint, EndpointSpec, Slot};
pub use event::{Event, Outcome};
pub use snapshot::{EndpointSnapshot, Freshness};

/// The endpoints that serve one base model.
pub struct Pool {
    endpoints: ArcSwap<Vec<Arc<Endpoint>>>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl Pool {
    /// A pool without endpoints.
    pub fn new(config: PoolConfig, registry: &Registry) -> Result<Arc<Self>, PolicyError> {
        let _ = (config, registry);
        Ok(Arc::new(Self { endpoints: ArcSwap::default() }))
    }

    /// Changes policy, affinity and limits. Endpoints, in-flight counts and learning stay.
    pub fn configure(&self, config: PoolConfig, registry: &Registry) -> Result<(), PolicyError> {
        let _ = (config, registry);
        Ok(())
    }

    /// Replaces the endpoints.
    pub fn set_endpoints(&self, specs: Vec<EndpointSpec>, now: Time) {
        let _ = now;
        let endpoints = specs
            .into_iter()
            .enumerate()
            .map(|(i, spec)| Arc::new(Endpoint::new(spec, Slot::new(i as u32, 0), Arc::default())));
        self.endpoints.store(Arc::new(endpoints.collect()));
    }

    /// The endpoints of the pool.
    pub fn endpoints(&self) -> Arc<[Arc<Endpoint>]> {
        self.endpoints.load().iter().cloned().collect()
    }

    /// Chooses an endpoint.
    pub fn decide(
        self: &Arc<Self>,
        request: &RequestInfo,
        turn: Turn,
        now: Time,
        trace: Option<&mut Trace>,
    ) -> Result<Pick, NoPick> {
        let _ = request;
        let endpoints = self.endpoints.load();
        if endpoints.is_empty() {
            return Err(NoPick::Empty);
        }
        let endpoint = endpoints[(turn.rotation % endpoints.len() as u64) as usize].clone();
        let flight = trace.is_none().then(|| Flight {
            pool: self.clone(),
            endpoint: endpoint.clone(),
            dispatched: now,
            predicted_ttft: Duration::ZERO,
        });
        Ok(Pick {
            endpoint,
            flight,
            reason: Reason::Rotate,
            affinity: AffinityResult::None,
            predicted_ttft: None,
            cached_tokens: 0,
            uncached_tokens: 0,
        })
    }

    /// Takes note of something that happened.
    pub fn observe(&self, event: Event<'_>, now: Time) {
        let _ = (event, now);
    }

    /// Tokens of a prompt, by the bytes per token learned in this pool.
    pub fn estimate_tokens(&self, prompt: &Prompt) -> u32 {
        (prompt.bytes / 4) as u32
    }

    /// Every endpoint, for operators and metrics.
    pub fn snapshot(&self, now: Time) -> Vec<EndpointSnapshot> {
        let _ = now;
        Vec::new()
    }
}
