//! Files nobody meant to write: any bytes give a configuration or problems, never a panic.

use proptest::prelude::*;

use super::known;
use super::reference::{VALIDATOR, whole_reference};
use crate::config::{load, tree};

/// Pieces that mean something to YAML or to the schema.
const PIECES: [&str; 40] = [
    " ", "\n", "\n  ", "\n      ", "- ", ": ", "? ", "[", "]", "{", "}", ",", "\"", "'", "|", ">", "&a ", "*a", "!",
    "!!str ", "%", "---\n", "#", "\t", "\r", "<<", "\u{feff}", "\0", "\\u12", "1e999", "-1", "0", "~", "pools", "name",
    "off", "auto", "true", "3s", "64MiB",
];

proptest! {
    #[test]
    fn any_bytes_load_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(load(&bytes, &known()));
    }

    #[test]
    fn any_pieces_of_yaml_load_or_are_refused(pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..40)) {
        drop(load(pieces.concat().as_bytes(), &known()));
    }

    #[test]
    fn a_damaged_reference_is_refused_in_its_lines_or_builds(
        place in any::<prop::sample::Index>(), length in 0..12_usize, to_end in any::<bool>(),
        piece in prop::sample::select(&PIECES[..]),
    ) {
        // Without comments, so that every cut hits something that counts.
        let reference = whole_reference();
        let lines = reference.lines().filter(|line| !line.trim_start().starts_with('#') && !line.is_empty());
        let text = lines.collect::<Vec<_>>().join("\n");
        let start = place.index(text.len());
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let end = if to_end { line_end } else { (start + length).min(text.len()) };
        let damaged = format!("{}{piece}{}", &text[..start], &text[end..]);
        match load(damaged.as_bytes(), &known()) {
            Ok(_) => {
                let (root, _) = tree::read(damaged.as_bytes());
                let json = root.unwrap().to_json();
                prop_assert!(VALIDATOR.is_valid(&json), "what loads must pass the schema:\n{}", damaged);
            }
            Err(problems) => for problem in problems.0 {
                prop_assert!(!problem.message.contains("cannot be read"), "serde found what no check did: {}", problem);
                let lines = damaged.lines().count() + 1;
                prop_assert!(problem.line <= lines, "line {} of {}: {}", problem.line, lines, problem);
            },
        }
    }
}
