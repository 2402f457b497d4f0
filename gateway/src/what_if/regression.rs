//! Least squares with coefficients that are not negative: times and costs are none.
//!
//! Samples far off the first fit (a server that was starting, an adapter that was loaded) are left out of the second.

/// Standard deviations beyond which a sample is left out.
const FAR: f64 = 4.0;

/// Fits `y` as the sum of `x[i]` times the coefficients. Without samples all are 0.
pub(super) fn fit<const N: usize>(samples: &[([f64; N], f64)]) -> [f64; N] {
    let all: Vec<_> = samples.iter().collect();
    let first = fit_once(&all);
    let squares: f64 = samples.iter().map(|sample| residual(&first, sample).powi(2)).sum();
    let far = FAR * (squares / samples.len().max(1) as f64).sqrt();
    let near: Vec<_> = samples.iter().filter(|sample| residual(&first, sample).abs() <= far).collect();
    if near.len() == all.len() { first } else { fit_once(&near) }
}

fn residual<const N: usize>(coefficients: &[f64; N], (x, y): &([f64; N], f64)) -> f64 {
    y - x.iter().zip(coefficients).map(|(x, coefficient)| x * coefficient).sum::<f64>()
}

/// Leaves out the most negative coefficient until none is.
fn fit_once<const N: usize>(samples: &[&([f64; N], f64)]) -> [f64; N] {
    let mut is_used = [true; N];
    loop {
        let coefficients = solve(samples, is_used);
        let least =
            (0..N).filter(|i| coefficients[*i] < 0.0).min_by(|a, b| coefficients[*a].total_cmp(&coefficients[*b]));
        match least {
            Some(least) => is_used[least] = false,
            None => return coefficients,
        }
    }
}

/// The normal equations of the coefficients in use, by elimination. One that the others say already becomes 0.
#[expect(clippy::needless_range_loop, reason = "rows and columns, as the method has them")]
fn solve<const N: usize>(samples: &[&([f64; N], f64)], is_used: [bool; N]) -> [f64; N] {
    let mut left = [[0.0; N]; N];
    let mut right = [0.0; N];
    for (x, y) in samples {
        for i in (0..N).filter(|i| is_used[*i]) {
            right[i] += x[i] * y;
            for j in (0..N).filter(|j| is_used[*j]) {
                left[i][j] += x[i] * x[j];
            }
        }
    }
    let scale: [f64; N] = std::array::from_fn(|i| left[i][i]);
    for i in 0..N {
        if left[i][i] <= scale[i] * 1e-9 || left[i][i] <= 0.0 {
            for j in 0..N {
                (left[i][j], left[j][i]) = (0.0, 0.0);
            }
            (left[i][i], right[i]) = (1.0, 0.0);
            continue;
        }
        for row in i + 1..N {
            let factor = left[row][i] / left[i][i];
            for column in i..N {
                left[row][column] -= factor * left[i][column];
            }
            right[row] -= factor * right[i];
        }
    }
    let mut coefficients = [0.0; N];
    for i in (0..N).rev() {
        let known: f64 = (i + 1..N).map(|j| left[i][j] * coefficients[j]).sum();
        coefficients[i] = (right[i] - known) / left[i][i];
    }
    coefficients
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: &[f64], expected: &[f64]) {
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
        }
    }

    #[test]
    fn a_plane_is_found_also_with_a_sample_far_off() {
        let mut samples: Vec<([f64; 3], f64)> = (0..200)
            .map(|i| {
                let (u, n) = (f64::from(i * 37 % 101), f64::from(i % 7));
                ([1.0, u, n], 0.5 + 0.01 * u + 0.2 * n)
            })
            .collect();
        close(&fit(&samples), &[0.5, 0.01, 0.2]);
        samples.push(([1.0, 50.0, 3.0], 1_000.0));
        close(&fit(&samples), &[0.5, 0.01, 0.2]);
    }

    #[test]
    fn what_cannot_be_told_is_zero_and_nothing_is_negative() {
        close(&fit::<2>(&[]), &[0.0, 0.0]);
        close(&fit(&[([1.0, 0.0], 3.0)]), &[3.0, 0.0]);
        close(&fit(&[([1.0, 2.0], 3.0), ([1.0, 2.0], 3.0)]), &[3.0, 0.0]);
        let falls: Vec<_> = (0..10).map(|i| ([1.0, f64::from(i)], 10.0 - f64::from(i))).collect();
        let [fixed, slope] = fit(&falls);
        assert!(fixed > 0.0 && slope.abs() < 1e-12, "{fixed} {slope}");
    }

    proptest::proptest! {
        #[test]
        fn any_samples_give_numbers(samples in proptest::collection::vec((proptest::array::uniform3(0.0..1e9_f64), 0.0..1e9_f64), 0..30)) {
            for coefficient in fit(&samples) {
                proptest::prop_assert!(coefficient.is_finite() && coefficient >= 0.0);
            }
        }
    }
}
