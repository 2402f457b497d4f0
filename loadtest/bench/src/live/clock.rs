//! Says when a request is due, to a few microseconds.
//!
//! tokio's timers count in milliseconds, which at a time scale of 4 would be four model milliseconds. So the clock sleeps
//! until shortly before, and then gives way in a loop until the time has come. It does so among the other tasks, not in a
//! thread of its own: on a core that two threads want, the kernel lets one wait for the other for milliseconds.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::pending;
use std::time::{Duration, Instant};

use tokio::task::yield_now;
use tokio::time::sleep_until;

/// How long before a request is due the sleep ends: 2 ms by which it may be late, since timer and poll each round up to a
/// millisecond, and 300 us.
const BEFORE: Duration = Duration::from_micros(2_300);

/// The times that are to come, each with a number.
#[derive(Debug, Default)]
pub(super) struct Clock {
    times: BinaryHeap<Reverse<(Instant, usize)>>,
}

impl Clock {
    /// Adds a time. One that is past is due at once.
    pub(super) fn at(&mut self, time: Instant, number: usize) {
        self.times.push(Reverse((time, number)));
    }

    /// Waits for the next time; for ever, when there is none. To be dropped and asked again when a time has been added.
    pub(super) async fn next(&mut self) -> (Instant, usize) {
        let Some(&Reverse((time, number))) = self.times.peek() else { return pending().await };
        if let Some(early) = time.checked_sub(BEFORE) {
            sleep_until(early.into()).await;
        }
        while Instant::now() < time {
            yield_now().await;
        }
        self.times.pop();
        (time, number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn times_come_in_their_order_and_never_early() {
        let mut clock = Clock::default();
        let now = Instant::now();
        for (number, ms) in [30, 10, 20].into_iter().enumerate() {
            clock.at(now + Duration::from_millis(ms), number);
        }
        let mut order = Vec::new();
        while order.len() < 3 {
            let (at, number) = clock.next().await;
            assert!(Instant::now() >= at);
            order.push(number);
        }
        assert_eq!(order, [1, 2, 0]);
    }

    #[tokio::test]
    async fn a_wait_that_is_given_up_loses_nothing_and_a_sooner_time_goes_before() {
        let mut clock = Clock::default();
        let now = Instant::now();
        clock.at(now + Duration::from_millis(20), 0);
        tokio::select! {
            biased;
            _ = clock.next() => panic!("it is not due yet"),
            () = async {} => {}
        }
        clock.at(now, 1);
        assert_eq!((clock.next().await.1, clock.next().await.1), (1, 0));
    }
}
