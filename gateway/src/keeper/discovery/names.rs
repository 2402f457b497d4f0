//! Asks for the name of a pool with `dns` again and again, and hands on what is answered.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::config::Dns;
use crate::dns::Resolver;
use crate::fleet::{Fleet, PoolState};

/// Longest time between two looks while a pool has no endpoint at all: requests are refused meanwhile.
const WHILE_EMPTY: Duration = Duration::from_secs(1);

/// Runs until the pool is gone. While the configuration lists its endpoints there is nothing to do.
pub(crate) async fn watch(fleet: Arc<Fleet>, state: Arc<PoolState>) {
    let mut changes = fleet.changes();
    let mut resolver: Option<Resolver> = None;
    let mut is_failing = false;
    loop {
        changes.mark_unchanged();
        let Some(pool) = fleet.current(&state) else { return };
        let Some(dns) = &pool.settings.dns else {
            resolver = None;
            let _ = changes.changed().await;
            continue;
        };
        let resolver = match resolver.take() {
            Some(same) if same.dns().is_same_question(dns) => resolver.insert(same),
            _ => {
                is_failing = false;
                resolver.insert(Resolver::new(dns.clone()))
            }
        };
        let began = Instant::now();
        match resolver.look().await {
            Ok(answer) => {
                if is_failing {
                    info!(pool = %state.name, name = dns.name, "dns leads to endpoints again");
                }
                is_failing = false;
                fleet.answered(&state, dns, &answer);
            }
            Err(error) => {
                fleet.found_nothing(&state, dns, &error);
                // Once per outage.
                if !is_failing {
                    warn!(pool = %state.name, name = dns.name, %error, "dns leads to no endpoint, those known stay");
                }
                is_failing = true;
            }
        }
        until_due(&fleet, &state, dns, began, &mut changes).await;
    }
}

/// Waits until the next look is due: another question is asked at once, the same one when its time has come, whatever else
/// of the configuration changes. Otherwise two reloads in a row would make two answers in a row of one moment's mistake.
async fn until_due(
    fleet: &Fleet,
    state: &Arc<PoolState>,
    asked: &Dns,
    began: Instant,
    changes: &mut watch::Receiver<u64>,
) {
    // A little apart from the gateways that were started together.
    let spread = 0.9 + 0.2 * fastrand::f64();
    loop {
        let Some(pool) = fleet.current(state) else { return };
        let Some(dns) = pool.settings.dns.as_ref().filter(|dns| dns.is_same_question(asked)) else { return };
        let is_empty = state.roster().members().is_empty();
        let interval = if is_empty { dns.interval.min(WHILE_EMPTY) } else { dns.interval };
        tokio::select! {
            () = tokio::time::sleep_until(began + interval.mul_f64(spread)) => return,
            _ = changes.changed() => {}
        }
    }
}
