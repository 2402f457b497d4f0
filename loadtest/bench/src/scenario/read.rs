//! Scenarios from their files.
//!
//! A message of what is wrong names the file and holds the cause itself, so that whoever prints it prints one line.

use std::path::{Path, PathBuf};

use super::Scenario;
use crate::workload::Arrivals;
use crate::workload::replay::Unreadable;

/// Why a scenario cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The file, or the folder, cannot be read.
    #[error("{path}: {cause}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// It is no scenario.
    #[error("{path}: {cause}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Why, with line and column where known.
        cause: serde_yaml::Error,
    },
    /// A recording that it replays cannot be used.
    #[error(transparent)]
    Recording(#[from] Unreadable),
    /// It makes no sense.
    #[error("{path}: {}", problems.join("; "))]
    Senseless {
        /// The file.
        path: PathBuf,
        /// All that is wrong.
        problems: Vec<String>,
    },
    /// The folder has no scenario.
    #[error("{path}: there is no scenario, which is a file that ends in .yaml")]
    Empty {
        /// The folder.
        path: PathBuf,
    },
    /// Two files have the same id, so that their runs could not be told apart.
    #[error("{one} and {other} have the same id, {id}")]
    Twice {
        /// The first file.
        one: PathBuf,
        /// The second.
        other: PathBuf,
        /// Their id.
        id: String,
    },
}

impl Scenario {
    /// All scenarios of a folder, at least one, in the order of their files' names.
    pub fn read_all(folder: &Path) -> Result<Vec<Self>, Unusable> {
        let unreadable = |cause| Unusable::Unreadable { path: folder.to_owned(), cause };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                paths.push(path);
            }
        }
        paths.sort();
        let mut all: Vec<Self> = Vec::new();
        for path in &paths {
            let scenario = Self::read(path)?;
            if let Some(place) = all.iter().position(|known| known.id == scenario.id) {
                return Err(Unusable::Twice { one: paths[place].clone(), other: path.clone(), id: scenario.id });
            }
            all.push(scenario);
        }
        if all.is_empty() { Err(Unusable::Empty { path: folder.to_owned() }) } else { Ok(all) }
    }

    /// The scenario of a file.
    pub fn read(path: &Path) -> Result<Self, Unusable> {
        let text =
            std::fs::read_to_string(path).map_err(|cause| Unusable::Unreadable { path: path.to_owned(), cause })?;
        let mut scenario = Self::parse(&text).map_err(|cause| Unusable::Malformed { path: path.to_owned(), cause })?;
        for load in scenario.loads.values_mut() {
            if let Arrivals::Replay(replay) = &mut load.arrivals {
                replay.load(path.parent().unwrap_or(Path::new("")))?;
            }
        }
        let problems = scenario.problems();
        if problems.is_empty() { Ok(scenario) } else { Err(Unusable::Senseless { path: path.to_owned(), problems }) }
    }

    pub(super) fn parse(text: &str) -> Result<Self, serde_yaml::Error> {
        serde_yaml::with::singleton_map_recursive::deserialize(serde_yaml::Deserializer::from_str(text))
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::fs;

    use super::*;

    const RIGHT: &str = "
id: X
title: x
claim: x
fleet: [{count: 1}]
horizon: 60
requests: {classes: [{prompts: {message: {fixed: 5}}, output: {fixed: 5}}]}
loads: {main: {arrivals: {poisson: 1}}}
short: [main]
";

    /// What is said of a folder with these files, a line, and without a source that would be printed again.
    fn said(name: &str, files: &[(&str, &str)]) -> String {
        let folder = std::env::temp_dir().join(format!("spillway-scenario-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
        let error = Scenario::read_all(&folder).unwrap_err();
        fs::remove_dir_all(&folder).unwrap();
        assert!(error.source().is_none(), "the cause is in the message: {error}");
        error.to_string()
    }

    #[test]
    fn every_scenario_in_the_repository_can_be_used() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
        for (folder, least) in [(folder.clone(), 25), (folder.join("orientation"), 6)] {
            let scenarios = Scenario::read_all(&folder).unwrap_or_else(|error| panic!("{error}"));
            assert!(scenarios.len() >= least, "{}", scenarios.len());
        }
    }

    #[test]
    fn the_example_of_the_documentation_can_be_used() {
        let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md")).unwrap();
        let (_, section) = page.split_once("## A scenario file").unwrap();
        let example = section.split("```").nth(1).and_then(|block| block.strip_prefix("yaml")).unwrap();
        assert_eq!(Scenario::parse(example).unwrap().problems(), Vec::<String>::new());
    }

    #[test]
    fn a_file_that_is_no_scenario_is_named_with_what_is_wrong() {
        let unknown = said("unknown", &[("a.yaml", &RIGHT.replace("title", "titel"))]);
        assert!(unknown.contains("a.yaml") && unknown.matches("titel").count() == 1, "{unknown}");
        let senseless = said("senseless", &[("a.yaml", &RIGHT.replace("horizon: 60", "horizon: -1"))]);
        assert!(senseless.contains("a.yaml: horizon: must be"), "{senseless}");
    }

    #[test]
    fn a_recording_stands_beside_the_scenario_and_what_is_wrong_with_it_is_said_with_its_line() {
        let replay = RIGHT.replace("{poisson: 1}", "{replay: {file: trace.jsonl}}");
        let replay = replay.replace("{classes: [{prompts: {message: {fixed: 5}}, output: {fixed: 5}}]}", "{}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.yaml");
        fs::write(&path, &replay).unwrap();
        let request = r#"{"timestamp": 3000, "input_length": 600, "output_length": 5, "hash_ids": [7, 8]}"#;
        fs::write(folder.path().join("trace.jsonl"), request).unwrap();
        assert!(Scenario::read(&path).is_ok());
        fs::write(folder.path().join("trace.jsonl"), format!("{request}\n{{}}")).unwrap();
        let broken = Scenario::read(&path).unwrap_err().to_string();
        assert!(broken.contains("trace.jsonl, line 2"), "{broken}");
        fs::remove_file(folder.path().join("trace.jsonl")).unwrap();
        let missing = Scenario::read(&path).unwrap_err().to_string();
        assert!(missing.contains("trace.jsonl"), "{missing}");
        let none = said("classless", &[("a.yaml", &replay.replace("{replay: {file: trace.jsonl}}", "{poisson: 1}"))]);
        assert!(none.contains("loads.main.arrivals: need requests.classes"), "{none}");
    }

    #[test]
    fn a_folder_without_a_scenario_is_an_error() {
        assert!(said("empty", &[("notes.txt", RIGHT)]).contains("no scenario"));
        let none = Scenario::read_all(Path::new("/nowhere/scenarios")).unwrap_err().to_string();
        assert!(none.contains("/nowhere/scenarios"), "{none}");
    }

    #[test]
    fn an_id_that_two_files_have_is_refused_and_both_are_named() {
        let twice = said("twice", &[("a.yaml", RIGHT), ("b.yaml", RIGHT)]);
        assert!(["a.yaml", "b.yaml", "X"].iter().all(|part| twice.contains(part)), "{twice}");
    }
}
