//! Reading a trace. Any bytes are fine: lines that are not understood are counted, and the first is told.

use std::collections::{BTreeMap, HashSet};
use std::io::{BufRead, Read};
use std::sync::Arc;
use std::time::SystemTime;

use super::chain::{Chains, Tip};
use super::line::{Line, Part, Request, Size, VERSION};

/// Ten years in microseconds. No trace is longer, and within it no sum of times overflows.
const LONGEST_MICROS: u64 = 10 * 365 * 86_400 * 1_000_000;

/// Bytes of the longest line: a chain of the greatest length is an eighth of it.
const LONGEST_LINE: u64 = 1 << 20;

/// Bytes or tokens that no prompt has.
const LARGEST: u64 = 1 << 40;

/// A trace in memory.
#[derive(Debug, Default)]
pub struct Trace {
    /// Its requests, in the order in which they left for their endpoints.
    pub requests: Vec<Recorded>,
    /// The hashes of their prompts.
    pub chains: Chains,
    /// Tokens of the endpoints' caches, by pool and endpoint; the last that was known.
    pub sizes: BTreeMap<(Arc<str>, Arc<str>), u64>,
    /// What was passed over.
    pub bad: Bad,
}

/// A request of a trace.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Its line, `at` counted from the start of the first part, and without hashes.
    pub request: Request,
    /// The chain of its prompt.
    pub tip: Tip,
}

/// Lines that were not understood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bad {
    /// How many.
    pub count: usize,
    /// The first: its number, from 1, and what is wrong.
    pub first: Option<(usize, String)>,
}

/// Why there is nothing to replay.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It cannot be read.
    #[error("cannot read it")]
    Io(#[from] std::io::Error),
    /// It has no line.
    #[error("it is empty")]
    Empty,
    /// Its first line is another file's.
    #[error("it is not a trace: line {0} is not the head of one")]
    NotATrace(usize),
    /// Another release wrote it.
    #[error("line {line}: it is of version {version}, and this release reads version {VERSION}")]
    Version {
        /// The line.
        line: usize,
        /// Its version.
        version: u32,
    },
}

impl Recorded {
    /// When it left for its endpoint, microseconds.
    pub fn left(&self) -> u64 {
        self.request.at + self.request.picked.unwrap_or(0)
    }
}

impl Trace {
    /// Reads a trace.
    pub fn read(mut input: impl BufRead) -> Result<Self, ReadError> {
        let mut trace = Self::default();
        let mut names = Names::default();
        let mut parts = Parts::default();
        let mut number = 0;
        let mut line = Vec::new();
        loop {
            line.clear();
            if Read::take(&mut input, LONGEST_LINE).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            number += 1;
            if line.len() as u64 == LONGEST_LINE && !line.ends_with(b"\n") {
                if !parts.has_begun {
                    return Err(ReadError::NotATrace(number));
                }
                input.skip_until(b'\n')?;
                trace.bad.note(number, "it is over a mebibyte long".to_owned());
                continue;
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            match serde_json::from_slice::<Line>(&line) {
                Ok(Line::Trace(part)) if part.version != VERSION => {
                    return Err(ReadError::Version { line: number, version: part.version });
                }
                Ok(Line::Trace(part)) => parts.begin(&part),
                _ if !parts.has_begun => return Err(ReadError::NotATrace(number)),
                Ok(Line::Endpoint(size)) => {
                    let Size { pool, endpoint, kv_tokens } = size;
                    trace.sizes.insert((names.one(pool), names.one(endpoint)), kv_tokens.min(LARGEST));
                }
                Ok(Line::Request(request)) => {
                    if let Err(why) = trace.add(*request, &parts, &mut names) {
                        trace.bad.note(number, why.to_owned());
                    }
                }
                Err(error) => trace.bad.note(number, without_place(&error)),
            }
        }
        if !parts.has_begun {
            return Err(ReadError::Empty);
        }
        trace.requests.sort_by_key(Recorded::left);
        Ok(trace)
    }

    /// The pools that it has requests of, sorted.
    pub fn pools(&self) -> Vec<Arc<str>> {
        let pools: std::collections::BTreeSet<_> = self.requests.iter().map(|one| &one.request.pool).collect();
        pools.into_iter().cloned().collect()
    }

    fn add(&mut self, mut request: Request, parts: &Parts, names: &mut Names) -> Result<(), &'static str> {
        request.at = request.at.saturating_add(parts.offset);
        let times = [Some(request.at), request.picked, request.ttft, Some(request.duration)];
        if times.into_iter().flatten().any(|time| time > LONGEST_MICROS) {
            return Err("a time is over ten years");
        }
        if [request.bytes, request.wide, request.token_ids].into_iter().any(|size| size > LARGEST) {
            return Err("a size is over a tebibyte");
        }
        // A server that counts badly must not have found more than there was.
        request.cached = request.cached.map(|cached| cached.min(request.prompt.unwrap_or(u32::MAX)));
        let blocks = std::mem::take(&mut request.blocks);
        let tip = self.chains.add(request.after.take(), &blocks);
        let tip = tip.ok_or("its prompt follows one that is not here, or is too long")?;
        request.pool = names.one(request.pool);
        request.model = names.one(request.model);
        request.endpoint = request.endpoint.map(|endpoint| names.one(endpoint));
        self.requests.push(Recorded { request, tip });
        Ok(())
    }
}

