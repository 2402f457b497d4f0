//! Student's t distribution: how far the mean of a few values may lie from the truth by chance.

use std::f64::consts::FRAC_2_PI;

/// Halvings in the search of a quantile: to the precision of its number.
const HALVINGS: usize = 100;

/// No quantile that is asked for is larger: with one degree of freedom one value in three million is above it.
const LARGEST: f64 = 1e6;

/// Share of the distribution of so many degrees of freedom, one at least, that lies below `t`.
///
/// A finite sum of powers of a cosine, since degrees of freedom are whole (Abramowitz and Stegun, 26.7.3 and 26.7.4).
pub(super) fn below(t: f64, degrees: usize) -> f64 {
    let freedom = degrees as f64;
    let (sine, cosine) = (t / (freedom + t * t).sqrt(), (freedom / (freedom + t * t)).sqrt());
    let is_odd = degrees % 2 == 1;
    let (mut term, mut sum) = (if is_odd { cosine } else { 1.0 }, 0.0);
    for number in 1..=degrees / 2 {
        sum += term;
        let even = 2.0 * number as f64;
        term *= cosine * cosine * if is_odd { even / (even + 1.0) } else { (even - 1.0) / even };
    }
    let around_zero = if is_odd { FRAC_2_PI * ((t / freedom.sqrt()).atan() + sine * sum) } else { sine * sum };
    f64::midpoint(1.0, around_zero).clamp(0.0, 1.0)
}

/// The value below which `share` of the distribution of so many degrees of freedom lies; `share` at least a half.
pub(super) fn quantile(share: f64, degrees: usize) -> f64 {
    let (mut low, mut high) = (0.0, LARGEST);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if below(middle, degrees) < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source: any table.
    const TABLE: [(usize, f64, f64); 9] = [
        (1, 6.314, 12.706),
        (2, 2.920, 4.303),
        (3, 2.353, 3.182),
        (4, 2.132, 2.776),
        (5, 2.015, 2.571),
        (10, 1.812, 2.228),
        (29, 1.699, 2.045),
        (30, 1.697, 2.042),
        (999, 1.646, 1.962),
    ];

    #[test]
    fn quantiles_are_those_of_tables() {
        for (degrees, at_95, at_975) in TABLE {
            for (share, known) in [(0.95, at_95), (0.975, at_975)] {
                let found = quantile(share, degrees);
                assert!((found - known).abs() < 6e-4, "{share} of {degrees} degrees: {found}, not {known}");
            }
        }
    }

    #[test]
    fn it_is_symmetric_and_ends_at_one() {
        for degrees in [1, 2, 5, 40] {
            for t in [0.0, 0.3, 2.0, 50.0] {
                let both = below(t, degrees) + below(-t, degrees);
                assert!((both - 1.0).abs() < 1e-12, "{t} with {degrees}: {both}");
            }
            assert!(below(1e9, degrees) > 1.0 - 1e-9);
        }
    }
}
