//! Seeded draws from the distributions that published traffic follows.
//!
//! One generator a purpose: a change to how lengths are drawn must not move the arrivals of the same seed.

use std::f64::consts::TAU;

/// A seeded source of numbers.
#[derive(Clone, Debug)]
pub struct Random(fastrand::Rng);

impl Random {
    /// A source that depends on the seed and on what it is for.
    pub fn new(seed: u64, purpose: &str) -> Self {
        let folded = purpose.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3) // FNV-1a
        });
        Self(fastrand::Rng::with_seed(seed ^ folded))
    }

    /// Random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        self.0.f64()
    }

    /// Uniform among `0..n`; 0 for none.
    pub fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { self.0.usize(..n) }
    }

    /// Exponential.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -(1.0 - self.unit()).ln() * mean
    }

    /// Standard normal, by Box and Muller.
    pub fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.unit()).ln()).sqrt() * (TAU * self.unit()).cos()
    }

    /// Gamma of the given shape and mean, by Marsaglia and Tsang (2000).
    pub fn gamma(&mut self, shape: f64, mean: f64) -> f64 {
        // Below 1 the method draws at shape + 1 and shrinks.
        let boost = if shape < 1.0 { self.unit().max(f64::MIN_POSITIVE).powf(1.0 / shape) } else { 1.0 };
        let d = if shape < 1.0 { shape + 1.0 } else { shape } - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            if v > 0.0 && (1.0 - self.unit()).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v * boost * mean / shape;
            }
        }
    }

    /// Number of trials up to and with the first success, when their mean is `mean`.
    pub fn geometric(&mut self, mean: f64) -> u32 {
        if mean <= 1.0 {
            return 1;
        }
        let failure = 1.0 - 1.0 / mean;
        1 + ((1.0 - self.unit()).ln() / failure.ln()) as u32
    }
}

/// Popularity of `n` things where the k-th is asked for in proportion to `1 / k^s`; `s` 0 is uniform.
#[derive(Clone, Debug)]
pub struct Zipf {
    cumulative: Vec<f64>,
}

impl Zipf {
    /// Over `n` things, at least one.
    pub fn new(n: usize, s: f64) -> Self {
        let mut total = 0.0;
        let cumulative = (1..=n.max(1))
            .map(|k| {
                total += (k as f64).powf(-s);
                total
            })
            .collect();
        Self { cumulative }
    }

    /// One of `0..n`.
    pub fn draw(&self, random: &mut Random) -> usize {
        let total = self.cumulative.last().copied().unwrap_or(1.0);
        let place = random.unit() * total;
        self.cumulative.partition_point(|&sum| sum <= place).min(self.cumulative.len() - 1)
    }

    /// So many different ones of `0..n`, in the order drawn; all of them, if there are not so many.
    pub fn distinct(&self, count: usize, random: &mut Random) -> Vec<usize> {
        /// Draws for one place that may come to nothing. With a steep law nearly all would.
        const DRAWS: usize = 100;
        let mut chosen = Vec::with_capacity(count);
        while chosen.len() < count.min(self.cumulative.len()) {
            let new = (0..DRAWS).map(|_| self.draw(random)).find(|one| !chosen.contains(one));
            // After that, the most popular of the rest, which is by far the likeliest.
            chosen.extend(new.or_else(|| (0..self.cumulative.len()).find(|one| !chosen.contains(one))));
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(mut draw: impl FnMut() -> f64) -> (f64, f64) {
        let values: Vec<f64> = (0..200_000).map(|_| draw()).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
        (mean, variance.sqrt() / mean)
    }

    #[test]
    fn gamma_gaps_have_the_mean_and_variation_asked_for() {
        for cv in [0.5, 1.0, 3.0] {
            let mut random = Random::new(1, "gamma");
            let (mean, seen) = moments(|| random.gamma(1.0 / (cv * cv), 2.0));
            assert!((mean - 2.0).abs() < 0.04, "mean {mean} at variation {cv}");
            assert!((seen / cv - 1.0).abs() < 0.05, "variation {seen}, asked for {cv}");
        }
    }

    #[test]
    fn exponential_and_geometric_have_the_mean_asked_for() {
        let mut random = Random::new(2, "means");
        let (mean, cv) = moments(|| random.exponential(3.0));
        assert!((mean - 3.0).abs() < 0.05 && (cv - 1.0).abs() < 0.02, "{mean} {cv}");
        let (mean, _) = moments(|| f64::from(random.geometric(4.0)));
        assert!((mean - 4.0).abs() < 0.05, "{mean}");
    }

    #[test]
    fn zipf_follows_its_law() {
        let (zipf, mut random) = (Zipf::new(3, 1.0), Random::new(3, "zipf"));
        let mut counts = [0_u32; 3];
        (0..110_000).for_each(|_| counts[zipf.draw(&mut random)] += 1);
        for (k, count) in counts.into_iter().enumerate() {
            let expected = 60_000.0 / (k + 1) as f64;
            assert!((f64::from(count) / expected - 1.0).abs() < 0.03, "{k}: {count}, expected {expected}");
        }
    }

    #[test]
    fn different_ones_are_found_however_steep_the_law() {
        let mut random = Random::new(4, "distinct");
        for (n, s, count) in [(100, 10.0, 100), (1_000_000, 10.0, 100), (5, 0.0, 5), (3, 1.0, 7)] {
            let mut chosen = Zipf::new(n, s).distinct(count, &mut random);
            chosen.sort_unstable();
            chosen.dedup();
            assert_eq!(chosen.len(), count.min(n), "{count} of {n} at {s}");
        }
    }

    #[test]
    fn purposes_draw_apart() {
        assert_ne!(Random::new(1, "arrivals").bits(), Random::new(1, "lengths").bits());
        assert_eq!(Random::new(1, "arrivals").bits(), Random::new(1, "arrivals").bits());
    }
}
