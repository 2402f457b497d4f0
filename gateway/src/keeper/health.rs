//! Active health: Pingora's registry and thresholds, our own probe.
//!
//! One task per pool for as long as the pool exists. It reads the settings in force at each turn: a reload must not forget
//! which endpoints are down.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use pingora_core::{Error, ErrorType, Result};
use pingora_load_balancing::health_check::HealthCheck;
use pingora_load_balancing::{Backend, Backends};
use spillway_picker::pool::Event;
use tracing::{info, warn};

use super::discovery::{self, Listed};
use crate::config;
use crate::fetch::Fetcher;
use crate::fleet::{Fleet, PoolState};

/// `GET` of the health path; any 2xx is healthy.
struct Probe {
    fleet: Arc<Fleet>,
    fetcher: Arc<Fetcher>,
    state: Arc<PoolState>,
}

impl Probe {
    /// The settings in force; the defaults for a pool that has just gone.
    fn settings(&self) -> config::Health {
        self.fleet.current(&self.state).map(|pool| pool.settings.health.clone()).unwrap_or_default()
    }
}

#[async_trait]
impl HealthCheck for Probe {
    async fn check(&self, target: &Backend) -> Result<()> {
        let Some(socket) = target.addr.as_inet() else {
            return Error::e_explain(ErrorType::ConnectError, "not an internet address");
        };
        let roster = self.state.roster();
        let mut addresses = roster.members().iter().filter_map(|member| member.address.as_ref());
        let Some(address) = addresses.find(|address| address.socket == *socket).cloned() else { return Ok(()) };
        drop(roster);
        let health = self.settings();
        match self.fetcher.get(&address, &health.path, "*/*", health.timeout).await {
            Ok(page) if (200..300).contains(&page.status) => Ok(()),
            Ok(page) => Error::e_explain(ErrorType::HTTPStatus(page.status), "health check"),
            Err(error) => Error::e_because(ErrorType::ConnectError, "health check", error),
        }
    }

    fn health_threshold(&self, success: bool) -> usize {
        let health = self.settings();
        (if success { health.successes } else { health.failures }) as usize
    }
}

/// Resolves and probes the endpoints of a pool until it is gone.
pub(super) async fn watch(fleet: Arc<Fleet>, fetcher: Arc<Fetcher>, state: Arc<PoolState>) {
    let (mut changes, mut arrivals) = (fleet.changes(), state.changes());
    let listed = Listed { fleet: Arc::clone(&fleet), state: Arc::clone(&state) };
    let mut backends = Backends::new(Box::new(listed));
    backends.set_health_check(Box::new(Probe { fleet: Arc::clone(&fleet), fetcher, state: Arc::clone(&state) }));
    let mut known_down = BTreeSet::new();
    loop {
        changes.mark_unchanged();
        arrivals.mark_unchanged();
        let Some(pool) = fleet.current(&state) else { return };
        if let Err(error) = backends.update(|_| {}).await {
            warn!(pool = %state.name, %error, "discovery failed");
        }
        tokio::select! {
            () = backends.run_health_check(true) => tell(&fleet, &state, &backends, &mut known_down),
            // Endpoints that have just come must not wait for the answer of one that hangs.
            _ = changes.changed() => continue,
        }
        tokio::select! {
            () = tokio::time::sleep(pool.settings.health.interval) => {}
            _ = changes.changed() => {}
            _ = arrivals.changed() => {}
        }
    }
}

/// Tells the picker who is up, and the log who has changed.
fn tell(fleet: &Fleet, state: &PoolState, backends: &Backends, known_down: &mut BTreeSet<Arc<str>>) {
    let endpoints = state.picker.endpoints();
    known_down.retain(|id| endpoints.iter().any(|endpoint| endpoint.id == *id));
    for endpoint in endpoints.iter() {
        let backend = state.address(&endpoint.id).and_then(|address| discovery::backend(address.socket).ok());
        // One that came during the round has not been asked.
        if backend.as_ref().is_some_and(|backend| !backends.get_backend().contains(backend)) {
            continue;
        }
        let healthy = backend.is_some_and(|backend| backends.ready(&backend));
        state.picker.observe(Event::Probed { endpoint: endpoint.slot, healthy }, fleet.now());
        if healthy {
            if known_down.remove(&endpoint.id) {
                info!(pool = %state.name, endpoint = %endpoint.id, "endpoint is healthy again");
            }
        } else if known_down.insert(Arc::clone(&endpoint.id)) {
            warn!(pool = %state.name, endpoint = %endpoint.id, "endpoint is down");
        }
    }
}
