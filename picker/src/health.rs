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

/// Demotion after a failed connect, doubled with each further one: a restarting process is back within seconds, a dead
/// host not at all.
const UNREACHABLE: Duration = Duration::from_secs(1);

/// Most doublings: 16 s, so that an endpoint that is back is found within one probe of most configurations.
const MAX_DOUBLINGS: u32 = 4;

/// Health of one endpoint, as seen by probes, operators and requests.
#[derive(Debug, Default)]
pub(crate) struct Health {
    probed_down: AtomicBool,
    draining: AtomicBool,
    demoted_until: AtomicU64,
    last_token: AtomicU64,
    failed_connects: AtomicU32,
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
        // Read first: a store per token would bounce the line between threads.
        if self.failed_connects.load(Ordering::Relaxed) != 0 {
            self.connected();
        }
    }

    /// The endpoint took a request.
    pub(crate) fn connected(&self) {
        self.failed_connects.store(0, Ordering::Relaxed);
    }

    /// No connection.
    pub(crate) fn unreachable(&self, now: Time) {
        let failed = self.failed_connects.fetch_add(1, Ordering::Relaxed);
        self.demote(now + UNREACHABLE * (1 << failed.min(MAX_DOUBLINGS)));
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
    fn repeated_connect_failures_demote_for_longer_and_a_token_forgives() {
        let health = Health::default();
        health.unreachable(at(0));
        assert!(!health.is_demoted(at(1_000)));
        health.unreachable(at(1_000));
        assert!(health.is_demoted(at(2_999)) && !health.is_demoted(at(3_000)));
        for _ in 0..40 {
            health.unreachable(at(3_000));
        }
        assert!(!health.is_demoted(at(19_000)), "the longest demotion is 16 s");
        health.token(at(20_000));
        health.unreachable(at(20_000));
        assert!(!health.is_demoted(at(21_000)));
    }
}
