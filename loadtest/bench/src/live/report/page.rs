//! The page for people.

use std::fmt::Write as _;

use super::Report;
use crate::live::arm::Arm;
use crate::live::run::Played;

/// The whole page.
pub(super) fn page(report: &Report, arms: &[Arm]) -> String {
    let mut page = String::new();
    // Writing to a string does not fail.
    let _ = write_page(report, arms, &mut page);
    page
}

fn write_page(report: &Report, arms: &[Arm], page: &mut String) -> std::fmt::Result {
    let Report { scenario, load, seconds, seed, time_scale, stream_interval, date, machine, .. } = report;
    writeln!(page, "# {scenario}, {load}, live\n")?;
    writeln!(
        page,
        "{date}, {machine}. {seconds} model seconds, seed {seed}, time scale {time_scale}, up to {stream_interval} output \
         tokens in an event of a stream.\n"
    )?;
    for (program, version) in &report.versions {
        writeln!(page, "- {program}: {version}")?;
    }
    match report.problems().as_slice() {
        [] => writeln!(page, "\nAll runs are valid.\n")?,
        problems => {
            writeln!(page, "\n**Not valid**, and of no use but to look at:\n")?;
            problems.iter().try_for_each(|problem| writeln!(page, "- {problem}"))?;
            writeln!(page)?;
        }
    }
    match report.runs.iter().map(|run| run.attempt - 1).sum::<usize>() {
        0 => {}
        again => writeln!(page, "Runs that were not valid and have been played again: {again}.\n")?,
    }
    writeln!(page, "## Runs, in the order of playing\n")?;
    writeln!(
        page,
        "TTFT in model ms, what the gateway adds counted once; in brackets not corrected. A request that \
         takes no time is answered directly after the time under `direct`, and what stands between adds to it, both in us by the \
         clock. Lag in ms by the clock, p50/p99/max. \
         Cores: busy ones of load and servers + of what stands between + of others on the machine.\n"
    )?;
    writeln!(
        page,
        "| arm | requests | failed | TTFT p50 | p90 | p95 | p99 | direct + adds | hits | share | tokens/s | lag | cores |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    )?;
    report.runs.iter().try_for_each(|run| writeln!(page, "{}", row(run)))?;

    writeln!(page, "\n## Means, and ratios to {}\n", arms[0])?;
    writeln!(page, "| arm | TTFT p50 | p90 | p95 | p99 | hits | tokens/s |\n|---|---:|---:|---:|---:|---:|---:|")?;
    for mean in report.means(arms) {
        let cell = |figure: &str, scale: f64| {
            let (value, ratio) = (mean.figures[figure] * scale, mean.ratios[figure]);
            if ratio.is_finite() { format!("{value:.1} ({ratio:.2})") } else { format!("{value:.1}") }
        };
        let times = ["ttft_p50", "ttft_p90", "ttft_p95", "ttft_p99"].map(|figure| cell(figure, 1e3));
        let (hits, tokens) = (cell("hit_rate", 100.0), cell("token_rate", 1.0));
        writeln!(page, "| {} | {} | {hits} | {tokens} |", mean.arm, times.join(" | "))?;
    }

    let agreement = report.agreement(arms);
    if !agreement.is_empty() {
        writeln!(page, "\n## Beside virtual time\n")?;
        writeln!(page, "They agree when they differ by at most 5 %, or 5 ms of time to first token.\n")?;
        writeln!(page, "| arm | figure | live | virtual time | difference | agrees |\n|---|---|---:|---:|---:|---|")?;
        for one in agreement {
            let (live, other) = (one.live, one.in_virtual_time);
            let (scale, unit) = match one.figure {
                "token_rate" => (1.0, "/s"),
                "hit_rate" => (100.0, " %"),
                _ => (1e3, " ms"),
            };
            let difference = format!("{:+.1}{unit}", (live - other) * scale);
            let yes = if one.agrees { "yes" } else { "no" };
            let (live, other) = (live * scale, other * scale);
            writeln!(page, "| {} | {} | {live:.1} | {other:.1} | {difference} | {yes} |", one.arm, one.figure)?;
        }
    }
    Ok(())
}

fn row(run: &Played) -> String {
    let (corrected, raw) = (&run.summary, &run.uncorrected);
    let time = |corrected: f64, raw: f64| format!("{:.1} ({:.1})", corrected * 1e3, raw * 1e3);
    let failed: usize = run.failures.values().sum();
    let kinds: Vec<String> = run.failures.iter().map(|(kind, count)| format!("{kind}: {count}")).collect();
    let failed = if failed == 0 { "0".to_owned() } else { format!("{failed} ({})", kinds.join(", ")) };
    format!(
        "| {} | {} | {failed} | {} | {} | {} | {} | {:.0} + {:.0} | {:.1} % | {:.1}-{:.1} % | {:.0} | {:.2}/{:.2}/{:.1} | {:.2} + {:.2} + {:.2} |",
        run.arm,
        corrected.requests,
        time(corrected.ttft_p50, raw.ttft_p50),
        time(corrected.ttft_p90, raw.ttft_p90),
        time(corrected.ttft_p95, raw.ttft_p95),
        time(corrected.ttft_p99, raw.ttft_p99),
        run.overhead.direct * 1e6,
        run.overhead.added * 1e6,
        corrected.hit_rate * 100.0,
        corrected.share_least * 100.0,
        corrected.share_most * 100.0,
        corrected.token_rate,
        run.lag.p50 * 1e3,
        run.lag.p99 * 1e3,
        run.lag.max * 1e3,
        run.busy.load,
        run.busy.front,
        run.busy.others,
    )
}
