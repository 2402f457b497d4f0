//! The filters every policy has.

use crate::filter::{Filter, Keep};
use crate::request::RequestInfo;
use crate::view::Candidates;

/// Removes endpoints that are down, draining, or whose engine sleeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InService;

impl Filter for InService {
    fn name(&self) -> &'static str {
        "in_service"
    }

    fn retain(&self, _: &RequestInfo, candidates: &Candidates<'_>, keep: &mut Keep) {
        keep.retain(|i| candidates.is_in_service(i));
    }
}

/// Removes endpoints that do not list the request's adapter. Those whose list is unknown stay. Base models are not
/// checked: many engines accept any name for the one model they have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Serves;

impl Filter for Serves {
    fn name(&self) -> &'static str {
        "serves"
    }

    fn retain(&self, request: &RequestInfo, candidates: &Candidates<'_>, keep: &mut Keep) {
        if let Some(adapter) = &request.adapter {
            keep.retain(|i| candidates.lists(i, adapter) != Some(false));
        }
    }
}

/// Removes endpoints already tried for this request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tried;

impl Filter for Tried {
    fn name(&self) -> &'static str {
        "tried"
    }

    fn retain(&self, request: &RequestInfo, candidates: &Candidates<'_>, keep: &mut Keep) {
        if !request.tried.is_empty() {
            keep.retain(|i| !request.tried.contains(&candidates.endpoint(i).slot));
        }
    }
}

/// Removes endpoints with `most` of our requests in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Concurrency {
    pub(crate) most: Option<u32>,
}

impl Filter for Concurrency {
    fn name(&self) -> &'static str {
        "concurrency"
    }

    fn retain(&self, _: &RequestInfo, candidates: &Candidates<'_>, keep: &mut Keep) {
        if let Some(most) = self.most {
            keep.retain(|i| candidates.in_flight(i) < f64::from(most));
        }
    }
}

/// Removes endpoints that just failed to connect or said that they are full, while others are left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demoted;

impl Filter for Demoted {
    fn name(&self) -> &'static str {
        "demoted"
    }

    fn retain(&self, _: &RequestInfo, candidates: &Candidates<'_>, keep: &mut Keep) {
        let is_preferred = |i| !candidates.is_demoted(i);
        if (0..candidates.len()).any(|i| keep.is_kept(i) && is_preferred(i)) {
            keep.retain(is_preferred);
        }
    }
}
