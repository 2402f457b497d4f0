//! Reads a metrics page in the text format of Prometheus or in OpenMetrics, line by line.
//!
//! A page is taken as it comes: one bad line costs that line, `# HELP` and `# TYPE` are not needed, and a value that is
//! not a finite number is no sample. Nothing of a line is looked at before someone asks for it: most are histogram
//! buckets that nobody wants.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter, memchr2};
use thiserror::Error;

/// Largest page that is read. One engine of vLLM gives about 50 kB, so this is a server with some eighty of them.
pub const MAX_BYTES: usize = 4 << 20;

/// Most lines a page may have. Lines of real pages average 80 bytes, so [`MAX_BYTES`] is met first unless someone means harm.
const MAX_LINES: usize = 1 << 16;

/// Why a body is no metrics page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PageError {
    /// More than [`MAX_BYTES`].
    #[error("metrics page is larger than {MAX_BYTES} bytes")]
    TooLarge,
    /// More lines than any server has reason to send.
    #[error("metrics page has more than {MAX_LINES} lines")]
    TooManyLines,
    /// A JSON document, such as an error or the statistics of another server's `/metrics`.
    #[error("metrics page is json")]
    Json,
    /// A web page.
    #[error("metrics page is html")]
    Html,
    /// Text without a single comment or sample.
    #[error("metrics page has no metrics")]
    NotMetrics,
}

/// A page that was found to be one.
#[derive(Clone, Debug)]
pub struct Page<'a> {
    text: Cow<'a, [u8]>,
}

/// Iterator over the samples of a page.
#[derive(Clone, Debug)]
pub struct Samples<'a> {
    rest: &'a [u8],
}

/// One line of a page: a name, labels perhaps, a value.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    name: &'a [u8],
    has_labels: bool,
    /// What follows the name: from the first label when there are labels, else from the value.
    rest: &'a [u8],
}

/// Iterator over the labels of a sample, up to the first that is broken: name and value, escapes not resolved.
#[derive(Clone, Debug)]
pub struct Labels<'a> {
    rest: &'a [u8],
}

/// Takes a body for a metrics page. An empty one is a page without samples: servers answer so while they start.
pub fn parse(body: &[u8]) -> Result<Page<'_>, PageError> {
    if body.len() > MAX_BYTES {
        return Err(PageError::TooLarge);
    }
    let page = match body.trim_ascii_start().first() {
        // Some builds of llama.cpp sent the whole page as one JSON string.
        Some(b'"') => {
            let text: String = serde_json::from_slice(body).map_err(|_| PageError::Json)?;
            Page { text: Cow::Owned(text.into_bytes()) }
        }
        _ => Page { text: Cow::Borrowed(body) },
    };
    match page.text.trim_ascii_start().first() {
        None => return Ok(page),
        Some(b'{' | b'[' | b'"') => return Err(PageError::Json),
        Some(b'<') => return Err(PageError::Html),
        Some(_) => {}
    }
    if memchr_iter(b'\n', &page.text).count() > MAX_LINES {
        return Err(PageError::TooManyLines);
    }
    let mut lines = Lines { rest: &page.text };
    if !lines.any(|line| line.starts_with(b"#") || is_sample(line)) {
        return Err(PageError::NotMetrics);
    }
    Ok(page)
}

fn is_sample(line: &[u8]) -> bool {
    Sample::of_line(line).is_some_and(|sample| sample.number().is_some())
}

impl Page<'_> {
    /// Returns the samples in the order of the page, those with a bad value or bad labels included.
    pub fn samples(&self) -> Samples<'_> {
        Samples { rest: &self.text }
    }
}

impl<'a> Iterator for Samples<'a> {
    type Item = Sample<'a>;

    fn next(&mut self) -> Option<Sample<'a>> {
        let mut lines = Lines { rest: self.rest };
        let sample = lines.find_map(Sample::of_line);
        self.rest = lines.rest;
        sample
    }
}

/// The lines of a page, without blanks at either end.
struct Lines<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = memchr(b'\n', self.rest).unwrap_or(self.rest.len());
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest.get(1..).unwrap_or_default();
        Some(line.trim_ascii())
    }
}

