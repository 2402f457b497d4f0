//! Answers the gateway writes itself.

use http::HeaderMap;
use pingora_core::Result;
use pingora_proxy::Session;

use crate::attempt;
use crate::ctx::Ctx;
use crate::error::Refusal;
use crate::retry::Failure;

/// Longest client-given request id that is kept, in bytes. Servers put it into their own ids and logs.
const ID: usize = 128;

/// The client's request id if it is fit to be passed on, or a new one.
pub fn request_id(headers: &HeaderMap) -> String {
    let fit = |id: &&str| !id.is_empty() && id.len() <= ID && id.bytes().all(|byte| byte.is_ascii_graphic());
    headers
        .get("x-request-id")
        .and_then(|value| value.to_str().ok())
        .filter(fit)
        .map_or_else(|| format!("{:032x}", fastrand::u128(..)), str::to_owned)
}

/// Answers with a refusal and remembers it.
pub async fn refuse(session: &mut Session, ctx: &mut Ctx, refusal: Refusal) -> Result<()> {
    let body = refusal.body(ctx.surface.error_shape());
    let mut head = refusal.head(body.len(), fastrand::f64())?;
    head.insert_header("x-request-id", ctx.request_id.as_str())?;
    if refusal.closes() {
        session.set_keepalive(None);
    }
    ctx.refusal = Some(refusal);
    session.write_response_header(Box::new(head), false).await?;
    session.write_response_body(Some(body), true).await
}

/// Ends a request that could not be proxied. Returns the status for Pingora's records, 0 when nobody is there to read one.
pub async fn failure(session: &mut Session, ctx: &mut Ctx) -> u16 {
    if ctx.failure == Some(Failure::ClientGone) {
        return 0;
    }
    let began = session.response_written().is_some_and(|head| !head.status.is_informational());
    if began {
        // Too late for a status: an event in the stream's own form, then the abnormal end that `false` leaves behind.
        let message = attempt::final_refusal(ctx).to_string();
        let event = ctx.attempt.observer.as_ref().and_then(|observer| observer.error_event(&message));
        if let Some(event) = event {
            let _ = session.write_response_body(Some(event), false).await;
        }
        return 0;
    }
    let refusal = ctx.refusal.take().unwrap_or_else(|| attempt::final_refusal(ctx));
    let status = refusal.status();
    let _ = refuse(session, ctx, refusal).await;
    status
}
