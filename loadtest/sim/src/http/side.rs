//! The surfaces that do not generate: embeddings, scores, tokens, adapters.
//!
//! Those that read text run it through the engine as a prefill, so they load it as a real one.

use hyper::StatusCode;
use serde_json::Value;

use super::api::read;
use super::prompt::{self, resolve_model};
use super::reply::{Answer, ApiError, ErrorShape, json, quoted, set, text};
use super::route::Call;
use super::shared::unix_now;
use crate::fault::FaultKind;
use crate::tokenizer::word;

/// Numbers in an embedding: enough to see that there are some.
const DIMENSIONS: u64 = 8;

pub(super) async fn embeddings(call: &Call) -> Result<Answer, ApiError> {
    let body = call.json()?;
    let (model, _) = resolve_model(&call.shared, body)?;
    let inputs = texts(&body["input"]);
    let (mut data, mut prompt, mut cached) = (Vec::new(), 0, 0);
    for (index, input) in inputs.iter().enumerate() {
        let (tokens, hit) = read(call, input).await?;
        prompt += tokens;
        cached += hit;
        let numbers: Vec<String> = (0..DIMENSIONS).map(|place| format!("{:.6}", fraction(input, place))).collect();
        data.push(format!(r#"{{"index":{index},"object":"embedding","embedding":[{}]}}"#, numbers.join(",")));
    }
    let (id, created, model) = (call.shared.fresh_id(), unix_now() as u64, quoted(&model));
    let (data, usage) = (data.join(","), usage(prompt));
    let body = format!(
        r#"{{"id":"embd-{id}","object":"list","created":{created},"model":{model},"data":[{data}],"usage":{usage}}}"#
    );
    Ok(counted(json(StatusCode::OK, body), prompt, cached))
}

pub(super) async fn rerank(call: &Call) -> Result<Answer, ApiError> {
    let body = call.json()?;
    let (model, _) = resolve_model(&call.shared, body)?;
    let query = body["query"].as_str().unwrap_or_default();
    let (mut results, mut prompt, mut cached) = (Vec::new(), 0, 0);
    for (index, document) in texts(&body["documents"]).iter().enumerate() {
        let (tokens, hit) = read(call, &format!("{query}\n{document}")).await?;
        prompt += tokens;
        cached += hit;
        results.push((fraction(document, 0), index, document.clone()));
    }
    results.sort_by(|a, b| b.0.total_cmp(&a.0));
    let list: Vec<String> = results
        .iter()
        .map(|(score, index, document)| {
            let document = quoted(document);
            format!(r#"{{"index":{index},"document":{{"text":{document}}},"relevance_score":{score:.6}}}"#)
        })
        .collect();
    let (id, model, list) = (call.shared.fresh_id(), quoted(&model), list.join(","));
    let body =
        format!(r#"{{"id":"rerank-{id}","model":{model},"usage":{{"total_tokens":{prompt}}},"results":[{list}]}}"#);
    Ok(counted(json(StatusCode::OK, body), prompt, cached))
}

pub(super) async fn score(call: &Call) -> Result<Answer, ApiError> {
    let body = call.json()?;
    let (model, _) = resolve_model(&call.shared, body)?;
    let (first, others) = (texts(&body["text_1"]), texts(&body["text_2"]));
    let (mut data, mut prompt, mut cached) = (Vec::new(), 0, 0);
    for (index, other) in others.iter().enumerate() {
        let (tokens, hit) = read(call, &format!("{}\n{other}", first.first().map_or("", String::as_str))).await?;
        prompt += tokens;
        cached += hit;
        data.push(format!(r#"{{"index":{index},"object":"score","score":{:.6}}}"#, fraction(other, 0)));
    }
    let (id, created, model) = (call.shared.fresh_id(), unix_now() as u64, quoted(&model));
    let (data, usage) = (data.join(","), usage(prompt));
    let body = format!(
        r#"{{"id":"score-{id}","object":"list","created":{created},"model":{model},"data":[{data}],"usage":{usage}}}"#
    );
    Ok(counted(json(StatusCode::OK, body), prompt, cached))
}

pub(super) fn tokenize(call: &Call) -> Result<Answer, ApiError> {
    let body = call.json()?;
    resolve_model(&call.shared, body)?;
    let tokens = match body["prompt"].as_str() {
        Some(prompt) => prompt::plain(prompt),
        None => prompt::conversation(body)?,
    };
    let (count, length) = (tokens.len(), call.shared.config.max_model_len);
    let list: Vec<String> = tokens.iter().map(u32::to_string).collect();
    let list = list.join(",");
    let body = format!(r#"{{"count":{count},"max_model_len":{length},"tokens":[{list}],"token_strs":null}}"#);
    Ok(json(StatusCode::OK, body))
}

pub(super) fn detokenize(call: &Call) -> Result<Answer, ApiError> {
    let body = call.json()?;
    let ids = body["tokens"].as_array().into_iter().flatten().filter_map(Value::as_u64);
    let prompt: String = ids.map(|id| word(id as u32)).collect();
    Ok(json(StatusCode::OK, format!(r#"{{"prompt":{}}}"#, quoted(&prompt))))
}

pub(super) fn count_tokens(call: &Call) -> Result<Answer, ApiError> {
    let body = call.json()?;
    resolve_model(&call.shared, body)?;
    let count = prompt::conversation(body)?.len();
    Ok(json(StatusCode::OK, format!(r#"{{"input_tokens":{count}}}"#)))
}

pub(super) fn load_adapter(call: &Call) -> Result<Answer, ApiError> {
    let body = call.json()?;
    let name = adapter_name(body)?;
    if call.shared.faults.strike(FaultKind::AdapterFail, &call.path, |_| true).is_some() {
        return Err(ApiError::internal(&format!("Loading lora {name} failed.")));
    }
    if !call.shared.load_adapter(name) && !body["load_inplace"].as_bool().unwrap_or(false) {
        let message = format!("The lora adapter '{name}' has already been loaded.");
        return Err(ApiError { kind: "InvalidUserInput", ..ApiError::bad_request(message, None) });
    }
    Ok(text(StatusCode::OK, format!("Success: LoRA adapter '{name}' added successfully.")))
}

pub(super) fn unload_adapter(call: &Call) -> Result<Answer, ApiError> {
    let name = adapter_name(call.json()?)?;
    if !call.shared.unload_adapter(name) {
        return Err(ApiError {
            status: StatusCode::NOT_FOUND,
            kind: "NotFoundError",
            message: format!("The lora adapter '{name}' cannot be found."),
            param: None,
        });
    }
    Ok(text(StatusCode::OK, format!("Success: LoRA adapter '{name}' removed successfully.")))
}

/// What any path under `/v1/` that we do not know answers with.
pub(super) fn echo(call: &Call) -> Answer {
    let (replica, method, path) = (quoted(&call.shared.config.replica), call.method.as_str(), quoted(&call.path));
    let model = call.model().map_or_else(|| "null".to_owned(), |model| quoted(&model));
    let (bytes, xxh3) = (call.body.len(), &call.xxh3);
    let body = format!(
        r#"{{"object":"sim.echo","replica":{replica},"method":"{method}","path":{path},"model":{model},"bytes":{bytes},"xxh3":"{xxh3}"}}"#
    );
    json(StatusCode::OK, body)
}

/// A response stored by an earlier POST of this server.
pub(super) fn stored_response(call: &Call) -> Answer {
    let id = call.path.trim_start_matches("/v1/responses/").trim_end_matches("/cancel");
    if call.shared.has_response(id) {
        return json(StatusCode::OK, format!(r#"{{"id":{},"object":"response","status":"completed"}}"#, quoted(id)));
    }
    let error = ApiError {
        status: StatusCode::NOT_FOUND,
        kind: "NotFoundError",
        message: format!("Response with id '{id}' not found."),
        param: Some("response_id".to_owned()),
    };
    error.answer(ErrorShape::OpenAi)
}

fn adapter_name(body: &Value) -> Result<&str, ApiError> {
    let name = body["lora_name"].as_str().filter(|name| !name.is_empty());
    name.ok_or_else(|| ApiError {
        kind: "InvalidUserInput",
        ..ApiError::bad_request("'lora_name' needs to be provided to load or unload a LoRA adapter.", None)
    })
}

fn usage(prompt: usize) -> String {
    format!(
        r#"{{"prompt_tokens":{prompt},"total_tokens":{prompt},"completion_tokens":0,"prompt_tokens_details":null}}"#
    )
}

fn counted(mut answer: Answer, prompt: usize, cached: usize) -> Answer {
    set(&mut answer, "x-sim-prompt", &prompt.to_string());
    set(&mut answer, "x-sim-cached", &cached.to_string());
    answer
}

/// A text, a list of texts, or token ids, as texts.
fn texts(value: &Value) -> Vec<String> {
    let one = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match value {
        Value::Array(items) if items.first().is_some_and(Value::is_number) => vec![one(value)],
        Value::Array(items) => items.iter().map(one).collect(),
        Value::Null => Vec::new(),
        other => vec![one(other)],
    }
}

/// A number in 0..1 decided by a text.
fn fraction(text: &str, place: u64) -> f64 {
    let hash = crate::engine::mix_bytes(place, text.as_bytes());
    (hash >> 11) as f64 / (1_u64 << 53) as f64
}
