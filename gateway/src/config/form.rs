//! How values are written: durations, sizes, addresses, and the words `off` and `auto`.
//!
//! Each form has one parser, used twice: by the shape check, which has positions and names the form in the schema under
//! `x-form`, and by serde, which builds the value. So what the check accepts can always be built.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Duration;

use super::url::EndpointUrl;

/// Longest duration. A year is beyond any use and far from where adding to a clock overflows.
const MAX_DURATION: Duration = Duration::from_secs(366 * 24 * 3600);

/// Largest size. Beyond any machine, and exact in every number format on the way.
const MAX_SIZE: u64 = 1 << 50;

/// Longest header name. Longer ones exist nowhere, and each is compared with every request's.
const MAX_HEADER: usize = 64;

/// Why a text is not of its form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(super) struct Refused {
    pub(super) message: Cow<'static, str>,
    pub(super) hint: Option<String>,
}

impl Refused {
    pub(super) fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self { message: message.into(), hint: None }
    }

    pub(super) fn meant(message: impl Into<Cow<'static, str>>, meant: impl std::fmt::Display) -> Self {
        Self { message: message.into(), hint: Some(format!("did you mean {meant}?")) }
    }
}

/// Checks a text against the form that the schema names.
pub(super) fn check(form: &str, text: &str) -> Result<(), Refused> {
    match form {
        "duration" => match parse_duration(text)? {
            Duration::ZERO => Err(Refused::new("must be longer than 0")),
            _ => Ok(()),
        },
        "duration or zero" => parse_duration(text).map(drop),
        "size" => parse_size(text).map(drop),
        "share" => parse_share(text).map(drop),
        "address" => parse_address(text).map(drop),
        "url" => text.parse::<EndpointUrl>().map(drop).map_err(|error| error.0),
        "dns name" => super::dns::check_name(text),
        "host and port" => super::peers::check_gateway(text),
        "header" => check_header(text),
        "path" => check_path(text),
        "sha256" => check_digest(text),
        other => unreachable!("the schema has no form {other}"),
    }
}

/// Returns how a form is called in a message, with an example.
pub(super) fn describe(form: &str) -> &'static str {
    match form {
        "duration" | "duration or zero" => "a duration such as 250ms, 30s or 1m",
        "size" => "a size such as 64MiB or a number of bytes",
        "share" => "a share such as 10%",
        "address" => "an IP address and port such as 0.0.0.0:8080",
        "url" => "a URL such as http://10.0.0.11:8000",
        "dns name" => "a name such as vllm.default.svc",
        "host and port" => "host and port such as 10.0.0.5:8766",
        "header" => "the name of a header",
        "path" => "a path such as /health",
        "sha256" => "64 hexadecimal digits",
        _ => "text",
    }
}

/// The refusal must not say more of the text: somebody may have written the key itself.
fn check_digest(text: &str) -> Result<(), Refused> {
    let is_digest = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_digest { Ok(()) } else { Err(Refused::new("is not a SHA-256 in hexadecimal")) }
}

/// Reads a number, fractions allowed, and one unit of `ms`, `s`, `m`, `h`.
pub(super) fn parse_duration(text: &str) -> Result<Duration, Refused> {
    let (digits, unit) = split_unit(text);
    let Some(amount) = decimal(digits) else {
        return Err(Refused::new("is not a duration such as 250ms, 30s or 1m"));
    };
    let seconds = match unit {
        "ms" => amount / 1e3,
        "s" => amount,
        "m" => amount * 60.0,
        "h" => amount * 3600.0,
        "" => return Err(Refused::meant("has no unit", format_args!("{digits}s"))),
        _ => return Err(Refused::new("has an unknown unit; ms, s, m and h are known")),
    };
    if seconds > MAX_DURATION.as_secs_f64() {
        return Err(Refused::new("is longer than a year"));
    }
    // Whole milliseconds keep what was written; binary fractions of a second would not.
    Ok(Duration::from_micros((seconds * 1e6).round() as u64))
}

/// Reads a whole number and a binary unit, or bytes without one.
pub(super) fn parse_size(text: &str) -> Result<u64, Refused> {
    let (digits, unit) = split_unit(text);
    let shift = match unit {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => {
            let binary = match unit.chars().next().map(|c| c.to_ascii_uppercase()) {
                Some(letter @ ('K' | 'M' | 'G' | 'T')) if unit.len() <= 3 => format!("{digits}{letter}iB"),
                _ => return Err(Refused::new("is not a size; KiB, MiB, GiB, or bytes without a unit, are known")),
            };
            return Err(Refused::meant("has an unknown unit", binary));
        }
    };
    let Ok(amount) = digits.parse::<u64>() else {
        return Err(Refused::new("is not a size such as 64MiB or a number of bytes"));
    };
    match amount.checked_mul(1 << shift) {
        Some(bytes) if bytes <= MAX_SIZE => Ok(bytes),
        _ => Err(Refused::new("is too large a size")),
    }
}

