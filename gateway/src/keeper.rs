//! Keeps the picker's knowledge fresh: one task per pool for addresses and health, one per endpoint for its metrics page
//! and model list.
//!
//! A failed scrape is not a failed endpoint. Health comes from probes alone; a page that is late or broken only makes its
//! facts unknown.

mod discovery;
mod health;
mod pace;
mod page_path;
mod scrape;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use tokio::task::JoinSet;

use crate::fetch::Fetcher;
use crate::fleet::{Fleet, LivePool};

use pace::Pace;

/// How long readiness waits for the first look at every pool. A pool that cannot be looked at must not keep the others
/// from being served.
const FIRST_LOOK: Duration = Duration::from_secs(5);

/// The background service.
pub struct Keeper {
    fleet: Arc<Fleet>,
    fetcher: Arc<Fetcher>,
    pace: Arc<Pace>,
}

impl Keeper {
    /// A keeper for the pools of `fleet`, reloads included.
    pub fn new(fleet: Arc<Fleet>) -> Self {
        Self { fleet, fetcher: Arc::default(), pace: Arc::default() }
    }

    /// Makes the running tasks those that the configuration asks for.
    fn reconcile(&self, running: &mut BTreeMap<String, Running>) {
        let live = self.fleet.live_full();
        running
            .retain(|name, task| live.pools.get(name).is_some_and(|pool| Arc::ptr_eq(&pool.state, &task.pool.state)));
        for (name, pool) in &live.pools {
            match running.get_mut(name) {
                Some(task) => task.follow(self, pool),
                None => {
                    running.insert(name.clone(), Running::start(self, Arc::clone(pool)));
                }
            }
        }
    }
}

#[async_trait]
impl BackgroundService for Keeper {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let mut changes = self.fleet.changes();
        let mut running = BTreeMap::new();
        loop {
            changes.mark_unchanged();
            self.reconcile(&mut running);
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                _ = shutdown.changed() => return,
            }
        }
    }
}

/// The tasks of one pool; dropping it ends them.
struct Running {
    /// As it was when the readers were started.
    pool: Arc<LivePool>,
    readers: JoinSet<()>,
    _health: JoinSet<()>,
}

impl Running {
    fn start(keeper: &Keeper, pool: Arc<LivePool>) -> Self {
        let mut health = JoinSet::new();
        let (fleet, fetcher) = (Arc::clone(&keeper.fleet), Arc::clone(&keeper.fetcher));
        health.spawn(health::watch(fleet, fetcher, Arc::clone(&pool.state)));
        let readers = Self::readers(keeper, &pool);
        Self { pool, readers, _health: health }
    }

    /// Starts the readers again if a change concerns them. Health follows by itself.
    fn follow(&mut self, keeper: &Keeper, pool: &Arc<LivePool>) {
        let (new, old) = (&pool.settings, &self.pool.settings);
        if new.endpoints != old.endpoints || new.scrape != old.scrape || new.engine != old.engine {
            self.readers = Self::readers(keeper, pool);
            self.pool = Arc::clone(pool);
        }
    }

    fn readers(keeper: &Keeper, pool: &Arc<LivePool>) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let looks = Arc::new(scrape::Looks::new(pool.settings.endpoints.len()));
        for endpoint in pool.state.picker.endpoints().iter() {
            let scraper = scrape::Scraper {
                fleet: Arc::clone(&keeper.fleet),
                fetcher: Arc::clone(&keeper.fetcher),
                pool: Arc::clone(pool),
                endpoint: Arc::clone(endpoint),
                looks: Arc::clone(&looks),
                pace: Arc::clone(&keeper.pace),
            };
            tasks.spawn(scraper.run_for_ever());
        }
        let state = Arc::clone(&pool.state);
        tasks.spawn(async move {
            let _ = tokio::time::timeout(FIRST_LOOK, looks.all()).await;
            state.looked.store(true, Ordering::Relaxed);
        });
        tasks
    }
}
