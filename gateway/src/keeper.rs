//! Keeps the picker's knowledge fresh: per pool a task for names and one for health, per endpoint one for its metrics page
//! and model list.
//!
//! A failed scrape is not a failed endpoint. Health comes from probes alone; a page that is late or broken only makes its
//! facts unknown.

mod discovery;
mod health;
mod kv_events;
mod pace;
mod page_path;
mod scrape;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use spillway_picker::pool::Slot;
use tokio::task::JoinSet;

use crate::config;
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
        let (mut changes, mut discoveries) = (self.fleet.changes(), self.fleet.discoveries());
        let mut running = BTreeMap::new();
        loop {
            changes.mark_unchanged();
            discoveries.mark_unchanged();
            self.reconcile(&mut running);
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                changed = discoveries.changed() => if changed.is_err() { return },
                _ = shutdown.changed() => return,
            }
        }
    }
}

/// The tasks of one pool; dropping it ends them.
struct Running {
    /// As it was when the readers were started.
    pool: Arc<LivePool>,
    /// One per endpoint.
    readers: HashMap<Slot, JoinSet<()>>,
    /// One per endpoint whose KV events are followed.
    followers: HashMap<Slot, JoinSet<()>>,
    looks: Arc<scrape::Looks>,
    /// Waits for the first look at every endpoint.
    first_look: JoinSet<()>,
    /// Whether it waits for endpoints, and not just for the time to be up.
    has_endpoints: bool,
    _lasting: JoinSet<()>,
}

impl Running {
    fn start(keeper: &Keeper, pool: Arc<LivePool>) -> Self {
        let mut lasting = JoinSet::new();
        let (fleet, fetcher) = (Arc::clone(&keeper.fleet), Arc::clone(&keeper.fetcher));
        lasting.spawn(health::watch(Arc::clone(&fleet), fetcher, Arc::clone(&pool.state)));
        lasting.spawn(discovery::names::watch(fleet, Arc::clone(&pool.state)));
        let mut first_look = JoinSet::new();
        let state = Arc::clone(&pool.state);
        first_look.spawn(async move {
            tokio::time::sleep(FIRST_LOOK).await;
            state.looked.store(true, Ordering::Relaxed);
        });
        let looks = Arc::new(scrape::Looks::new());
        let mut this = Self {
            pool,
            readers: HashMap::new(),
            followers: HashMap::new(),
            looks,
            first_look,
            has_endpoints: false,
            _lasting: lasting,
        };
        this.read(keeper);
        this
    }

    /// Follows a change of endpoints; starts all readers again if what they are told to read has changed. Health and names
    /// follow by themselves.
    fn follow(&mut self, keeper: &Keeper, pool: &Arc<LivePool>) {
        let (new, old) = (&pool.settings, &self.pool.settings);
        if new.scrape != old.scrape || new.engine != old.engine {
            self.readers.clear();
            self.looks = Arc::new(scrape::Looks::new());
            self.has_endpoints = false;
        }
        if events(new) != events(old) {
            self.followers.clear();
        }
        self.pool = Arc::clone(pool);
        self.read(keeper);
    }

    /// Makes the readers those of the endpoints that are there.
    fn read(&mut self, keeper: &Keeper) {
        let endpoints = self.pool.state.picker.endpoints();
        let slots: HashSet<Slot> = endpoints.iter().map(|endpoint| endpoint.slot).collect();
        self.readers.retain(|slot, _| slots.contains(slot));
        self.looks.expect(endpoints.len());
        for endpoint in endpoints.iter() {
            self.readers.entry(endpoint.slot).or_insert_with(|| {
                let scraper = scrape::Scraper {
                    fleet: Arc::clone(&keeper.fleet),
                    fetcher: Arc::clone(&keeper.fetcher),
                    pool: Arc::clone(&self.pool),
                    endpoint: Arc::clone(endpoint),
                    looks: Arc::clone(&self.looks),
                    pace: Arc::clone(&keeper.pace),
                };
                let mut reader = JoinSet::new();
                reader.spawn(scraper.run_for_ever());
                reader
            });
        }
        self.followers.retain(|slot, _| slots.contains(slot));
        if let Some(events) = events(&self.pool.settings) {
            for endpoint in endpoints.iter() {
                self.followers.entry(endpoint.slot).or_insert_with(|| {
                    let follower = kv_events::Follower {
                        fleet: Arc::clone(&keeper.fleet),
                        fetcher: Arc::clone(&keeper.fetcher),
                        pool: Arc::clone(&self.pool),
                        endpoint: Arc::clone(endpoint),
                    };
                    let mut task = JoinSet::new();
                    task.spawn(follower.run(events.clone()));
                    task
                });
            }
        }
        if !endpoints.is_empty() && !self.has_endpoints {
            self.has_endpoints = true;
            let (state, looks) = (Arc::clone(&self.pool.state), Arc::clone(&self.looks));
            self.first_look.spawn(async move {
                let _ = tokio::time::timeout(FIRST_LOOK, looks.all()).await;
                state.looked.store(true, Ordering::Relaxed);
            });
        }
    }
}

/// Where the pool's endpoints tell their KV events, if that is to be followed.
fn events(settings: &config::Pool) -> Option<&config::Events> {
    settings.affinity.as_ref()?.events.as_ref()
}
