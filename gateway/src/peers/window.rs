//! Which packets of a sender have come: each is taken once, in whatever order the network brings them.

/// Packets of one sender. The sequence starts at 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    highest: u64,
    /// Bit `i` is set when `highest - i` has come.
    come: u128,
}

impl Window {
    /// Takes note of a packet. False when it has come before, or when it is so late that this is not known.
    pub fn take(&mut self, sequence: u64) -> bool {
        if let Some(ahead) = sequence.checked_sub(self.highest).filter(|ahead| *ahead > 0) {
            self.come =
                u32::try_from(ahead).ok().and_then(|ahead| self.come.checked_shl(ahead)).unwrap_or_default() | 1;
            self.highest = sequence;
            return true;
        }
        let bit = u32::try_from(self.highest - sequence).ok().and_then(|behind| 1_u128.checked_shl(behind));
        match bit {
            Some(bit) if sequence > 0 && self.come & bit == 0 => {
                self.come |= bit;
                true
            }
            _ => false,
        }
    }

    /// From here on only packets count that were sent after all that have come.
    pub fn close(&mut self) {
        self.come = u128::MAX;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_packet_is_taken_once_in_any_order() {
        let mut window = Window::default();
        let taken = [5, 3, 3, 4, 5, 200, 199, 72, 73, 5, 200, 0].map(|sequence| window.take(sequence));
        let expected = [true, true, false, true, false, true, true, false, true, false, false, false];
        assert_eq!(taken, expected);
    }

    #[test]
    fn the_ends_of_the_numbers_are_numbers_too() {
        let mut window = Window::default();
        assert!(!window.take(0) && window.take(u64::MAX) && window.take(u64::MAX - 127));
        assert!(!window.take(u64::MAX) && !window.take(u64::MAX - 128) && !window.take(1));
    }

    #[test]
    fn after_the_end_only_what_comes_later_counts() {
        let mut window = Window::default();
        assert!(window.take(10));
        window.close();
        assert!(!window.take(9) && !window.take(10) && window.take(11) && !window.take(8));
    }

    proptest! {
        #[test]
        fn none_is_taken_twice_and_none_of_the_last_128_is_lost(steps in prop::collection::vec(-140_i64..200, 1..200)) {
            let (mut window, mut come, mut highest) = (Window::default(), HashSet::new(), 1_000_u64);
            for step in steps {
                let sequence = highest.saturating_add_signed(step);
                let is_known = come.is_empty() || sequence + 128 > highest;
                let is_new = !come.contains(&sequence);
                let is_taken = window.take(sequence);
                prop_assert!(!is_taken || is_new, "{} was taken twice", sequence);
                prop_assert!(is_taken || !is_new || !is_known, "{} was lost", sequence);
                if is_taken {
                    come.insert(sequence);
                    highest = if come.len() == 1 { sequence } else { highest.max(sequence) };
                }
            }
        }
    }
}
