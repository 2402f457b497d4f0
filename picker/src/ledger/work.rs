//! Prefill work dispatched to one endpoint that has no first token yet, in order of dispatch.
//!
//! The head is what the engine works on. Time since it started counts against the head alone: an engine that hangs would
//! otherwise seem to finish everything behind it too, and draw more.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::Time;

/// One request before its first token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Prefill {
    /// Names the request at this endpoint; rising.
    pub(crate) ticket: u64,
    /// What it counts in the ledger; 0 for a request of another gateway.
    pub(crate) size: u32,
    /// Tokens of its prompt that are to be computed.
    pub(crate) tokens: u32,
    /// How long its prefill takes, predicted.
    pub(crate) expected: Duration,
    /// When it is taken to be past its first token, where that cannot be seen.
    pub(crate) leaves: Option<Time>,
}

/// The requests before their first token at one endpoint.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pending: VecDeque<Prefill>,
    /// Sum of `expected`; integer, so it returns to exactly zero.
    total: Duration,
    /// Sum of `tokens`.
    tokens: u64,
    /// When the engine turned to the head.
    head_since: Time,
    /// Whether a request whose first token cannot be seen has been pending since then: the gap then measures more than
    /// the requests we know.
    blurred: bool,
    /// Earliest of `leaves`.
    next_leave: Option<Time>,
    next_ticket: u64,
}

impl Work {
    /// Adds a request at the end and returns its ticket.
    pub(crate) fn push(&mut self, size: u32, tokens: u32, expected: Duration, leaves: Option<Time>, now: Time) -> u64 {
        if self.pending.is_empty() {
            self.head_since = now;
            self.blurred = false;
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.pending.push_back(Prefill { ticket, size, tokens, expected, leaves });
        self.total += expected;
        self.tokens += u64::from(tokens);
        self.blurred |= leaves.is_some();
        self.next_leave = earliest(self.next_leave, leaves);
        ticket
    }

    /// The request has its first token. Returns it with the time the engine spent on it since it turned to the head, or
    /// `None` for the time when that cannot be told. `None` when the request was not pending.
    pub(crate) fn first_token(&mut self, ticket: u64, now: Time) -> Option<(Prefill, Option<Duration>)> {
        let prefill = self.take(ticket)?;
        let gap = (!self.blurred).then(|| now.since(self.head_since));
        self.turn(now);
        Some((prefill, gap))
    }

    /// The request ended without a first token. `None` when it was not pending.
    pub(crate) fn remove(&mut self, ticket: u64, now: Time) -> Option<Prefill> {
        let was_head = self.pending.front().is_some_and(|head| head.ticket == ticket);
        let prefill = self.take(ticket)?;
        if was_head {
            self.turn(now);
        }
        Some(prefill)
    }

    /// Takes out one request whose predicted first token has passed, if there is one.
    pub(crate) fn settle(&mut self, now: Time) -> Option<Prefill> {
        if self.next_leave.is_none_or(|next| next > now) {
            return None;
        }
        let due = self.pending.iter().find(|prefill| prefill.leaves.is_some_and(|leaves| leaves <= now)).copied();
        let Some(due) = due else {
            self.next_leave = self.pending.iter().fold(None, |next, prefill| earliest(next, prefill.leaves));
            return None;
        };
        self.remove(due.ticket, due.leaves.unwrap_or(now))
    }

    /// Work behind the head, and when the head is expected to be done. What is ahead of a new request is the first, and
    /// what is left until the second.
    pub(crate) fn ahead(&self) -> (Duration, Time) {
        let head = self.pending.front().map_or(Duration::ZERO, |head| head.expected);
        (self.total.saturating_sub(head), self.head_since + head)
    }

    /// When the engine turned to the head; `None` when nothing is pending.
    pub(crate) fn head_since(&self) -> Option<Time> {
        (!self.pending.is_empty()).then_some(self.head_since)
    }

    /// Tokens of prompts still to be computed.
    pub(crate) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Requests pending.
    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Requests pending that are ours and whose first token will be seen.
    pub(crate) fn watched(&self) -> u32 {
        self.pending.iter().filter(|prefill| prefill.size > 0 && prefill.leaves.is_none()).count() as u32
    }

    /// When `settle` next has something to do.
    pub(crate) fn next_leave(&self) -> Option<Time> {
        self.next_leave
    }

    fn take(&mut self, ticket: u64) -> Option<Prefill> {
        // Tickets rise along the queue.
        let at = self.pending.binary_search_by_key(&ticket, |prefill| prefill.ticket).ok()?;
        let prefill = self.pending.remove(at)?;
        self.total -= prefill.expected;
        self.tokens -= u64::from(prefill.tokens);
        Some(prefill)
    }

    /// The engine turns to the head that is left.
    fn turn(&mut self, now: Time) {
        self.head_since = self.head_since.max(now);
        self.blurred = self.pending.iter().any(|prefill| prefill.leaves.is_some());
    }
}

fn earliest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn ahead(work: &Work, now: Time) -> Duration {
        let (behind_head, head_done) = work.ahead();
        behind_head + head_done.since(now)
    }

    #[test]
    fn work_ahead_shrinks_with_the_head_only() {
        let mut work = Work::default();
        work.push(1, 0, 100 * MS, None, at(0));
        work.push(1, 0, 40 * MS, None, at(10));
        assert_eq!(ahead(&work, at(10)), 130 * MS);
        assert_eq!(ahead(&work, at(5_000)), 40 * MS, "a hanging head must not finish what waits behind it");
    }

    #[test]
    fn a_first_token_starts_the_next_head() {
        let mut work = Work::default();
        let first = work.push(1, 0, 100 * MS, None, at(0));
        work.push(1, 0, 40 * MS, None, at(10));
        let (_, gap) = work.first_token(first, at(90)).unwrap();
        assert_eq!(gap, Some(90 * MS));
        assert_eq!(ahead(&work, at(100)), 30 * MS);
        assert_eq!(work.first_token(first, at(95)), None, "a first token counts once");
    }

    #[test]
    fn a_request_without_a_visible_first_token_leaves_when_predicted() {
        let mut work = Work::default();
        work.push(7, 300, 50 * MS, Some(at(50)), at(0));
        assert_eq!(work.settle(at(49)), None);
        assert_eq!(work.settle(at(50)).map(|prefill| prefill.size), Some(7));
        assert_eq!((work.len(), work.settle(at(60)), work.next_leave()), (0, None, None));
        assert_eq!((work.tokens(), work.head_since()), (0, None));
        assert_eq!(ahead(&work, at(60)), Duration::ZERO);
    }

    #[test]
    fn gaps_that_hide_other_work_teach_nothing() {
        let mut work = Work::default();
        let seen = work.push(1, 0, 50 * MS, None, at(0));
        work.push(1, 0, 50 * MS, Some(at(100)), at(1));
        assert_eq!(work.first_token(seen, at(70)).unwrap().1, None);
    }

    #[test]
    fn removal_in_the_middle_leaves_the_head_alone() {
        let mut work = Work::default();
        work.push(1, 0, 100 * MS, None, at(0));
        let middle = work.push(1, 0, 40 * MS, None, at(10));
        work.push(1, 0, 5 * MS, None, at(10));
        assert!(work.remove(middle, at(20)).is_some());
        assert_eq!(ahead(&work, at(20)), 85 * MS);
    }
}
