//! How much load an endpoint may carry before its ring keys spill to the next one.
//!
//! The bound is a share of what the eligible endpoints carry together, so it moves with the load; only the slack keeps an
//! idle pool from spilling the second request of every key.

use crate::config::Affinity;
use crate::ledger::{Load, UNIT};
use crate::view::table::Ours;

/// The bound of one decision, for a request of one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Load allowed for one unit of weight, in what is counted.
    per_weight: f64,
    /// What the request adds, in what is counted.
    added: u32,
    /// Whether requests are counted, each as one, or load units.
    counts_requests: bool,
    /// Most requests at one endpoint, whatever its share.
    most_requests: u32,
}

impl Bounds {
    /// Bounds among the eligible endpoints, for a request of `size` units.
    pub(crate) fn new<'a>(
        eligible: impl Iterator<Item = &'a Ours>,
        affinity: &Affinity,
        size: u32,
        counts_requests: bool,
    ) -> Self {
        let (mut total, mut weight) = (0.0, 0.0);
        for ours in eligible {
            total += f64::from(if counts_requests { ours.load.requests } else { ours.load.units });
            weight += ours.weight;
        }
        let (added, unit) = if counts_requests { (1, 1) } else { (size, UNIT) };
        let share = affinity.load_factor * (total + f64::from(added)) / weight;
        let slack = affinity.min_slack * f64::from(unit);
        Self {
            per_weight: share.max(slack),
            added,
            counts_requests,
            most_requests: affinity.concurrency.unwrap_or(u32::MAX),
        }
    }

    /// The most the endpoint may hold, the request included. Never less than the request itself: an idle endpoint has room
    /// for any one.
    pub(crate) fn limit(&self, weight: f64) -> Load {
        let limit = ((self.per_weight * weight) as u32).max(self.added);
        if self.counts_requests {
            Load { requests: limit.min(self.most_requests), units: u32::MAX }
        } else {
            Load { requests: self.most_requests, units: limit }
        }
    }

    /// The most the endpoint may hold when every one is over its bound: what it held when the decision saw it, and the
    /// request. Still a bound, so that two threads do not both take the least loaded for theirs.
    pub(crate) fn limit_over(&self, ours: &Ours) -> Load {
        let requests = (ours.load.requests.saturating_add(1)).min(self.most_requests);
        if self.counts_requests {
            Load { requests, units: u32::MAX }
        } else {
            Load { requests: self.most_requests, units: ours.load.units.saturating_add(self.added) }
        }
    }

    /// Whether the request fits.
    pub(crate) fn has_room(&self, ours: &Ours) -> bool {
        let limit = self.limit(ours.weight);
        if self.counts_requests {
            ours.load.requests < limit.requests
        } else {
            ours.load.requests < limit.requests && ours.load.units.saturating_add(self.added) <= limit.units
        }
    }

    /// Load for one unit of weight, to find the least loaded.
    pub(crate) fn relative(&self, ours: &Ours) -> f64 {
        f64::from(if self.counts_requests { ours.load.requests } else { ours.load.units }) / ours.weight
    }

    /// The limit in request equivalents (or requests, where those are counted), for explain.
    pub(crate) fn shown(&self, weight: f64) -> f64 {
        let limit = self.limit(weight);
        if self.counts_requests { f64::from(limit.requests) } else { f64::from(limit.units) / f64::from(UNIT) }
    }
}
