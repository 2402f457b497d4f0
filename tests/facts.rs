//! Metrics pages that are missing, broken or lie: their endpoints stay in service, and what is unknown is never zero.

mod broken;
mod engines;
mod odd;
mod others;

use std::time::Duration;

use serde_json::Value;

use crate::explain::explained;
use crate::harness::{Gateway, chat};

/// From the last good page on, with the default interval; picker: `stale_after`.
const STALE_AFTER: Duration = Duration::from_secs(1);

/// What a decision made now would know of an endpoint.
async fn known(gateway: &Gateway, endpoint: &str) -> Value {
    let table = explained(gateway, chat("hello")).await;
    let endpoints = table["decision"]["endpoints"].as_array().unwrap();
    endpoints
        .iter()
        .find(|one| one["endpoint"] == endpoint)
        .unwrap_or_else(|| panic!("no {endpoint}: {table:#}"))
        .clone()
}

/// The fact of this name, as [`known`] has it.
fn fact<'a>(known: &'a Value, name: &str) -> &'a Value {
    let facts = known["facts"].as_array().unwrap();
    facts.iter().find(|fact| fact["name"] == name).unwrap_or_else(|| panic!("no {name}: {known:#}"))
}

/// Asks a few times and returns how often each replica answered.
async fn answers(gateway: &Gateway, count: usize) -> std::collections::BTreeMap<String, usize> {
    let mut answers = std::collections::BTreeMap::new();
    for number in 0..count {
        let answer = gateway.post("/v1/chat/completions", chat(&format!("question {number}"))).await.expect(200);
        *answers.entry(answer.header("x-sim-replica").to_owned()).or_default() += 1;
    }
    answers
}
