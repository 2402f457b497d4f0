//! The two operator ports: metrics and probes for machines, everything else for people.
//!
//! The admin port can change things, so it listens on loopback unless a token guards it.

pub mod gauges;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Response, StatusCode};
use pingora_core::apps::http_app::ServeHttp;
use pingora_core::protocols::http::ServerSession;
use prometheus::proto::{LabelPair, MetricFamily};
use prometheus::{Encoder, TextEncoder};
use serde_json::json;
use spillway_picker::pool::Event;
use subtle::ConstantTimeEq as _;

use crate::config::EndpointUrl;
use crate::error::Refusal;
use crate::explain;
use crate::fleet::Fleet;
use crate::reload::Reloader;
use crate::surface::{ErrorShape, percent_decoded};

/// Largest body `/explain` reads, in bytes.
const LARGEST: usize = 64 * 1024 * 1024;

type Answer = Response<Vec<u8>>;

/// `/metrics`, `/healthz`, `/readyz`: read-only.
pub struct MetricsPort {
    /// What is measured.
    pub fleet: Arc<Fleet>,
}

#[async_trait]
impl ServeHttp for MetricsPort {
    async fn response(&self, session: &mut ServerSession) -> Answer {
        let head = session.req_header();
        if head.method != Method::GET && head.method != Method::HEAD {
            return text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
        }
        match head.uri.path() {
            "/metrics" => self.metrics(),
            "/healthz" => text(StatusCode::OK, "ok\n"),
            "/readyz" => match not_ready(&self.fleet) {
                None => text(StatusCode::OK, "ready\n"),
                Some(reason) => text(StatusCode::SERVICE_UNAVAILABLE, &format!("{reason}\n")),
            },
            _ => text(StatusCode::NOT_FOUND, "not found; try /metrics, /healthz or /readyz\n"),
        }
    }
}

impl MetricsPort {
    fn metrics(&self) -> Answer {
        let mut families = self.fleet.metrics().registry().gather();
        self.leave_out_gone(&mut families);
        self.leave_out_gone_arms(&mut families);
        families.extend(gauges::gather(&self.fleet));
        families.sort_by(|one, other| one.name().cmp(other.name()));
        let mut page = Vec::new();
        match TextEncoder::new().encode(&families, &mut page) {
            Ok(()) => answer(StatusCode::OK, prometheus::TEXT_FORMAT, page),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
        }
    }
}

impl MetricsPort {
    /// A request or scrape that was under way when its endpoint was removed may count there once more.
    fn leave_out_gone(&self, families: &mut Vec<MetricFamily>) {
        let live = self.fleet.live();
        let mut here: HashSet<(&str, Arc<str>)> = HashSet::new();
        for (name, pool) in &live.pools {
            here.extend(pool.state.roster().members().iter().map(|one| (name.as_str(), Arc::clone(&one.id))));
        }
        let mut gone: HashSet<(String, String)> = HashSet::new();
        for family in families.iter_mut() {
            family.mut_metric().retain(|metric| {
                let label =
                    |name: &str| metric.get_label().iter().find(|label| label.name() == name).map(LabelPair::value);
                match (label("pool"), label("endpoint")) {
                    (Some(pool), Some(endpoint)) if !here.contains(&(pool, endpoint.into())) => {
                        gone.insert((pool.to_owned(), endpoint.to_owned()));
                        false
                    }
                    _ => true,
                }
            });
        }
        // Addresses that DNS leads to are without number, so what they leave behind must not stay.
        for (pool, endpoint) in &gone {
            self.fleet.metrics().forget_endpoint(pool, endpoint);
        }
        families.retain(|family| !family.get_metric().is_empty());
    }

    /// An arm that has been taken out of its split has no use for its counters.
    fn leave_out_gone_arms(&self, families: &mut Vec<MetricFamily>) {
        let live = self.fleet.live();
        for family in families.iter_mut().filter(|family| family.name().starts_with("spillway_split_")) {
            family.mut_metric().retain(|metric| {
                let label = |name: &str| {
                    metric.get_label().iter().find(|label| label.name() == name).map_or("", LabelPair::value)
                };
                live.routes.has_arm(label("model"), label("pool"), label("target"))
            });
        }
        families.retain(|family| !family.get_metric().is_empty());
    }
}

