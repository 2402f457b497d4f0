//! A gateway with a scorer of one's own: prefers endpoints whose `zone` label equals `$ZONE`.
//!
//! ```sh
//! ZONE=a cargo run --example custom_scorer -- run --config conf/examples/custom-scorer.yaml
//! ```

use std::process::ExitCode;

use spillway::Registry;
use spillway_picker::request::RequestInfo;
use spillway_picker::scorer::Scorer;
use spillway_picker::view::Candidates;

struct SameZone {
    zone: String,
}

impl Scorer for SameZone {
    fn name(&self) -> &'static str {
        "same_zone"
    }

    fn score(&self, _request: &RequestInfo, candidates: &Candidates<'_>, scores: &mut [f64]) {
        for (i, score) in scores.iter_mut().enumerate() {
            let is_same = candidates.endpoint(i).labels.get("zone") == Some(&self.zone);
            *score = if is_same { 1.0 } else { 0.0 };
        }
    }
}

fn main() -> ExitCode {
    let zone = std::env::var("ZONE").unwrap_or_default();
    spillway::main(Registry::default().scorer("same_zone", move || SameZone { zone: zone.clone() }))
}
