//! What has to come out: a figure of the default policy, by itself or against another policy on the same traces.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Load;
use crate::matrix;
use crate::measure::Summary;
use crate::measure::statistics::{CONFIDENCE, EQUIVALENCE, Interval};
use spillway_sim::Problems;

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
    /// Instead of both: equivalent to the policy it is divided by, to this part.
    #[serde(default)]
    pub within: Option<f64>,
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
    /// Equivalence is asked, the mean is inside and the interval is not, or there is none: too few seeds to show it.
    NotShown,
    /// The mean is outside.
    Missed,
    /// The value of the only seed is inside; there is no interval.
    PassedOnce,
    /// The value of the only seed is outside.
    MissedOnce,
}

impl Verdict {
    /// As tables have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Unsure => "passed, interval across the bar",
            Self::NotShown => "**not shown**, interval across the bar",
            Self::Missed => "**missed**",
            Self::PassedOnce => "passed, on one seed",
            Self::MissedOnce => "**missed**, on one seed",
        }
    }
}

impl Bar {
    /// Says what is wrong with it, where there are these loads.
    pub fn check(&self, loads: &BTreeMap<String, Load>, problems: &mut Problems) {
        if !loads.contains_key(&self.load) {
            problems.add("load", format_args!("no load {}", self.load));
        }
        if Summary::default().figure(&self.figure).is_none() {
            problems.add("figure", format_args!("there is no figure {}", self.figure));
        }
        for (key, name) in [("policy", Some(&self.policy)), ("against", self.against.as_ref())] {
            if let Some(said) = name.and_then(|name| matrix::policy(name).err()) {
                problems.add(key, said);
            }
        }
        for (key, value) in [("least", self.least), ("most", self.most)] {
            problems.range(key, value.unwrap_or_default(), 0.0..=1e12);
        }
        if let Some(within) = self.within {
            problems.range("within", within, 0.001..=1.0);
            if self.against.is_none() {
                problems.add("within", "against is missing, the policy to be equivalent to");
            }
        }
        match (self.least, self.most, self.within) {
            (None, None, None) => problems.add("most", "there is neither least nor most nor within"),
            (Some(_), _, Some(_)) | (_, Some(_), Some(_)) => problems.add("within", "there is least or most too"),
            (Some(least), Some(most), None) if least > most => {
                problems.add("least", format_args!("{least} is above most, {most}"));
            }
            _ => {}
        }
    }

    /// Least and most.
    fn ends(&self) -> (Option<f64>, Option<f64>) {
        self.within.map_or((self.least, self.most), |within| (Some(1.0 - within), Some(1.0 + within)))
    }

    /// Confidence of the interval it is judged by.
    pub fn confidence(&self) -> f64 {
        if self.within.is_some() { EQUIVALENCE } else { CONFIDENCE }
    }

    /// Judges a value by its mean and interval.
    pub fn judge(&self, value: Interval) -> Verdict {
        let (least, most) = self.ends();
        let inside = |value: f64| least.is_none_or(|least| value >= least) && most.is_none_or(|most| value <= most);
        let ends = value.ends().map(|(low, high)| inside(low) && inside(high));
        match (inside(value.mean), ends) {
            (true, Some(true)) => Verdict::Passed,
            (true, _) if self.within.is_some() => Verdict::NotShown,
            (true, Some(false)) => Verdict::Unsure,
            (false, Some(_)) => Verdict::Missed,
            (true, None) => Verdict::PassedOnce,
            (false, None) => Verdict::MissedOnce,
        }
    }

