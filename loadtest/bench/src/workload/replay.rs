//! A trace from a file: when requests came, how long they were, and which of their blocks were the same.
//!
//! One JSON object a line, in the form that Mooncake's public traces have:
//! `{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 48]}`, with milliseconds and tokens.
//! Equal ids are equal blocks; a prompt without ids shares nothing. No prompt is in such a file, so texts are made up: a block
//! is a message of its own, and its chat template adds a few tokens to each.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::trace::Text;
use crate::limits::AMOUNT;
use spillway_sim::Problems;

/// Bytes of a file.
const MOST_BYTES: u64 = 4 << 30;

/// Lines of a file; the largest public trace of this form has 24,000.
const MOST_LINES: usize = 1_000_000;

/// A recording and how it is played.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// The file, from the scenario's folder.
    pub file: PathBuf,
    /// How many times as fast as it was; 1 by default.
    #[serde(default = "one")]
    pub speed: f64,
    /// Tokens that an id stands for; 512, as in those traces, by default.
    #[serde(default = "usual_block")]
    pub block: u32,
    /// What the file holds, in the order of its times.
    #[serde(skip)]
    pub recorded: Vec<Recorded>,
}

/// One request of a recording.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Recorded {
    /// Milliseconds since the recording began.
    pub timestamp: f64,
    /// Prompt tokens.
    pub input_length: u32,
    /// Output tokens.
    pub output_length: u32,
    /// Blocks of the prompt, from its beginning; the last may be a part of one.
    #[serde(default)]
    pub hash_ids: Vec<u64>,
}

fn one() -> f64 {
    1.0
}

fn usual_block() -> u32 {
    512
}

/// Why a recording cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The file cannot be read.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        why: std::io::Error,
    },
    /// A line is no request.
    #[error("{}, line {line}: {why}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// Why.
        why: String,
    },
}

impl Replay {
    /// Reads the file, which is looked for from `folder`.
    pub fn load(&mut self, folder: &Path) -> Result<(), Unreadable> {
        let path = folder.join(&self.file);
        let unreadable = |why| Unreadable::File { path: path.clone(), why };
        let refused = |why: &str| unreadable(io::Error::new(io::ErrorKind::InvalidInput, why));
        if self.file.components().any(|part| !matches!(part, Component::Normal(_))) {
            return Err(refused("a recording stands beside its scenario, or in a folder there"));
        }
        // Before it is opened: a pipe would be waited for.
        let about = std::fs::metadata(&path).map_err(unreadable)?;
        if !about.is_file() || about.len() > MOST_BYTES {
            return Err(refused("a recording is a file of at most 4 GiB"));
        }
        let file = File::open(&path).map_err(unreadable)?;
        self.recorded.clear();
        for (number, line) in BufReader::new(file).lines().enumerate() {
            let line = line.map_err(unreadable)?;
            if line.trim().is_empty() {
                continue;
            }
            let request = self.request(&line, number);
            self.recorded.push(request.map_err(|why| Unreadable::Line {
                path: path.clone(),
                line: number + 1,
                why,
            })?);
        }
        if self.recorded.is_empty() {
            return Err(Unreadable::Line { path, line: 1, why: "there is no request".to_owned() });
        }
        self.recorded.sort_by(|one, two| one.timestamp.total_cmp(&two.timestamp));
        Ok(())
    }

    fn request(&self, line: &str, number: usize) -> Result<Recorded, String> {
        if number >= MOST_LINES {
            return Err(format!("a recording has at most {MOST_LINES} lines"));
        }
        let request: Recorded = serde_json::from_str(line).map_err(|error| error.to_string())?;
        if !(0.0..=1e12).contains(&request.timestamp) {
            return Err(format!("timestamp must be 0 or more, not {}", request.timestamp));
        }
        for (name, tokens) in [("input_length", request.input_length), ("output_length", request.output_length)] {
            if tokens == 0 || f64::from(tokens) > *AMOUNT.end() {
                return Err(format!("{name} must be 1 to {}, not {tokens}", AMOUNT.end()));
            }
        }
        let most = request.input_length.div_ceil(self.block.max(1)) as usize;
        if request.hash_ids.len() > most {
            return Err(format!("{} blocks for {most} at most", request.hash_ids.len()));
        }
        Ok(request)
    }

