//! Gauges read from the live state when they are asked for, so that nothing has to keep them current and series of gone
//! endpoints disappear by themselves.

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, Opts};

use crate::fleet::Fleet;

/// Name, labels and help of each gauge, for the documentation's test.
pub const FAMILIES: &[(&str, &[&str], &str)] = &[
    (
        "spillway_in_flight",
        &["pool", "endpoint", "phase"],
        "Requests sent by this gateway and not yet ended; phase is prefill or decode.",
    ),
    (
        "spillway_pool_in_flight",
        &["pool"],
        "Requests admitted to the pool and not yet ended, retries between endpoints included.",
    ),
    (
        "spillway_endpoint_state",
        &["pool", "endpoint", "state"],
        "1 for the state the endpoint is in: healthy, demoted, down or draining.",
    ),
    (
        "spillway_scrape_interval_seconds",
        &["pool"],
        "Time between two reads of one endpoint's metrics page; facts count as unknown after five times as long, and not within a second.",
    ),
    ("spillway_endpoint_scrape_age_seconds", &["pool", "endpoint"], "Age of the endpoint's last metrics page."),
    ("spillway_endpoint_queued", &["pool", "endpoint"], "Requests waiting in the engine at the last scrape."),
    ("spillway_endpoint_running", &["pool", "endpoint"], "Requests running in the engine at the last scrape."),
    (
        "spillway_endpoint_kv_usage_ratio",
        &["pool", "endpoint"],
        "Share of the key-value cache in use at the last scrape, 0 to 1.",
    ),
    (
        "spillway_endpoint_pending_prefill_seconds",
        &["pool", "endpoint"],
        "Predicted prefill work not yet at its first token: what this gateway sent, and what those that talk to it tell of.",
    ),
    (
        "spillway_endpoint_kv_stored_blocks",
        &["pool", "endpoint"],
        "Blocks in the endpoint's cache as its KV events tell, in the engine's size (often 16 tokens); only with affinity.events.",
    ),
    (
        "spillway_endpoint_kv_held_blocks",
        &["pool", "endpoint"],
        "Blocks of text, 256 bytes and more each, of prompts sent by this gateway that the endpoint holds as its KV events tell, and not by our guess.",
    ),
    (
        "spillway_endpoint_kv_attributed_ratio",
        &["pool", "endpoint"],
        "Share of the stored blocks told of that could be attributed to requests of this gateway, 0 to 1.",
    ),
    ("spillway_peers", &[], "Other gateways that are heard; only with peers.listen."),
    (
        "spillway_peers_expected",
        &[],
        "Other gateways that there are by peers.gateways or peers.dns; only with peers.listen.",
    ),
    ("spillway_body_memory_bytes", &[], "Request bodies held in memory."),
    ("spillway_active_requests", &[], "Requests being served, from their head to their last byte."),
    ("spillway_config_hash", &[], "Hash of the configuration in force; equal on gateways with equal configuration."),
    ("spillway_build_info", &["version"], "Always 1."),
];

/// Reads them all.
pub(super) fn gather(fleet: &Fleet) -> Vec<MetricFamily> {
    let gauges: Vec<GaugeVec> = FAMILIES
        .iter()
        .map(|(name, labels, help)| {
            GaugeVec::new(Opts::new(*name, *help), labels).expect("names in the table are valid")
        })
        .collect();
    let set = |name: &str, labels: &[&str], value: f64| {
        let index = FAMILIES.iter().position(|(known, ..)| *known == name).expect("only names of the table are set");
        gauges[index].with_label_values(labels).set(value);
    };
    let live = fleet.live();
    let now = fleet.now();
    for (pool, live_pool) in &live.pools {
        set("spillway_pool_in_flight", &[pool], f64::from(live_pool.state.in_flight()));
        if let Some(interval) = live_pool.state.picker.scrape_interval() {
            set("spillway_scrape_interval_seconds", &[pool], interval.as_secs_f64());
        }
        for one in live_pool.state.picker.snapshot(now) {
            let labels = [pool.as_str(), &*one.id];
            set("spillway_in_flight", &[pool, &*one.id, "prefill"], f64::from(one.prefills));
            set("spillway_in_flight", &[pool, &*one.id, "decode"], f64::from(one.decodes));
            let state = match (one.draining, one.healthy, one.demoted) {
                (true, ..) => "draining",
                (_, false, _) => "down",
                (.., true) => "demoted",
                _ => "healthy",
            };
            for name in ["healthy", "demoted", "down", "draining"] {
                set("spillway_endpoint_state", &[pool, &*one.id, name], f64::from(u8::from(name == state)));
            }
            let facts = [
                ("spillway_endpoint_scrape_age_seconds", one.facts_age.map(|age| age.as_secs_f64())),
                ("spillway_endpoint_queued", one.queued),
                ("spillway_endpoint_running", one.running),
                ("spillway_endpoint_kv_usage_ratio", one.kv_usage),
                ("spillway_endpoint_pending_prefill_seconds", Some(one.pending_seconds)),
            ];
            let kv = one.kv_events;
            let attributed = kv.map(|kv| kv.attributed as f64 / (kv.attributed + kv.unattributed) as f64);
            let facts = facts.into_iter().chain([
                ("spillway_endpoint_kv_stored_blocks", kv.map(|kv| kv.blocks as f64)),
                ("spillway_endpoint_kv_held_blocks", kv.map(|kv| kv.held as f64)),
                ("spillway_endpoint_kv_attributed_ratio", attributed.filter(|ratio| !ratio.is_nan())),
            ]);
            for (name, value) in facts {
                if let Some(value) = value {
                    set(name, &labels, value);
                }
            }
        }
    }
    if let Some(peers) = fleet.peers().view() {
        set("spillway_peers", &[], peers.heard.len() as f64);
        set("spillway_peers_expected", &[], f64::from(peers.expected));
    }
    set("spillway_body_memory_bytes", &[], live.budget.held() as f64);
    set("spillway_active_requests", &[], f64::from(fleet.active()));
    set("spillway_config_hash", &[], live.config.fingerprint() as f64);
    set("spillway_build_info", &[env!("CARGO_PKG_VERSION")], 1.0);
    gauges.iter().flat_map(Collector::collect).filter(|family| !family.get_metric().is_empty()).collect()
}
