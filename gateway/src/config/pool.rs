//! The `pools` section: endpoints that serve the same base model, and everything that is decided about them.
//!
//! All of it is hot. A pool with only `endpoints`, or only `dns`, works: each default is chosen for a fleet nobody has measured yet.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize};

use super::dns::Dns;
use super::events::Events;
use super::field;
use super::url::EndpointUrl;

/// Endpoints that serve the same base model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Pool {
    /// The server software, which decides the names of its metrics.
    pub engine: Engine,
    /// The servers: a URL, or a mapping with more to say. No two may have the same address.
    #[serde(deserialize_with = "endpoints", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Entry>", length(min = 1))]
    pub endpoints: Vec<Endpoint>,
    /// Instead of `endpoints`: a name that leads to them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Dns")]
    pub dns: Option<Dns>,
    /// How an endpoint is picked: the name of a policy, or `custom` with scorers of your choice, or two of these that are
    /// compared.
    pub policy: Policies,
    /// How requests that share a prompt prefix find the same endpoint; `off` then never looks at prompts.
    #[serde(with = "field::off")]
    #[schemars(schema_with = "affinity_or_off")]
    pub affinity: Option<Affinity>,
    /// What the pool may have in flight.
    pub limits: PoolLimits,
    /// How long each phase of a request may take.
    pub timeouts: Timeouts,
    /// What happens when an endpoint fails before the first byte of its response went to the client.
    pub retries: Retries,
    /// How endpoints are probed.
    pub health: Health,
    /// How endpoints' metrics are read.
    pub scrape: Scrape,
    /// LoRA adapters that can be asked for by name before an endpoint lists them; `auto` is those that endpoints list. No
    /// two pools may name the same.
    #[serde(with = "field::auto")]
    #[schemars(schema_with = "field::names_or_auto")]
    pub adapters: Option<Vec<String>>,
    /// Whether the head of a response waits for the first byte of its body. Servers send the head long before the first
    /// token, and once it has gone out no retry is possible.
    pub hold_head: bool,
    /// Whether to speak HTTP/2 to the endpoints, without TLS by prior knowledge, with TLS by ALPN. Most model servers speak
    /// HTTP/1.1 only.
    pub http2: bool,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            engine: Engine::Auto,
            endpoints: Vec::new(),
            dns: None,
            policy: Policies::default(),
            affinity: Some(Affinity::default()),
            limits: PoolLimits::default(),
            timeouts: Timeouts::default(),
            retries: Retries::default(),
            health: Health::default(),
            scrape: Scrape::default(),
            adapters: None,
            hold_head: true,
            http2: false,
        }
    }
}

/// Server software.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Known from its page of metrics, whenever one is read.
    #[default]
    Auto,
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
    /// TensorRT-LLM behind `trtllm-serve`.
    Trtllm,
    /// TensorRT-LLM behind Triton.
    Triton,
    /// Text Generation Inference.
    Tgi,
    /// The server of llama.cpp.
    Llamacpp,
    /// `LMDeploy`.
    Lmdeploy,
}

impl Engine {
    /// Returns the word in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Trtllm => "trtllm",
            Self::Triton => "triton",
            Self::Tgi => "tgi",
            Self::Llamacpp => "llamacpp",
            Self::Lmdeploy => "lmdeploy",
        }
    }
}

/// One server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// Where it listens: scheme, host and port.
    pub url: EndpointUrl,
    /// Its share relative to the others, where a policy has use for one. The ring has 1,000 places per unit, which is why
    /// it is bounded.
    #[serde(default = "one")]
    #[schemars(range(min = 0.01, max = 100.0))]
    pub weight: f64,
    /// Facts for filters and scorers, such as `zone`, `version`, `accelerator`.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

fn one() -> f64 {
    1.0
}

/// The two ways to write an endpoint.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum Entry {
    Url(EndpointUrl),
    Full(Endpoint),
}

fn endpoints<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Endpoint>, D::Error> {
    let entries = Vec::<Entry>::deserialize(deserializer)?;
    let endpoint = |entry| match entry {
        Entry::Url(url) => Endpoint { url, weight: one(), labels: BTreeMap::new() },
        Entry::Full(endpoint) => endpoint,
    };
    Ok(entries.into_iter().map(endpoint).collect())
}

/// How endpoints are picked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Policies {
    /// By one policy.
    One(Policy),
    /// By two that are compared.
    Trial(Trial),
}

impl Default for Policies {
    fn default() -> Self {
        Self::One(Policy::default())
    }
}

