//! Writes a page in Prometheus' text format, down to the habits of the Python client.
//!
//! Those habits: floats always with a point, large ones as `1.7e+09`, counters and histograms each with a `_created`
//! series of its own TYPE.

use std::fmt::Write as _;

use crate::engine::Histogram;

/// A page being written. Labels are given without braces, in alphabetical order.
#[derive(Debug)]
pub(super) struct Page {
    text: String,
    /// Labels of every series.
    common: String,
    /// Value of all `_created` series.
    created: f64,
}

impl Page {
    pub(super) fn new(model: &str, created: f64) -> Self {
        let common = format!(r#"engine="0",model_name="{}""#, escaped(model));
        Self { text: String::with_capacity(32 << 10), common, created }
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    pub(super) fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// A sample with exactly these labels.
    pub(super) fn sample(&mut self, name: &str, labels: &str, value: f64) {
        let _ = writeln!(self.text, "{name}{{{labels}}} {}", number(value));
    }

    /// A gauge with the common labels.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.head(name, "gauge", help);
        let labels = self.common.clone();
        self.sample(name, &labels, value);
    }

    /// A gauge with one more label.
    pub(super) fn gauge_by(&mut self, name: &str, help: &str, label: &str, values: &[(&str, f64)]) {
        self.head(name, "gauge", help);
        self.by(name, label, values);
    }

    /// A counter; `base` is its name without `_total`.
    pub(super) fn counter(&mut self, base: &str, help: &str, value: f64) {
        let labels = self.common.clone();
        self.head(&format!("{base}_total"), "counter", help);
        self.sample(&format!("{base}_total"), &labels, value);
        self.head(&format!("{base}_created"), "gauge", help);
        self.sample(&format!("{base}_created"), &labels, self.created);
    }

    /// A counter with one more label.
    pub(super) fn counter_by(&mut self, base: &str, help: &str, label: &str, values: &[(&str, f64)]) {
        self.head(&format!("{base}_total"), "counter", help);
        self.by(&format!("{base}_total"), label, values);
        self.head(&format!("{base}_created"), "gauge", help);
        let created: Vec<_> = values.iter().map(|&(value, _)| (value, self.created)).collect();
        self.by(&format!("{base}_created"), label, &created);
    }

    /// A counter without the engine label; of its two series only the first ever counts.
    pub(super) fn counter_of_model(
        &mut self,
        base: &str,
        help: &str,
        (label, first, second): (&str, &str, &str),
        value: f64,
    ) {
        let model = self.common.split_once(',').map_or("", |(_, model)| model).to_owned();
        let labels = [first, second].map(|reason| format!(r#"{model},{label}="{reason}""#));
        self.head(&format!("{base}_total"), "counter", help);
        self.sample(&format!("{base}_total"), &labels[0], value);
        self.sample(&format!("{base}_total"), &labels[1], 0.0);
        self.head(&format!("{base}_created"), "gauge", help);
        for labels in &labels {
            self.sample(&format!("{base}_created"), labels, self.created);
        }
    }

    pub(super) fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, "histogram", help);
        let common = self.common.clone();
        let (engine, model) = common.split_once(',').unwrap_or((&common, ""));
        let bucket = format!("{name}_bucket");
        for (bound, count) in histogram.buckets() {
            self.sample(&bucket, &format!(r#"{engine},le="{}",{model}"#, number(bound)), count as f64);
        }
        self.sample(&bucket, &format!(r#"{engine},le="+Inf",{model}"#), histogram.count() as f64);
        self.sample(&format!("{name}_count"), &common, histogram.count() as f64);
        self.sample(&format!("{name}_sum"), &common, histogram.sum());
        self.head(&format!("{name}_created"), "gauge", help);
        self.sample(&format!("{name}_created"), &common, self.created);
    }

    /// Samples of one family that differ in one label, put in alphabetical place.
    fn by(&mut self, name: &str, label: &str, values: &[(&str, f64)]) {
        let common = self.common.clone();
        let (engine, model) = common.split_once(',').unwrap_or((&common, ""));
        for (value, sample) in values {
            let labels = if label < "model_name" {
                format!(r#"{engine},{label}="{value}",{model}"#)
            } else {
                format!(r#"{common},{label}="{value}""#)
            };
            self.sample(name, &labels, *sample);
        }
    }
}

/// A label value between its quotes.
pub(super) fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A number as the Python client writes it.
pub(super) fn number(value: f64) -> String {
    let plain = format!("{value:?}");
    // From a million up it moves the point by hand and adds an exponent.
    match plain.find('.') {
        Some(point) if value > 0.0 && point > 6 && !plain.contains('e') => {
            let digits = format!("{}.{}{}", &plain[..1], &plain[1..point], &plain[point + 1..]);
            format!("{}e+{:02}", digits.trim_end_matches(['0', '.']), point - 1)
        }
        _ => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_as_the_python_client_writes_them() {
        let written: Vec<_> = [0.0, 3.0, 0.001, 999_999.0, 1_234_567.0, 1_795_996_364.272].map(number).into();
        assert_eq!(written, ["0.0", "3.0", "0.001", "999999.0", "1.234567e+06", "1.795996364272e+09"]);
    }
}
