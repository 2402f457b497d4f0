//! One try at one endpoint: picking it, watching its response, and telling the pool how it went.

use std::time::{Duration, Instant};

use bytes::Bytes;
use pingora_core::protocols::Digest;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, ErrorSource, ErrorType, Result, RetryType};
use pingora_proxy::Session;
use spillway_picker::decide::NoPick;
use spillway_picker::pool::{Event, Outcome};

use crate::ctx::{Attempt, Ctx};
use crate::detail;
use crate::error::Refusal;
use crate::fleet::Fleet;
use crate::observe::{Kind, Observer, Seen};
use crate::patience::Expired;
use crate::retry::{self, Failure, Situation, Verdict};
use crate::routes::Target;
use crate::trial;

/// The request got to its endpoint's turn without a target: our own fault.
pub fn no_target() -> Box<Error> {
    Error::explain(ErrorType::InternalError, "request without a target")
}

/// Chooses an endpoint and takes its in-flight guard.
pub fn pick(fleet: &Fleet, target: &Target, ctx: &mut Ctx) -> Result<()> {
    let state = &target.pool.state;
    let began = Instant::now();
    let decided = state.picker.decide(&ctx.info, state.turn(), fleet.time_of(began), None);
    let took = began.elapsed();
    ctx.pick_time = Some(took);
    fleet.metrics().pick_seconds.with_label_values(&[&*state.name]).observe(took.as_secs_f64());
    let pick = match decided {
        Ok(pick) => pick,
        Err(reason) => {
            // With no endpoint left to try, the last failure is what the client should hear of.
            if ctx.attempts == 0 || !matches!(reason, NoPick::AllTried) {
                ctx.refusal = Some(refusal(reason));
            }
            return Error::e_explain(ErrorType::ConnectNoRoute, reason.to_string());
        }
    };
    ctx.attempts += 1;
    ctx.info.arm = pick.arm;
    trial::picked(fleet, ctx, pick.affinity);
    let metrics = fleet.metrics();
    metrics.picks_total.with_label_values(&[&*state.name, &*pick.endpoint.id, pick.reason.as_str()]).inc();
    metrics.affinity_total.with_label_values(&[&*state.name, pick.affinity.as_str()]).inc();
    ctx.attempt = Attempt {
        endpoint: Some(pick.endpoint),
        flight: pick.flight,
        reason: Some(pick.reason),
        affinity: Some(pick.affinity),
        picked: Some(began),
        predicted_ttft: pick.predicted_ttft,
        ..Attempt::default()
    };
    Ok(())
}

fn refusal(reason: NoPick) -> Refusal {
    match reason {
        NoPick::Full => Refusal::Saturated,
        _ => Refusal::NoEndpoint,
    }
}

/// The peer of the endpoint picked.
pub fn peer(fleet: &Fleet, target: &Target, ctx: &mut Ctx) -> Result<Box<HttpPeer>> {
    let endpoint = ctx.attempt.endpoint.as_ref().ok_or_else(no_target)?;
    let Some(address) = target.pool.state.address(&endpoint.id) else {
        // Not resolved yet: as good as not reachable. The retry goes elsewhere.
        let error = Error::explain(ErrorType::ConnectNoRoute, "endpoint has no address");
        return Err(conclude(fleet, ctx, Failure::Connect, error, false));
    };
    let mut peer = address.peer(target.pool.settings.timeouts.connect);
    ctx.attempt.address = Some(address);
    if ctx.attempt.again {
        // Idle connections are pooled by this key as well: a key of its own means a fresh connection, and no idle time
        // means it is not kept under a key that nobody will ask for again.
        peer.group_key = fastrand::u64(1..);
        peer.options.idle_timeout = Some(std::time::Duration::ZERO);
    }
    Ok(Box::new(peer))
}

/// A connection to the endpoint stands. The kernel knows its round trip, from the handshake if from nothing else.
pub fn connected(fleet: &Fleet, ctx: &mut Ctx, digest: Option<&Digest>) {
    let (Some(target), Some(flight)) = (&ctx.target, &mut ctx.attempt.flight) else { return };
    let info = digest.and_then(|digest| digest.socket_digest.as_ref()?.tcp_info());
    // Systems that do not tell say 0.
    let round_trip = info.filter(|info| info.tcpi_rtt > 0).map(|info| Duration::from_micros(info.tcpi_rtt.into()));
    target.pool.state.picker.observe(Event::Connected { flight, round_trip }, fleet.now());
}

