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
    /// From the start of the attempt to the first response body byte, and in a stream to the first output token: some
    /// APIs send an event before the prompt has been read.
    pub first_byte: Option<Duration>,
    /// Between two response body writes after that.
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
    began_at: Instant,
    /// Whether a response body byte has been seen.
    answered: bool,
    /// Whether output flows: from here on only gaps count.
    flowing: bool,
    /// The last sign of life: start of the attempt, then each body write.
    alive_at: Instant,
    /// Set once and moved lazily, so that a stream of a thousand tokens does not reset it a thousand times.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Watch {
    /// Starts to watch an attempt.
    pub(crate) fn new(patience: Patience) -> Self {
        let now = Instant::now();
        Self { patience, began_at: now, answered: false, flowing: false, alive_at: now, timer: None }
    }

    /// Whether a response body byte has been seen.
    pub(crate) fn is_answered(&self) -> bool {
        self.answered
    }

    /// Records a response body write; `flowing` when it is output or what follows output. Returns when it happened.
    pub(crate) fn alive(&mut self, flowing: bool) -> Instant {
        self.answered = true;
        self.flowing |= flowing;
        self.alive_at = Instant::now();
        self.alive_at
    }

    /// The nearest deadline in force, if any.
    fn deadline(&self) -> Option<(Instant, Expired)> {
        let gap = self.patience.gap.map(|gap| (self.alive_at + gap, Expired::Gap));
        let first = self.patience.first_byte.map(|wait| (self.began_at + wait, Expired::FirstByte));
        let silence = match (self.answered, self.flowing) {
            (false, _) => first,
            (true, true) => gap,
            // Whichever is later: events without output that keep coming are a sign of life.
            (true, false) => gap.zip(first).map(|(gap, first)| if gap.0 > first.0 { gap } else { first }),
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
        watch.alive(true);
        assert_eq!(watch.run_out().await, Expired::Gap);
        assert_eq!(began.elapsed().as_secs(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lively_stream_ends_only_by_the_total() {
        let end = Instant::now() + 10 * SECOND;
        let mut watch = Watch::new(Patience { first_byte: Some(SECOND), gap: Some(2 * SECOND), end: Some(end) });
        for _ in 0..9 {
            watch.alive(true);
            let early = tokio::time::timeout(SECOND, watch.run_out()).await;
            assert!(early.is_err(), "expired with {early:?} although bytes flowed");
        }
        watch.alive(true);
        assert_eq!(watch.run_out().await, Expired::Total);
    }

    #[tokio::test(start_paused = true)]
    async fn events_before_the_first_token_do_not_start_the_gap() {
        let began = Instant::now();
        let mut watch = Watch::new(Patience { first_byte: Some(10 * SECOND), gap: Some(SECOND), end: None });
        watch.alive(false);
        assert_eq!(watch.run_out().await, Expired::FirstByte);
        assert_eq!(began.elapsed().as_secs(), 10);
        watch.alive(false);
        assert_eq!(watch.run_out().await, Expired::Gap);
        assert_eq!(began.elapsed().as_secs(), 11);
    }

    #[tokio::test(start_paused = true)]
    async fn no_deadline_waits_for_ever() {
        let mut watch = Watch::new(Patience::default());
        assert!(tokio::time::timeout(3600 * SECOND, watch.run_out()).await.is_err());
    }
}
