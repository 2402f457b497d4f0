//! What is kept of a request when it is over: metrics, one line in the access log and, where it is asked for, one in the
//! trace.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pingora_proxy::Session;

use crate::access_log::{AccessLog, Line};
use crate::ctx::Ctx;
use crate::fleet::Fleet;
use crate::observe::Usage;
use crate::retry::Failure;
use crate::trace::line::Request;
use crate::trace::{Entry, Recorder};
use crate::trial;

/// The code logged and counted for a client that left before it had an answer; nginx's convention.
const CLIENT_GONE: u16 = 499;

/// Records a request.
pub fn request(fleet: &Fleet, log: &AccessLog, recorder: &Recorder, session: &Session, ctx: &Ctx) {
    let written = session.response_written().map(|head| head.status.as_u16());
    let status = written.filter(|_| ctx.failure != Some(Failure::ClientGone)).unwrap_or(CLIENT_GONE);
    let metrics = fleet.metrics();
    let duration = ctx.began.elapsed();
    let usage = ctx.attempt.summary.map(|summary| summary.usage).unwrap_or_default();
    // Names that are not served would be labels of the client's choice.
    metrics.requests_total.with_label_values(&[ctx.model(), ctx.pool(), status_text(status).as_ref()]).inc();
    if let Some(refusal) = &ctx.refusal {
        metrics.refused_total.with_label_values(&[refusal.code()]).inc();
    }
    if ctx.target.is_some() {
        let labels = [ctx.model(), ctx.pool()];
        if let Some(arm) = ctx.arm() {
            let labels = [ctx.model(), ctx.pool(), arm, &status_text(status)];
            metrics.split_requests_total.with_label_values(&labels).inc();
        }
        metrics.request_duration_seconds.with_label_values(&labels).observe(duration.as_secs_f64());
        if let Some(scan) = ctx.scan_time {
            metrics.stage_seconds.with_label_values(&["scan"]).observe(scan.as_secs_f64());
        }
        for (kind, tokens) in usage.by_kind() {
            metrics.tokens_total.with_label_values(&[ctx.model(), ctx.tenant(), kind]).inc_by(tokens);
            if let Some(arm) = ctx.arm() {
                metrics.split_tokens_total.with_label_values(&[ctx.model(), ctx.pool(), arm, kind]).inc_by(tokens);
            }
        }
    }
    trial::ended(fleet, ctx, status_text(status).as_ref(), usage);
    let head = session.req_header();
    let told = ctx.attempt.summary.is_some_and(|summary| summary.at_fault);
    let detail = if told && ctx.detail.is_empty() { "the stream told of an error" } else { &ctx.detail };
    let error = match (&ctx.refusal, ctx.failure) {
        (Some(refusal), _) => refusal.code(),
        (None, Some(failure)) => failure.as_str(),
        (None, None) if written.is_none() => "no_answer",
        (None, None) if told => Failure::Other.as_str(),
        (None, None) => "",
    };
    if recorder.is_on()
        && let Some(entry) = entry(ctx, usage, (status, error), duration)
    {
        recorder.add(entry);
    }
    log.write(&Line {
        time: SystemTime::now(),
        request_id: &ctx.request_id,
        method: head.method.as_str(),
        path: head.uri.path(),
        status,
        model: ctx.model(),
        target: ctx.sent_on(),
        pool: ctx.pool(),
        tenant: ctx.tenant(),
        endpoint: ctx.endpoint(),
        reason: ctx.attempt.reason.map_or("", |reason| reason.as_str()),
        arm: ctx.info.arm.map_or("", |arm| arm.as_str()),
        attempts: ctx.attempts,
        stream: ctx.stream,
        request_bytes: ctx.request_bytes,
        response_bytes: session.body_bytes_sent() as u64,
        prompt_tokens: usage.prompt,
        cached_tokens: usage.cached,
        completion_tokens: usage.completion,
        body: ctx.body_time,
        pick: ctx.pick_time,
        ttft: ctx.ttft,
        predicted_ttft: ctx.attempt.predicted_ttft,
        duration,
        error,
        detail,
    });
}

/// What the trace gets of a request that led to a pool.
fn entry(ctx: &Ctx, usage: Usage, (status, error): (u16, &str), duration: Duration) -> Option<Entry> {
    let target = ctx.target.as_ref()?;
    // A name that nobody lists is the client's own words.
    let model = target.sent_on.as_ref().unwrap_or(&target.model);
    let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    let prompt = &ctx.info.prompt;
    let request = Request {
        // Counted by the writer, which knows from when on.
        at: 0,
        pool: Arc::clone(&target.pool.state.name),
        model: Arc::clone(ctx.info.adapter.as_ref().unwrap_or(model)),
        adapter: ctx.info.adapter.is_some(),
        stream: ctx.info.streams,
        max_tokens: ctx.info.max_tokens,
        after: None,
        blocks: Vec::new(),
        ring: prompt.ring_key,
        bytes: prompt.bytes,
        wide: prompt.wide_bytes,
        media: prompt.media,
        token_ids: prompt.token_ids,
        estimate: target.pool.state.picker.estimate_tokens(prompt),
        prompt: usage.prompt,
        cached: usage.cached,
        output: usage.completion.or((ctx.attempt.tokens > 0).then_some(ctx.attempt.tokens)),
        endpoint: ctx.attempt.endpoint.as_ref().map(|endpoint| Arc::clone(&endpoint.id)),
        attempts: if ctx.attempts > 1 { ctx.attempts } else { 0 },
        picked: ctx.attempt.picked.map(|picked| micros(picked.saturating_duration_since(ctx.began))),
        ttft: ctx.ttft.map(micros),
        duration: micros(duration),
        status,
        error: (!error.is_empty()).then(|| error.to_owned()),
    };
    Some(Entry { began: ctx.began, request, prompt: Arc::clone(prompt) })
}

/// A status as text, without allocating for those that are common.
fn status_text(status: u16) -> std::borrow::Cow<'static, str> {
    match status {
        200 => "200".into(),
        400 => "400".into(),
        404 => "404".into(),
        429 => "429".into(),
        499 => "499".into(),
        502 => "502".into(),
        503 => "503".into(),
        other => other.to_string().into(),
    }
}
