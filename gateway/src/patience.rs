//! How long an attempt may keep a client waiting: for the first byte, between bytes, and in all.
//!
//! Pingora has one read timeout per peer, which cannot tell a slow prefill from a stream that fell silent. These
//! deadlines can, and a passed one names itself.

use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// How long an attempt may take. `None` waits for ever.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patience {
    /// From the start of the attempt to the first response body byte.
    pub first_byte: Option<Duration>,
    /// Between two response body writes after the first.
    pub gap: Option<Duration>,
    /// The moment at which the whole request is over, whatever happens.
    pub end: Option<Instant>,
}

/// Which deadline passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    /// No response body byte in time.
    FirstByte,
    /// The response fell silent after it had begun.
    Gap,
    /// The request as a whole took too long.
    Total,
}

/// Watches one attempt.
pub(crate) struct Watch {
    patience: Patience,
    answered: bool,
    /// The last sign of life: start of the attempt, then each body write.
    alive_at: Instant,
    /// Set once and moved lazily, so that a stream of a thousand tokens does not reset it a thousand times.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Watch {
    /// Starts to watch an attempt.
    pub(crate) fn new(patience: Patience) -> Self {
        Self { patience, answered: false, alive_at: Instant::now(), timer: None }
    }

    /// Whether a response body byte has been seen.
    pub(crate) fn is_answered(&self) -> bool {
        self.answered
    }

    /// Records a response body write. Returns when it happened.
    pub(crate) fn alive(&mut self) -> Instant {
        self.answered = true;
        self.alive_at = Instant::now();
        self.alive_at
    }

    /// The nearest deadline in force, if any.
    fn deadline(&self) -> Option<(Instant, Expired)> {
        let silence = if self.answered {
            self.patience.gap.map(|gap| (self.alive_at + gap, Expired::Gap))
        } else {
            self.patience.first_byte.map(|wait| (self.alive_at + wait, Expired::FirstByte))
        };
        let end = self.patience.end.map(|end| (end, Expired::Total));
        [silence, end].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    /// Resolves when a deadline has passed; never, if there is none. Cancel-safe.
    pub(crate) async fn run_out(&mut self) -> Expired {
        loop {
            let Some((at, what)) = self.deadline() else { return pending().await };
            if Instant::now() >= at {
                return what;
            }
            let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
            // A timer that is early only costs one more turn of this loop.
            if timer.deadline() > at || timer.is_elapsed() {
                timer.as_mut().reset(at);
            }
            timer.as_mut().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn the_first_byte_moves_the_deadline_from_first_byte_to_gap() {
        let began = Instant::now();
        let mut watch = Watch::new(Patience { first_byte: Some(5 * SECOND), gap: Some(2 * SECOND), end: None });
        tokio::time::advance(4 * SECOND).await;
        watch.alive();
        assert_eq!(watch.run_out().await, Expired::Gap);
        assert_eq!(began.elapsed().as_secs(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lively_stream_ends_only_by_the_total() {
        let end = Instant::now() + 10 * SECOND;
        let mut watch = Watch::new(Patience { first_byte: Some(SECOND), gap: Some(2 * SECOND), end: Some(end) });
        for _ in 0..9 {
            watch.alive();
            let early = tokio::time::timeout(SECOND, watch.run_out()).await;
            assert!(early.is_err(), "expired with {early:?} although bytes flowed");
        }
        watch.alive();
        assert_eq!(watch.run_out().await, Expired::Total);
    }

    #[tokio::test(start_paused = true)]
    async fn no_deadline_waits_for_ever() {
        let mut watch = Watch::new(Patience::default());
        assert!(tokio::time::timeout(3600 * SECOND, watch.run_out()).await.is_err());
    }
}
