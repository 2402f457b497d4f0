//! From a request body to what the engine is asked.
//!
//! The rendering is flat and our own; all that matters is that equal conversations begin alike and that every part counts.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::Value;

use super::reply::ApiError;
use super::shared::Shared;
use super::surface::Kind;
use crate::engine::{Request, mix, mix_bytes};
use crate::tokenizer::Tokens;

/// Sequences that one request may ask for; more would keep the engine, which all of a process share, from anything else.
const MOST_SEQUENCES: usize = 2_048;

/// What a generating request asks for.
#[derive(Debug)]
pub(super) struct Job {
    /// Model name for the reply.
    pub(super) model: String,
    /// One engine request per choice; the choices of one prompt stand together.
    pub(super) requests: Vec<Request>,
    /// Choices per prompt.
    pub(super) choices: usize,
    pub(super) max_tokens: u32,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    pub(super) continuous_usage: bool,
}

impl Job {
    pub(super) fn parse(shared: &Shared, kind: Kind, body: &Value) -> Result<Self, ApiError> {
        let (model, adapter) = resolve_model(shared, body)?;
        let prompts = match kind {
            Kind::Chat => vec![chat(body)?],
            Kind::Completions => completions(body)?,
            Kind::Responses => vec![responses(body)?],
            Kind::Messages => vec![messages(body)?],
        };
        let named = match kind {
            Kind::Chat => number(body, "max_completion_tokens").or(number(body, "max_tokens")),
            Kind::Completions | Kind::Messages => number(body, "max_tokens"),
            Kind::Responses => number(body, "max_output_tokens"),
        };
        let (limit, longest) = (shared.config.max_model_len, prompts.iter().map(Vec::len).max().unwrap_or(0));
        let left = limit.saturating_sub(longest).max(1) as u64;
        let max_tokens = named.unwrap_or_else(|| left.min(shared.config.default_max_tokens.into()));
        check_length(max_tokens, longest, limit)?;
        let choices = number(body, "n").unwrap_or(1).clamp(1, 128) as usize;
        if prompts.len() * choices > MOST_SEQUENCES {
            let message =
                format!("{} prompts times n={choices} are more than {MOST_SEQUENCES} sequences.", prompts.len());
            return Err(ApiError::bad_request(message, Some("prompt")));
        }
        let options = &body["stream_options"];
        let salt = body["cache_salt"].as_str().map_or(0, |salt| mix_bytes(1, salt.as_bytes()));
        let template = Request { max_tokens: max_tokens as u32, adapter, salt, ..Request::default() };
        let ends = shared.config.mean_output_tokens.filter(|_| !flag(body, "ignore_eos"));
        let mut requests = Vec::with_capacity(prompts.len() * choices);
        for prompt in prompts {
            let seed = prompt.iter().fold(mix(shared.config.seed, salt), |all, &token| mix(all, token.into()));
            for choice in 0..choices as u64 {
                let seed = mix(seed, choice);
                let stop_after = ends.map(|mean| exponential(seed, mean));
                requests.push(Request { prompt: prompt.clone(), seed, stop_after, ..template.clone() });
            }
        }
        Ok(Self {
            model,
            requests,
            choices,
            max_tokens: max_tokens as u32,
            stream: flag(body, "stream"),
            include_usage: flag(options, "include_usage"),
            continuous_usage: flag(options, "include_usage") && flag(options, "continuous_usage_stats"),
        })
    }

    /// Prompt tokens, each prompt counted once.
    pub(super) fn prompt_tokens(&self) -> usize {
        self.requests.iter().step_by(self.choices).map(|request| request.prompt.len()).sum()
    }
}

