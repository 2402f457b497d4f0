//! How many bytes of request bodies the process may hold at once.
//!
//! A request with a declared length asks for all of it before the first read and may wait a moment, holding nothing; one
//! without asks as it grows and is refused at once when there is no room. So nobody waits while holding part, and the
//! budget cannot deadlock.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Accounting unit in bytes. The semaphore counts in 32 bits per request; KiB keeps any body far from that.
const UNIT: u64 = 1024;

/// How long a request with a declared length may wait for room. A body this slow to be admitted would blow any TTFT
/// goal anyway; the client does better to come back.
const WAIT: Duration = Duration::from_secs(1);

/// Asked for at once while a body without declared length grows, in bytes.
const STEP: u64 = 64 * 1024;

/// The process-wide budget.
#[derive(Clone)]
pub struct Budget {
    units: Arc<Semaphore>,
    total: u64,
}

/// There is no room.
#[derive(Debug, PartialEq, Eq)]
pub struct Exhausted;

impl Budget {
    /// A budget of `bytes`.
    pub fn new(bytes: u64) -> Self {
        let total = (bytes / UNIT).clamp(1, Semaphore::MAX_PERMITS as u64);
        Self { units: Arc::new(Semaphore::new(total as usize)), total }
    }

    /// Room for a body of a declared length in bytes, waiting up to a second for it.
    pub async fn reserve(&self, length: u64) -> Result<Share, Exhausted> {
        let units = units(length);
        if u64::from(units) > self.total {
            return Err(Exhausted);
        }
        let wait = Arc::clone(&self.units).acquire_many_owned(units);
        match tokio::time::timeout(WAIT, wait).await {
            Ok(Ok(permit)) => Ok(Share { budget: self.clone(), permit, bytes: u64::from(units) * UNIT }),
            _ => Err(Exhausted),
        }
    }

    /// A share of nothing, to grow as the body comes.
    pub fn open(&self) -> Result<Share, Exhausted> {
        let permit = Arc::clone(&self.units).try_acquire_many_owned(0).map_err(|_| Exhausted)?;
        Ok(Share { budget: self.clone(), permit, bytes: 0 })
    }

    /// Bytes held by all requests.
    pub fn held(&self) -> u64 {
        (self.total - self.units.available_permits() as u64) * UNIT
    }
}

fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

/// One request's part of the budget; given back on drop.
pub struct Share {
    budget: Budget,
    permit: OwnedSemaphorePermit,
    bytes: u64,
}

impl Share {
    /// Makes sure that `length` bytes are covered.
    pub fn cover(&mut self, length: u64) -> Result<(), Exhausted> {
        while self.bytes < length {
            let more = (length - self.bytes).max(STEP);
            let more = Arc::clone(&self.budget.units).try_acquire_many_owned(units(more)).map_err(|_| Exhausted)?;
            self.bytes += more.num_permits() as u64 * UNIT;
            self.permit.merge(more);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_full_budget_refuses_and_recovers() {
        let budget = Budget::new(1 << 20);
        let all = budget.reserve(1 << 20).await.ok();
        assert_eq!(budget.held(), 1 << 20);
        assert!(budget.reserve(1).await.is_err(), "no room, yet admitted");
        assert!(budget.open().is_ok_and(|mut share| share.cover(1).is_err()));
        drop(all);
        assert!(budget.reserve(1).await.is_ok(), "room was given back");
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test]
    async fn a_growing_body_is_covered_step_by_step() {
        let budget = Budget::new(1 << 20);
        let mut share = budget.open().ok().unwrap();
        share.cover(1).unwrap();
        share.cover(100_000).unwrap();
        assert!(budget.held() >= 100_000 && budget.held() < 300_000, "{} held for 100 kB", budget.held());
        assert_eq!(share.cover(2 << 20), Err(Exhausted));
        drop(share);
        assert_eq!(budget.held(), 0);
    }
}
