//! One picture: a figure of every policy over that of another, by scenario, on a logarithmic scale.

use std::fmt::Write as _;

use super::Report;
use crate::measure::statistics::{CONFIDENCE, paired_ratio};

const WIDTH: f64 = 1_000.0;
const ROW: f64 = 22.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 70.0;
/// Ratios outside are drawn at the edge.
const LEAST: f64 = 0.001;
const MOST: f64 = 10.0;
/// Told apart by people who do not tell red from green: after Okabe and Ito.
const COLOURS: [&str; 9] =
    ["#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31", "#7f7f7f", "#000000"];

/// Points for the means, lines for the 95 % intervals where there are several seeds.
pub(super) fn ratios(report: &Report, figure: &str, against: &str) -> String {
    let cells: Vec<(&str, &str)> = report
        .scenarios
        .iter()
        .flat_map(|(scenario, loads)| loads.iter().map(move |load| (scenario.id.as_str(), load.as_str())))
        .collect();
    let policies: Vec<&String> = report.policies.iter().filter(|policy| *policy != against).collect();
    let height = TOP + ROW * cells.len() as f64 + 40.0;
    let x = |ratio: f64| {
        let place = (ratio.clamp(LEAST, MOST) / LEAST).ln() / (MOST / LEAST).ln();
        LEFT + place * (WIDTH - LEFT - RIGHT)
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"10\" y=\"20\" font-size=\"15\">{figure} over that of {against}; left is better (simulated)</text>\n"
    );
    for (place, policy) in policies.iter().enumerate() {
        let at = 10.0 + place as f64 * 108.0;
        let colour = COLOURS[place % COLOURS.len()];
        let _ = writeln!(svg, "<circle cx=\"{at}\" cy=\"40\" r=\"5\" fill=\"{colour}\"/>");
        let _ = writeln!(svg, "<text x=\"{}\" y=\"44\">{policy}</text>", at + 9.0);
    }
    let bottom = TOP + ROW * cells.len() as f64;
    for (tick, width) in [(0.001, 1), (0.01, 1), (0.1, 1), (0.5, 1), (1.0, 2), (2.0, 1), (10.0, 1)] {
        let at = x(tick);
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\" stroke=\"#bbb\" stroke-width=\"{width}\"/>\
             <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{tick}</text>",
            bottom + 18.0
        );
    }
    for (number, (scenario, load)) in cells.iter().enumerate() {
        let middle = TOP + ROW * (number as f64 + 0.5);
        let _ = writeln!(svg, "<text x=\"10\" y=\"{:.1}\">{scenario}, {load}</text>", middle + 4.0);
        for (place, policy) in policies.iter().enumerate() {
            let values = |policy: &str| report.values(scenario, load, policy, figure);
            let Some(ratio) = paired_ratio(&values(policy), &values(against), CONFIDENCE) else { continue };
            let colour = COLOURS[place % COLOURS.len()];
            let y = middle + (place as f64 - policies.len() as f64 / 2.0) * 1.6;
            if let Some((low, high)) = ratio.ends() {
                let (from, to) = (x(low), x(high));
                let _ = write!(
                    svg,
                    "<line x1=\"{from:.1}\" y1=\"{y:.1}\" x2=\"{to:.1}\" y2=\"{y:.1}\" stroke=\"{colour}\"/>"
                );
            }
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"><title>{policy}: {:.3}</title></circle>",
                x(ratio.mean),
                ratio.mean
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}
