//! Takes one endpoint from a ranking.

/// How the endpoint is taken from the ranking.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Select {
    /// The best score.
    #[default]
    Max,
    /// The lowest cost; costs within the band of it count as equal.
    Min {
        /// Relative width, for example 0.03.
        relative: f64,
        /// Absolute width, seconds.
        seconds: f64,
    },
    /// At random, in proportion to score and weight.
    WeightedRandom,
    /// The better of two taken at random.
    PowerOfTwo,
    /// One after the other.
    Rotate,
    /// The first with room on the walk of the ring.
    Walk,
}
