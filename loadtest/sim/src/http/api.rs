//! The surfaces that generate: from a parsed body to a plain or streamed reply.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue};

use super::driver::{Generation, Item};
use super::prompt::{self, Job};
use super::reply::{self, Answer, ApiError, ErrorShape, set};
use super::route::Call;
use super::shared::unix_now;
use super::sse::Sse;
use super::surface::{Choice, Head, Kind};
use crate::engine::{Finish, Request};
use crate::fault::FaultKind;
use crate::tokenizer::word;

/// Answers a generating request. The flag says whether the reply is a stream.
pub(super) async fn generate(call: &Call, kind: Kind) -> (Answer, bool) {
    let result = match call.json() {
        Ok(body) => match Job::parse(&call.shared, kind, body) {
            Ok(job) => start(call, kind, job).await,
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    result.unwrap_or_else(|error| (error.answer(call.error_shape(kind == Kind::Messages)), false))
}

/// Runs one prompt through the engine for surfaces that only read it; returns its tokens and the cached ones.
pub(super) async fn read(call: &Call, text: &str) -> Result<(usize, usize), ApiError> {
    let tokens = prompt::plain(if text.is_empty() { " " } else { text });
    let count = tokens.len();
    let request = Request { prompt: tokens, max_tokens: 1, ..Request::default() };
    let generation = submit(call, vec![request])?;
    let whole = collect(generation, 1, 1).await?;
    Ok((count, whole.cached))
}

fn submit(call: &Call, requests: Vec<Request>) -> Result<Generation, ApiError> {
    if let Some(limit) = call.shared.config.max_queued
        && call.shared.driver.with_engine(crate::engine::Engine::waiting) >= limit
    {
        call.shared.rejected.fetch_add(1, Ordering::Relaxed);
        return Err(ApiError::queue_full(limit));
    }
    call.shared.driver.submit(requests).map_err(ApiError::refused)
}

async fn start(call: &Call, kind: Kind, job: Job) -> Result<(Answer, bool), ApiError> {
    let shared = &call.shared;
    adapter_fails(call, &job)?;
    let id = call.header("x-request-id").map_or_else(|| shared.fresh_id(), str::to_owned);
    let mut head = Head {
        id: format!("{}{id}", kind.id_prefix()),
        created: unix_now() as u64,
        model: job.model.clone(),
        prompt: job.prompt_tokens(),
        cached: 0,
        counts: vec![0; job.requests.len()],
        usage_factor: shared
            .faults
            .strike(FaultKind::WrongUsage, &call.path, |_| true)
            .map_or(1.0, |strike| strike.fault.factor()),
        details: shared.config.prompt_tokens_details,
        include_usage: job.include_usage,
        continuous_usage: job.continuous_usage,
        max_tokens: job.max_tokens,
    };
    let (choices, all, prompt) = (job.choices, job.requests.len(), head.prompt);
    let generation = submit(call, job.requests)?;
    if kind == Kind::Responses {
        shared.store_response(&head.id);
    }
    let surface = kind.surface(shared.is_llama_cpp());
    let mut answer;
    let (cached, queued) = if job.stream {
        let on_arrival = generation.cached_on_arrival().iter().step_by(choices).sum();
        let place = (choices, call.path.as_str());
        let mut sse = Sse::new(Arc::clone(shared), call.connection.clone(), generation, head, surface, place);
        let mut known = (on_arrival, None);
        if shared.config.hold_head {
            let queued = sse.first_token().await;
            known = (sse.cached(), queued);
        } else if shared.is_llama_cpp() {
            // Its head comes with the slot.
            known.1 = sse.admitted().await;
        }
        answer = reply::empty(StatusCode::OK);
        *answer.body_mut() = sse.into_body();
        let content_type = if shared.is_llama_cpp() { "text/event-stream" } else { "text/event-stream; charset=utf-8" };
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        known
    } else {
        let whole = collect(generation, all, choices).await?;
        head.cached = whole.cached;
        head.counts = whole.counts;
        answer = reply::json(StatusCode::OK, surface.plain(&head, &whole.choices));
        (whole.cached, whole.queued)
    };
    set(&mut answer, "x-sim-prompt", &prompt.to_string());
    set(&mut answer, "x-sim-cached", &cached.to_string());
    if let Some(queued) = queued {
        set(&mut answer, "x-sim-queue-ms", &format!("{:.3}", queued.as_secs_f64() * 1e3));
    }
    Ok((answer, job.stream))
}

/// An adapter that is not on the device has to be loaded, which a fault may prevent.
fn adapter_fails(call: &Call, job: &Job) -> Result<(), ApiError> {
    let Some(adapter) = job.requests.first().and_then(|request| request.adapter.as_ref()) else { return Ok(()) };
    let shared = &call.shared;
    let missing = !shared.driver.with_engine(|engine| engine.holds_adapter(adapter));
    match shared.faults.strike(FaultKind::AdapterFail, &call.path, |_| missing) {
        Some(_) => Err(ApiError::internal(&format!("Loading lora {adapter} failed."))),
        None => Ok(()),
    }
}

/// All that came of a generation.
struct Whole {
    choices: Vec<Choice>,
    counts: Vec<u32>,
    cached: usize,
    queued: Option<Duration>,
}

async fn collect(mut generation: Generation, all: usize, choices_per_prompt: usize) -> Result<Whole, ApiError> {
    let mut whole = Whole { choices: Vec::new(), counts: vec![0; all], cached: 0, queued: None };
    whole.choices.resize_with(all, || Choice { text: String::new(), finish: Finish::Length });
    let mut open = all;
    while open > 0 {
        match generation.next().await.ok_or_else(ApiError::engine_dead)? {
            Item::Scheduled { choice, cached, queued } => {
                if choice.is_multiple_of(choices_per_prompt) {
                    whole.cached += cached as usize;
                }
                whole.queued.get_or_insert(generation.wall(queued));
            }
            Item::Token { choice, token, finish } => {
                whole.choices[choice].text.push_str(word(token));
                whole.counts[choice] += 1;
                if let Some(finish) = finish {
                    whole.choices[choice].finish = finish;
                    open -= 1;
                }
            }
        }
    }
    Ok(whole)
}

impl Call {
    /// Whose errors this request gets.
    pub(super) fn error_shape(&self, anthropic: bool) -> ErrorShape {
        match (self.shared.is_llama_cpp(), anthropic) {
            (true, _) => ErrorShape::LlamaCpp,
            (false, true) => ErrorShape::Anthropic,
            (false, false) => ErrorShape::OpenAi,
        }
    }
}