/// Why the gateway is not ready to be sent requests.
fn not_ready(fleet: &Fleet) -> Option<String> {
    if fleet.is_draining() {
        return Some("shutting down".to_owned());
    }
    let live = fleet.live();
    let unseen = live.pools.iter().find(|(_, pool)| !pool.state.looked.load(std::sync::atomic::Ordering::Relaxed));
    unseen.map(|(name, _)| format!("pool {name} has not been looked at"))
}

/// `/config`, `/pools`, `/peers`, `/explain`, `/reload`, `/drain/{endpoint}`.
pub struct AdminPort {
    /// What is shown and changed.
    pub fleet: Arc<Fleet>,
    /// Brings the file into force; `None` when the configuration does not come from one.
    pub reloader: Option<Arc<Reloader>>,
    /// Where the bearer token is, if one is asked for. Read on each request, so that it can be rotated.
    pub token_file: Option<PathBuf>,
}

#[async_trait]
impl ServeHttp for AdminPort {
    async fn response(&self, session: &mut ServerSession) -> Answer {
        if !self.is_allowed(&session.req_header().headers) {
            return text(StatusCode::UNAUTHORIZED, "a bearer token is needed\n");
        }
        let method = session.req_header().method.clone();
        if method != Method::GET && session.req_header().headers.contains_key(http::header::ORIGIN) {
            // Only browsers say where a request comes from, and no page of ours sends any: it is somebody else's.
            return text(StatusCode::FORBIDDEN, "not from a browser\n");
        }
        let path = session.req_header().uri.path().to_owned();
        match (method.as_str(), path.as_str()) {
            ("GET", "/") => text(StatusCode::OK, INDEX),
            ("GET", "/config") => self.config(),
            ("GET", "/pools") => self.pools(),
            ("GET", "/peers") => json_answer(&json!(self.fleet.peers().view())),
            ("POST", "/explain") => self.explain(session).await,
            ("POST", "/reload") => self.reload().await,
            ("POST" | "DELETE", path) if path.starts_with("/drain/") => {
                self.drain(&path["/drain/".len()..], method == Method::POST)
            }
            (_, "/" | "/config" | "/pools" | "/peers" | "/explain" | "/reload") => {
                text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n")
            }
            (_, path) if path.starts_with("/drain/") => text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n"),
            _ => text(StatusCode::NOT_FOUND, INDEX),
        }
    }
}

const INDEX: &str = "GET /config  GET /pools  GET /peers  POST /explain (a request body)  POST /reload\n\
    POST /drain/{endpoint}  DELETE /drain/{endpoint}   (endpoint: scheme://host:port)\n";

impl AdminPort {
    fn is_allowed(&self, headers: &HeaderMap) -> bool {
        let Some(file) = &self.token_file else { return true };
        // An unreadable or empty file locks the port rather than opening it.
        let Ok(token) = std::fs::read(file) else { return false };
        let token = token.trim_ascii();
        let given = headers.get(http::header::AUTHORIZATION).map(http::HeaderValue::as_bytes).unwrap_or_default();
        let Some(given) = given.strip_prefix(b"Bearer ") else { return false };
        !token.is_empty() && bool::from(given.trim_ascii().ct_eq(token))
    }

    fn config(&self) -> Answer {
        let live = self.fleet.live();
        json_answer(&json!({
            "hash": live.config.fingerprint(),
            "config": &live.config,
            "reload": self.reloader.as_ref().map(|reloader| reloader.status()),
            "keys": self.reloader.as_ref().and_then(|reloader| reloader.keys_status()),
        }))
    }

