//! The model port: reads a request, lets faults have their way with it, and finds who answers.
//!
//! Faults come in this order: those before the body is read, those after it, delays; then what the surface does.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};
use hyper::{Method, Request, Response, StatusCode, Version};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::body::Tracked;
use super::broken::broken;
use super::connection::Connection;
use super::exchange::Exchange;
use super::record::Received;
use super::reply::{Answer, ApiError, empty, json, set, text};
use super::shared::Shared;
use super::surface::Kind;
use super::{admin, api, metrics, models, prompt, render, side};
use crate::fault::FaultKind;

/// A request whose body has been read.
pub(super) struct Call {
    pub(super) shared: Arc<Shared>,
    pub(super) connection: Arc<Connection>,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// xxh3-64 of the body in hex.
    pub(super) xxh3: String,
    value: Result<Value, ApiError>,
}

impl Call {
    /// The body as JSON.
    pub(super) fn json(&self) -> Result<&Value, ApiError> {
        self.value.as_ref().map_err(Clone::clone)
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The model named in the body, be it JSON or a form. Of a repeated key the last counts.
    pub(super) fn model(&self) -> Option<String> {
        match &self.value {
            Ok(value) => Some(value.get("model").and_then(Value::as_str).unwrap_or_default().to_owned()),
            Err(_) => form_model(&self.body),
        }
    }
}

/// Answers a request of the model port.
pub(super) async fn handle(
    shared: Arc<Shared>,
    connection: Arc<Connection>,
    request: Request<Incoming>,
) -> Response<Tracked> {
    let nth = connection.begin();
    let path = request.uri().path().to_owned();
    let aside = path.starts_with("/admin/") || ["/metrics", "/health", "/ping"].contains(&path.as_str());
    let seq = (!aside).then(|| {
        shared.received.fetch_add(1, Ordering::Relaxed);
        shared.records.add(received(&request, connection.number, nth))
    });
    let mut exchange = Exchange::new(shared.clone(), connection.clone(), seq);
    if path.starts_with("/admin/") {
        let answer = admin::handle(&shared, request).await;
        return answer.map(|body| Tracked::new(body, exchange, None));
    }
    let (mut answer, streamed) = answer(&shared, &connection, request, &path, nth, seq).await;
    set(&mut answer, "x-sim-replica", &shared.config.replica);
    set(&mut answer, "x-sim-connection", &connection.number.to_string());
    set(&mut answer, "x-sim-connection-requests", &nth.to_string());
    let server = if shared.is_llama_cpp() { "llama.cpp" } else { "uvicorn" };
    set(&mut answer, "server", server);
    if let Some(seq) = seq {
        set(&mut answer, "x-sim-seq", &seq.to_string());
        let status = answer.status().as_u16();
        shared.records.change(seq, |record| record.status = Some(status));
    }
    let strike = |kind| shared.faults.strike(kind, &path, |_| true);
    exchange.closes = streamed && (shared.is_llama_cpp() || strike(FaultKind::CloseAfterStream).is_some());
    let delay = strike(FaultKind::DelayBody).map(|strike| strike.fault.delay(1_000));
    answer.map(|body| Tracked::new(body, exchange, delay))
}

async fn answer(
    shared: &Arc<Shared>,
    connection: &Arc<Connection>,
    request: Request<Incoming>,
    path: &str,
    nth: u64,
    seq: Option<u64>,
) -> (Answer, bool) {
    if let Some(answer) = broken(shared, connection, path, nth, true).await {
        return (answer, false);
    }
    let framing = framing(&request);
    let (parts, incoming) = request.into_parts();
    let body = match Limited::new(incoming, shared.config.max_body_bytes).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return (text(StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large"), false);
        }
        // The client broke off; nobody will read this.
        Err(_) => return (empty(StatusCode::BAD_REQUEST), false),
    };
    let xxh3 = format!("{:016x}", xxh3_64(&body));
    let value = if body.is_empty() {
        Err(ApiError::invalid("missing", "body", "Field required", "None"))
    } else {
        prompt::json(&body)
    };
    let call = Call {
        shared: shared.clone(),
        connection: connection.clone(),
        method: parts.method,
        path: path.to_owned(),
        headers: parts.headers,
        body,
        xxh3,
        value,
    };
    let model = call.model();
    if let Some(seq) = seq {
        shared.records.body(seq, &call.body, &call.xxh3, model.clone());
    }
    let (mut answer, streamed) = match broken(shared, connection, path, nth, false).await {
        Some(answer) => (answer, false),
        None => surface(&call).await,
    };
    if let Some(strike) = shared.faults.strike(FaultKind::DelayHead, path, |_| true) {
        tokio::time::sleep(strike.fault.delay(1_000)).await;
    }
    set(&mut answer, "x-sim-body-bytes", &call.body.len().to_string());
    set(&mut answer, "x-sim-body-xxh3", &call.xxh3);
    set(&mut answer, "x-sim-framing", &framing);
    if let Some(model) = model {
        set(&mut answer, "x-sim-model", &model);
    }
    (answer, streamed)
}

/// The reply of whoever serves the path, and whether it is a stream.
async fn surface(call: &Call) -> (Answer, bool) {
    let post = call.method == Method::POST;
    let kind = match call.path.as_str() {
        "/v1/chat/completions" => Some(Kind::Chat),
        "/v1/completions" => Some(Kind::Completions),
        "/v1/responses" => Some(Kind::Responses),
        "/v1/messages" => Some(Kind::Messages),
        _ => None,
    };
    if let Some(kind) = kind {
        return if post { api::generate(call, kind).await } else { (wrong_method(), false) };
    }
    let result = match call.path.as_str() {
        "/v1/embeddings" | "/embeddings" if post => side::embeddings(call).await,
        "/v1/rerank" | "/v2/rerank" | "/rerank" if post => side::rerank(call).await,
        "/v1/score" | "/score" if post => side::score(call).await,
        "/v1/chat/completions/render" if post => render::render(call, Kind::Chat),
        "/v1/completions/render" if post => render::render(call, Kind::Completions),
        "/v1/responses/render" if post => render::render(call, Kind::Responses),
        "/v1/messages/render" if post => render::render(call, Kind::Messages),
        "/tokenize" if post => side::tokenize(call),
        "/detokenize" if post => side::detokenize(call),
        "/v1/messages/count_tokens" if post => side::count_tokens(call),
        "/v1/load_lora_adapter" if post => side::load_adapter(call),
        "/v1/unload_lora_adapter" if post => side::unload_adapter(call),
        _ => Ok(look(call).await),
    };
    let anthropic = call.path.starts_with("/v1/messages");
    (result.unwrap_or_else(|error| error.answer(call.error_shape(anthropic))), false)
}

/// Answers that need no model.
async fn look(call: &Call) -> Answer {
    let (shared, get) = (&call.shared, call.method == Method::GET || call.method == Method::HEAD);
    match call.path.as_str() {
        "/health" | "/ping" => match shared.faults.strike(FaultKind::HealthDown, &call.path, |_| true) {
            Some(strike) => empty(StatusCode::from_u16(strike.fault.code).unwrap_or(StatusCode::SERVICE_UNAVAILABLE)),
            None if shared.is_llama_cpp() => json(StatusCode::OK, r#"{"status":"ok"}"#),
            None => empty(StatusCode::OK),
        },
        "/metrics" | "/metrics/" if get => metrics::answer(shared).await,
        "/version" if get => json(StatusCode::OK, r#"{"version":"0.32.0"}"#),
        "/load" if get => json(StatusCode::OK, r#"{"server_load":0}"#),
        "/slots" if get && shared.is_llama_cpp() => json(StatusCode::OK, slots(shared)),
        "/kv_event_sources" if get && !shared.is_llama_cpp() => json(StatusCode::OK, shared.kv_event_sources()),
        // Real servers answer 200 whether it was done or not.
        "/reset_prefix_cache" if !get => {
            shared.driver.clear_cache();
            empty(StatusCode::OK)
        }
        "/v1/models" if get => json(StatusCode::OK, models::list(shared)),
        "/health_generate" => empty(StatusCode::OK),
        path if path.starts_with("/v1/responses/") => side::stored_response(call),
        "/metrics" | "/version" | "/load" | "/v1/models" => wrong_method(),
        path if path.starts_with("/v1/") => side::echo(call),
        _ => json(StatusCode::NOT_FOUND, r#"{"detail":"Not Found"}"#),
    }
}

/// llama.cpp's slots: the batch's places.
fn slots(shared: &Shared) -> String {
    let (running, all) = shared.driver.with_engine(|engine| (engine.running(), engine.config().max_seqs));
    let list: Vec<String> = (0..all)
        .map(|id| {
            let (busy, length) = (id < running, shared.config.max_model_len);
            format!(r#"{{"id":{id},"n_ctx":{length},"speculative":false,"is_processing":{busy}}}"#)
        })
        .collect();
    format!("[{}]", list.join(","))
}

fn wrong_method() -> Answer {
    json(StatusCode::METHOD_NOT_ALLOWED, r#"{"detail":"Method Not Allowed"}"#)
}

fn received(request: &Request<Incoming>, connection: u64, nth: u64) -> Received {
    let headers = request.headers().iter();
    let mut headers: Vec<(String, String)> = headers
        .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    if let Some(authority) = request.uri().authority() {
        headers.insert(0, (":authority".to_owned(), authority.to_string()));
    }
    Received {
        seq: 0,
        method: request.method().to_string(),
        path: request.uri().path().to_owned(),
        query: request.uri().query().map(str::to_owned),
        version: format!("{:?}", request.version()),
        connection,
        connection_requests: nth,
        headers,
        body_bytes: 0,
        body_xxh3: String::new(),
        framing: framing(request),
        model: None,
        status: None,
        ended: "open".to_owned(),
    }
}

fn framing(request: &Request<Incoming>) -> String {
    let headers = request.headers();
    if headers.contains_key(TRANSFER_ENCODING) {
        return "chunked".to_owned();
    }
    match headers.get(CONTENT_LENGTH) {
        Some(length) => format!("content-length:{}", String::from_utf8_lossy(length.as_bytes())),
        None if request.version() == Version::HTTP_2 => "h2".to_owned(),
        None => "none".to_owned(),
    }
}

/// The `model` field of a multipart form, found without parsing the form.
fn form_model(body: &[u8]) -> Option<String> {
    let needle = b"name=\"model\"\r\n\r\n";
    let start = memchr::memmem::find(body, needle)? + needle.len();
    let length = memchr::memchr(b'\r', &body[start..])?;
    Some(String::from_utf8_lossy(&body[start..start + length]).into_owned())
}