/// Two policies side by side on live traffic. They share endpoints, load, beliefs and learning: what one does badly, the
/// other one feels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// The policy that is tried.
    #[serde(rename = "try")]
    pub tried: Policy,
    /// The policy that it is compared with, which decides for the rest.
    pub control: Policy,
    /// Part of the traffic that `try` decides for. By ring key, so that a conversation stays on its side; a request without
    /// one is drawn at random.
    #[serde(rename = "share", with = "field::share")]
    #[schemars(schema_with = "field::percent")]
    pub share_percent: f64,
}

/// How an endpoint is picked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Filters and weighted scorers.
    Custom(Custom),
    /// The name of a policy.
    #[serde(untagged)]
    Named(String),
}

impl Default for Policy {
    fn default() -> Self {
        Self::Named("adaptive".to_owned())
    }
}

/// A policy put together from filters and scorers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Custom {
    /// Filters in order, beyond the built-in rule that an endpoint must be healthy, untried and able to serve.
    #[serde(default)]
    pub filters: Vec<String>,
    /// Scorers by name, each with its weight. An endpoint's score is the weighted sum.
    #[schemars(extend("minProperties" = 1))]
    pub scorers: BTreeMap<String, f64>,
    /// How the scores become a pick.
    #[serde(default)]
    pub select: Select,
}

/// How scores become a pick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Select {
    /// The highest score; equal ones take turns.
    #[default]
    Max,
    /// At random, in proportion to the score.
    WeightedRandom,
    /// The better of two drawn at random.
    PowerOfTwo,
}

impl Select {
    /// Returns the word in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Max => "max",
            Self::WeightedRandom => "weighted_random",
            Self::PowerOfTwo => "power_of_two",
        }
    }
}

/// How requests that share a prompt prefix find the same endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Affinity {
    /// How far above the average load an owner may go before a request spills to the next one.
    #[schemars(range(min = 1.0, max = 100.0))]
    pub load_factor: f64,
    /// Requests an endpoint may always have per unit of weight, whatever the average.
    #[schemars(range(min = 0.0, max = 10_000.0))]
    pub min_slack: f64,
    /// Bytes of prompt that decide the owner. At most `max`.
    #[serde(with = "field::size")]
    #[schemars(schema_with = "field::bytes", extend("minimum" = 512))]
    pub ring_depth: u64,
    /// Bytes of prompt that are hashed; what follows is only counted.
    #[serde(with = "field::size")]
    #[schemars(schema_with = "field::bytes", extend("minimum" = 4096, "maximum" = 16_777_216))]
    pub max: u64,
    /// Gateways in front of the same endpoints; `auto` is 1. With more than one, a prefix is kept on the first two endpoints
    /// of its walk on the ring, and on further ones while these are busy, so that they agree without talking.
    #[serde(with = "field::auto")]
    #[schemars(schema_with = "field::count_or_auto")]
    pub gateways: Option<u32>,
    /// Requests in flight at which an endpoint is full, whatever the average.
    #[serde(with = "field::off")]
    #[schemars(schema_with = "field::count_or_off")]
    pub concurrency: Option<u32>,
    /// Memory for what is remembered of where prefixes are, per pool.
    #[serde(with = "field::size")]
    #[schemars(schema_with = "field::bytes", extend("minimum" = 1_048_576))]
    pub index_memory: u64,
    /// Whether endpoints' KV events are followed, so that what is believed of their caches ends when it is no longer so.
    #[serde(with = "field::off")]
    #[schemars(schema_with = "events_or_off")]
    pub events: Option<Events>,
    /// A request header that names a session: its value is the ring key instead of the prompt's start. Lower case here, any
    /// in the file.
    #[serde(with = "field::off_header")]
    #[schemars(schema_with = "field::header_or_off")]
    pub session_header: Option<String>,
}

impl Default for Affinity {
    fn default() -> Self {
        Self {
            // A quarter above the average: the point where hits stop growing and waiting begins to.
            load_factor: 1.25,
            // Below two requests the average says nothing: one request on three endpoints is three times the mean.
            min_slack: 2.0,
            // About a thousand tokens: past most system prompts' differences, short of where chats diverge.
            ring_depth: 4096,
            // A quarter of a million tokens; longer contexts share what comes before.
            max: 1 << 20,
            gateways: None,
            concurrency: None,
            // Some millions of blocks: the caches of a few hundred endpoints.
            index_memory: 256 << 20,
            events: None,
            session_header: None,
        }
    }
}

