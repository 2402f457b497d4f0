//! From an inspected body to a target: the model's pool, a place in it, and what the picker is told of the request.

use std::sync::Arc;
use std::time::Instant;

use pingora_proxy::Session;
use spillway_picker::prefix::Prompt;
use spillway_picker::request::RequestInfo;

use crate::ctx::Ctx;
use crate::error::Refusal;
use crate::fleet::Live;
use crate::picker_config;
use crate::routes::Target;
use crate::surface::Inspected;

/// Fills the context's target, admission and picker information.
pub fn of(session: &Session, ctx: &mut Ctx, live: &Live, inspected: Option<&Inspected>) -> Result<(), Refusal> {
    let asked = inspected.and_then(|inspected| inspected.model.as_deref());
    let target = live.routes.target(live, asked)?;
    let settings = &target.pool.settings;
    ctx.admitted = Some(target.pool.state.admit(settings.limits.in_flight).ok_or(Refusal::InFlight)?);
    ctx.deadline = settings.timeouts.total.map(|total| tokio::time::Instant::from_std(ctx.began + total));
    if let Some(inspected) = inspected {
        ctx.stream = inspected.stream && inspected.surface.can_stream();
        let began = Instant::now();
        let session_header = session_header(session, &target);
        ctx.info = info(&target, inspected, ctx.body.chunks(), session_header.as_deref());
        ctx.scan_time = Some(began.elapsed());
        ctx.model_range.clone_from(&inspected.model_range);
    }
    ctx.target = Some(target);
    Ok(())
}

/// What the picker is told of a request.
pub fn info(target: &Target, inspected: &Inspected, chunks: &[bytes::Bytes], session: Option<&[u8]>) -> RequestInfo {
    let model: Arc<str> = target.sent_on.clone().unwrap_or_else(|| match &inspected.model {
        Some(model) => model.as_str().into(),
        None => Arc::clone(&target.model),
    });
    let prompt = match picker_config::depths(&target.pool.settings) {
        Some(depths) => inspected.prompt(chunks, depths, &model, "", session),
        None => inspected.unread_prompt(),
    };
    RequestInfo {
        adapter: target.adapter.then(|| Arc::clone(&model)),
        model,
        prompt: Arc::<Prompt>::new(prompt),
        tenant: 0,
        max_tokens: inspected.max_tokens,
        streams: inspected.stream && inspected.surface.can_stream(),
        ..RequestInfo::default()
    }
}

fn session_header(session: &Session, target: &Target) -> Option<Vec<u8>> {
    let name = target.pool.settings.affinity.as_ref()?.session_header.as_deref()?;
    session.req_header().headers.get(name).map(|value| value.as_bytes().to_vec())
}
