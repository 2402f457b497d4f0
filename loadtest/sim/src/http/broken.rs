//! The faults that take the place of a response: hang, half-open, reset, status, not ready, in this order.

use hyper::StatusCode;

use super::connection::Connection;
use super::reply::{Answer, ApiError, ErrorShape, json, set};
use super::shared::Shared;
use crate::fault::{Fault, FaultKind};

/// Plays the faults that replace a response. `early` are those before the body is read.
pub(super) async fn broken(
    shared: &Shared,
    connection: &Connection,
    path: &str,
    nth: u64,
    early: bool,
) -> Option<Answer> {
    let due = |fault: &Fault| fault.early == early && (!fault.reused || nth > 1);
    if !early && let Some(strike) = shared.faults.strike(FaultKind::Hang, path, |_| true) {
        shared.faults.released(&strike).await;
    }
    if !early && let Some(strike) = shared.faults.strike(FaultKind::HalfOpen, path, |_| true) {
        connection.freeze();
        shared.faults.released(&strike).await;
        connection.reset();
        std::future::pending::<()>().await;
    }
    if shared.faults.strike(FaultKind::Reset, path, due).is_some() {
        connection.reset();
        std::future::pending::<()>().await;
    }
    if let Some(strike) = shared.faults.strike(FaultKind::Status, path, due) {
        return Some(status(&strike.fault));
    }
    if early {
        return None;
    }
    let not_ready = [FaultKind::ColdStart, FaultKind::Loading, FaultKind::Drain];
    let strike = not_ready.into_iter().find_map(|kind| shared.faults.strike(kind, path, |_| true))?;
    Some(unavailable(strike.fault.kind))
}

/// What a server that takes no requests says.
fn unavailable(kind: FaultKind) -> Answer {
    let message = if kind == FaultKind::Drain { "The server is shutting down." } else { "The model is being loaded." };
    let (status, message) = (StatusCode::SERVICE_UNAVAILABLE, message.to_owned());
    ApiError { status, kind: "Service Unavailable", message, param: None }.answer(ErrorShape::OpenAi)
}

fn status(fault: &Fault) -> Answer {
    let status = StatusCode::from_u16(fault.code).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    let kind = match fault.code {
        429 => "RateLimitError",
        503 => "Service Unavailable",
        _ => "InternalServerError",
    };
    let error = ApiError { status, kind, message: "simulated fault".to_owned(), param: None };
    let body = fault.body.clone().unwrap_or_else(|| error.body(ErrorShape::OpenAi));
    let mut answer = json(status, body);
    if let Some(retry_after) = &fault.retry_after {
        set(&mut answer, "retry-after", retry_after);
    }
    answer
}
