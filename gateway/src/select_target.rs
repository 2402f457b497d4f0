//! From an inspected body to a target: the model's pool, a place in it, and what the picker is told of the request.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use pingora_proxy::Session;
use spillway_picker::prefix::{Depths, PrefixHasher, Prompt};
use spillway_picker::request::RequestInfo;
use xxhash_rust::xxh3::xxh3_64;

use crate::auth::Caller;
use crate::config::Sticky;
use crate::ctx::Ctx;
use crate::error::Refusal;
use crate::fleet::{Live, LivePool};
use crate::picker_config;
use crate::routes::Target;
use crate::surface::Inspected;

/// Fills the context's target, admission and picker information.
pub fn of(session: &Session, ctx: &mut Ctx, live: &Live, inspected: Option<&Inspected>) -> Result<(), Refusal> {
    let began = Instant::now();
    let headers = &session.req_header().headers;
    let mut known = Known {
        inspected,
        chunks: ctx.body.chunks(),
        headers: Some(headers),
        caller: ctx.caller.as_deref(),
        random: fastrand::u64(..),
        hashed: None,
    };
    let (target, info) = known.target(live)?;
    let scan_time = began.elapsed();
    // A form names its model where it is not looked for: it may be another than the one it is routed by.
    let may_use = |caller: &Caller| caller.may_use_all() || inspected.is_some() && caller.may_use(&target.model);
    if ctx.caller.as_ref().is_some_and(|caller| !may_use(caller)) {
        return Err(Refusal::ModelForbidden(target.model.to_string()));
    }
    let settings = &target.pool.settings;
    ctx.admitted = Some(target.pool.state.admit(settings.limits.in_flight).ok_or(Refusal::InFlight)?);
    ctx.deadline = settings.timeouts.total.map(|total| tokio::time::Instant::from_std(ctx.began + total));
    if let (Some(inspected), Some(info)) = (inspected, info) {
        ctx.stream = info.streams;
        ctx.info = info;
        ctx.scan_time = Some(scan_time);
        ctx.model_range.clone_from(&inspected.model_range);
    }
    ctx.target = Some(target);
    Ok(())
}

/// What is known of a request before its target is.
pub struct Known<'a> {
    /// What its body says; `None` for a body that is not JSON by its surface.
    pub inspected: Option<&'a Inspected>,
    /// The body.
    pub chunks: &'a [Bytes],
    /// Its headers; `None` where there are none, as when a decision is only explained.
    pub headers: Option<&'a HeaderMap>,
    /// Who asks.
    pub caller: Option<&'a Caller>,
    /// Uniform random bits, for requests that nothing binds to an arm of a split.
    pub random: u64,
    /// The prompt's hashes so far, once a split had to ask for them, and how deep they go.
    pub hashed: Option<(Depths, PrefixHasher)>,
}

impl Known<'_> {
    /// Finds the target, and what the picker is told; nothing without a body to read.
    pub fn target(&mut self, live: &Live) -> Result<(Target, Option<RequestInfo>), Refusal> {
        let asked = self.inspected.and_then(|inspected| inspected.model.as_deref());
        let target = live.routes.target(live, asked, |sticky, pools| self.binding(sticky, pools))?;
        let info = self.inspected.map(|inspected| self.info(&target, inspected));
        Ok((target, info))
    }

    /// What must stay on one arm of a split, as a number.
    fn binding(&mut self, sticky: Sticky, pools: &[&LivePool]) -> u64 {
        let tenant = self.caller.map(|caller| caller.tenant_hash);
        match sticky {
            Sticky::Off => self.random,
            Sticky::Tenant => tenant.unwrap_or(self.random),
            Sticky::Conversation => self.conversation(pools).unwrap_or(self.random),
        }
    }

    /// The first pool's settings count: which one it will be is what is being asked.
    fn conversation(&mut self, pools: &[&LivePool]) -> Option<u64> {
        let settings = &pools.first()?.settings;
        if let Some(session) = self.session(settings.affinity.as_ref()?.session_header.as_deref()) {
            return Some(xxh3_64(session));
        }
        // A pool whose prompts are never to be looked at is not looked at for this either.
        if pools.iter().any(|pool| pool.settings.affinity.is_none()) {
            return None;
        }
        let depths = picker_config::depths(settings)?;
        let hasher = self.inspected?.hash(self.chunks, depths);
        let conversation = hasher.conversation();
        self.hashed = Some((depths, hasher));
        conversation
    }

    /// The value of a session header; none when it is empty.
    fn session(&self, header: Option<&str>) -> Option<&[u8]> {
        let value = self.headers?.get(header?)?.as_bytes();
        (!value.is_empty()).then_some(value)
    }

    fn info(&mut self, target: &Target, inspected: &Inspected) -> RequestInfo {
        let model: Arc<str> = target.sent_on.clone().unwrap_or_else(|| match &inspected.model {
            Some(model) if *model == *target.model => Arc::clone(&target.model),
            Some(model) => model.as_str().into(),
            None => Arc::clone(&target.model),
        });
        let settings = &target.pool.settings;
        let prompt = match picker_config::depths(settings) {
            Some(depths) => {
                let hasher = match self.hashed.take() {
                    Some((same, hasher)) if same == depths => hasher,
                    _ => inspected.hash(self.chunks, depths),
                };
                let session = self.session(settings.affinity.as_ref().and_then(|one| one.session_header.as_deref()));
                inspected.prompt(hasher, self.chunks, &model, "", session)
            }
            None => inspected.unread_prompt(),
        };
        RequestInfo {
            adapter: target.adapter.then(|| Arc::clone(&model)),
            model,
            prompt: Arc::<Prompt>::new(prompt),
            tenant: self.caller.map_or(0, |caller| caller.tenant_hash),
            max_tokens: inspected.max_tokens,
            streams: inspected.stream && inspected.surface.can_stream(),
            ..RequestInfo::default()
        }
    }
}
