//! What is written for people agrees with the program: the metrics table of the README, and the example files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::cli::{spillway, texts};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Labels and meaning of each metric, by its name.
type Table = BTreeMap<String, (BTreeSet<String>, String)>;

/// Reads a table of lines like "| `spillway_x_total` | model, pool | what it counts |".
fn documented(text: &str) -> Table {
    let row = |line: &str| {
        let mut cells = line.trim().strip_prefix('|')?.strip_suffix('|')?.splitn(3, '|').map(str::trim);
        let name = cells.next()?.strip_prefix("`spillway_")?.strip_suffix('`')?.to_owned();
        let labels = cells.next()?.split(',').map(|label| label.trim().trim_matches('`').to_owned());
        let labels = labels.filter(|label| !label.is_empty()).collect();
        Some((format!("spillway_{name}"), (labels, cells.next()?.to_owned())))
    };
    let mut all = Table::new();
    for (name, row) in text.lines().filter_map(row) {
        assert!(all.insert(name.clone(), row).is_none(), "{name} is in the table twice");
    }
    all
}

#[test]
fn a_table_is_read_as_it_is_written() {
    let text = "| metric | labels | meaning |\n|---|---|---|\n| `spillway_a_total` | model, `pool` | A | b. |\n\
                | `spillway_b` | | B. |\ntext about `spillway_c`\n";
    let expected = [("spillway_a_total", vec!["model", "pool"], "A | b."), ("spillway_b", vec![], "B.")];
    let expected = expected.map(|(name, labels, meaning)| {
        (name.to_owned(), (labels.into_iter().map(str::to_owned).collect(), meaning.to_owned()))
    });
    assert_eq!(documented(text), Table::from(expected));
}

#[test]
fn the_readme_names_every_metric_as_its_page_does_and_no_other() {
    let readme = std::fs::read_to_string(repository().join("README.md")).unwrap();
    let families = spillway::metrics::FAMILIES.iter().chain(spillway::admin::gauges::FAMILIES);
    let existing: Table = families
        .map(|(name, labels, help)| {
            let labels = labels.iter().map(|label| (*label).to_owned()).collect();
            ((*name).to_owned(), (labels, help.trim().to_owned()))
        })
        .collect();
    let documented = documented(&readme);
    let missing: Vec<_> = existing.keys().filter(|name| !documented.contains_key(*name)).collect();
    let invented: Vec<_> = documented.keys().filter(|name| !existing.contains_key(*name)).collect();
    assert!(missing.is_empty() && invented.is_empty(), "not in the README: {missing:?}; only there: {invented:?}");
    for (name, row) in &existing {
        assert_eq!(&documented[name], row, "{name} in the README (left) and in the program (right)");
    }
}

#[tokio::test]
async fn every_example_of_a_configuration_is_valid() {
    let mut files: Vec<PathBuf> = std::fs::read_dir(repository().join("conf/examples"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        // It names a scorer that only the example program registers; that program checks it.
        .filter(|path| path.file_name().is_some_and(|name| name != "custom-scorer.yaml"))
        .collect();
    assert!(files.len() >= 4, "examples are missing: {files:?}");
    files.push(repository().join("conf/spillway.yaml"));
    for file in files {
        let output = spillway([Path::new("check"), &file]).await;
        assert_eq!(output.status.code(), Some(0), "{}: {}", file.display(), texts(&output).1);
    }
}

#[tokio::test]
async fn the_example_with_a_scorer_of_ones_own_is_valid_but_for_that_name() {
    let file = repository().join("conf/examples/custom-scorer.yaml");
    let output = spillway([Path::new("check"), &file]).await;
    let (_, err) = texts(&output);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(err.contains("same_zone"), "{err}");
}
