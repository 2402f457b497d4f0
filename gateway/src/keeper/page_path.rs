//! Where one endpoint's metrics page is.
//!
//! `trtllm-serve` has statistics as JSON where others have their page, and the page elsewhere. Reading the JSON takes it
//! away from whoever else wants it, so that path is left alone once the page is found.

use std::time::Duration;

use tokio::time::Instant;

/// Where most servers have it; the only setting under which another place is looked at.
const USUAL: &str = "/metrics";

/// Where `trtllm-serve` has it, if it was started with `return_perf_metrics`.
const OTHER: &str = "/prometheus/metrics";

/// Pause between two looks at the other place, for a server that has its page at neither, or was too busy to answer.
const AGAIN: Duration = Duration::from_secs(10);

/// What is known of the place.
#[derive(Debug)]
pub(super) enum PagePath {
    /// As configured.
    Configured {
        /// When the other place was last looked at.
        looked_at: Option<Instant>,
    },
    /// The other place, where it was last found.
    Other,
}

impl Default for PagePath {
    fn default() -> Self {
        Self::Configured { looked_at: None }
    }
}

impl PagePath {
    /// The path to read.
    pub(super) fn path<'a>(&self, configured: &'a str) -> &'a str {
        match self {
            Self::Configured { .. } => configured,
            Self::Other => OTHER,
        }
    }

    /// After JSON where the page was thought to be: the other path, if it should be looked at now.
    pub(super) fn other(&mut self, configured: &str, now: Instant) -> Option<&'static str> {
        let Self::Configured { looked_at } = self else { return None };
        if configured != USUAL || looked_at.is_some_and(|at| now - at < AGAIN) {
            return None;
        }
        *looked_at = Some(now);
        Some(OTHER)
    }

    /// The page is at the other path.
    pub(super) fn found(&mut self) {
        *self = Self::Other;
    }

    /// The page could not be read: if it was at the other path, it is looked for from the start.
    pub(super) fn failed(&mut self) {
        if matches!(self, Self::Other) {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_place_is_looked_at_now_and_then_and_remembered() {
        let start = Instant::now();
        let mut path = PagePath::default();
        assert_eq!(path.path(USUAL), "/metrics");
        assert_eq!(path.other(USUAL, start), Some("/prometheus/metrics"));
        path.failed();
        assert_eq!(path.other(USUAL, start + AGAIN / 2), None, "it was not there a moment ago");
        assert_eq!(path.other(USUAL, start + AGAIN), Some("/prometheus/metrics"));
        path.found();
        assert_eq!(path.path(USUAL), "/prometheus/metrics");
        assert_eq!(path.other(USUAL, start + AGAIN * 3), None, "it is there");
        path.failed();
        assert_eq!(path.path(USUAL), "/metrics");
        assert_eq!(path.other(USUAL, start + AGAIN * 3), Some("/prometheus/metrics"), "it was there: at once");
    }

    #[test]
    fn a_path_of_the_operators_own_is_the_only_one() {
        let mut path = PagePath::default();
        assert_eq!(path.path("/stats"), "/stats");
        assert_eq!(path.other("/stats", Instant::now()), None);
    }
}
