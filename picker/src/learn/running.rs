//! A mean over the recent past.

/// Weight that a value keeps with each later one: about 50 values count.
const FORGETTING: f64 = 0.98;

/// Exponentially weighted mean. Starts at a prior that weighs like one value.
#[derive(Clone, Copy, Debug)]
pub struct RunningMean {
    mean: f64,
    weight: f64,
}

impl RunningMean {
    /// Starts from `prior`.
    pub fn new(prior: f64) -> Self {
        Self { mean: prior, weight: 1.0 }
    }

    /// Takes a value. Ignores one that is negative or not finite.
    pub fn observe(&mut self, value: f64) {
        if value.is_finite() && value >= 0.0 {
            self.weight = self.weight * FORGETTING + 1.0;
            self.mean += (value - self.mean) / self.weight;
        }
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        self.mean
    }
}
