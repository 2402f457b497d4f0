//! Takes one endpoint from a ranking.
//!
//! Ties are the normal case in an idle pool. They go to the endpoint with the fewest requests in flight, and among those in
//! rotation, so that equal endpoints share the load like round robin.

use crate::request::Turn;
use crate::view::Candidates;

/// Scores closer than this are equal: sums of the same terms in another order differ by as much.
const EQUAL: f64 = 1e-9;

/// How the endpoint is taken from the ranking.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Select {
    /// The best score.
    #[default]
    Max,
    /// The lowest cost; costs within the band of it count as equal. Only for costs.
    Min {
        /// Relative width of the band, for example 0.03.
        relative: f64,
        /// Absolute width of the band, in the unit of the cost; the wider of the two counts.
        absolute: f64,
    },
    /// At random, in proportion to score and weight; by weight alone when nothing is scored.
    WeightedRandom,
    /// The better of two taken at random.
    PowerOfTwo,
    /// One after the other.
    Rotate(Shares),
    /// The first with room on the walk of the ring.
    Walk,
}

/// How often each comes up in a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shares {
    /// All equally often.
    Equal,
    /// In proportion to their weights.
    Weight,
    /// In proportion to their learned speed: how many prefills of the pool's mean request they do in a second. Weights are
    /// not looked at.
    Speed,
}

/// Collects into `tied` the candidates whose score is the highest.
pub(crate) fn best(scores: &[f64], tied: &mut Vec<u32>) {
    let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    collect(scores, tied, |score| score >= best - EQUAL);
}

/// Collects into `tied` the candidates whose cost is the lowest, or within the band of it. All, when every cost is infinite.
pub(crate) fn cheapest(costs: &[f64], relative: f64, absolute: f64, tied: &mut Vec<u32>) {
    let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let bar = (least * (1.0 + relative)).max(least + absolute);
    collect(costs, tied, |cost| cost <= bar);
}

fn collect(values: &[f64], tied: &mut Vec<u32>, is_tied: impl Fn(f64) -> bool) {
    tied.clear();
    tied.extend(values.iter().enumerate().filter(|(_, value)| is_tied(**value)).map(|(i, _)| i as u32));
}

/// The tied candidate with the fewest requests in flight for its weight; among several, the one whose turn it is.
/// `busyness` is memory to use.
pub(crate) fn least_busy(
    tied: &mut Vec<u32>,
    busyness: &mut Vec<f64>,
    candidates: &Candidates<'_>,
    rotation: u64,
) -> usize {
    busyness.clear();
    busyness.extend(tied.iter().map(|i| candidates.busyness(*i as usize)));
    let least = busyness.iter().copied().fold(f64::INFINITY, f64::min);
    let mut each = busyness.iter();
    tied.retain(|_| each.next().is_some_and(|busy| *busy <= least + EQUAL));
    tied[(rotation % tied.len() as u64) as usize] as usize
}

/// Takes turns. Equal shares give plain round robin. Unequal ones are spread by the multiples of the golden ratio, which
/// fill an interval more evenly than any other sequence, whatever number of turns has passed.
pub(crate) fn rotate(candidates: &Candidates<'_>, shares: Shares, rotation: u64) -> usize {
    /// 2^64 over the golden ratio.
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    let share = |i: usize| match shares {
        Shares::Equal => 1.0,
        Shares::Weight => candidates.endpoint(i).weight,
        Shares::Speed => candidates.speed(i),
    };
    let first = share(0).to_bits();
    if (1..candidates.len()).all(|i| share(i).to_bits() == first) {
        return (rotation % candidates.len() as u64) as usize;
    }
    weighted(candidates.len(), share, unit(rotation.wrapping_mul(GOLDEN)))
}

/// A candidate at random, in proportion to its score times its weight.
pub(crate) fn weighted_random(scores: &[f64], candidates: &Candidates<'_>, turn: Turn) -> usize {
    let is_flat = scores.iter().all(|score| *score <= 0.0);
    let share = |i: usize| candidates.endpoint(i).weight * if is_flat { 1.0 } else { scores[i] };
    weighted(candidates.len(), share, unit(turn.random))
}

/// Two different candidates at random; the same one twice when there is no other.
pub(crate) fn two(len: usize, turn: Turn) -> (usize, usize) {
    let (high, low) = (turn.random >> 32, turn.random & u64::from(u32::MAX));
    let one = (high % len as u64) as usize;
    let other = (low % (len as u64 - 1).max(1)) as usize;
    (one, if len > 1 && other >= one { other + 1 } else { other })
}

/// The candidate at `place` in [0, 1) of the sum of all shares.
fn weighted(len: usize, share: impl Fn(usize) -> f64, place: f64) -> usize {
    let total: f64 = (0..len).map(&share).sum();
    let mut left = place * total;
    for i in 0..len {
        left -= share(i);
        if left < 0.0 {
            return i;
        }
    }
    len - 1
}

/// Random bits as a number in [0, 1).
pub(crate) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_band_is_the_wider_of_the_two() {
        let mut tied = Vec::new();
        cheapest(&[1.0, 1.029, 1.031, 9.0], 0.03, 0.003, &mut tied);
        assert_eq!(tied, [0, 1], "3 % of a second");
        cheapest(&[0.010, 0.0129, 0.0131], 0.03, 0.003, &mut tied);
        assert_eq!(tied, [0, 1], "3 ms of a hundredth");
        cheapest(&[f64::INFINITY, f64::INFINITY], 0.03, 0.003, &mut tied);
        assert_eq!(tied, [0, 1], "when none is acceptable, none is better either");
    }

    #[test]
    fn two_are_different_and_every_pair_comes_up() {
        let mut met = std::collections::BTreeSet::new();
        for i in 0..10_000_u64 {
            let (one, other) = two(3, Turn { random: i.wrapping_mul(0x9E37_79B9_7F4A_7C15), rotation: 0 });
            assert_ne!(one, other);
            met.insert((one, other));
        }
        assert_eq!(met.len(), 6, "ordered pairs of three: {met:?}");
        assert_eq!(two(1, Turn::default()), (0, 0));
    }

    #[test]
    fn shares_are_kept() {
        let mut counts = [0_u32; 3];
        for i in 0..1_000 {
            counts[weighted(3, |i| [1.0, 0.0, 3.0][i], f64::from(i) / 1_000.0)] += 1;
        }
        assert_eq!(counts, [250, 0, 750]);
    }
}
