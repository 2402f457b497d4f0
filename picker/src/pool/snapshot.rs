//! The pool as plain data, for operators and metrics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::kv::Standing;
use crate::ledger::UNIT;
use crate::pool::kinds::Speeds;
use crate::pool::{Endpoint, Slot};
use crate::time::Time;
use crate::view::table::{Ours, Scraped};

/// One endpoint at one instant.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each of which is a metric of its own")]
pub struct EndpointSnapshot {
    /// Its id.
    pub id: Arc<str>,
    /// Its name in events.
    pub slot: Slot,
    /// Its weight.
    pub weight: f64,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Whether it may be used, leaving drain and demotion aside.
    pub healthy: bool,
    /// Whether it gets nothing new.
    pub draining: bool,
    /// Whether others are preferred for the moment.
    pub demoted: bool,
    /// Whether the engine said, at the last scrape, that it sleeps.
    pub asleep: bool,
    /// How far its facts can be trusted.
    pub freshness: Freshness,
    /// Age of its last scrape; in seconds where this is written as JSON.
    #[serde(rename = "facts_age_seconds", serialize_with = "seconds")]
    pub facts_age: Option<Duration>,
    /// Requests waiting in the engine at the last scrape, whatever its age.
    pub queued: Option<f64>,
    /// Requests running in the engine at the last scrape, whatever its age.
    pub running: Option<f64>,
    /// Share of the key-value cache in use at the last scrape, whatever its age.
    pub kv_usage: Option<f64>,
    /// Size of the key-value cache, tokens.
    pub kv_tokens: Option<f64>,
    /// Our requests in flight.
    pub in_flight: u32,
    /// Those without a first token.
    pub prefills: u32,
    /// Those past it.
    pub decodes: u32,
    /// Requests in flight there that other gateways told of.
    pub peers: u32,
    /// Our load in request equivalents.
    pub load: f64,
    /// Seconds of prefill ahead, as far as known.
    pub pending_seconds: f64,
    /// Tokens there, as far as known, that are still to be computed or expected to be produced.
    pub outstanding_tokens: u64,
    /// Time to first token to expect by those seen lately, without the network; fades while there are none.
    pub latency_seconds: Option<f64>,
    /// Round trip of the network, as of the latest connection used.
    pub round_trip_seconds: Option<f64>,
    /// What is known of its cache by its KV events; `None` without them.
    pub kv_events: Option<Standing>,
    /// Learned fixed cost of a prefill, seconds.
    pub prefill_fixed_seconds: f64,
    /// Learned cost of an uncached token, seconds.
    pub prefill_token_seconds: f64,
    /// Learned gap between tokens of a lone stream, seconds.
    pub decode_fixed_seconds: f64,
    /// Learned gap added by each stream, seconds.
    pub decode_stream_seconds: f64,
}

impl EndpointSnapshot {
    pub(crate) fn take(endpoint: &Endpoint, speeds: &Speeds, stale_after: Duration, now: Time) -> Self {
        endpoint.state.settle(now);
        let ours = Ours::read(&endpoint.state, endpoint.weight, now);
        let scraped = Scraped::read(&endpoint.state, stale_after, now);
        let rates = speeds.rates(&endpoint.state.sheet);
        let sheet = &endpoint.state.sheet;
        let decodes = ours.decodes.saturating_sub(sheet.guest_decodes.load(Ordering::Relaxed));
        let known = |value: f64| (!value.is_nan()).then_some(value);
        Self {
            id: endpoint.id.clone(),
            slot: endpoint.slot,
            weight: endpoint.weight,
            labels: endpoint.labels.clone(),
            healthy: endpoint.state.health.is_up(now),
            draining: endpoint.state.health.is_draining(),
            demoted: endpoint.state.health.is_demoted(now),
            asleep: sheet.asleep.load(Ordering::Relaxed),
            freshness: scraped.freshness,
            facts_age: known(scraped.age).map(Duration::from_secs_f64),
            queued: known(sheet.queued.get()),
            running: known(sheet.running.get()),
            kv_usage: known(sheet.kv_usage.get()),
            kv_tokens: known(scraped.kv_tokens),
            in_flight: ours.load.requests,
            prefills: ours.load.requests.saturating_sub(decodes),
            decodes,
            peers: ours.guests,
            load: f64::from(ours.load.units) / f64::from(UNIT),
            pending_seconds: ours.pending,
            outstanding_tokens: sheet.outstanding_tokens(),
            latency_seconds: sheet.latency().seconds(now),
            round_trip_seconds: known(sheet.round_trip.get()),
            kv_events: endpoint.state.cache.standing(),
            prefill_fixed_seconds: rates.a,
            prefill_token_seconds: rates.b,
            decode_fixed_seconds: rates.t0,
            decode_stream_seconds: rates.t1,
        }
    }
}

/// How far scraped facts can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Freshness {
    /// No scrape has succeeded.
    Never,
    /// Read recently, and alive.
    Fresh,
    /// Too old.
    Stale,
    /// The page does not change although the endpoint works.
    Frozen,
}

impl Freshness {
    /// The name used in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Fresh => "fresh",
            Self::Stale => "stale",
            Self::Frozen => "frozen",
        }
    }
}

#[expect(clippy::ref_option, reason = "serde passes a reference")]
fn seconds<S: Serializer>(age: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    age.map(|age| age.as_secs_f64()).serialize(serializer)
}
