//! How much a scenario or an argument may ask for: what one process can hold, and loops that end.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Times of a run, seconds: a millisecond to a week.
pub const TIME: RangeInclusive<f64> = 0.001..=604_800.0;
/// Tokens of a text, or seconds of a pause.
pub const AMOUNT: RangeInclusive<f64> = 0.0..=10_000_000.0;
/// The same where zero makes no sense.
pub const POSITIVE_AMOUNT: RangeInclusive<f64> = 0.001..=10_000_000.0;
/// Parts relative to other parts: shares, weights, ratios.
pub const SHARE: RangeInclusive<f64> = 1e-6..=1e6;
/// Arrivals a second.
pub const RATE: RangeInclusive<f64> = 1e-6..=1e6;
/// Things to choose from.
pub const POOL: RangeInclusive<f64> = 1.0..=10_000_000.0;
/// Adapters, whose names stand on the page of every server.
pub const ADAPTERS: RangeInclusive<f64> = 1.0..=10_000.0;
/// Exponent of a popularity.
pub const ZIPF: RangeInclusive<f64> = 0.0..=10.0;
/// Requests of a run, on the average.
pub const REQUESTS: RangeInclusive<f64> = 1.0..=20_000_000.0;
/// Tokens of all prompts of a run, on the average: 4 bytes each.
pub const TOKENS: RangeInclusive<f64> = 0.0..=2e9;
/// Time between two reads of a page, seconds, where there is one.
pub const SCRAPE: RangeInclusive<f64> = 0.001..=3_600.0;
/// Endpoints of a fleet.
pub const MOST_ENDPOINTS: usize = 100_000;
/// Endpoints times gateways, each of which has a view of all.
pub const MOST_VIEWS: usize = 1_000_000;

/// What a list has more than once.
pub fn twice<T: PartialEq>(list: &[T]) -> Option<&T> {
    list.iter().enumerate().find(|(place, one)| list[..*place].contains(one)).map(|(_, one)| one)
}

/// A parser of an argument that has limits.
pub fn argument<T: FromStr<Err: Display> + PartialOrd + Display + Clone>(
    limits: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let value = text.parse::<T>().map_err(|error| error.to_string())?;
        let (least, most) = (limits.start(), limits.end());
        if limits.contains(&value) { Ok(value) } else { Err(format!("must be {least} to {most}")) }
    }
}

/// A parser of a name in a list with commas.
pub fn name(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("a name is empty; is there a comma too many?".to_owned()) } else { Ok(text.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_outside_its_limits_is_refused_and_so_is_no_number() {
        let scale = argument(0.01..=1_000.0);
        assert_eq!(scale("4"), Ok(4.0));
        for text in ["0", "-1", "1e300", "1e-300", "nan", "inf", "four", ""] {
            assert!(scale(text).is_err(), "{text}");
        }
        let count = argument(1..=100_u64);
        assert_eq!(count("100"), Ok(100));
        for text in ["0", "101", "-1", "18446744073709551616"] {
            assert!(count(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_a_list_has_twice_is_found() {
        assert_eq!(twice(&["ring", "random", "ring"]), Some(&"ring"));
        assert_eq!(twice(&["ring", "random"]), None);
    }

    #[test]
    fn an_empty_name_is_refused() {
        assert_eq!(name("B3"), Ok("B3".to_owned()));
        assert!(name("").is_err_and(|said| said.contains("comma")));
    }
}
