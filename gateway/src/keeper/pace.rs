//! How often metrics pages are read, so that all of it together takes a small share of a core.
//!
//! There is one pace for the process, as there is one machine under it: the endpoints of all pools with `interval: auto`
//! count, and all have the same interval. One that the file names is the operator's own business.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Shortest interval between scrapes of one endpoint: faster than a decision could use, since in-flight counts are exact.
const FASTEST: Duration = Duration::from_millis(100);

/// Longest: what is older says nothing of a queue, and a process with that many endpoints has more than one core.
const SLOWEST: Duration = Duration::from_secs(10);

/// Share of a core that reading pages may take.
const CORE_SHARE: f64 = 0.05;

/// Scrapes over which their cost is smoothed. Pages of different engines take turns, some with a list of models, and it is
/// their mean that counts.
const SMOOTH: u64 = 32;

/// What reading costs, and how many read.
#[derive(Debug, Default)]
pub(super) struct Pace {
    readers: AtomicU32,
    /// Nanoseconds that one scrape takes, smoothed; 0 before the first.
    cost: AtomicU64,
}

/// One endpoint's reader, counted as long as this lives.
#[derive(Debug)]
pub(super) struct Reader {
    pace: Arc<Pace>,
}

impl Pace {
    /// Counts one more reader.
    pub(super) fn join(self: &Arc<Self>) -> Reader {
        self.readers.fetch_add(1, Ordering::Relaxed);
        Reader { pace: Arc::clone(self) }
    }

    /// Takes note of the time one scrape took.
    pub(super) fn record(&self, cost: Duration) {
        let cost = u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX);
        let old = self.cost.load(Ordering::Relaxed);
        // Two readers at once lose one of their samples, which is no loss.
        let smoothed = if old == 0 { cost } else { old - old / SMOOTH + cost / SMOOTH };
        self.cost.store(smoothed, Ordering::Relaxed);
    }

    /// The time to leave between two scrapes.
    pub(super) fn interval(&self) -> Duration {
        let cost = Duration::from_nanos(self.cost.load(Ordering::Relaxed));
        interval(self.readers.load(Ordering::Relaxed), cost)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.pace.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The interval at which `endpoints` take no more than the share, when one scrape takes `cost`.
fn interval(endpoints: u32, cost: Duration) -> Duration {
    let seconds = f64::from(endpoints) * cost.as_secs_f64() / CORE_SHARE;
    Duration::try_from_secs_f64(seconds).unwrap_or(SLOWEST).clamp(FASTEST, SLOWEST)
}

/// Runs `future` and measures the time spent in it, waiting excepted.
pub(super) async fn timed<T>(future: impl Future<Output = T>) -> (T, Duration) {
    let mut future = pin!(future);
    let mut spent = Duration::ZERO;
    let output = poll_fn(|context| {
        let began = Instant::now();
        let poll = future.as_mut().poll(context);
        spent += began.elapsed();
        poll
    });
    (output.await, spent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_fleet_is_read_ten_times_a_second_and_a_large_one_within_the_share() {
        let micros = Duration::from_micros;
        for (endpoints, cost, expected) in [
            (0, micros(100), FASTEST),
            (1, Duration::ZERO, FASTEST),
            (50, micros(100), FASTEST),
            (100, micros(100), Duration::from_millis(200)),
            (2_000, micros(36), Duration::from_millis(1_440)),
            (2_000, micros(136), Duration::from_millis(5_440)),
        ] {
            let interval = interval(endpoints, cost);
            assert!(interval.abs_diff(expected) < micros(1), "{endpoints} at {cost:?}: {interval:?}");
            let share = f64::from(endpoints) * cost.as_secs_f64() / interval.as_secs_f64();
            assert!(share <= CORE_SHARE + 1e-9, "{endpoints} at {cost:?} take {share} of a core");
        }
        assert_eq!(interval(10_000, micros(136)), SLOWEST);
        assert_eq!(interval(u32::MAX, Duration::MAX), SLOWEST);
    }

    #[test]
    fn the_readers_of_all_pools_count_while_they_are_there() {
        let pace = Arc::new(Pace::default());
        let one_pool: Vec<Reader> = (0..300).map(|_| pace.join()).collect();
        let other: Vec<Reader> = (0..700).map(|_| pace.join()).collect();
        assert_eq!(pace.interval(), FASTEST, "nobody knows yet what a scrape costs");
        pace.record(Duration::from_micros(50));
        assert_eq!(pace.interval(), Duration::from_secs(1));
        drop(other);
        assert_eq!(pace.interval(), Duration::from_millis(300), "the cost is known still");
        drop(one_pool);
        assert_eq!(pace.interval(), FASTEST);
    }

    #[test]
    fn the_cost_of_unlike_pages_is_their_mean() {
        let pace = Pace::default();
        for _ in 0..1_000 {
            pace.record(Duration::from_micros(10));
            pace.record(Duration::from_micros(30));
        }
        let cost = Duration::from_nanos(pace.cost.load(Ordering::Relaxed));
        assert!(cost.abs_diff(Duration::from_micros(20)) < Duration::from_micros(1), "{cost:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_costs_nothing() {
        let (output, spent) = timed(async {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            7
        })
        .await;
        assert_eq!(output, 7);
        assert!(spent < Duration::from_secs(60), "an hour of sleep cost {spent:?}");
    }
}