/// Reads a percentage, fractions allowed, from 0 to 100. The sign is required: `0.5` might mean a half.
pub(super) fn parse_share(text: &str) -> Result<f64, Refused> {
    let digits = text.strip_suffix('%');
    match decimal(digits.unwrap_or(text)) {
        None => Err(Refused::new("is not a share such as 10%")),
        Some(_) if digits.is_none() => Err(Refused::meant("has no percent sign", format_args!("{text}%"))),
        Some(percent) if percent > 100.0 => Err(Refused::new("is more than 100%")),
        Some(percent) => Ok(percent),
    }
}

pub(super) fn parse_address(text: &str) -> Result<SocketAddr, Refused> {
    text.parse().map_err(|_| {
        let message = "is not an IP address and port such as 0.0.0.0:8080";
        match text.strip_prefix(':').unwrap_or(text).parse::<u16>() {
            Ok(port) => Refused::meant(message, format_args!("0.0.0.0:{port}")),
            Err(_) => Refused::new(message),
        }
    })
}

fn check_header(text: &str) -> Result<(), Refused> {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if text.len() <= MAX_HEADER && !text.is_empty() && text.chars().all(token) {
        return Ok(());
    }
    Err(Refused::new(format!("is not the name of a header: up to {MAX_HEADER} letters, digits and -")))
}

fn check_path(text: &str) -> Result<(), Refused> {
    if !text.starts_with('/') {
        return Err(Refused::meant("is not a path", format_args!("/{text}")));
    }
    if text.chars().all(|c| c.is_ascii_graphic() && c != '#') {
        return Ok(());
    }
    Err(Refused::new("is not a path: only visible ASCII characters without # are allowed"))
}

/// Splits where the first letter stands.
fn split_unit(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len()))
}

/// Digits with at most one point. `f64::from_str` alone would take signs, exponents and names.
fn decimal(text: &str) -> Option<f64> {
    let plain = text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    if plain { text.parse().ok() } else { None }
}

pub(super) fn write_duration(duration: Duration) -> String {
    let millis = duration.as_micros() as f64 / 1e3;
    match duration.as_secs() {
        _ if duration.subsec_nanos() != 0 => format!("{millis}ms"),
        seconds if seconds > 0 && seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        seconds if seconds > 0 && seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    }
}

pub(super) fn write_share(percent: f64) -> String {
    format!("{percent}%")
}

pub(super) fn write_size(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.iter().find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift)) {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_number_and_a_unit() {
        for (text, millis) in [("250ms", 250), ("30s", 30_000), ("1.5s", 1_500), ("1m", 60_000), ("2h", 7_200_000)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "1 s", "-1s", "1e3s", "1d", "1m30s", ".5s", "1.2.3s", "9999999h", "inf", "1\u{b5}s"] {
            assert!(parse_duration(text).is_err(), "{text:?} must be refused");
        }
        let hint = parse_duration("30").expect_err("it has no unit").hint;
        assert_eq!(hint.as_deref(), Some("did you mean 30s?"));
    }

    #[test]
    fn a_size_is_binary_and_a_decimal_unit_is_asked_back() {
        for (text, bytes) in [("64MiB", 64 << 20), ("1GiB", 1 << 30), ("4096", 4096), ("10B", 10), ("0", 0)] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["64 MiB", "-1", "1.5MiB", "MiB", "1PiB", "99999999999999999999", "2000TiB"] {
            assert!(parse_size(text).is_err(), "{text:?} must be refused");
        }
        for (text, hint) in
            [("64MB", "did you mean 64MiB?"), ("4k", "did you mean 4KiB?"), ("1Gi", "did you mean 1GiB?")]
        {
            assert_eq!(parse_size(text).expect_err("not binary").hint.as_deref(), Some(hint), "{text}");
        }
    }

    #[test]
    fn a_share_is_a_percentage_with_its_sign() {
        for (text, percent) in [("10%", 10.0), ("0.5%", 0.5), ("0%", 0.0), ("100%", 100.0), ("33.3%", 33.3)] {
            assert_eq!(parse_share(text), Ok(percent), "{text}");
            assert_eq!(write_share(percent), text);
        }
        for text in ["", "%", "-1%", "101%", "1e1%", "10 %", "10%%", "ten%", ".5%", "inf%"] {
            assert!(parse_share(text).is_err(), "{text:?} must be refused");
        }
        let hint = parse_share("0.5").expect_err("a half or half of a percent").hint;
        assert_eq!(hint.as_deref(), Some("did you mean 0.5%?"));
    }

    #[test]
    fn what_is_written_reads_back_equal() {
        for millis in [0, 1, 250, 1_000, 1_500, 60_000, 90_000, 3_600_000] {
            let duration = Duration::from_millis(millis);
            assert_eq!(parse_duration(&write_duration(duration)), Ok(duration), "{millis} ms");
        }
        for bytes in [0, 1, 1000, 1024, 1 << 20, (1 << 30) + 1, 1 << 40] {
            assert_eq!(parse_size(&write_size(bytes)), Ok(bytes), "{bytes} bytes");
        }
    }

    #[test]
    fn a_port_alone_is_no_address_but_shows_what_was_meant() {
        let hint = parse_address(":8080").expect_err("it has no address").hint;
        assert_eq!(hint.as_deref(), Some("did you mean 0.0.0.0:8080?"));
        assert!(parse_address("localhost:8080").is_err(), "names would need a resolver at start");
    }
}
