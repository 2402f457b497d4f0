//! What is wrong with a configuration, in words for the person who wrote it.
//!
//! A problem names the key (`path`), the place in the file, what is wrong and, where one is near, what was meant. The
//! name of the file is not part of it: the same text may come from a file, a request or a test.

use std::error::Error;
use std::fmt;

use serde::Serialize;

use super::tree::Mark;

/// Longest list of names shown when no single one is near enough to suggest.
const NAMES_SHOWN: usize = 16;

/// One thing wrong with the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The key, such as `pools.llama.endpoints[0].url`; empty when the file as a whole is meant.
    pub path: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What may have been meant, or what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Problem {
    pub(super) fn new(path: impl Into<String>, mark: Mark, message: impl Into<String>) -> Self {
        Self { path: path.into(), line: mark.line, column: mark.column, message: message.into(), hint: None }
    }

    pub(super) fn with_hint(mut self, hint: Option<impl Into<String>>) -> Self {
        self.hint = hint.map(Into::into);
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.line, self.column)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

/// Everything wrong with the file: at least one problem, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Sorts by position. Nothing wrong is `None`.
    pub(super) fn new(mut problems: Vec<Problem>) -> Option<Self> {
        problems.sort_by_key(|problem| (problem.line, problem.column));
        (!problems.is_empty()).then_some(Self(problems))
    }

    /// Returns the problems as lines that begin with the name of the file, as compilers write them.
    pub fn in_file<'a>(&'a self, file: &'a str) -> impl fmt::Display + 'a {
        InFile { problems: self, file }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl Error for Problems {}

struct InFile<'a> {
    problems: &'a Problems,
    file: &'a str,
}

impl fmt::Display for InFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{}:{problem}", self.file)?;
        }
        Ok(())
    }
}

/// Returns a hint that names the nearest of `names`, or failing that all of them.
pub(super) fn suggest<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut names: Vec<&str> = names.into_iter().collect();
    if let Some(name) = nearest(written, &names) {
        return Some(format!("did you mean {name}?"));
    }
    names.sort_unstable();
    names.dedup();
    match names.len() {
        0 => None,
        1..=NAMES_SHOWN => Some(format!("known here: {}", names.join(", "))),
        count => Some(format!("known here: {} and {} more", names[..NAMES_SHOWN].join(", "), count - NAMES_SHOWN)),
    }
}

/// Returns the name with the fewest edits to `written`, if that is at most a third of its letters.
pub(super) fn nearest<'a>(written: &str, names: &[&'a str]) -> Option<&'a str> {
    let written = folded(written);
    let allowed = (written.len() / 3).max(1);
    names
        .iter()
        .map(|name| (edits(&written, &folded(name)), *name))
        .filter(|(distance, name)| *distance <= allowed && *distance < name.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Letters and digits in lower case, so that `loadFactor` and `load-factor` are `load_factor`. Bounded: the comparison is
/// quadratic, and no name is longer than this.
fn folded(name: &str) -> Vec<char> {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).take(64).collect()
}

/// Edit distance where an insertion, a deletion, a replacement or a swap of neighbours costs one.
fn edits(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replace = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replace.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swapped_or_missing_letter_and_another_case_find_the_name() {
        let names = ["policy", "endpoints", "load_factor"];
        for (written, meant) in [
            ("polcy", "policy"),
            ("endponits", "endpoints"),
            ("loadFactor", "load_factor"),
            ("load-factor", "load_factor"),
        ] {
            assert_eq!(nearest(written, &names), Some(meant), "{written}");
        }
    }

    #[test]
    fn a_word_far_from_all_names_gets_the_list() {
        let hint = suggest("tls", ["address", "h2c"]);
        assert_eq!(hint.as_deref(), Some("known here: address, h2c"));
    }

    #[test]
    fn a_name_without_letters_suggests_nothing_absurd() {
        assert_eq!(nearest("", &["a"]), None, "one edit of one letter is all of it");
    }
}
