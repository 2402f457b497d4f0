//! The page: bars first, then every cell, then every pair of policies.

use std::fmt::Write as _;

use super::{JudgedBar, Regret, Report, margin};
use crate::measure::statistics::{CONFIDENCE, Interval, interval, paired_ratio};

impl Report {
    /// All of it as Markdown.
    pub fn table(&self) -> String {
        let mut page = String::from("# Routing in virtual time\n\n");
        let seeds: Vec<String> = self.seeds.iter().map(ToString::to_string).collect();
        let _ = writeln!(
            page,
            "Simulated servers, real picker; no GPU was measured. Seeds {}: each trace is played under every policy, and \
             {}. Requests without an answer at the end of a run count with the time they have waited.\n",
            seeds.join(", "),
            match seeds.len() {
                1 => "one seed gives ratios without an interval",
                _ => "ratios are means over pairs of the same seed with a 95 % interval",
            },
        );
        regrets(&mut page, &self.regrets());
        bars(&mut page, &self.judged());
        page.push_str("![P95 of TTFT over that of round robin](ttft-p95.svg)\n\n");
        for (scenario, loads) in &self.scenarios {
            let _ = writeln!(page, "## {}: {}\n\n{}.\n", scenario.id, scenario.title, scenario.claim);
            for load in loads {
                self.cell(&mut page, &scenario.id, load);
            }
        }
        margin::section(&mut page, &self.margins());
        page
    }

    fn cell(&self, page: &mut String, scenario: &str, load: &str) {
        let _ = writeln!(
            page,
            "### {scenario}, {load}\n\n| policy | TTFT p50 s | p95 | p99 | p95 to round robin | TPOT p50 ms | hits | \
             share | tokens/s | goodput | preempted | decision p50 us |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
        );
        for policy in &self.policies {
            let values = |figure| self.values(scenario, load, policy, figure);
            let mean = |figure| interval(&values(figure)).mean;
            let others = self.values(scenario, load, "round_robin", "ttft_p95");
            let ratio = paired_ratio(&values("ttft_p95"), &others, CONFIDENCE).map_or(String::from("-"), percent);
            let _ = writeln!(
                page,
                "| {policy} | {:.3} | {:.3} | {:.3} | {ratio} | {:.1} | {:.1} % | {:.1}-{:.1} % | {:.0} | {:.1} % | {:.0} | \
                 {:.1} |",
                mean("ttft_p50"),
                mean("ttft_p95"),
                mean("ttft_p99"),
                mean("tpot_p50") * 1e3,
                mean("hit_rate") * 100.0,
                mean("share_least") * 100.0,
                mean("share_most") * 100.0,
                mean("token_rate"),
                mean("goodput") * 100.0,
                mean("preemptions"),
                mean("decision_p50_us"),
            );
        }
        page.push('\n');
    }
}

fn regrets(page: &mut String, regrets: &[Regret]) {
    page.push_str(
        "## Which policy is safe\n\nP95 of TTFT over that of the best policy of each cell (a scenario under one load), without the \
         oracle.\n\n| policy | within 10 % of the best | worst | where |\n|---|---|---|---|\n",
    );
    for Regret { policy, near_best, cells, worst, worst_cell } in regrets {
        let _ = writeln!(page, "| {policy} | {near_best} of {cells} cells | {worst:.2} times | {worst_cell} |");
    }
    page.push('\n');
}

fn bars(page: &mut String, bars: &[JudgedBar]) {
    if bars.is_empty() {
        return;
    }
    let _ = writeln!(page, "## Bars\n\n| scenario | load | figure | wanted | seen | |\n|---|---|---|---|---|---|");
    for JudgedBar { scenario, bar, value, verdict } in bars {
        let seen = match bar.against {
            Some(_) => percent(*value),
            None => plain(*value),
        };
        let (load, figure, wanted, verdict) = (&bar.load, &bar.figure, bar.wanted(), verdict.as_str());
        let policy = &bar.policy;
        let _ = writeln!(page, "| {scenario} | {load} | `{figure}` of {policy} | {wanted} | {seen} | {verdict} |");
    }
    page.push('\n');
}

pub(super) fn percent(ratio: Interval) -> String {
    let of = |value: f64| (value - 1.0) * 100.0;
    let ends = ratio.ends().map(|(low, high)| format!(" ({:+.1} to {:+.1})", of(low), of(high)));
    format!("{:+.1} %{}", of(ratio.mean), ends.unwrap_or_default())
}

fn plain(value: Interval) -> String {
    let ends = value.ends().map(|(low, high)| format!(" ({low:.4} to {high:.4})"));
    format!("{:.4}{}", value.mean, ends.unwrap_or_default())
}
