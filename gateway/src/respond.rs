//! Answers the gateway writes itself.

use std::time::Duration;

use http::HeaderMap;
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderName, TRANSFER_ENCODING};
use pingora_core::Result;
use pingora_http::ResponseHeader;
use pingora_proxy::Session;

use crate::attempt;
use crate::auth;
use crate::ctx::Ctx;
use crate::error::Refusal;
use crate::retry::Failure;

/// Longest client-given request id that is kept, in bytes. Servers put it into their own ids and logs.
const ID: usize = 128;

/// Headers that speak of one connection, whether or not `Connection` names them.
static OF_A_CONNECTION: [HeaderName; 5] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    http::header::TE,
    http::header::UPGRADE,
];

/// The header of a request's id.
pub static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Pause between the last event of a broken HTTP/2 stream and its reset. A reset discards what the connection's task has
/// not written yet, and there is no way to ask whether it has; it is woken at once, so this is plenty.
const FLUSH: Duration = Duration::from_millis(50);

/// The client's request id if it is fit to be passed on, or a new one. A key that got there is not: ids are logged.
pub fn request_id(headers: &HeaderMap) -> String {
    let fit = |id: &&str| !id.is_empty() && id.len() <= ID && id.bytes().all(|byte| byte.is_ascii_graphic());
    headers
        .get(&REQUEST_ID)
        .and_then(|value| value.to_str().ok())
        .filter(fit)
        .filter(|id| !auth::is_presented(headers, id.as_bytes()))
        .map_or_else(|| format!("{:032x}", fastrand::u128(..)), str::to_owned)
}

/// Removes what a server says of its own connection. `Transfer-Encoding` stays: Pingora frames the body by it.
pub fn strip_connection_headers(response: &mut ResponseHeader) {
    // As a rule there are none, and to look once is cheaper than to remove what is not there.
    let has_any = response.headers.keys().any(|name| OF_A_CONNECTION.contains(name));
    if !has_any || response.status == http::StatusCode::SWITCHING_PROTOCOLS {
        return;
    }
    let listed: Vec<String> = response
        .headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .filter(|name| name != TRANSFER_ENCODING.as_str() && name != CONTENT_LENGTH.as_str())
        .collect();
    for name in &listed {
        response.remove_header(name.as_str());
    }
    for name in &OF_A_CONNECTION {
        response.remove_header(name);
    }
}

/// Answers with a refusal and remembers it.
pub async fn refuse(session: &mut Session, ctx: &mut Ctx, refusal: Refusal) -> Result<()> {
    let body = refusal.body(ctx.surface.error_shape());
    let mut head = refusal.head(body.len(), fastrand::f64())?;
    head.insert_header(&REQUEST_ID, ctx.request_id.as_str())?;
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
        let message = attempt::final_refusal(ctx).in_stream();
        let observer = ctx.attempt.observer.as_ref().filter(|_| !ctx.attempt.ended);
        let event = observer.and_then(|observer| observer.error_event(&message));
        if let Some(event) = event {
            let _ = session.write_response_body(Some(event), false).await;
        }
        if session.is_http2() {
            tokio::time::sleep(FLUSH).await;
        }
        return 0;
    }
    let refusal = ctx.refusal.take().unwrap_or_else(|| attempt::final_refusal(ctx));
    let status = refusal.status();
    let _ = refuse(session, ctx, refusal).await;
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_kept_if_it_is_short_plain_and_no_key() {
        let id = |pairs: &[(&'static str, &str)]| {
            request_id(
                &pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect(),
            )
        };
        assert_eq!(id(&[("x-request-id", "r-1")]), "r-1");
        for unfit in ["", "a b", &"x".repeat(ID + 1), "sk-1"] {
            let given = id(&[("x-request-id", unfit), ("authorization", "Bearer sk-1")]);
            assert_eq!(given.len(), 32, "{unfit:?} became {given:?}");
        }
    }
}
