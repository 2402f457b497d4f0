//! Time as an argument: nanoseconds since an origin the caller chose.
//!
//! The picker never reads a clock. Two `Time`s compare only when they have the same origin, so one process uses one origin.

use std::ops::Add;
use std::time::Duration;

/// Nanoseconds since an origin the caller chose; monotonic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug, Hash)]
pub struct Time(u64);

impl Time {
    /// The given number of nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time passed since `earlier`; zero when `earlier` is the later one.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Seconds passed since `earlier`; zero when `earlier` is the later one.
    pub fn seconds_since(self, earlier: Self) -> f64 {
        self.0.saturating_sub(earlier.0) as f64 * 1e-9
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    /// Saturates at the end of the range, 584 years after the origin.
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_runs_backwards() {
        let early = Time::from_nanos(5);
        let late = early + Duration::from_nanos(7);
        assert_eq!(late.since(early), Duration::from_nanos(7));
        assert_eq!(early.since(late), Duration::ZERO, "a late event must not yield a huge age");
    }
}
