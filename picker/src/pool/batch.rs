//! How many requests an engine runs at once, found out from its metrics page.
//!
//! Engines do not say it. But while requests wait, work goes on and the number of those that run does not move, the batch is
//! full. What waits for memory, or for its turn in a step, shows as a number that moves; an engine that hangs, or a page that
//! is frozen, as counters that do not.

/// Pages in a row that must show the same number running, and others waiting.
const PAGES: u32 = 8;

/// Fewer that run may be waiting for something else, an adapter for one.
const LEAST_RUNNING: f64 = 2.0;

/// The size of one engine's batch.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    places: Option<f64>,
    /// Running on the last page, and the pages in a row that showed as many while others waited.
    pinned: (f64, u32),
    /// The counters of the last page.
    progress: Option<u64>,
}

impl Batch {
    /// A page said how many run and how many wait, either of them unknown (`NaN`) perhaps, and what its counters come to.
    /// Returns the places, when known.
    pub(crate) fn scraped(&mut self, running: f64, queued: f64, progress: Option<u64>) -> Option<f64> {
        let works = progress.is_some() && progress != self.progress;
        self.progress = progress;
        let is_full = works && queued >= 1.0 && running >= LEAST_RUNNING;
        let is_same = running.to_bits() == self.pinned.0.to_bits();
        self.pinned = match (is_full, is_same) {
            (true, true) => (running, self.pinned.1 + 1),
            (true, false) => (running, 1),
            (false, _) => (f64::NAN, 0),
        };
        if self.pinned.1 >= PAGES || self.places.is_some_and(|places| running > places) {
            self.places = Some(running);
        }
        self.places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(pages: &[(f64, f64)]) -> Option<f64> {
        let mut batch = Batch::default();
        let pages = pages.iter().zip(1..);
        pages.map(|(&(running, queued), page)| batch.scraped(running, queued, Some(page))).last().flatten()
    }

    #[test]
    fn an_engine_that_hangs_teaches_nothing() {
        let mut batch = Batch::default();
        let learned: Vec<_> = (0..20).map(|_| batch.scraped(5.0, 3.0, Some(7))).collect();
        assert_eq!(learned, [None; 20], "its counters stand still");
        assert_eq!((0..20).map(|_| batch.scraped(5.0, 3.0, None)).last(), Some(None), "whether it works is not known");
    }

    #[test]
    fn a_number_that_stands_still_while_others_wait_is_the_size_of_the_batch() {
        assert_eq!(learned(&[(32.0, 1.0); 8]), Some(32.0));
        assert_eq!(
            learned(&[[(32.0, 1.0); 7].as_slice(), &[(32.0, 0.0), (32.0, 7.0)]].concat()),
            None,
            "nobody waited in between"
        );
    }

    #[test]
    fn what_waits_for_its_turn_in_a_step_teaches_nothing() {
        assert_eq!(learned(&[(5.0, 1.0), (6.0, 2.0), (7.0, 1.0), (6.0, 1.0), (7.0, 3.0)]), None);
    }

    #[test]
    fn more_that_run_than_there_were_places_raise_them() {
        let full = [(4.0, 1.0); 8];
        assert_eq!(learned(&[&full[..], &[(9.0, 0.0)]].concat()), Some(9.0));
        assert_eq!(learned(&[&full[..], &[(2.0, 0.0)]].concat()), Some(4.0));
    }

    #[test]
    fn an_unknown_page_changes_nothing() {
        let full = [(4.0, 1.0); 8];
        assert_eq!(learned(&[&full[..], &[(f64::NAN, f64::NAN)]].concat()), Some(4.0));
        assert_eq!(learned(&[(f64::NAN, 3.0); 9]), None);
    }
}
