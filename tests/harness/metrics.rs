//! The gateway's own metrics page.

use std::collections::BTreeMap;

/// One line of a page.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) value: f64,
}

impl Sample {
    /// Whether it has this name and at least these labels.
    pub(super) fn is(&self, name: &str, labels: &[(&str, &str)]) -> bool {
        self.name == name && labels.iter().all(|(key, value)| self.labels.get(*key).is_some_and(|one| one == value))
    }
}

/// All samples of a page in the text format. Label values with commas or quotes do not occur here.
pub(super) fn samples(page: &str) -> Vec<Sample> {
    page.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(sample).collect()
}

fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("not a sample: {line:?}"));
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let labels = labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty());
    let label = |label: &str| {
        let (key, value) = label.split_once('=').unwrap_or_else(|| panic!("not a label: {label:?} in {line:?}"));
        (key.to_owned(), value.trim_matches('"').to_owned())
    };
    Sample {
        name: name.to_owned(),
        labels: labels.map(label).collect(),
        value: value.parse().unwrap_or_else(|_| panic!("not a number: {line:?}")),
    }
}