/// The model name to answer with, and its adapter if it is one. Missing, null and empty mean the base model.
pub(super) fn resolve_model(shared: &Shared, body: &Value) -> Result<(String, Option<Arc<str>>), ApiError> {
    let base = &shared.config.model;
    let name = match body.get("model") {
        None | Some(Value::Null) => return Ok((base.clone(), None)),
        Some(Value::String(name)) => name,
        Some(other) => {
            let input = other.to_string();
            return Err(ApiError::invalid("string_type", "body.model", "Input should be a valid string", &input));
        }
    };
    if name.is_empty() || name == base || shared.is_llama_cpp() {
        return Ok((base.clone(), None));
    }
    match shared.adapter(name) {
        Some(adapter) => Ok((name.clone(), Some(adapter))),
        None => Err(ApiError::no_model(name, base)),
    }
}

/// Tokens of one text, for the surfaces that do not generate.
pub(super) fn plain(text: &str) -> Vec<u32> {
    let mut tokens = Tokens::default();
    tokens.text(text);
    tokens.finish()
}

/// Tokens of a chat without its generation prompt check; for counting.
pub(super) fn conversation(body: &Value) -> Result<Vec<u32>, ApiError> {
    if body.get("system").is_some() { messages(body) } else { chat(body) }
}

fn check_length(max_tokens: u64, longest: usize, limit: usize) -> Result<(), ApiError> {
    if max_tokens == 0 {
        return Err(ApiError::bad_request("max_tokens must be at least 1, got 0.", Some("max_tokens")));
    }
    if max_tokens > limit as u64 {
        let message = format!(
            "max_tokens={max_tokens} cannot be greater than max_model_len={limit}. Please request fewer output tokens. \
             (parameter=max_tokens, value={max_tokens})"
        );
        return Err(ApiError::bad_request(message, Some("max_tokens")));
    }
    if longest as u64 + max_tokens > limit as u64 {
        let message = format!(
            "This model's maximum context length is {limit} tokens. However, you requested {max_tokens} output tokens \
             and your prompt contains {longest} input tokens, for a total of {} tokens. Please reduce the length of \
             the input prompt or the number of requested output tokens. (parameter=input_tokens, value={longest})",
            longest as u64 + max_tokens
        );
        return Err(ApiError::bad_request(message, Some("input_tokens")));
    }
    Ok(())
}

fn chat(body: &Value) -> Result<Vec<u32>, ApiError> {
    let list = messages_of(body)?;
    let mut tokens = Tokens::default();
    tools(&mut tokens, body);
    for message in list {
        turn(&mut tokens, message);
    }
    tokens.special("<|assistant|>");
    Ok(tokens.finish())
}

fn messages(body: &Value) -> Result<Vec<u32>, ApiError> {
    let list = messages_of(body)?;
    let mut tokens = Tokens::default();
    tools(&mut tokens, body);
    if let Some(system) = body.get("system") {
        tokens.special("<|system|>");
        content(&mut tokens, system);
    }
    for message in list {
        turn(&mut tokens, message);
    }
    tokens.special("<|assistant|>");
    Ok(tokens.finish())
}

fn responses(body: &Value) -> Result<Vec<u32>, ApiError> {
    let Some(input) = body.get("input") else {
        return Err(missing(body, "input"));
    };
    let mut tokens = Tokens::default();
    tools(&mut tokens, body);
    if let Some(instructions) = body["instructions"].as_str() {
        tokens.special("<|system|>");
        tokens.text(instructions);
    }
    match input {
        Value::Array(items) => items.iter().for_each(|item| turn(&mut tokens, item)),
        other => {
            tokens.special("<|user|>");
            content(&mut tokens, other);
        }
    }
    tokens.special("<|assistant|>");
    Ok(tokens.finish())
}

fn completions(body: &Value) -> Result<Vec<Vec<u32>>, ApiError> {
    let Some(prompt) = body.get("prompt") else {
        return Err(missing(body, "prompt"));
    };
    match prompt {
        Value::Array(items) if items.first().is_some_and(Value::is_number) => Ok(vec![ids(items)]),
        Value::Array(items) => Ok(items
            .iter()
            .map(|item| match item {
                Value::Array(row) => ids(row),
                other => plain(other.as_str().unwrap_or_default()),
            })
            .collect()),
        other => Ok(vec![plain(other.as_str().unwrap_or_default())]),
    }
}