/// What a failed exchange means.
pub fn classify(ctx: &Ctx, error: &Error, connection_reused: bool) -> Failure {
    if let Some(expired) = ctx.handle.as_ref().and_then(crate::replay::Handle::expired) {
        return Failure::Expired(expired);
    }
    if *error.esource() == ErrorSource::Downstream {
        // What Pingora refuses of the client's own headers is no departure.
        let is_malformed = matches!(error.etype(), ErrorType::InvalidHTTPHeader | ErrorType::HTTPStatus(_));
        return if is_malformed { Failure::Malformed } else { Failure::ClientGone };
    }
    match error.etype() {
        ErrorType::WriteError | ErrorType::ReadError | ErrorType::ConnectionClosed | ErrorType::H2Error => {
            // Once there is a head, the server was there and had the request.
            if connection_reused && ctx.attempt.status.is_none() { Failure::StaleConnection } else { Failure::Reset }
        }
        ErrorType::WriteTimedout | ErrorType::ReadTimedout => Failure::Reset,
        _ => Failure::Other,
    }
}

/// Decides what follows a failure and marks the error for Pingora's loop.
pub fn failed(fleet: &Fleet, session: &Session, ctx: &mut Ctx, failure: Failure, error: Box<Error>) -> Box<Error> {
    let began = session.response_written().is_some_and(|head| !head.status.is_informational());
    conclude(fleet, ctx, failure, error, began)
}

#[expect(clippy::unnecessary_box_returns, reason = "Pingora's hooks take and give errors boxed")]
fn conclude(fleet: &Fleet, ctx: &mut Ctx, failure: Failure, mut error: Box<Error>, response_began: bool) -> Box<Error> {
    if response_began && ctx.attempt.observer.as_ref().is_some_and(Observer::has_ended) {
        // The stream's own end marker has gone by: what either connection does after it harms nobody.
        ctx.attempt.ended = true;
        settle(fleet, ctx, Outcome::Completed);
        error.retry = RetryType::Decided(false);
        return error;
    }
    let most_attempts = ctx.target.as_ref().map_or(1, |target| target.pool.settings.retries.attempts);
    let verdict = retry::verdict(Situation {
        failure,
        response_began,
        attempts: ctx.attempts,
        most_attempts,
        was_again: ctx.attempt.again,
    });
    ctx.failure = Some(failure);
    // What Pingora makes of a passed deadline reads like the client's fault.
    ctx.detail = match failure {
        Failure::Expired(_) => String::new(),
        _ => detail::of(&error),
    };
    match verdict {
        Verdict::Again => ctx.attempt.again = true,
        Verdict::Elsewhere => {
            settle(fleet, ctx, outcome(failure, response_began));
            if let Some(endpoint) = &ctx.attempt.endpoint {
                ctx.info.tried.push(endpoint.slot);
            }
            ctx.attempt.again = false;
        }
        Verdict::Stop => settle(fleet, ctx, outcome(failure, response_began)),
    }
    let retry = verdict != Verdict::Stop;
    if retry {
        let labels = [ctx.pool(), failure.as_str()];
        fleet.metrics().retries_total.with_label_values(&labels).inc();
    }
    error.retry = RetryType::Decided(retry);
    error
}

fn outcome(failure: Failure, response_began: bool) -> Outcome {
    match failure {
        Failure::ClientGone | Failure::Malformed => Outcome::ClientGone,
        Failure::Connect => Outcome::ConnectFailed,
        Failure::Expired(_) => Outcome::TimedOut,
        _ if response_began => Outcome::Failed,
        Failure::StaleConnection | Failure::Reset => Outcome::Reset,
        Failure::Other => Outcome::Failed,
    }
}

/// Tells the pool how the attempt ended. Once per attempt. An error that a stream told of is the endpoint's failure like any
/// other, though the status was 200 and whether or not the client stayed to the end.
fn settle(fleet: &Fleet, ctx: &mut Ctx, mut outcome: Outcome) {
    let Some(mut flight) = ctx.attempt.flight.take() else { return };
    let Some(target) = &ctx.target else { return };
    let picker = &target.pool.state.picker;
    let now = fleet.now();
    if let Some(summary) = ctx.attempt.observer.as_mut().map(Observer::finish) {
        let usage = summary.usage;
        if usage != crate::observe::Usage::default() {
            picker.observe(
                Event::Usage {
                    flight: &mut flight,
                    prompt: usage.prompt,
                    cached: usage.cached,
                    completion: usage.completion,
                },
                now,
            );
        }
        if summary.at_fault && matches!(outcome, Outcome::Completed | Outcome::ClientGone) {
            outcome = Outcome::Failed;
        }
        ctx.attempt.summary = Some(summary);
    }
    if matches!(outcome, Outcome::Failed | Outcome::TimedOut)
        && ctx.attempt.response_bytes > 0
        && let Some(endpoint) = &ctx.attempt.endpoint
    {
        fleet.metrics().broken_streams_total.with_label_values(&[&*target.pool.state.name, &*endpoint.id]).inc();
    }
    picker.observe(Event::Ended { flight, outcome }, now);
}

