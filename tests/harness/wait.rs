//! Waiting for what must become true, without sleeping for what may be enough.

use std::time::{Duration, Instant};

/// Far longer than anything here takes on an idle machine: a test fails by its claim, not by a slow neighbour.
const DEADLINE: Duration = Duration::from_secs(10);

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// Polls `look` until it finds something; panics with `what` after ten seconds.
pub(crate) async fn eventually<T>(what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
    eventually_within(DEADLINE, what, look).await
}

/// Polls `look` until it finds something; panics with `what` after `deadline`.
pub(crate) async fn eventually_within<T>(
    deadline: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(began.elapsed() < deadline, "not within {deadline:?}: {what}");
        tokio::time::sleep(LOOK).await;
    }
}