    fn pools(&self) -> Answer {
        let live = self.fleet.live();
        let now = self.fleet.now();
        let pools: serde_json::Map<String, serde_json::Value> = live
            .pools
            .iter()
            .map(|(name, pool)| {
                let pool = json!({
                    "policy": &pool.settings.policy,
                    "in_flight": pool.state.in_flight(),
                    "limits": {"in_flight": pool.settings.limits.in_flight},
                    "dns": pool.state.discovery().map(|discovery| json!({
                        "name": discovery.name,
                        "answer_age_seconds": discovery.answered_at.map(|at| now.seconds_since(at)),
                        "error": discovery.error,
                    })),
                    "endpoints": pool.state.picker.snapshot(now),
                });
                (name.clone(), pool)
            })
            .collect();
        json_answer(&serde_json::Value::Object(pools))
    }

    async fn explain(&self, session: &mut ServerSession) -> Answer {
        let wants_json = session
            .req_header()
            .headers
            .get(http::header::ACCEPT)
            .is_some_and(|accept| accept.as_bytes().windows(4).any(|part| part == b"json"));
        let path = session.req_header().uri.query().and_then(|query| query.strip_prefix("path=")).map(str::to_owned);
        let Some(body) = read_body(session).await else {
            return text(StatusCode::BAD_REQUEST, "the body could not be read\n");
        };
        let path = path.unwrap_or_else(|| explain::guess_path(&body).to_owned());
        let live = self.fleet.live_full();
        match explain::explain(&self.fleet, &live, &path, &body) {
            Ok(explanation) if wants_json => json_answer(&json!(explanation)),
            Ok(explanation) => text(StatusCode::OK, &explanation.to_string()),
            Err(refusal) => refused(&refusal),
        }
    }

    async fn reload(&self) -> Answer {
        let Some(reloader) = &self.reloader else {
            return text(StatusCode::CONFLICT, "the configuration does not come from a file\n");
        };
        let status = reloader.reload().await;
        let code = if status.result == "rejected" { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
        let mut answer = json_answer(&json!(status));
        *answer.status_mut() = code;
        answer
    }

    fn drain(&self, endpoint: &str, draining: bool) -> Answer {
        // However it is written: escaped for a path, or with capitals.
        let endpoint = percent_decoded(endpoint).unwrap_or_default();
        let endpoint = endpoint.parse().map_or_else(|_| endpoint.to_string(), |url: EndpointUrl| url.to_string());
        let live = self.fleet.live();
        let mut found = 0;
        for pool in live.pools.values() {
            for one in pool.state.picker.endpoints().iter().filter(|one| *one.id == *endpoint) {
                pool.state.picker.observe(Event::Drain { endpoint: one.slot, draining }, self.fleet.now());
                found += 1;
            }
        }
        if found == 0 {
            return text(StatusCode::NOT_FOUND, "no such endpoint; GET /pools lists them\n");
        }
        json_answer(&json!({"endpoint": endpoint, "draining": draining}))
    }
}

async fn read_body(session: &mut ServerSession) -> Option<Bytes> {
    let mut body = BytesMut::new();
    while let Some(chunk) = session.read_request_body().await.ok()? {
        if body.len() + chunk.len() > LARGEST {
            return None;
        }
        body.extend_from_slice(&chunk);
    }
    Some(body.freeze())
}

fn refused(refusal: &Refusal) -> Answer {
    let status = StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer(status, "application/json", refusal.body(ErrorShape::OpenAi).to_vec())
}

fn json_answer(value: &serde_json::Value) -> Answer {
    let mut body = serde_json::to_vec_pretty(value).unwrap_or_default();
    body.push(b'\n');
    answer(StatusCode::OK, "application/json", body)
}

fn text(status: StatusCode, body: &str) -> Answer {
    answer(status, "text/plain; charset=utf-8", body.as_bytes().to_vec())
}

fn answer(status: StatusCode, content_type: &str, body: Vec<u8>) -> Answer {
    let mut answer = Response::new(Vec::new());
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    if let Ok(value) = content_type.parse() {
        headers.insert(http::header::CONTENT_TYPE, value);
    }
    headers.insert(http::header::CONTENT_LENGTH, body.len().into());
    *answer.body_mut() = body;
    answer
}
