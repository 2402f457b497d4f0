//! The admin surface: look at the server, break it, mend it.

use std::sync::Arc;

use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use serde::Deserialize;

use super::body::whole;
use super::reply::{Answer, empty, json, quoted};
use super::shared::Shared;
use crate::fault::Fault;
use crate::problems::Problems;

/// Commands are short.
const BODY_BYTES: usize = 64 << 10;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Crash {
    down_ms: u64,
}

/// Answers a request for `/admin/...`.
pub(super) async fn handle(shared: &Arc<Shared>, request: Request<Incoming>) -> Answer {
    let (parts, body) = request.into_parts();
    let Ok(body) = Limited::new(body, BODY_BYTES).collect().await else {
        return refuse(StatusCode::BAD_REQUEST, "body could not be read");
    };
    let body = body.to_bytes();
    let path = parts.uri.path();
    match (&parts.method, path) {
        (&Method::GET, "/admin/state") => written(&shared.state()),
        (&Method::GET, "/admin/last") => {
            let count = parts.uri.query().and_then(|query| query.strip_prefix("n=")?.parse().ok());
            written(&serde_json::json!({ "requests": shared.records.last(count.unwrap_or(usize::MAX)) }))
        }
        (&Method::GET, _) if path.starts_with("/admin/body/") => {
            let seq = path.trim_start_matches("/admin/body/").parse().ok();
            match seq.and_then(|seq| shared.records.body_of(seq)) {
                Some(body) => empty(StatusCode::OK).map(|_| whole(body)),
                None => refuse(StatusCode::NOT_FOUND, "no body is kept for this number"),
            }
        }
        (&Method::POST, "/admin/fault") => match serde_json::from_slice::<Fault>(&body) {
            Ok(fault) => match fault.problems() {
                none if none.is_empty() => json(StatusCode::OK, format!(r#"{{"id":{}}}"#, shared.fault(fault))),
                problems => refuse(StatusCode::BAD_REQUEST, &problems.join("; ")),
            },
            Err(error) => refuse(StatusCode::BAD_REQUEST, &error.to_string()),
        },
        (&Method::POST, "/admin/clear") => {
            shared.clear();
            json(StatusCode::OK, "{}")
        }
        (&Method::POST, "/admin/reset") => {
            shared.reset();
            json(StatusCode::OK, "{}")
        }
        (&Method::POST, "/admin/crash") => {
            let crash = if body.is_empty() { Ok(Crash::default()) } else { serde_json::from_slice::<Crash>(&body) };
            match crash {
                Ok(Crash { down_ms }) => {
                    let mut found = Problems::default();
                    found.up_to_a_year("down_ms", Some(down_ms));
                    if let [problem, ..] = &*found.lines() {
                        return refuse(StatusCode::BAD_REQUEST, problem);
                    }
                    let shared = shared.clone();
                    tokio::spawn(async move {
                        // The connection that carries the command must answer before it goes, too.
                        tokio::time::sleep(super::listen::FLUSH).await;
                        shared.crash(down_ms);
                    });
                    json(StatusCode::OK, "{}")
                }
                Err(error) => refuse(StatusCode::BAD_REQUEST, &error.to_string()),
            }
        }
        _ => refuse(StatusCode::NOT_FOUND, "no such command"),
    }
}

fn written(value: &impl serde::Serialize) -> Answer {
    match serde_json::to_string(value) {
        Ok(body) => json(StatusCode::OK, body),
        Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn refuse(status: StatusCode, message: &str) -> Answer {
    json(status, format!(r#"{{"error":{}}}"#, quoted(message)))
}
