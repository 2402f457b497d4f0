//! A changed file comes into force within a second and costs no request; a bad one changes nothing and says why.

mod live;
mod refused;
pub(crate) mod traffic;
mod watch;

use http::Method;
use serde_json::Value;

use crate::harness::{Gateway, eventually};

/// What `/config` says of the latest reload.
async fn status(gateway: &Gateway) -> Value {
    gateway.admin(Method::GET, "/config", "").await.expect(200).json()["reload"].clone()
}

/// Reloads with this result so far.
async fn reloads(gateway: &Gateway, result: &str) -> f64 {
    gateway.metric("spillway_config_reload_total", &[("result", result)]).await
}

/// Waits for the first reload with this result.
async fn reloaded(gateway: &Gateway, result: &str) {
    let what = format!("a reload is {result}");
    eventually(&what, async || (reloads(gateway, result).await >= 1.0).then_some(())).await;
}