/// A piece of the response body passes on its way to the client.
pub fn saw_chunk(fleet: &Fleet, ctx: &mut Ctx, chunk: &Bytes) {
    let first = ctx.attempt.response_bytes == 0;
    ctx.attempt.response_bytes += chunk.len() as u64;
    if first {
        // The answer has begun: no retry will need the body.
        ctx.body = crate::body::Body::default();
        ctx.share = None;
        if let Some(picked) = ctx.attempt.picked {
            let waited = picked.elapsed().as_secs_f64();
            fleet.metrics().stage_seconds.with_label_values(&["first_byte"]).observe(waited);
        }
    }
    let Some(observer) = &mut ctx.attempt.observer else { return };
    let seen = observer.observe(chunk);
    if seen.tokens > 0 && matches!(observer.kind(), Kind::EventStream(_)) {
        saw_tokens(fleet, ctx, seen);
    }
}

fn saw_tokens(fleet: &Fleet, ctx: &mut Ctx, seen: Seen) {
    let Some(target) = &ctx.target else { return };
    let moment = Instant::now();
    let now = fleet.time_of(moment);
    let labels = [&*target.model, &*target.pool.state.name];
    let picker = &target.pool.state.picker;
    let metrics = fleet.metrics();
    ctx.attempt.tokens = ctx.attempt.tokens.saturating_add(seen.tokens);
    let mut later = seen.tokens;
    if seen.first_token {
        later -= 1;
        let ttft = moment.saturating_duration_since(ctx.began);
        ctx.ttft = Some(ttft);
        if let Some(handle) = &ctx.handle {
            handle.await_token(false);
        }
        metrics.ttft_seconds.with_label_values(&labels).observe(ttft.as_secs_f64());
        if let Some(arm) = &target.arm {
            let labels = [&*target.model, &*target.pool.state.name, arm];
            metrics.split_ttft_seconds.with_label_values(&labels).observe(ttft.as_secs_f64());
        }
        trial::first_token(fleet, ctx, ttft);
        if let (Some(predicted), Some(picked)) = (ctx.attempt.predicted_ttft, ctx.attempt.picked) {
            let measured = moment.saturating_duration_since(picked).as_secs_f64();
            let error = predicted.as_secs_f64() - measured;
            metrics.predicted_ttft_error_seconds.with_label_values(&labels[1..]).observe(error);
        }
        if let Some(flight) = &mut ctx.attempt.flight {
            picker.observe(Event::FirstToken { flight }, now);
        }
    }
    if later > 0 {
        if let Some(last) = ctx.attempt.last_token {
            let gap = moment.saturating_duration_since(last).as_secs_f64() / f64::from(later);
            let of_labels = || metrics.inter_token_seconds.with_label_values(&labels);
            let histogram = ctx.attempt.gaps.get_or_insert_with(of_labels);
            for _ in 0..later {
                histogram.observe(gap);
            }
        }
        if let Some(flight) = &mut ctx.attempt.flight {
            picker.observe(Event::Token { flight, count: later }, now);
        }
    }
    ctx.attempt.last_token = Some(moment);
}

/// The response ended as its framing says. A stream that ends so without its own end marker is an answer cut short: the
/// client is told in the stream.
pub fn saw_end(ctx: &mut Ctx, body: &mut Option<Bytes>) {
    ctx.attempt.ended = true;
    let Some(observer) = &mut ctx.attempt.observer else { return };
    let summary = observer.finish();
    if summary.ended_properly || !matches!(observer.kind(), Kind::EventStream(_)) || ctx.attempt.response_bytes == 0 {
        return;
    }
    // A refusal told in the stream is all of its answer, with or without an end marker.
    let is_refusal = summary.error_in_stream && !summary.at_fault;
    if !is_refusal {
        ctx.failure = Some(Failure::Other);
        "stream ended without its end marker".clone_into(&mut ctx.detail);
    }
    if let Some(event) = observer.error_event(&Refusal::Failed.in_stream()) {
        let mut whole = body.take().map(Vec::from).unwrap_or_default();
        whole.extend_from_slice(&event);
        *body = Some(whole.into());
        if let Some(handle) = ctx.handle.as_ref().filter(|_| !is_refusal) {
            handle.break_off();
        }
    }
}

/// Settles what is not settled, at the end of the request.
pub fn finish(fleet: &Fleet, ctx: &mut Ctx) {
    let outcome = match (ctx.failure, ctx.attempt.status) {
        (Some(_), _) if ctx.attempt.ended => Outcome::Failed,
        (Some(failure), _) => outcome(failure, ctx.attempt.response_bytes > 0),
        (None, Some(status)) if status >= 400 => Outcome::Status(status),
        (None, Some(_)) => Outcome::Completed,
        (None, None) => Outcome::ClientGone,
    };
    settle(fleet, ctx, outcome);
}

/// The refusal that fits the failure that ended a request before its response began.
pub fn final_refusal(ctx: &Ctx) -> Refusal {
    match ctx.failure {
        Some(Failure::Expired(Expired::FirstByte | Expired::Gap | Expired::Total)) => Refusal::TimedOut,
        Some(Failure::Connect) if ctx.attempt.connect_timed_out => Refusal::TimedOut,
        Some(Failure::Malformed) => Refusal::BadRequest("the request headers are not valid"),
        Some(_) => Refusal::Failed,
        None => Refusal::Internal,
    }
}
