//! Active health: Pingora's registry and thresholds, our own probe.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use pingora_core::{Error, ErrorType, Result};
use pingora_load_balancing::health_check::HealthCheck;
use pingora_load_balancing::{Backend, Backends};
use spillway_picker::pool::Event;
use tracing::{info, warn};

use super::discovery::{self, Listed};
use crate::fetch::Fetcher;
use crate::fleet::{Fleet, LivePool};

/// `GET` of the health path; any 2xx is healthy.
struct Probe {
    fetcher: Arc<Fetcher>,
    pool: Arc<LivePool>,
}

#[async_trait]
impl HealthCheck for Probe {
    async fn check(&self, target: &Backend) -> Result<()> {
        let Some(socket) = target.addr.as_inet() else {
            return Error::e_explain(ErrorType::ConnectError, "not an internet address");
        };
        let addresses = self.pool.state.addresses();
        let Some(address) = addresses.values().find(|address| address.socket == *socket) else {
            return Ok(());
        };
        let health = &self.pool.settings.health;
        match self.fetcher.get(address, &health.path, "*/*", health.timeout).await {
            Ok(page) if (200..300).contains(&page.status) => Ok(()),
            Ok(page) => Error::e_explain(ErrorType::HTTPStatus(page.status), "health check"),
            Err(error) => Error::e_because(ErrorType::ConnectError, "health check", error),
        }
    }

    fn health_threshold(&self, success: bool) -> usize {
        let health = &self.pool.settings.health;
        (if success { health.successes } else { health.failures }) as usize
    }
}

/// Resolves and probes the endpoints of a pool for ever.
pub(super) async fn watch(fleet: Arc<Fleet>, fetcher: Arc<Fetcher>, pool: Arc<LivePool>) {
    let mut backends = Backends::new_with_health_registry(
        Box::new(Listed { pool: Arc::clone(&pool) }),
        Arc::clone(&pool.state.health),
    );
    backends.set_health_check(Box::new(Probe { fetcher, pool: Arc::clone(&pool) }));
    let mut known_down = std::collections::BTreeSet::new();
    loop {
        if let Err(error) = backends.update(|_| {}).await {
            warn!(pool = %pool.state.name, %error, "discovery failed");
        }
        backends.run_health_check(true).await;
        for endpoint in pool.state.picker.endpoints().iter() {
            let healthy = pool.state.address(&endpoint.id).is_some_and(|address| is_ready(&backends, address.socket));
            pool.state.picker.observe(Event::Probed { endpoint: endpoint.slot, healthy }, fleet.now());
            if healthy {
                if known_down.remove(&endpoint.id) {
                    info!(pool = %pool.state.name, endpoint = %endpoint.id, "endpoint is healthy again");
                }
            } else if known_down.insert(Arc::clone(&endpoint.id)) {
                warn!(pool = %pool.state.name, endpoint = %endpoint.id, "endpoint is down");
            }
        }
        tokio::time::sleep(pool.settings.health.interval).await;
    }
}

fn is_ready(backends: &Backends, socket: SocketAddr) -> bool {
    discovery::backend(socket).is_ok_and(|backend| backends.ready(&backend))
}