impl<'a> Sample<'a> {
    fn of_line(line: &'a [u8]) -> Option<Self> {
        if let Some(inside) = line.strip_prefix(b"{") {
            return Self::of_quoted(inside);
        }
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'.');
        if !line.first().is_some_and(|byte| is_name(byte) && !byte.is_ascii_digit()) {
            return None;
        }
        let end = line.iter().position(|byte| !is_name(byte))?;
        let (name, rest) = line.split_at(end);
        if !matches!(rest[0], b'{' | b' ' | b'\t') {
            return None;
        }
        let rest = rest.trim_ascii_start();
        Some(match rest.strip_prefix(b"{") {
            Some(inside) => Self { name, has_labels: true, rest: inside },
            None => Self { name, has_labels: false, rest },
        })
    }

    /// Prometheus 3 puts a name that has unusual characters in quotes, as the first thing in the braces.
    fn of_quoted(inside: &'a [u8]) -> Option<Self> {
        let quoted = inside.trim_ascii_start().strip_prefix(b"\"")?;
        let (name, rest) = quoted.split_at(string_end(quoted)?);
        let rest = rest[1..].trim_ascii_start();
        let rest = rest.strip_prefix(b",").unwrap_or(rest);
        (!name.is_empty()).then_some(Self { name, has_labels: true, rest })
    }

    /// Returns the name as the page has it.
    pub fn name(&self) -> &'a [u8] {
        self.name
    }

    /// Returns the value. `None` when it is broken, infinite or `NaN`, which engines send for "no data".
    pub fn value(&self) -> Option<f64> {
        self.number().filter(|value| value.is_finite())
    }

    fn number(&self) -> Option<f64> {
        let (_, rest) = self.split_labels()?;
        let rest = rest.trim_ascii_start();
        // A timestamp or an exemplar may follow.
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        std::str::from_utf8(&rest[..end]).ok()?.parse().ok()
    }

    /// Returns the labels in the order of the line.
    pub fn labels(&self) -> Labels<'a> {
        Labels { rest: self.split_labels().map_or(&[], |(labels, _)| labels) }
    }

    /// Returns the value of a label with its escapes resolved. `None` when it is absent or the labels are broken.
    pub fn label(&self, name: &str) -> Option<Cow<'a, str>> {
        self.labels().find(|(known, _)| *known == name.as_bytes()).map(|(_, value)| unescape(value))
    }

    /// Returns what is between the braces, and what comes after them.
    fn split_labels(&self) -> Option<(&'a [u8], &'a [u8])> {
        if !self.has_labels {
            return Some((&[], self.rest));
        }
        let mut at = 0;
        loop {
            at += memchr2(b'"', b'}', &self.rest[at..])?;
            if self.rest[at] == b'}' {
                return Some((&self.rest[..at], &self.rest[at + 1..]));
            }
            at += 1;
            at += string_end(&self.rest[at..])? + 1;
        }
    }
}

impl<'a> Iterator for Labels<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, after) = self.rest.split_at(memchr(b'=', self.rest)?);
        let value = after[1..].trim_ascii_start().strip_prefix(b"\"")?;
        let (value, rest) = value.split_at(string_end(value)?);
        let rest = rest[1..].trim_ascii_start();
        self.rest = rest.strip_prefix(b",").unwrap_or(rest);
        Some((name.trim_ascii(), value))
    }
}

