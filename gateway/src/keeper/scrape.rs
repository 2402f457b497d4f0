//! Reads one endpoint's metrics page again and again, and its model list now and then.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use spillway_picker::facts::Facts;
use spillway_picker::pool::{Endpoint, Event};
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::{error, info, warn};

use super::pace::{self, Pace};
use super::page_path::PagePath;
use crate::address::Address;
use crate::engine::page::PageError;
use crate::engine::{self, Engine, ReadError};
use crate::fetch::{FetchError, Fetcher};
use crate::fleet::{Fleet, LivePool};

/// What the parser reads. Servers that negotiate would otherwise send OpenMetrics with other sample names.
const ACCEPT: &str = "text/plain;version=0.0.4";

/// How often the model list is read: adapters are loaded by people or controllers, not per request.
const LIST_INTERVAL: Duration = Duration::from_secs(5);

/// Pause after a panic, so that one in each turn does not fill the log.
const AFTER_PANIC: Duration = Duration::from_secs(5);

/// Counts the first looks at a pool's endpoints.
pub(super) struct Looks {
    done: Semaphore,
    wanted: AtomicU32,
}

impl Looks {
    pub(super) fn new() -> Self {
        Self { done: Semaphore::new(0), wanted: AtomicU32::new(0) }
    }

    /// Takes how many endpoints there are.
    pub(super) fn expect(&self, endpoints: usize) {
        self.wanted.store(endpoints as u32, Ordering::Relaxed);
    }

    /// Resolves when every endpoint has been looked at, well or not.
    pub(super) async fn all(&self) {
        let _ = self.done.acquire_many(self.wanted.load(Ordering::Relaxed)).await;
    }
}

/// Why a scrape gave no facts.
#[derive(Debug, Error)]
enum ScrapeError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("status {0}")]
    Status(u16),
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl ScrapeError {
    fn is_json(&self) -> bool {
        matches!(self, Self::Read(ReadError::Page(PageError::Json)))
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
    pub(super) pace: Arc<Pace>,
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
        let configured = self.pool.settings.scrape.interval;
        let _reader = configured.is_none().then(|| self.pace.join());
        let mut path = PagePath::default();
        let mut listed_at: Option<Instant> = None;
        let mut looked = false;
        let mut was_good = true;
        loop {
            // Of the interval: a little more or less each time, so that readers do not fall into step.
            let mut share = 0.9 + 0.2 * fastrand::f64();
            // Before the first resolution there is no address; the pool's own task provides it.
            if let Some(address) = self.pool.state.address(&self.endpoint.id) {
                let (result, cost) = pace::timed(async {
                    if listed_at.is_none_or(|at| at.elapsed() >= LIST_INTERVAL) {
                        self.list_models(&address).await;
                        listed_at = Some(Instant::now());
                    }
                    self.scrape(&address, &mut path).await
                })
                .await;
                if configured.is_none() {
                    self.pace.record(cost);
                }
                self.report(result, &mut was_good);
                if !looked {
                    looked = true;
                    self.looks.done.add_permits(1);
                    // All began at the same moment.
                    share = fastrand::f64();
                }
            }
            let interval = configured.unwrap_or_else(|| self.pace.interval());
            self.pool.state.picker.set_scrape_interval(interval);
            tokio::time::sleep(interval.mul_f64(share)).await;
        }
    }

    /// Reads the page where it was last found, and where else it may be.
    async fn scrape(&self, address: &Address, path: &mut PagePath) -> Result<Facts, ScrapeError> {
        let configured = &self.pool.settings.scrape.path;
        let result = self.read(address, path.path(configured)).await;
        let Err(error) = result else { return result };
        path.failed();
        if error.is_json()
            && let Some(other) = path.other(configured, Instant::now())
            && let Ok(facts) = self.read(address, other).await
        {
            info!(pool = %self.pool.state.name, endpoint = %self.endpoint.id, path = other, "metrics page found");
            path.found();
            return Ok(facts);
        }
        Err(error)
    }

    async fn read(&self, address: &Address, path: &str) -> Result<Facts, ScrapeError> {
        let page = self.fetcher.get(address, path, ACCEPT, self.pool.settings.scrape.timeout).await?;
        if page.status != 200 {
            return Err(ScrapeError::Status(page.status));
        }
        let engine = Engine::named(self.pool.settings.engine.as_str());
        Ok(engine::read(&page.body, engine)?.1)
    }

    fn report(&self, result: Result<Facts, ScrapeError>, was_good: &mut bool) {
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
                    warn!(pool = %pool.name, endpoint = %self.endpoint.id, %error, "metrics page is not readable");
                }
                *was_good = false;
            }
        }
    }

    async fn list_models(&self, address: &Address) {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config;
    use crate::engine::ENGINES;

    #[test]
    fn every_engine_can_be_named_in_the_file() {
        for engine in ENGINES {
            let word: config::Engine = serde_json::from_value(json!(engine.as_str())).unwrap();
            assert_eq!(Engine::named(word.as_str()), Some(*engine));
        }
        assert_eq!(Engine::named(config::Engine::Auto.as_str()), None);
        let words = serde_json::to_value(schemars::schema_for!(config::Engine)).unwrap();
        assert_eq!(
            words["oneOf"].as_array().map(Vec::len),
            Some(ENGINES.len() + 1),
            "auto, and no word without an engine"
        );
    }
}
