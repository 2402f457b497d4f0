//! What has to come out: a figure of the default policy, by itself or against another policy on the same traces.

use serde::{Deserialize, Serialize};

use crate::measure::Summary;
use crate::measure::statistics::Interval;

/// A bar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bar {
    /// The load under which.
    pub load: String,
    /// Name of the figure, as in the files of results.
    pub figure: String,
    /// The policy it is about; `adaptive` by default.
    #[serde(default = "default_policy")]
    pub policy: String,
    /// The policy it is divided by; without one the figure itself counts.
    #[serde(default)]
    pub against: Option<String>,
    /// No less than this.
    #[serde(default)]
    pub least: Option<f64>,
    /// No more than this.
    #[serde(default)]
    pub most: Option<f64>,
}

fn default_policy() -> String {
    "adaptive".to_owned()
}

/// Whether a bar was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The whole interval is inside.
    Passed,
    /// The mean is inside, the interval is not.
    Unsure,
    /// The mean is outside.
    Missed,
}

impl Verdict {
    /// As tables have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Unsure => "passed, interval across the bar",
            Self::Missed => "**missed**",
        }
    }
}

impl Bar {
    /// What is wrong with it, if anything.
    pub fn check(&self) -> Result<(), String> {
        if Summary::default().figure(&self.figure).is_none() {
            return Err(format!("there is no figure {}", self.figure));
        }
        match (self.least, self.most) {
            (None, None) => Err(format!("{} has neither least nor most", self.figure)),
            (Some(least), Some(most)) if least > most => Err(format!("{} has least above most", self.figure)),
            _ => Ok(()),
        }
    }

    /// Judges a value by its mean and interval.
    pub fn judge(&self, value: Interval) -> Verdict {
        let inside =
            |value: f64| self.least.is_none_or(|least| value >= least) && self.most.is_none_or(|most| value <= most);
        match (inside(value.mean), inside(value.low) && inside(value.high)) {
            (true, true) => Verdict::Passed,
            (true, false) => Verdict::Unsure,
            (false, _) => Verdict::Missed,
        }
    }

    /// In words.
    pub fn wanted(&self) -> String {
        let value = |value: f64| match &self.against {
            Some(_) => format!("{:+.1} %", (value - 1.0) * 100.0),
            None => format!("{value}"),
        };
        let range = match (self.least, self.most) {
            (Some(least), Some(most)) => format!("{} to {}", value(least), value(most)),
            (Some(least), None) => format!("at least {}", value(least)),
            (None, Some(most)) => format!("at most {}", value(most)),
            (None, None) => String::new(),
        };
        match &self.against {
            Some(other) => format!("{range} against {other}"),
            None => range,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(least: Option<f64>, most: Option<f64>) -> Bar {
        Bar {
            load: "main".to_owned(),
            figure: "ttft_p95".to_owned(),
            policy: default_policy(),
            against: Some("round_robin".to_owned()),
            least,
            most,
        }
    }

    #[test]
    fn an_interval_across_the_bar_is_no_clear_pass() {
        let bar = bar(None, Some(0.5));
        let judge = |mean, low, high| bar.judge(Interval { mean, low, high });
        assert_eq!(judge(0.4, 0.35, 0.45), Verdict::Passed);
        assert_eq!(judge(0.4, 0.2, 0.6), Verdict::Unsure);
        assert_eq!(judge(0.6, 0.4, 0.8), Verdict::Missed);
    }

    #[test]
    fn a_bar_says_what_it_wants() {
        assert_eq!(bar(None, Some(0.03)).wanted(), "at most -97.0 % against round_robin");
        assert_eq!(bar(Some(0.95), Some(1.05)).wanted(), "-5.0 % to +5.0 % against round_robin");
    }

    #[test]
    fn a_bar_on_no_figure_or_without_a_limit_is_refused() {
        assert!(bar(None, None).check().is_err());
        assert!(Bar { figure: "ttft_p96".to_owned(), ..bar(None, Some(1.0)) }.check().is_err());
        assert!(bar(Some(0.1), Some(0.2)).check().is_ok());
    }
}
