//! What happens next: a heap by time, and in the order of their making at equal times, so that a run is the same each time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Things to come, at nanoseconds.
#[derive(Debug)]
pub(super) struct Agenda<T> {
    heap: BinaryHeap<Reverse<(u64, u64, T)>>,
    made: u64,
}

impl<T: Ord> Agenda<T> {
    pub(super) fn new() -> Self {
        Self { heap: BinaryHeap::new(), made: 0 }
    }

    pub(super) fn add(&mut self, at: u64, what: T) {
        self.made += 1;
        self.heap.push(Reverse((at, self.made, what)));
    }

    /// The next one, if it is not later than `until`.
    pub(super) fn next(&mut self, until: Option<u64>) -> Option<(u64, T)> {
        let Reverse((at, ..)) = self.heap.peek()?;
        if until.is_some_and(|until| *at > until) {
            return None;
        }
        self.heap.pop().map(|Reverse((at, _, what))| (at, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_come_by_time_and_then_in_the_order_of_their_making() {
        let mut agenda = Agenda::new();
        for (at, what) in [(2, 'c'), (1, 'b'), (2, 'a'), (3, 'd')] {
            agenda.add(at, what);
        }
        let order: String = std::iter::from_fn(|| agenda.next(Some(2))).map(|(_, what)| what).collect();
        assert_eq!(order, "bca");
        assert_eq!(agenda.next(None), Some((3, 'd')));
    }
}