    /// The requests before `horizon`, with their times.
    pub(super) fn before(&self, horizon: Duration) -> impl Iterator<Item = (Duration, &Recorded)> {
        let timed = self.recorded.iter().map(|request| {
            let at = Duration::from_secs_f64(request.timestamp / 1e3 / self.speed);
            (at, request)
        });
        timed.take_while(move |(at, _)| *at < horizon)
    }

    /// Prompt tokens of the requests before `horizon`.
    pub fn prompt_tokens(&self, horizon: Duration) -> f64 {
        self.before(horizon).map(|(_, request)| f64::from(request.input_length)).sum()
    }

    /// Says what is wrong with it.
    pub fn check(&self, problems: &mut Problems) {
        problems.range("speed", self.speed, 0.001..=1_000.0);
        problems.range("block", f64::from(self.block), 1.0..=1_000_000.0);
    }
}

impl Recorded {
    /// The texts of its prompt: a block each, and what has no id as one that nobody else has, numbered by `own`.
    pub(super) fn texts(&self, block: u32, shared: impl Fn(u64) -> u64, own: u64) -> Vec<Text> {
        let mut left = self.input_length;
        let mut texts = Vec::with_capacity(self.hash_ids.len() + 1);
        for &id in &self.hash_ids {
            let tokens = left.min(block);
            texts.push(Text::Words { segment: shared(id), tokens });
            left -= tokens;
        }
        if left > 0 {
            texts.push(Text::Words { segment: own, tokens: left });
        }
        texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(text: &str) -> Result<Replay, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("trace.jsonl"), text).unwrap();
        let mut replay = Replay { file: "trace.jsonl".into(), speed: 2.0, block: 512, recorded: Vec::new() };
        replay.load(folder.path()).map(|()| replay).map_err(|error| error.to_string())
    }

    #[test]
    fn requests_come_in_the_order_of_their_times_and_as_fast_as_asked() {
        let replay = loaded(
            r#"{"timestamp": 4000, "input_length": 600, "output_length": 5, "hash_ids": [7, 8]}

            {"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [7], "tool": true}"#,
        )
        .unwrap();
        let times: Vec<_> = replay.before(Duration::from_secs(60)).map(|(at, _)| at.as_secs()).collect();
        assert_eq!(times, [0, 2]);
        assert_eq!(replay.before(Duration::from_secs(1)).count(), 1, "the rest is beyond the horizon");
    }

    #[test]
    fn equal_ids_are_equal_blocks_and_the_rest_is_nobodys() {
        let replay =
            loaded(r#"{"timestamp": 0, "input_length": 1500, "output_length": 5, "hash_ids": [7, 8]}"#).unwrap();
        let texts = replay.recorded[0].texts(512, |id| id * 10, 99);
        let words = |segment, tokens| Text::Words { segment, tokens };
        assert_eq!(texts, [words(70, 512), words(80, 512), words(99, 476)]);
        let short = Recorded { input_length: 700, ..replay.recorded[0].clone() };
        assert_eq!(short.texts(512, |id| id, 99), [words(7, 512), words(8, 188)]);
    }

    #[test]
    fn only_a_file_beside_the_scenario_is_read() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        for file in ["/dev/zero", "../trace.jsonl", "sub", "."] {
            let mut replay = Replay { file: file.into(), speed: 1.0, block: 512, recorded: Vec::new() };
            let said = replay.load(folder.path()).unwrap_err().to_string();
            assert!(said.contains("a recording"), "{file}: {said}");
        }
    }

    #[test]
    fn a_line_that_is_no_request_is_named() {
        for (text, part) in [
            ("", "no request"),
            ("{}", "line 1"),
            (r#"{"timestamp": -1, "input_length": 1, "output_length": 1}"#, "timestamp"),
            (r#"{"timestamp": 0, "input_length": 0, "output_length": 1}"#, "input_length"),
            (r#"{"timestamp": 0, "input_length": 1, "output_length": 4000000000}"#, "output_length"),
            (r#"{"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [1, 2]}"#, "2 blocks for 1"),
        ] {
            let said = loaded(text).unwrap_err();
            assert!(said.contains(part), "{part} is not in: {said}");
        }
    }
}
