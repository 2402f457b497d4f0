//! The facts of one endpoint with their age, and whether they can still be trusted.
//!
//! A page can be read without fail and still be dead: it is frozen when no counter moves over several scrapes although we
//! saw the endpoint work.

use std::sync::Arc;
use std::time::Duration;

use crate::facts::Facts;
use crate::time::Time;

/// Scrapes without a moving counter, after we saw work, before a page counts as frozen. The same number of missed scrapes
/// makes facts stale.
const SCRAPES: u32 = 5;

/// Facts are never stale sooner: below it a single slow scrape would discard them.
const LEAST_STALE: Duration = Duration::from_secs(1);

/// The age from which facts count as unknown.
pub(crate) fn stale_after(scrape_interval: Duration) -> Duration {
    LEAST_STALE.max(scrape_interval * SCRAPES)
}

/// The facts of one endpoint and how they came.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    facts: Facts,
    /// When `facts` was read, `None` before the first scrape.
    at: Option<Time>,
    /// Scrapes without a moving counter since we saw work; `None` when there was no work since a counter moved.
    still: Option<u32>,
}

impl Standing {
    /// Takes a new page. What changes rarely (sizes, models) is kept from older pages where this one is silent.
    pub(crate) fn scraped(&mut self, mut facts: Facts, now: Time) {
        let old = &mut self.facts;
        if facts.progress != old.progress || facts.progress.is_none() || self.at.is_none() {
            self.still = None;
        } else if let Some(still) = &mut self.still {
            *still += 1;
        }
        facts.block_size = facts.block_size.or(old.block_size);
        facts.blocks = facts.blocks.or(old.blocks);
        facts.max_adapters = facts.max_adapters.or(old.max_adapters);
        facts.models = facts.models.or_else(|| old.models.take());
        self.facts = facts;
        self.at = Some(now);
    }

    /// Takes what the endpoint lists as its models. Known whatever becomes of its metrics page.
    pub(crate) fn listed(&mut self, models: Vec<Arc<str>>) {
        self.facts.models = Some(models);
    }

    /// We saw a first token or an end there: a live page must move.
    pub(crate) fn worked(&mut self) {
        self.still.get_or_insert(0);
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    pub(crate) fn at(&self) -> Option<Time> {
        self.at
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.still.is_some_and(|still| still >= SCRAPES)
    }

    /// Whether the endpoint lists `model`; `None` when its list is not known.
    pub(crate) fn lists(&self, model: &str) -> Option<bool> {
        let models = self.facts.models.as_ref()?;
        let holds = |names: &Option<Vec<Arc<str>>>| names.as_ref().is_some_and(|names| contains(names, model));
        Some(contains(models, model) || holds(&self.facts.adapters_running) || holds(&self.facts.adapters_waiting))
    }
}

/// Whether `names` holds `name`.
pub(crate) fn contains(names: &[Arc<str>], name: &str) -> bool {
    names.iter().any(|known| &**known == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(progress: u64) -> Facts {
        Facts { queued: Some(1.0), progress: Some(progress), ..Facts::default() }
    }

    fn scrape(standing: &mut Standing, times: u64, progress: u64) {
        for i in 0..times {
            standing.scraped(page(progress), Time::from_nanos(i));
        }
    }

    #[test]
    fn a_page_that_ignores_our_work_is_frozen() {
        let mut standing = Standing::default();
        scrape(&mut standing, 1, 9);
        standing.worked();
        scrape(&mut standing, 4, 9);
        assert!(!standing.is_frozen(), "four scrapes are not enough");
        scrape(&mut standing, 1, 9);
        assert!(standing.is_frozen());
        scrape(&mut standing, 1, 10);
        assert!(!standing.is_frozen(), "a moving counter thaws it");
    }

    #[test]
    fn an_idle_page_is_not_frozen() {
        let mut standing = Standing::default();
        scrape(&mut standing, 100, 9);
        standing.worked();
        scrape(&mut standing, 1, 9);
        assert!(!standing.is_frozen(), "scrapes before our work say nothing of it");
    }

    #[test]
    fn a_page_without_counters_is_never_frozen() {
        let mut standing = Standing::default();
        for i in 0..20 {
            standing.scraped(Facts { progress: None, ..page(0) }, Time::from_nanos(i));
            standing.worked();
        }
        assert!(!standing.is_frozen(), "nothing on it could have moved");
    }

    #[test]
    fn slow_facts_outlive_a_page_without_them() {
        let mut standing = Standing::default();
        standing.scraped(Facts { blocks: Some(100), models: Some(vec!["m".into()]), ..page(1) }, Time::from_nanos(1));
        standing.scraped(page(2), Time::from_nanos(2));
        assert_eq!(
            (standing.facts().blocks, standing.lists("m"), standing.lists("n")),
            (Some(100), Some(true), Some(false))
        );
    }

    #[test]
    fn staleness_follows_the_scrape_interval() {
        assert_eq!(stale_after(Duration::from_millis(100)), Duration::from_secs(1));
        assert_eq!(stale_after(Duration::from_secs(3)), Duration::from_secs(15));
    }
}