    /// In words.
    pub fn wanted(&self) -> String {
        let value = |value: f64| match &self.against {
            Some(_) => format!("{:+.1} %", (value - 1.0) * 100.0),
            None => format!("{value}"),
        };
        let range = match self.ends() {
            (Some(least), Some(most)) => format!("{} to {}", value(least), value(most)),
            (Some(least), None) => format!("at least {}", value(least)),
            (None, Some(most)) => format!("at most {}", value(most)),
            (None, None) => String::new(),
        };
        match (&self.against, self.within) {
            (Some(other), Some(_)) => format!("{range} of {other}, 90 % interval"),
            (Some(other), None) => format!("{range} against {other}"),
            (None, _) => range,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::statistics::interval;
    use crate::scenario::Told;
    use crate::workload::Arrivals;

    fn bar(least: Option<f64>, most: Option<f64>) -> Bar {
        Bar {
            load: "main".to_owned(),
            figure: "ttft_p95".to_owned(),
            policy: default_policy(),
            against: Some("round_robin".to_owned()),
            least,
            most,
            within: None,
        }
    }

    fn equivalent(within: f64) -> Bar {
        Bar { within: Some(within), ..bar(None, None) }
    }

    #[test]
    fn an_interval_across_the_bar_is_no_clear_pass() {
        let bar = bar(None, Some(0.5));
        let judge = |mean, low, high| bar.judge(Interval { mean, low: Some(low), high: Some(high) });
        assert_eq!(judge(0.4, 0.35, 0.45), Verdict::Passed);
        assert_eq!(judge(0.4, 0.2, 0.6), Verdict::Unsure);
        assert_eq!(judge(0.6, 0.4, 0.8), Verdict::Missed);
    }

    #[test]
    fn a_verdict_on_one_seed_says_so() {
        let judge = |mean| bar(None, Some(0.5)).judge(interval(&[mean]));
        assert_eq!((judge(0.4), judge(0.6)), (Verdict::PassedOnce, Verdict::MissedOnce));
        assert!([0.4, 0.6].iter().all(|mean| judge(*mean).as_str().ends_with("on one seed")));
    }

    #[test]
    fn equivalence_is_shown_by_the_interval_and_by_nothing_less() {
        let bar = equivalent(0.05);
        let judge = |mean, low, high| bar.judge(Interval { mean, low: Some(low), high: Some(high) });
        assert_eq!(judge(1.0, 0.96, 1.04), Verdict::Passed);
        assert_eq!(judge(1.03, 1.0, 1.06), Verdict::NotShown);
        assert_eq!(judge(0.97, 0.94, 1.0), Verdict::NotShown, "to be better is not to be equivalent");
        assert_eq!(judge(1.06, 1.055, 1.065), Verdict::Missed);
        assert_eq!(bar.judge(interval(&[1.0])), Verdict::NotShown, "one seed shows none");
    }

    #[test]
    fn a_bar_says_what_it_wants() {
        assert_eq!(equivalent(0.05).wanted(), "-5.0 % to +5.0 % of round_robin, 90 % interval");
        assert_eq!(bar(None, Some(0.03)).wanted(), "at most -97.0 % against round_robin");
        assert_eq!(bar(Some(0.95), Some(1.05)).wanted(), "-5.0 % to +5.0 % against round_robin");
    }

    #[test]
    fn a_bar_that_nothing_can_pass_or_miss_is_refused() {
        let main = Load {
            arrivals: Arrivals::Even(1.0),
            gateways: 1,
            scrape: 0.1,
            horizon: None,
            told: Told::default(),
            peers: None,
        };
        let loads = BTreeMap::from([("main".to_owned(), main)]);
        let found = |bar: Bar| {
            let mut problems = Problems::default();
            bar.check(&loads, &mut problems);
            problems.lines().join("; ")
        };
        let right = bar(Some(0.1), Some(0.2));
        assert_eq!(found(right.clone()), "");
        for (wrong, said) in [
            (bar(None, None), "neither least nor most nor within"),
            (equivalent(0.0), "within: must be 0.001 to 1"),
            (Bar { most: Some(1.0), ..equivalent(0.05) }, "within: there is least or most too"),
            (Bar { against: None, ..equivalent(0.05) }, "within: against is missing"),
            (bar(Some(0.3), Some(0.2)), "least: 0.3 is above most, 0.2"),
            (bar(None, Some(f64::NAN)), "most: must be 0 to"),
            (bar(None, Some(f64::INFINITY)), "most: must be 0 to"),
            (bar(Some(f64::NEG_INFINITY), None), "least: must be"),
            (Bar { load: "other".to_owned(), ..right.clone() }, "load: no load other"),
            (Bar { figure: "ttft_p96".to_owned(), ..right.clone() }, "figure: there is no figure ttft_p96"),
            (Bar { policy: "adaptiv".to_owned(), ..right.clone() }, "policy: no policy \"adaptiv\""),
            (Bar { against: Some("custom".to_owned()), ..right.clone() }, "against: no policy \"custom\""),
        ] {
            let found = found(wrong.clone());
            assert!(found.contains(said), "{wrong:?}: {found}");
        }
    }
}
