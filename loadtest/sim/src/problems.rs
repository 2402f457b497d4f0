//! What is wrong with a file, with settings or with a fault: all of it, one line for each, which begins with its place.
//!
//! What a newcomer gets wrong: a value that is no number is outside of every range, so nothing has to look for it.

use std::fmt::{Display, Write as _};
use std::ops::RangeInclusive;

/// A day, in ms: the longest time that a part of a step may take.
const DAY_MS: f64 = 86_400_000.0;
/// A year, in ms: the longest time of a fault.
const YEAR_MS: f64 = 365.0 * DAY_MS;

/// The lines found so far, and where the search is.
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

    /// Adds what is wrong with a key of the present place.
    pub fn add(&mut self, key: impl Display, what: impl Display) {
        self.found.push(format!("{}{key}: {what}", self.place));
    }

    /// Adds lines that another has found here.
    pub fn extend(&mut self, lines: Vec<String>) {
        self.found.extend(lines.into_iter().map(|line| format!("{}{line}", self.place)));
    }

    /// Adds a line unless something is as it has to be.
    pub(crate) fn unless(&mut self, right: bool, line: impl Display) {
        if !right {
            self.found.push(format!("{}{line}", self.place));
        }
    }

    /// Adds a line for a value outside of its range; one that is not given is right.
    pub fn range(&mut self, key: &str, value: impl Into<Option<f64>>, range: RangeInclusive<f64>) {
        let right = value.into().is_none_or(|value| range.contains(&value));
        self.unless(right, format!("{key}: must be {} to {}", written(*range.start()), written(*range.end())));
    }

    /// Adds a line for a time of more than a day, or of less than nothing.
    pub(crate) fn up_to_a_day(&mut self, key: &str, ms: impl Into<Option<f64>>) {
        let right = ms.into().is_none_or(|ms| (0.0..=DAY_MS).contains(&ms));
        self.unless(right, format!("{key}: must be 0 or more, up to a day"));
    }

    /// Adds a line for a time of more than a year.
    pub(crate) fn up_to_a_year(&mut self, key: &str, ms: Option<u64>) {
        self.unless(ms.is_none_or(|ms| ms as f64 <= YEAR_MS), format!("{key}: must be up to a year"));
    }

    /// Whether nothing is wrong so far.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// All lines.
    pub fn lines(self) -> Vec<String> {
        self.found
    }
}

/// A bound with its thousands set apart.
fn written(bound: f64) -> String {
    let text = bound.to_string();
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (place, digit) in whole.char_indices() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_or_outside_is_said_with_the_range() {
        for (value, right) in [(0.001, true), (10_000.0, true), (0.0, false), (f64::NAN, false), (f64::INFINITY, false)]
        {
            let mut found = Problems::default();
            found.range("time_scale", value, 0.001..=10_000.0);
            let expected: &[&str] = if right { &[] } else { &["time_scale: must be 0.001 to 10,000"] };
            assert_eq!(found.lines(), expected, "{value}");
        }
    }

    #[test]
    fn a_line_begins_with_its_place() {
        let mut found = Problems::default();
        found.inside("requests", |found| {
            found.each("classes", &[1.0, 100.0], |value, found| found.range("sigma", *value, 0.0..=5.0));
            found.add("streaming", "is missing");
        });
        found.inside("fleet[0]", |found| found.extend(vec!["count: is 0".to_owned()]));
        let lines =
            ["requests.classes[1].sigma: must be 0 to 5", "requests.streaming: is missing", "fleet[0].count: is 0"];
        assert_eq!(found.lines(), lines);
    }

    #[test]
    fn bounds_are_written_with_their_thousands_apart() {
        let written: Vec<_> = [0.0, 0.001, 100.0, 1_000.0, 65_535.0, 1.6e9].map(written).into();
        assert_eq!(written, ["0", "0.001", "100", "1,000", "65,535", "1,600,000,000"]);
    }
}