/// Returns where the closing quote of a quoted text is, given what follows the opening one.
fn string_end(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

fn unescape(text: &[u8]) -> Cow<'_, str> {
    if memchr(b'\\', text).is_none() {
        return String::from_utf8_lossy(text);
    }
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let (byte, after) = match (byte, after) {
            (b'\\', [b'n', after @ ..]) => (b'\n', after),
            (b'\\', [escaped @ (b'\\' | b'"'), after @ ..]) => (*escaped, after),
            _ => (byte, after),
        };
        plain.push(byte);
        rest = after;
    }
    Cow::Owned(String::from_utf8_lossy(&plain).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(line: &str) -> (String, Option<f64>) {
        let page = parse(line.as_bytes()).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        let sample = page.samples().next().unwrap_or_else(|| panic!("{line:?} has no sample"));
        (String::from_utf8_lossy(sample.name()).into_owned(), sample.value())
    }

    #[test]
    fn every_form_of_a_value_is_read() {
        for (line, expected) in [
            ("a 3", Some(3.0)),
            ("a 3.0\r", Some(3.0)),
            ("  a\t-2.5e+03  ", Some(-2500.0)),
            ("a 1.7e+09 1700000000123", Some(1.7e9)),
            ("a{} 1", Some(1.0)),
            ("a {b=\"c\"} 1", Some(1.0)),
            ("a{b=\"c\",} 1 # {trace_id=\"x\"} 0.5 1.7e9", Some(1.0)),
            ("a{b=\"}\\\"} 7\"} 1", Some(1.0)),
            ("# x\na NaN", None),
            ("# x\na nan", None),
            ("# x\na +Inf", None),
            ("# x\na -Inf", None),
            ("# x\na 1e999", None),
            ("# x\na{b=\"c} 1", None),
            ("# x\na{b=\"c\\", None),
            ("# x\na x", None),
            ("# x\na {", None),
        ] {
            assert_eq!(only(line), ("a".to_owned(), expected), "{line:?}");
        }
    }

    #[test]
    fn labels_are_found_and_unescaped() {
        let line = r#"m:x{ model_name = "org/m:v1.5, \"a\" = {b}" ,path="C:\\new\n\q",empty="",} 1"#;
        let page = parse(line.as_bytes()).unwrap();
        let sample = page.samples().next().unwrap();
        assert_eq!(sample.name(), b"m:x");
        let label = |name| sample.label(name).map(Cow::into_owned);
        assert_eq!(label("model_name").as_deref(), Some("org/m:v1.5, \"a\" = {b}"));
        assert_eq!(label("path").as_deref(), Some("C:\\new\n\\q"), "an unknown escape stays as it is");
        assert_eq!(label("empty").as_deref(), Some(""));
        assert_eq!(label("b"), None, "a label inside a value is none");
        assert_eq!(label("name"), None, "part of a label's name is not its name");
        let all: Vec<_> = sample.labels().map(|(name, _)| name).collect();
        assert_eq!(all, [b"model_name".as_slice(), b"path", b"empty"]);
    }

    #[test]
    fn a_name_in_quotes_is_a_name() {
        for (line, name, label) in [
            (r#"{"m:x",a="b"} 3"#, "m:x", Some("b")),
            (r#"{ "m.x y" , a="b",} 3 1700000000.5"#, "m.x y", Some("b")),
            (r#"{"m"} 3"#, "m", None),
        ] {
            let text = format!("# TYPE x gauge\n{line}\n");
            let page = parse(text.as_bytes()).unwrap();
            let sample = page.samples().next().unwrap_or_else(|| panic!("{line} has no sample"));
            assert_eq!(String::from_utf8_lossy(sample.name()), name);
            assert_eq!((sample.value(), sample.label("a").as_deref()), (Some(3.0), label), "{line}");
        }
        for line in [r"{} 3", r#"{"" } 3"#, r#"{a="b"} 3"#, r#"{"m"#] {
            let text = format!("# TYPE x gauge\n{line}\n");
            let page = parse(text.as_bytes()).unwrap();
            assert_eq!(page.samples().find_map(|sample| sample.value()), None, "{line}");
        }
    }

    #[test]
    fn bad_lines_cost_only_themselves() {
        let text = "garbage\n\n=\n1a 2\nno_value\na{b} c\n# TYPE x unheard_of\nok 4\n{} 3\nlast 5";
        let page = parse(text.as_bytes()).unwrap();
        let values: Vec<f64> = page.samples().filter_map(|sample| sample.value()).collect();
        assert_eq!(values, [4.0, 5.0]);
    }

    #[test]
    fn what_is_no_page_is_refused_with_the_reason() {
        for (body, expected) in [
            ("", None),
            (" \n", None),
            ("# EOF\n", None),
            ("\"\"", None),
            ("{\"error\":{\"code\":501}}", Some(PageError::Json)),
            ("[]", Some(PageError::Json)),
            ("\"cut", Some(PageError::Json)),
            ("\"{}\"", Some(PageError::Json)),
            (" <!doctype html>", Some(PageError::Html)),
            ("upstream connect error", Some(PageError::NotMetrics)),
        ] {
            assert_eq!(parse(body.as_bytes()).err(), expected, "{body:?}");
        }
        assert_eq!(parse(&vec![b'a'; MAX_BYTES + 1]).err(), Some(PageError::TooLarge));
        assert_eq!(parse(&b"a 1\n".repeat(MAX_LINES + 1)).err(), Some(PageError::TooManyLines));
    }

    #[test]
    fn a_page_sent_as_one_json_string_is_read() {
        let page = parse(br##""# TYPE a gauge\na{b=\"c\"} 3\n""##).unwrap();
        let sample = page.samples().next().unwrap();
        assert_eq!((sample.value(), sample.label("b").as_deref()), (Some(3.0), Some("c")));
    }
}
