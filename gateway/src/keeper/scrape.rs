//! Reads one endpoint's metrics page again and again, and its model list now and then.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use spillway_picker::pool::{Endpoint, Event};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::engine::{self, Engine};
use crate::fetch::Fetcher;
use crate::fleet::{Fleet, LivePool};

/// What the parser reads. Servers that negotiate would otherwise send OpenMetrics with other sample names.
const ACCEPT: &str = "text/plain;version=0.0.4";

/// Shortest interval between scrapes of one endpoint: faster than a decision could use, since in-flight counts are exact.
const FASTEST: Duration = Duration::from_millis(100);

/// Share of a core that reading pages may take over all endpoints of a pool.
const CORE_SHARE: f64 = 0.05;

/// How often the model list is read: adapters are loaded by people or controllers, not per request.
const LIST_INTERVAL: Duration = Duration::from_secs(5);

/// Pause after a panic, so that one in each turn does not fill the log.
const AFTER_PANIC: Duration = Duration::from_secs(5);

/// Counts the first looks at a pool's endpoints.
pub(super) struct Looks {
    done: Semaphore,
    wanted: AtomicU32,
    /// Nanoseconds that reading one page takes, smoothed over all endpoints of the pool.
    parse_cost: AtomicU64,
}

impl Looks {
    pub(super) fn new() -> Self {
        Self { done: Semaphore::new(0), wanted: AtomicU32::new(0), parse_cost: AtomicU64::new(0) }
    }

    /// Takes how many endpoints there are.
    pub(super) fn expect(&self, endpoints: usize) {
        self.wanted.store(endpoints as u32, Ordering::Relaxed);
    }

    /// Resolves when every endpoint has been looked at, well or not.
    pub(super) async fn all(&self) {
        let _ = self.done.acquire_many(self.wanted.load(Ordering::Relaxed)).await;
    }

    fn record_cost(&self, cost: Duration) {
        let cost = u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX);
        let old = self.parse_cost.load(Ordering::Relaxed);
        let smoothed = if old == 0 { cost } else { old - old / 8 + cost / 8 };
        self.parse_cost.store(smoothed, Ordering::Relaxed);
    }

    fn interval(&self) -> Duration {
        let core = Duration::from_nanos(self.parse_cost.load(Ordering::Relaxed)) * self.wanted.load(Ordering::Relaxed);
        core.div_f64(CORE_SHARE).max(FASTEST)
    }
}

/// One endpoint's reader.
#[derive(Clone)]
pub(super) struct Scraper {
    pub(super) fleet: Arc<Fleet>,
    pub(super) fetcher: Arc<Fetcher>,
    pub(super) pool: Arc<LivePool>,
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) looks: Arc<Looks>,
}

impl Scraper {
    /// Runs until dropped. An endpoint whose answers make this or Pingora panic is read again after a pause.
    pub(super) async fn run_for_ever(self) {
        loop {
            if AssertUnwindSafe(self.clone().run()).catch_unwind().await.is_err() {
                error!(pool = %self.pool.state.name, endpoint = %self.endpoint.id, "reading an endpoint panicked");
            }
            tokio::time::sleep(AFTER_PANIC).await;
        }
    }

    async fn run(self) {
        let mut listed_at: Option<Instant> = None;
        let mut looked = false;
        let mut was_good = true;
        loop {
            // Before the first resolution there is no address; the pool's own task provides it.
            if let Some(address) = self.pool.state.address(&self.endpoint.id) {
                if listed_at.is_none_or(|at| at.elapsed() >= LIST_INTERVAL) {
                    self.list_models(&address).await;
                    listed_at = Some(Instant::now());
                }
                let result = self.scrape(&address).await;
                self.report(result, &mut was_good);
                if !looked {
                    looked = true;
                    self.looks.done.add_permits(1);
                }
            }
            let interval = self.pool.settings.scrape.interval.unwrap_or_else(|| self.looks.interval());
            tokio::time::sleep(interval.mul_f64(0.9 + 0.2 * fastrand::f64())).await;
        }
    }

    async fn scrape(&self, address: &crate::address::Address) -> Result<spillway_picker::facts::Facts, String> {
        let settings = &self.pool.settings.scrape;
        let page = self
            .fetcher
            .get(address, &settings.path, ACCEPT, settings.timeout)
            .await
            .map_err(|error| error.to_string())?;
        if page.status != 200 {
            return Err(format!("status {}", page.status));
        }
        let began = std::time::Instant::now();
        let engine = Engine::named(self.pool.settings.engine.as_str());
        let (_, facts) = engine::read(&page.body, engine).map_err(|error| error.to_string())?;
        self.looks.record_cost(began.elapsed());
        Ok(facts)
    }

    fn report(&self, result: Result<spillway_picker::facts::Facts, String>, was_good: &mut bool) {
        let pool = &self.pool.state;
        let now = self.fleet.now();
        match result {
            Ok(facts) => {
                pool.picker.observe(Event::Scraped { endpoint: self.endpoint.slot, facts }, now);
                if !*was_good {
                    info!(pool = %pool.name, endpoint = %self.endpoint.id, "metrics page is readable again");
                }
                *was_good = true;
            }
            Err(error) => {
                pool.picker.observe(Event::ScrapeFailed { endpoint: self.endpoint.slot }, now);
                let labels = [&*pool.name, &*self.endpoint.id];
                self.fleet.metrics().scrape_errors_total.with_label_values(&labels).inc();
                // Once per outage: a fleet without /metrics must not fill the log.
                if *was_good {
                    warn!(pool = %pool.name, endpoint = %self.endpoint.id, error, "metrics page is not readable");
                }
                *was_good = false;
            }
        }
    }

    async fn list_models(&self, address: &crate::address::Address) {
        let timeout = self.pool.settings.scrape.timeout;
        let Ok(page) = self.fetcher.get(address, "/v1/models", "application/json", timeout).await else { return };
        if page.status != 200 {
            return;
        }
        let Ok(cards) = engine::models::parse(&page.body) else { return };
        // The picker first: a name that is routed must have an endpoint that is known to serve it.
        let models = cards.iter().map(|card| Arc::clone(&card.id)).collect();
        let listed = Event::Listed { endpoint: self.endpoint.slot, models };
        self.pool.state.picker.observe(listed, self.fleet.now());
        if self.pool.state.list(&self.endpoint.id, &cards) {
            self.warn_of_clashes(&cards);
        }
    }

    /// Names that two pools list lead to the first pool by name, which is hardly what anybody wants.
    fn warn_of_clashes(&self, cards: &[engine::models::Card]) {
        let live = self.fleet.live();
        let others = live.pools.iter().filter(|(_, pool)| !Arc::ptr_eq(&pool.state, &self.pool.state));
        for (other, pool) in others {
            for card in cards {
                if pool.state.catalogue.adapter(&card.id).is_some() && !live.routes.is_configured(&card.id) {
                    warn!(model = %card.id, pool = %self.pool.state.name, other, "two pools list this model; name it under models");
                }
            }
        }
    }
}
