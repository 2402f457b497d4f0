//! Everything that is wrong with a file, each with its place in it, so that it is said at once.
//!
//! What a newcomer gets wrong: a check that is written `value <= 0.0` lets NaN pass. [`Problems::within`] asks whether a
//! value lies inside its limits, and NaN lies in none.

use std::fmt::{Display, Write as _};
use std::ops::RangeInclusive;

/// What has been found so far, and where the search is.
#[derive(Debug, Default)]
pub struct Problems {
    place: String,
    found: Vec<String>,
}

impl Problems {
    /// Looks at what stands under a key, such as `requests` or `classes[0]`.
    pub fn inside(&mut self, key: impl Display, look: impl FnOnce(&mut Self)) {
        let outer = self.place.len();
        let _ = write!(self.place, "{key}."); // Writing to a string does not fail.
        look(self);
        self.place.truncate(outer);
    }

    /// Looks at each element of a list under a key.
    pub fn each<T>(&mut self, key: &str, elements: &[T], look: impl Fn(&T, &mut Self)) {
        for (number, element) in elements.iter().enumerate() {
            self.inside(format_args!("{key}[{number}]"), |problems| look(element, problems));
        }
    }

    /// The value under a key has to be inside its limits, which NaN never is.
    pub fn within(&mut self, key: &str, value: f64, limits: RangeInclusive<f64>) {
        if !limits.contains(&value) {
            let [least, most, value] = [*limits.start(), *limits.end(), value].map(number);
            self.add(key, format_args!("must be {least} to {most}, not {value}"));
        }
    }

    /// Adds what is wrong with a key of the present place.
    pub fn add(&mut self, key: impl Display, what: impl Display) {
        self.found.push(format!("{}{key}: {what}", self.place));
    }

    /// Adds problems that another has found here, each beginning with its key.
    pub fn extend(&mut self, found: Vec<String>) {
        self.found.extend(found.into_iter().map(|problem| format!("{}{problem}", self.place)));
    }

    /// Whether nothing is wrong so far.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// All that was found.
    pub fn into_vec(self) -> Vec<String> {
        self.found
    }
}

/// A number as people write it: 0.001 and 604800, but 1e300 without its zeros.
fn number(value: f64) -> String {
    let plain = value == 0.0 || (1e-6..1e15).contains(&value.abs()) || !value.is_finite();
    if plain { value.to_string() } else { format!("{value:e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_begins_with_its_place() {
        let mut problems = Problems::default();
        problems.inside("requests", |problems| {
            problems.each("classes", &[1.0, 100.0], |value, problems| problems.within("sigma", *value, 0.0..=5.0));
            problems.add("streaming", "is missing");
        });
        problems.within("horizon", 1e300, 0.001..=604_800.0);
        problems.inside("fleet[0]", |problems| problems.extend(vec!["count: must be at least 1".to_owned()]));
        let expected = [
            "requests.classes[1].sigma: must be 0 to 5, not 100",
            "requests.streaming: is missing",
            "horizon: must be 0.001 to 604800, not 1e300",
            "fleet[0].count: must be at least 1",
        ];
        assert_eq!(problems.into_vec(), expected);
    }

    #[test]
    fn what_is_no_finite_number_is_inside_no_limits() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut problems = Problems::default();
            problems.within("x", value, 0.0..=f64::MAX);
            assert!(!problems.is_empty(), "{value}");
        }
    }
}
