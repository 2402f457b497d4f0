//! What a fault may say, the same in a fleet file and at `/admin/fault`.
//!
//! What a newcomer gets wrong: a key counts as given when its value is not the usual one, so that a fault can be written
//! down whole, as `/admin/state` does.

use hyper::header::HeaderValue;

use super::Fault;
use crate::problems::Problems;

/// Most that `factor` may be: a step that has begun ends in its own time whatever is cleared, so that has to be soon.
const FACTOR: f64 = 1_000.0;

impl Fault {
    /// Everything that is wrong with it, each beginning with its key.
    pub fn problems(&self) -> Vec<String> {
        let mut found = Problems::default();
        self.check_meaning(&mut found);
        found.range("factor", self.factor, 0.0..=FACTOR);
        found.range("probability", self.probability, 0.0..=1.0);
        found.range("code", f64::from(self.code), 200.0..=599.0);
        found.range("steps", self.steps.map(|steps| steps as f64), 1.0..=1e9);
        found.range("requests", self.requests.map(|requests| requests as f64), 1.0..=1e9);
        for (key, ms) in
            [("ms", self.ms), ("for_ms", self.for_ms), ("ramp_ms", self.ramp_ms), ("period_ms", self.period_ms)]
        {
            found.up_to_a_year(key, ms);
        }
        found.unless(self.period_ms != Some(0), "period_ms: must be at least 1");
        found.unless(self.count != Some(0), "count: must be at least 1");
        let both = self.steps.is_some() && self.requests.is_some();
        found.unless(!both, "requests: there are steps too; a warm-up has one of them");
        let is_header = self.retry_after.as_ref().is_none_or(|value| HeaderValue::from_bytes(value.as_bytes()).is_ok());
        found.unless(is_header, "retry_after: cannot be the value of a header");
        found.unless(self.path.as_ref().is_none_or(|path| path.starts_with('/')), "path: must begin with /");
        found.lines()
    }

    fn check_meaning(&self, found: &mut Problems) {
        let usual = Self::new(self.kind);
        let keys = self.kind.keys();
        for (key, given) in [
            ("factor", ![0.0, usual.factor].contains(&self.factor)),
            ("ramp_ms", self.ramp_ms.is_some()),
            ("period_ms", self.period_ms.is_some()),
            ("steps", self.steps.is_some()),
            ("requests", self.requests.is_some()),
            ("code", self.code != usual.code),
            ("retry_after", self.retry_after.is_some()),
            ("body", self.body.is_some()),
            ("early", self.early),
            ("reused", self.reused),
            ("after", self.after != usual.after),
            ("restart", self.restart),
            ("cut", self.cut),
            ("ms", self.ms.is_some()),
            ("mode", self.mode.is_some()),
        ] {
            found.unless(!given || keys.contains(&key), format!("{key}: means nothing to {}", self.kind.name()));
        }
        for (key, given) in [
            ("path", self.path.is_some()),
            ("count", self.count.is_some()),
            ("probability", self.probability.is_some()),
        ] {
            found.unless(
                !given || self.kind.strikes_requests(),
                format!("{key}: means nothing to {}", self.kind.name()),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::FaultKind;

    fn problems(fault: serde_json::Value) -> Vec<String> {
        serde_json::from_value::<Fault>(fault).unwrap().problems()
    }

    #[test]
    fn every_key_has_its_range() {
        const YEAR: u64 = 31_536_000_000;
        for (key, kind, right, wrong, line) in [
            ("factor", "slow", json!(1_000), json!(1e18), "factor: must be 0 to 1,000"),
            ("factor", "wrong_usage", json!(0), json!(-1), "factor: must be 0 to 1,000"),
            ("probability", "hang", json!(1), json!(1.1), "probability: must be 0 to 1"),
            ("code", "status", json!(599), json!(600), "code: must be 200 to 599"),
            ("code", "health_down", json!(200), json!(199), "code: must be 200 to 599"),
            ("ms", "stall", json!(YEAR), json!(YEAR + 1), "ms: must be up to a year"),
            ("for_ms", "hang", json!(YEAR), json!(u64::MAX), "for_ms: must be up to a year"),
            ("ramp_ms", "thermal", json!(0), json!(YEAR + 1), "ramp_ms: must be up to a year"),
            ("period_ms", "thermal", json!(1), json!(0), "period_ms: must be at least 1"),
            ("steps", "warm_up", json!(1), json!(0), "steps: must be 1 to 1,000,000,000"),
            ("requests", "warm_up", json!(1), json!(0), "requests: must be 1 to 1,000,000,000"),
            ("count", "reset", json!(1), json!(0), "count: must be at least 1"),
            ("retry_after", "status", json!("2"), json!("2\n"), "retry_after: cannot be the value of a header"),
            ("path", "hang", json!("/"), json!("v1"), "path: must begin with /"),
        ] {
            assert_eq!(problems(json!({"kind": kind, key: right})), [""; 0], "{key} {right}");
            assert_eq!(problems(json!({"kind": kind, key: wrong})), [line], "{key} {wrong}");
        }
        let none = Fault { factor: f64::NAN, ..Fault::new(FaultKind::Slow) };
        assert_eq!(none.problems(), ["factor: must be 0 to 1,000"]);
    }

    #[test]
    fn a_key_that_means_nothing_to_the_kind_is_refused() {
        for (fault, line) in [
            (json!({"kind": "slow", "probability": 0.5}), "probability: means nothing to slow"),
            (json!({"kind": "thermal", "count": 2}), "count: means nothing to thermal"),
            (json!({"kind": "warm_up", "path": "/v1"}), "path: means nothing to warm_up"),
            (json!({"kind": "refuse", "count": 2}), "count: means nothing to refuse"),
            (json!({"kind": "hang", "mode": "nan"}), "mode: means nothing to hang"),
            (json!({"kind": "hang", "factor": 4}), "factor: means nothing to hang"),
            (json!({"kind": "slow", "ms": 5}), "ms: means nothing to slow"),
            (json!({"kind": "status", "restart": true}), "restart: means nothing to status"),
            (
                json!({"kind": "warm_up", "steps": 2, "requests": 2}),
                "requests: there are steps too; a warm-up has one of them",
            ),
        ] {
            assert_eq!(problems(fault.clone()), [line], "{fault}");
        }
    }

    #[test]
    fn a_fault_written_down_whole_is_as_good_as_the_same_in_short() {
        for row in table() {
            let whole = serde_json::to_value(Fault::new(row.0)).unwrap();
            assert_eq!(problems(whole), [""; 0], "{}", row.0.name());
        }
    }

    #[test]
    fn the_readme_names_the_keys_of_every_kind() {
        let table = table();
        assert_eq!(table.len(), 26, "rows of the table");
        for (kind, cell) in table {
            for key in kind.keys() {
                assert!(cell.contains(&format!("`{key}`")), "{key} of {}: {cell}", kind.name());
            }
        }
    }

    /// The kinds in README.md, each with the cell of its keys.
    fn table() -> Vec<(FaultKind, &'static str)> {
        let rows = include_str!("../../README.md").lines().filter_map(|line| {
            let (names, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
            Some((names, rest.split_once('|')?.0))
        });
        let kinds = |names: &'static str| {
            names.split("`, `").filter_map(|name| serde_json::from_value::<FaultKind>(json!(name)).ok())
        };
        rows.flat_map(|(names, cell)| kinds(names).map(move |kind| (kind, cell))).collect()
    }
}