fn ids(row: &[Value]) -> Vec<u32> {
    let mut tokens = Tokens::default();
    tokens.ids(row.iter().map(|id| id.as_u64().unwrap_or(0) as u32));
    tokens.finish()
}

fn messages_of(body: &Value) -> Result<&Vec<Value>, ApiError> {
    body.get("messages").and_then(Value::as_array).ok_or_else(|| missing(body, "messages"))
}

fn missing(body: &Value, field: &str) -> ApiError {
    let size = body.as_object().map_or(0, serde_json::Map::len);
    ApiError::invalid("missing", &format!("body.{field}"), "Field required", &format!("'<dict of {size} items>'"))
}

fn tools(tokens: &mut Tokens, body: &Value) {
    if let Some(tools) = body["tools"].as_array().filter(|tools| !tools.is_empty()) {
        tokens.special("<|tools|>");
        for tool in tools {
            tokens.text(&tool.to_string());
        }
    }
}

fn turn(tokens: &mut Tokens, message: &Value) {
    let role = message["role"].as_str().or(message["type"].as_str()).unwrap_or("user");
    tokens.special(&format!("<|{role}|>"));
    for field in ["name", "tool_call_id", "call_id", "arguments", "output", "reasoning", "reasoning_content"] {
        if let Some(text) = message[field].as_str() {
            tokens.text(text);
        }
    }
    content(tokens, &message["content"]);
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        tokens.text(&call.to_string());
    }
}

fn content(tokens: &mut Tokens, value: &Value) {
    match value {
        Value::Null => {}
        Value::String(text) => tokens.text(text),
        Value::Array(parts) => parts.iter().for_each(|part| content(tokens, part)),
        other => part(tokens, other),
    }
}

/// One typed part: its text, its medium, or what it nests.
fn part(tokens: &mut Tokens, part: &Value) {
    if let Some(text) = part["text"].as_str().or(part["thinking"].as_str()).or(part["refusal"].as_str()) {
        return tokens.text(text);
    }
    let media = [
        &part["image_url"]["url"],
        &part["image_url"],
        &part["input_audio"]["data"],
        &part["audio_url"]["url"],
        &part["video_url"]["url"],
        &part["source"]["data"],
        &part["source"]["url"],
        &part["file"]["file_data"],
    ];
    if let Some(payload) = media.into_iter().find_map(Value::as_str) {
        return tokens.media(payload);
    }
    match part.get("content") {
        Some(nested) => content(tokens, nested),
        None => tokens.text(&part.to_string()),
    }
}

fn number(body: &Value, field: &str) -> Option<u64> {
    body.get(field).and_then(Value::as_u64)
}

fn flag(body: &Value, field: &str) -> bool {
    body.get(field).and_then(Value::as_bool).unwrap_or(false)
}

/// An exponential length of the given mean, at least 1, decided by `seed`.
fn exponential(seed: u64, mean: u32) -> u32 {
    let uniform = (mix(seed, 0x1e) >> 11) as f64 / (1_u64 << 53) as f64;
    (-(1.0 - uniform).ln() * f64::from(mean)).ceil().max(1.0) as u32
}

/// Reads a body as JSON; the error says where it broke, as vLLM does.
pub(super) fn json(body: &[u8]) -> Result<Value, ApiError> {
    serde_json::from_slice(body).map_err(|error| {
        let place = offset(body, error.line(), error.column());
        ApiError {
            status: StatusCode::BAD_REQUEST,
            kind: "Bad Request",
            message: format!(
                "1 validation error:\n  {{'type': 'json_invalid', 'loc': 'body.{place}', 'msg': 'JSON decode error', \
                 'input': '<dict of 0 items>', 'ctx': {{'error': 'Expecting value'}}}}"
            ),
            param: Some(format!("body.{place}")),
        }
    })
}

fn offset(body: &[u8], line: usize, column: usize) -> usize {
    let before = body.split(|&byte| byte == b'\n').take(line.saturating_sub(1));
    before.map(|line| line.len() + 1).sum::<usize>() + column
}
