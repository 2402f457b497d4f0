//! What remains of an answer that misses something: the rule by which endpoints come and go.
//!
//! Name servers behind one address disagree for a moment, and lists of a rolling restart are written in steps. So an
//! endpoint comes with the first answer that has it, and goes with the second in a row that has not.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::{Answer, Found};

/// The endpoints that hold after a number of answers. Looks that failed are not told: they say nothing.
#[derive(Clone, Debug, Default)]
pub struct Overlap {
    known: BTreeMap<SocketAddr, (Found, Missed)>,
}

/// Whether the latest whole answer was without the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missed {
    No,
    Once,
}

impl Overlap {
    /// Takes an answer.
    pub fn take(&mut self, answer: &Answer) {
        if answer.is_whole {
            self.known.retain(|socket, (_, missed)| match missed {
                _ if answer.endpoints.contains_key(socket) => true,
                Missed::Once => false,
                Missed::No => {
                    *missed = Missed::Once;
                    true
                }
            });
        }
        for (socket, found) in &answer.endpoints {
            self.known.insert(*socket, (found.clone(), Missed::No));
        }
    }

    /// The endpoints, in order of their addresses: name servers rotate theirs.
    pub fn endpoints(&self) -> impl Iterator<Item = (SocketAddr, &Found)> {
        self.known.iter().map(|(socket, (found, _))| (*socket, found))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn answer(ports: &[u16], is_whole: bool) -> Answer {
        let found = Found { weight: 1.0, tls_name: None };
        let endpoint = |port: &u16| (SocketAddr::from(([10, 0, 0, 1], *port)), found.clone());
        Answer { endpoints: ports.iter().map(endpoint).collect(), is_whole }
    }

    /// What holds after answers, each with whether it was whole.
    fn after(answers: &[(&[u16], bool)]) -> Vec<u16> {
        let mut overlap = Overlap::default();
        for (ports, is_whole) in answers {
            overlap.take(&answer(ports, *is_whole));
        }
        overlap.endpoints().map(|(socket, _)| socket.port()).collect()
    }

    #[test]
    fn an_endpoint_goes_with_the_second_answer_in_a_row_without_it() {
        assert_eq!(after(&[(&[1, 2], true), (&[2], true)]), [1, 2], "one answer is no proof");
        assert_eq!(after(&[(&[1, 2], true), (&[2], true), (&[2], true)]), [2]);
        assert_eq!(after(&[(&[1, 2], true), (&[3, 4], true)]), [1, 2, 3, 4], "old and new overlap");
        assert_eq!(after(&[(&[1, 2], true), (&[3, 4], true), (&[3, 4], true)]), [3, 4]);
    }

    #[test]
    fn an_answer_that_flaps_drops_nothing() {
        let flapping: Vec<(&[u16], bool)> = (0..9).map(|turn| ([&[1_u16][..], &[2]][turn % 2], true)).collect();
        assert_eq!(after(&flapping), [1, 2]);
    }

    #[test]
    fn a_part_of_an_answer_adds_and_never_removes() {
        assert_eq!(after(&[(&[1, 2], true), (&[3], false), (&[3], false), (&[3], false)]), [1, 2, 3]);
        assert_eq!(after(&[(&[1, 2], true), (&[2], true), (&[2], false), (&[1, 2], true), (&[2], true)]), [1, 2]);
    }

    #[test]
    fn the_latest_answer_has_the_weight() {
        let mut overlap = Overlap::default();
        let mut heavy = answer(&[1], true);
        overlap.take(&heavy);
        heavy.endpoints.values_mut().for_each(|found| found.weight = 0.5);
        overlap.take(&heavy);
        assert_eq!(overlap.endpoints().map(|(_, found)| found.weight).collect::<Vec<_>>(), [0.5]);
    }

    proptest! {
        #[test]
        fn what_an_answer_has_is_there_and_what_two_have_not_is_gone(
            answers in prop::collection::vec(prop::collection::btree_set(1..6_u16, 1..6), 2..12)
        ) {
            let lists: Vec<Vec<u16>> = answers.iter().map(|ports| ports.iter().copied().collect()).collect();
            let held = after(&lists.iter().map(|ports| (&ports[..], true)).collect::<Vec<_>>());
            let [.., before, last] = &answers[..] else { unreachable!() };
            let expected: Vec<u16> = before.union(last).copied().collect();
            prop_assert_eq!(held, expected);
        }
    }
}
