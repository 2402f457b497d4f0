//! Whether an endpoint may be used, and whether others are preferred for a moment.
//!
//! A probe takes an endpoint out; evidence from requests only demotes it: it is still used when nothing else is left. Being
//! full (429, 503) is not a fault.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::time::Time;

/// How long a token outweighs a failed probe. Engines under load answer probes late while they stream; one that has died
/// sends no token for as long.
const TOKENS_VETO: Duration = Duration::from_secs(2);

/// Demotion after a 429 or 503. About one second of decoding frees a place in most engines; half of it is a compromise
/// between asking too often and leaving the place unused.
const FULL: Duration = Duration::from_millis(500);

/// Demotion after a failure, doubled with each further one: a restarting process is back within seconds, a dead host not at
/// all. Without it an endpoint that fails fast looks idle and draws everything.
const FAILED: Duration = Duration::from_secs(1);

/// Most doublings: 16 s, so that an endpoint that is back is found within one probe of most configurations.
const MAX_DOUBLINGS: u32 = 4;

/// Health of one endpoint, as seen by probes, operators and requests.
#[derive(Debug, Default)]
pub(crate) struct Health {
    probed_down: AtomicBool,
    draining: AtomicBool,
    demoted_until: AtomicU64,
    last_token: AtomicU64,
    failures: AtomicU32,
}

impl Health {
    /// Whether the endpoint may get requests, drain aside. One that was never probed may.
    pub(crate) fn is_up(&self, now: Time) -> bool {
        !self.probed_down.load(Ordering::Relaxed) || self.has_fresh_token(now)
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Whether others are preferred.
    pub(crate) fn is_demoted(&self, now: Time) -> bool {
        now.as_nanos() < self.demoted_until.load(Ordering::Relaxed)
    }

    /// Takes the verdict of a probe. True when the endpoint is back from being down: it has most likely restarted.
    pub(crate) fn probed(&self, healthy: bool, now: Time) -> bool {
        let was_down = self.probed_down.swap(!healthy, Ordering::Relaxed);
        was_down && healthy && !self.has_fresh_token(now)
    }

    pub(crate) fn drain(&self, draining: bool) {
        self.draining.store(draining, Ordering::Relaxed);
    }

    /// A token came.
    pub(crate) fn token(&self, now: Time) {
        self.last_token.fetch_max(now.as_nanos(), Ordering::Relaxed);
    }

    /// A request ended well. Tokens alone do not forgive: an endpoint may break every stream after its first one.
    pub(crate) fn completed(&self) {
        // Read first: a store per request would bounce the line between threads.
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// No connection, or one that broke, or silence, or an answer that says the endpoint itself is at fault.
    pub(crate) fn failed(&self, now: Time) {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed);
        self.demote(now + FAILED * (1 << failures.min(MAX_DOUBLINGS)));
    }

    /// The endpoint said that it is full.
    pub(crate) fn full(&self, now: Time) {
        self.demote(now + FULL);
    }

    /// Forgets what probes and operators said: the endpoint was taken out of the configuration and is back. Whoever
    /// watches it starts anew, and may never repeat what it said before.
    pub(crate) fn readmit(&self) {
        self.probed_down.store(false, Ordering::Relaxed);
        self.draining.store(false, Ordering::Relaxed);
    }

    fn demote(&self, until: Time) {
        self.demoted_until.fetch_max(until.as_nanos(), Ordering::Relaxed);
    }

    fn has_fresh_token(&self, now: Time) -> bool {
        let last = self.last_token.load(Ordering::Relaxed);
        last != 0 && now.since(Time::from_nanos(last)) < TOKENS_VETO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn an_endpoint_is_in_service_until_a_probe_says_no() {
        let health = Health::default();
        assert!(health.is_up(at(0)));
        assert!(!health.probed(false, at(1)));
        assert!(!health.is_up(at(1)));
        assert!(health.probed(true, at(2)), "the caller must learn that it is back");
        assert!(health.is_up(at(2)));
    }

    #[test]
    fn flowing_tokens_veto_a_failed_probe() {
        let health = Health::default();
        health.token(at(100));
        health.probed(false, at(200));
        assert!(health.is_up(at(300)), "it streams");
        assert!(!health.is_up(at(2_200)), "and then it does not");
    }

    #[test]
    fn a_full_endpoint_is_demoted_for_a_moment() {
        let health = Health::default();
        health.full(at(0));
        assert!(health.is_demoted(at(499)) && !health.is_demoted(at(500)));
        assert!(health.is_up(at(1)), "back-pressure never takes an endpoint out");
    }

    #[test]
    fn repeated_failures_demote_for_longer_and_a_good_end_forgives() {
        let health = Health::default();
        health.failed(at(0));
        assert!(!health.is_demoted(at(1_000)));
        health.failed(at(1_000));
        assert!(health.is_demoted(at(2_999)) && !health.is_demoted(at(3_000)));
        for _ in 0..40 {
            health.failed(at(3_000));
        }
        assert!(!health.is_demoted(at(19_000)), "the longest demotion is 16 s");
        health.token(at(20_000));
        health.failed(at(20_000));
        assert!(health.is_demoted(at(35_999)), "a token is no sign that streams end well");
        health.completed();
        health.failed(at(40_000));
        assert!(!health.is_demoted(at(41_000)));
    }
}