fn affinity_or_off(generator: &mut SchemaGenerator) -> Schema {
    field::or_off(&generator.subschema_for::<Affinity>())
}

fn events_or_off(generator: &mut SchemaGenerator) -> Schema {
    field::or_off(&generator.subschema_for::<Events>())
}

/// What a pool may have in flight.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PoolLimits {
    /// Requests in flight in the whole pool; more are answered 429.
    #[serde(with = "field::off")]
    #[schemars(schema_with = "field::count_or_off")]
    pub in_flight: Option<u32>,
}

/// How long each phase of a request may take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// Until a connection to the endpoint stands.
    #[serde(with = "field::duration")]
    #[schemars(schema_with = "field::span")]
    pub connect: Duration,
    /// From dispatch to the first byte of the response's body, and in a stream to its first output. Without streaming this
    /// is the whole generation.
    #[serde(with = "field::off_duration")]
    #[schemars(schema_with = "field::span_or_off")]
    pub ttft: Option<Duration>,
    /// Between two pieces of a response's body after that.
    #[serde(with = "field::off_duration")]
    #[schemars(schema_with = "field::span_or_off")]
    pub token_gap: Option<Duration>,
    /// From dispatch to the end of the response.
    #[serde(with = "field::off_duration")]
    #[schemars(schema_with = "field::span_or_off")]
    pub total: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            // Inside a data centre a connection stands within milliseconds, or the machine is gone.
            connect: Duration::from_secs(1),
            // What OpenAI's own clients wait by default: a shorter one would break requests that work without a gateway,
            // since a full server may queue for minutes and an answer that is not streamed comes whole.
            ttft: Some(Duration::from_secs(600)),
            // A preempted request is computed again before it goes on, and tools pause for a minute. Two are a hang.
            token_gap: Some(Duration::from_secs(120)),
            // Long generations are legitimate while tokens flow.
            total: None,
        }
    }
}

/// What happens when an endpoint fails before the first byte.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Retries {
    /// Endpoints tried for one request, the first included; 1 never retries.
    #[schemars(range(min = 1, max = 10))]
    pub attempts: u32,
}

impl Default for Retries {
    fn default() -> Self {
        // A rolling restart takes one endpoint away, a bad node another; a third failure is the request's own.
        Self { attempts: 3 }
    }
}

/// How endpoints are probed. An endpoint whose tokens flow is healthy, whatever a probe says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Health {
    /// What is asked for; any 2xx is healthy.
    #[schemars(schema_with = "field::http_path")]
    pub path: String,
    /// Time between two probes of one endpoint.
    #[serde(with = "field::duration")]
    #[schemars(schema_with = "field::span")]
    pub interval: Duration,
    /// Time for an answer.
    #[serde(with = "field::duration")]
    #[schemars(schema_with = "field::span")]
    pub timeout: Duration,
    /// Failures in a row after which an endpoint gets nothing new.
    #[schemars(range(min = 1, max = 100))]
    pub failures: u32,
    /// Successes in a row after which it does again.
    #[schemars(range(min = 1, max = 100))]
    pub successes: u32,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            path: "/health".to_owned(),
            interval: Duration::from_secs(2),
            // A server deep in a prefill may answer late; one that takes longer than the interval is not well.
            timeout: Duration::from_secs(2),
            // Six seconds: rides out a pause, and traffic itself shows a dead endpoint sooner.
            failures: 3,
            // One answer may come from a server about to fall over again.
            successes: 2,
        }
    }
}

/// How endpoints' metrics are read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Scrape {
    /// Where they are. At the default, an endpoint that answers with JSON there is asked at `/prometheus/metrics` instead.
    #[schemars(schema_with = "field::http_path")]
    pub path: String,
    /// Time between two reads of one endpoint. `auto` is 100 ms, and up to 10 s where reading those of all pools more often
    /// would take over a twentieth of a core. What was read counts as unknown after five times as long, at least 1 s.
    #[serde(with = "field::auto_duration")]
    #[schemars(schema_with = "field::span_or_auto")]
    pub interval: Option<Duration>,
    /// Time for an answer. What is known ages meanwhile.
    #[serde(with = "field::duration")]
    #[schemars(schema_with = "field::span")]
    pub timeout: Duration,
}

impl Default for Scrape {
    fn default() -> Self {
        // One second is also the age at which a fact counts as unknown.
        Self { path: "/metrics".to_owned(), interval: None, timeout: Duration::from_secs(1) }
    }
}
