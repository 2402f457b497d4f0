//! The first policy against each of those that people would use instead: nowhere slower by more than a margin.
//!
//! Of a hundred comparisons some come out well by chance, so that each is tested as one of all. What a newcomer gets wrong: what
//! is not shown may well be so. Few seeds show little where runs differ much.

use std::fmt::Write as _;

use serde::Serialize;

use super::Report;
use super::page::percent;
use crate::measure::statistics::{CONFIDENCE, Corrected, Interval, PairedRatio, holm};

/// Those it has to stand beside.
const RIVALS: [&str; 7] =
    ["round_robin", "least_request", "weighted_round_robin", "hyperpod", "cache_aware", "pxbs", "ring"];

/// P95 of TTFT over that of another from which on it is worse.
const MARGIN: f64 = 1.1;

/// Chance of a wrong claim among all: that of one end of a 95 % interval.
const LEVEL: f64 = (1.0 - CONFIDENCE) / 2.0;

/// P95 of TTFT over that of a rival, in one cell.
#[derive(Clone, Debug, Serialize)]
pub struct Margin {
    /// Id of the scenario.
    pub scenario: String,
    /// Name of the load.
    pub load: String,
    /// The policy.
    pub policy: String,
    /// The rival.
    pub against: String,
    /// The ratio, with the interval that it has by itself.
    pub ratio: Interval,
    /// Upper end of the interval that it has as one of all.
    pub high: f64,
    /// Corrected p value of the ratio being at the margin or above.
    pub p: f64,
    /// Whether it is shown to be below the margin.
    pub is_shown: bool,
}

impl Report {
    /// Every cell against every rival that was played, as one family of tests. None with one seed.
    pub fn margins(&self) -> Vec<Margin> {
        let tests = self.tests();
        let p_values: Vec<f64> = tests.iter().map(|test| test.p).collect();
        let margin = |(test, corrected)| {
            let Test { scenario, load, policy, against, ratio, .. } = test;
            let Corrected { p, among } = corrected;
            // To pass the test of one among so many is to have an interval of this confidence below the margin.
            let high = ratio.interval(1.0 - 2.0 * LEVEL / among as f64).high;
            let [scenario, load, policy, against] = [scenario, load, policy, against].map(str::to_owned);
            let own = ratio.interval(CONFIDENCE);
            Some(Margin { scenario, load, policy, against, ratio: own, high: high?, p, is_shown: p <= LEVEL })
        };
        tests.into_iter().zip(holm(&p_values)).filter_map(margin).collect()
    }

    fn tests(&self) -> Vec<Test<'_>> {
        let mut tests = Vec::new();
        let Some(policy) = self.policies.first() else { return tests };
        for (scenario, loads) in &self.scenarios {
            for load in loads {
                let values = |policy: &str| self.values(&scenario.id, load, policy, "ttft_p95");
                let ours = values(policy);
                for against in RIVALS.into_iter().filter(|rival| rival != policy) {
                    let ratio = PairedRatio::of(&ours, &values(against));
                    if let Some((ratio, p)) = ratio.and_then(|ratio| Some((ratio, ratio.p_of_at_least(MARGIN)?))) {
                        tests.push(Test { scenario: &scenario.id, load, policy, against, ratio, p });
                    }
                }
            }
        }
        tests
    }
}

/// One test of the family.
struct Test<'a> {
    scenario: &'a str,
    load: &'a str,
    policy: &'a str,
    against: &'static str,
    ratio: PairedRatio,
    /// P value, not corrected.
    p: f64,
}

impl Margin {
    fn verdict(&self) -> &'static str {
        if self.is_shown {
            "shown"
        } else if self.ratio.mean < MARGIN {
            "**not shown**"
        } else {
            "**worse**"
        }
    }
}

/// The section of the page.
pub(super) fn section(page: &mut String, margins: &[Margin]) {
    let Some(Margin { policy, .. }) = margins.first() else { return };
    let _ = writeln!(
        page,
        "## Against each policy\n\nP95 of TTFT of {policy} over that of others: is it less than {MARGIN} times? Each of {} comparisons \
         is tested as one of all, so that the chance of a wrong *shown* among them is at most {:.1} % (Holm). The upper end is that of \
         the interval at that correction.\n\n| against | shown | not shown | worse | highest upper end | where |\n|---|---|---|---|---|---|",
        margins.len(),
        LEVEL * 100.0,
    );
    for rival in RIVALS {
        let of_rival: Vec<&Margin> = margins.iter().filter(|margin| margin.against == rival).collect();
        let highest = of_rival.iter().max_by(|one, other| one.high.total_cmp(&other.high));
        let Some(Margin { scenario, load, high, .. }) = highest else { continue };
        let count = |verdict| of_rival.iter().filter(|margin| margin.verdict() == verdict).count();
        let [shown, not_shown, worse] = ["shown", "**not shown**", "**worse**"].map(count);
        let _ = writeln!(page, "| {rival} | {shown} | {not_shown} | {worse} | {high:.2} | {scenario}, {load} |");
    }
    page.push_str("\n| scenario | load | against | ratio | upper end | p | |\n|---|---|---|---|---|---|---|\n");
    for margin in margins {
        let Margin { scenario, load, against, high, p, .. } = margin;
        let (ratio, high) = (percent(margin.ratio), (high - 1.0) * 100.0);
        let verdict = margin.verdict();
        let _ = writeln!(page, "| {scenario} | {load} | {against} | {ratio} | {high:+.1} % | {p:.4} | {verdict} |");
    }
    page.push('\n');
}