impl Bad {
    fn note(&mut self, line: usize, why: String) {
        self.count += 1;
        self.first.get_or_insert((line, why));
    }
}

/// What serde says, without a line of its own, which would be that within the line.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(what, _)| what.to_owned())
}

/// Where the times of a part begin.
#[derive(Debug, Default)]
struct Parts {
    has_begun: bool,
    first: Option<SystemTime>,
    /// Microseconds since the start of the first part.
    offset: u64,
}

impl Parts {
    fn begin(&mut self, part: &Part) {
        self.has_begun = true;
        // A start that cannot be read is that of the part before.
        let Ok(start) = humantime::parse_rfc3339(&part.start) else { return };
        let since = start.duration_since(*self.first.get_or_insert(start)).unwrap_or_default();
        self.offset = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
    }
}

/// Each name once: a trace repeats a few of them a million times.
#[derive(Debug, Default)]
struct Names(HashSet<Arc<str>>);

impl Names {
    fn one(&mut self, name: Arc<str>) -> Arc<str> {
        if let Some(known) = self.0.get(&name) {
            return Arc::clone(known);
        }
        self.0.insert(Arc::clone(&name));
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = r#"{"trace":{"version":1,"start":"2026-01-01T00:00:00Z","spillway":"x"}}"#;
    const ONE: &str = r#"{"request":{"at":5,"pool":"p","model":"m","blocks":"00000000000000010000000000000002","duration":9,"status":200}}"#;

    fn read(text: &str) -> Result<Trace, ReadError> {
        Trace::read(text.as_bytes())
    }

    fn error(text: &str) -> String {
        read(text).expect_err("it was read").to_string()
    }

    #[test]
    fn parts_follow_each_other_by_the_clock() {
        let later = HEAD.replace("00:00:00Z", "00:00:07Z");
        let trace = read(&format!("{HEAD}\n{ONE}\n\n{later}\n{ONE}\n")).unwrap();
        let at: Vec<u64> = trace.requests.iter().map(|one| one.request.at).collect();
        assert_eq!(at, [5, 7_000_005]);
        assert_eq!(trace.chains.hashes(trace.requests[1].tip), [1, 2]);
        assert_eq!(trace.bad, Bad::default());
    }

    #[test]
    fn what_is_not_understood_is_counted_and_the_first_is_told() {
        let orphan = ONE.replace(r#""blocks""#, r#""after":"00000000000000ff","blocks""#);
        let huge = ONE.replace(r#""at":5"#, r#""at":18446744073709551615"#);
        let huger = ONE.replace(r#""at":5"#, r#""at":1e300"#);
        let odd = ONE.replace("00000000000000010000000000000002", "00000000000000010000000000000002é");
        let newer = ONE.replace(r#""at":5"#, r#""at":5,"later":{"a":[1]}"#);
        let bytes = ONE.replace(r#""at":5"#, r#""at":5,"bytes":18446744073709551615"#);
        let text = format!(
            "{HEAD}\n{newer}\n<html>\n{orphan}\n{huge}\n{huger}\n{odd}\n{bytes}\n{{\"other\":1}}\n{ONE}\n{}",
            &ONE[..40]
        );
        let trace = read(&text).unwrap();
        assert_eq!(trace.requests.len(), 2, "unknown keys are passed over");
        assert_eq!(trace.bad.count, 8);
        assert_eq!(trace.bad.first, Some((3, "expected value".to_owned())));
    }

    #[test]
    fn a_line_without_end_is_not_read_to_its_end() {
        let long = "x".repeat(3 << 20);
        let trace = read(&format!("{HEAD}\n{long}\n{ONE}\n{ONE}")).unwrap();
        assert_eq!((trace.requests.len(), trace.bad.count), (2, 1));
        assert_eq!(trace.bad.first, Some((2, "it is over a mebibyte long".to_owned())));
        assert_eq!(error(&long), "it is not a trace: line 1 is not the head of one");
    }

    #[test]
    fn what_is_no_trace_is_refused_with_the_reason() {
        assert_eq!(error(""), "it is empty");
        assert_eq!(error("\n\n"), "it is empty");
        assert_eq!(error(ONE), "it is not a trace: line 1 is not the head of one");
        assert_eq!(error("\u{0}\u{fffd}"), "it is not a trace: line 1 is not the head of one");
        let newer = HEAD.replace(":1,", ":2,");
        assert_eq!(error(&newer), "line 1: it is of version 2, and this release reads version 1");
        assert!(read(HEAD).unwrap().requests.is_empty());
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_fail_otherwise(tail in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let mut bytes = format!("{HEAD}\n").into_bytes();
            bytes.extend(tail);
            let _ = Trace::read(&*bytes);
        }
    }
}
