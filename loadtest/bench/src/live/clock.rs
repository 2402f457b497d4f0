//! Says when a request is due, to a few microseconds.
//!
//! It waits among the other tasks, not in a thread of its own: on a core that two threads want, the kernel lets one wait for
//! the other for milliseconds.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::pending;
use std::time::Instant;

use spillway_sim::Timer;

/// The times that are to come, each with a number.
#[derive(Debug, Default)]
pub(super) struct Clock {
    times: BinaryHeap<Reverse<(Instant, usize)>>,
    timer: Timer,
}

impl Clock {
    /// Adds a time. One that is past is due at once.
    pub(super) fn at(&mut self, time: Instant, number: usize) {
        self.times.push(Reverse((time, number)));
    }

    /// Waits for the next time; for ever, when there is none. To be dropped and asked again when a time has been added.
    pub(super) async fn next(&mut self) -> (Instant, usize) {
        let Some(&Reverse((time, number))) = self.times.peek() else { return pending().await };
        self.timer.until(time).await;
        self.times.pop();
        (time, number)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
