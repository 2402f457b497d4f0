//! The request's head as the endpoint is to get it: the client's, save for what speaks of the client's connection.
//!
//! Headers are looked at before they are touched: each change of one costs a name parsed and two maps searched, and most
//! requests need few.

use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderValue, Method};
use pingora_core::{ErrorType, OrErr as _, Result};
use pingora_http::RequestHeader;

use crate::auth;
use crate::ctx::Ctx;
use crate::replay::Handle;
use crate::respond::REQUEST_ID;

/// The body is sent with a length whatever framing it came in, at once, and to a server that stays with HTTP. What
/// `Connection` listed is gone already; Pingora puts it back for an upgrade.
static NOT_SENT_ON: [HeaderName; 4] = [TRANSFER_ENCODING, EXPECT, UPGRADE, CONNECTION];

/// Changes `request` for the attempt that `ctx` is at.
pub fn write(request: &mut RequestHeader, ctx: &Ctx) -> Result<()> {
    if let Some(address) = &ctx.attempt.address {
        request.insert_header(HOST, address.authority.clone())?;
    }
    frame(request, ctx.handle.as_ref().map_or(0, Handle::body_len))?;
    if ctx.caller.is_some() {
        auth::strip(request);
    }
    // Servers build their own ids from this one; two attempts in flight must not share it.
    let id = match ctx.attempts {
        0 | 1 => HeaderValue::from_str(&ctx.request_id),
        attempt => HeaderValue::from_str(&format!("{}-{attempt}", ctx.request_id)),
    };
    let id = id.or_err(ErrorType::InternalError, "request id is no header value")?;
    if !is_all(&request.headers, &REQUEST_ID, id.as_bytes()) {
        request.insert_header(&REQUEST_ID, id)?;
    }
    Ok(())
}

/// Gives the length of the body as its only framing.
fn frame(request: &mut RequestHeader, length: usize) -> Result<()> {
    let had_body = request.headers.contains_key(CONTENT_LENGTH) || request.headers.contains_key(TRANSFER_ENCODING);
    if request.headers.keys().any(|name| NOT_SENT_ON.contains(name)) {
        for name in &NOT_SENT_ON {
            request.remove_header(name);
        }
    }
    let has_length = is_all(&request.headers, &CONTENT_LENGTH, itoa::Buffer::new().format(length).as_bytes());
    if !has_length && (length > 0 || had_body || request.method == Method::POST) {
        request.insert_header(CONTENT_LENGTH, length)?;
    }
    Ok(())
}

/// Whether the header stands there once, with this value.
fn is_all(headers: &HeaderMap, name: &HeaderName, value: &[u8]) -> bool {
    let mut found = headers.get_all(name).iter();
    found.next().is_some_and(|only| only.as_bytes() == value) && found.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(method: &str, headers: &[(&'static str, &str)], length: usize) -> Vec<(String, String)> {
        let mut request = RequestHeader::build(method, b"/", None).unwrap();
        for (name, value) in headers {
            request.append_header(*name, *value).unwrap();
        }
        frame(&mut request, length).unwrap();
        let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
        request.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
    }

    #[test]
    fn the_length_is_the_only_framing() {
        let length = |length: &str| vec![("content-length".to_owned(), length.to_owned())];
        assert_eq!(framed("POST", &[("content-length", "5")], 5), length("5"));
        assert_eq!(framed("POST", &[("content-length", "5")], 7), length("7"), "a name was put in");
        assert_eq!(framed("POST", &[("content-length", "05")], 5), length("5"));
        assert_eq!(framed("POST", &[("content-length", "5"), ("content-length", "5")], 5), length("5"));
        assert_eq!(framed("POST", &[("transfer-encoding", "chunked"), ("expect", "100-continue")], 5), length("5"));
        assert_eq!(framed("POST", &[], 0), length("0"));
        assert_eq!(framed("GET", &[("upgrade", "h2c"), ("connection", "upgrade")], 0), []);
        assert_eq!(framed("GET", &[("content-length", "0")], 0), length("0"));
    }
}
