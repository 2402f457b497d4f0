//! Prompts as tokens, not generated from: what routers that match tokens ask a server for before they choose one.
//!
//! vLLM answers it only with `--enable-scale-out`.

use hyper::StatusCode;
use serde_json::{Value, json};

use super::prompt::Job;
use super::reply::{self, Answer, ApiError};
use super::route::Call;
use super::surface::Kind;

/// The requests that a body comes to; one object for a conversation, a list for completions.
pub(super) fn render(call: &Call, kind: Kind) -> Result<Answer, ApiError> {
    if !call.shared.config.scale_out {
        return Err(ApiError {
            status: StatusCode::FORBIDDEN,
            kind: "PermissionDeniedError",
            message: "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them."
                .to_owned(),
            param: None,
        });
    }
    let job = Job::parse(&call.shared, kind, call.json()?)?;
    let id = call.shared.fresh_id();
    let rendered = job.requests.iter().step_by(job.choices).map(|request| {
        json!({
            "request_id": id,
            "token_ids": &request.prompt[..],
            "features": null,
            "sampling_params": {"max_tokens": request.max_tokens},
            "model": job.model,
            "stream": job.stream,
        })
    });
    let mut rendered: Vec<Value> = rendered.collect();
    let body = match kind {
        Kind::Completions => Value::Array(rendered),
        _ => rendered.swap_remove(0),
    };
    Ok(reply::json(StatusCode::OK, body.to_string()))
}
