//! The request path: Pingora's hooks in the order they run.
//!
//! One thing to know: Pingora calls `request_body_filter` only after `upstream_peer`. So `request_filter` reads the body
//! itself and passes each chunk through that hook first (the *inspect* phase, where the model is found); when Pingora
//! replays the body to an endpoint the hook runs again (the *forward* phase, where nothing is left to do).

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use pingora_core::protocols::Digest;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, ErrorType, Result};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_proxy::{FailToProxy, ProxyHttp, ProxyWarnLogContext, Session};

use crate::access_log::AccessLog;
use crate::attempt;
use crate::auth::Auth;
use crate::ctx::Ctx;
use crate::detail;
use crate::error::Refusal;
use crate::fleet::Fleet;
use crate::intake::{self, Intake, IntakeError};
use crate::models_list;
use crate::observe::{Dialect, Kind, Observer};
use crate::patience::Patience;
use crate::replay::Handle;
use crate::respond;
use crate::retry::Failure;
use crate::rewrite;
use crate::routes::shortened;
use crate::scan::Scanner;
use crate::select_target;
use crate::surface::{Inspected, Surface};
use crate::trace::Recorder;
use crate::upstream_head;

/// A client that takes nothing of its answer for this long is gone in all but name, and its endpoint's place is wanted.
const CLIENT_STALL: Duration = Duration::from_secs(60);

/// The proxy service's logic.
#[derive(Clone)]
pub struct Gateway {
    fleet: Arc<Fleet>,
    auth: Arc<Auth>,
    log: Arc<AccessLog>,
    recorder: Arc<Recorder>,
}

impl Gateway {
    /// A gateway over `fleet`.
    pub fn new(fleet: Arc<Fleet>, auth: Arc<Auth>, log: Arc<AccessLog>, recorder: Arc<Recorder>) -> Self {
        Self { fleet, auth, log, recorder }
    }

    /// Reads and inspects the body, finds the target and wraps the session. `Ok(true)`: answered here.
    async fn prepare(&self, session: &mut Session, ctx: &mut Box<Ctx>) -> Result<bool, IntakeError> {
        let live = self.fleet.live_full();
        ctx.live = Some(Arc::clone(&live));
        let head = session.req_header();
        intake::check_head(head, &live.config.limits)?;
        intake::check_framing(&session.downstream_session)?;
        let path = head.uri.path().to_owned();
        ctx.surface = Surface::classify(head.method.as_str(), &path);
        ctx.caller = self.auth.identify(&head.headers)?;
        match ctx.surface {
            Surface::Models | Surface::Model => {
                models_list::answer(session, ctx, &self.fleet, &live, &path).await.map_err(IntakeError::Broken)?;
                return Ok(true);
            }
            Surface::MethodNotAllowed { allow } => return Err(Refusal::MethodNotAllowed(allow).into()),
            Surface::Unknown | Surface::ResponseById => return Err(Refusal::UnknownPath(shortened(&path)).into()),
            _ => {}
        }
        if ctx.surface.reads_body() {
            intake::check_encoding(&head.headers)?;
            let reads_prompts = live.pools.values().any(|pool| pool.settings.affinity.is_some());
            ctx.scanner = Some(if reads_prompts { Scanner::new() } else { Scanner::routing_only() });
        }
        self.read_body(session, ctx).await?;
        let inspected = inspect(ctx)?;
        select_target::of(session, ctx, &live, inspected.as_ref())?;
        // The body is replayed from memory from here on; what is set on the session must have been set before.
        let body = rewrite::model(ctx);
        session.set_write_timeout(Some(write_timeout(ctx)));
        let hold_head = ctx.target.as_ref().is_some_and(|target| target.pool.settings.hold_head);
        ctx.handle = Some(Handle::wrap(session, body, hold_head));
        Ok(false)
    }

    async fn read_body(&self, session: &mut Session, ctx: &mut Box<Ctx>) -> Result<(), IntakeError> {
        let live = ctx.live.clone().ok_or(Refusal::Internal)?;
        let began = Instant::now();
        let mut intake = Intake::open(session, &live.config.limits, &live.budget).await?;
        let mut end = false;
        while !end {
            let mut chunk = intake.chunk(&mut session.downstream_session).await?;
            // Pingora tells the end with the last chunk where it can; asking saves a wake-up.
            end = chunk.is_none() || session.downstream_session.is_body_done();
            if let Err(error) = self.request_body_filter(session, &mut chunk, end, ctx).await {
                return Err(ctx.refusal.take().map_or(IntakeError::Broken(error), IntakeError::Refused));
            }
        }
        let (body, share) = intake.finish();
        ctx.request_bytes = body.len() as u64;
        ctx.body = body;
        ctx.share = Some(share);
        ctx.body_time = Some(ctx.began.elapsed());
        self.fleet.metrics().stage_seconds.with_label_values(&["body"]).observe(began.elapsed().as_secs_f64());
        Ok(())
    }
}

/// How long one write to the client may take: no longer than the request may.
fn write_timeout(ctx: &Ctx) -> Duration {
    let left = ctx.deadline.map(|end| end.saturating_duration_since(tokio::time::Instant::now()));
    left.map_or(CLIENT_STALL, |left| left.min(CLIENT_STALL))
}

/// What the scanner found, once the body is whole. `None` for a body that is not JSON by its surface.
fn inspect(ctx: &mut Ctx) -> Result<Option<Inspected>, Refusal> {
    let Some(scanner) = ctx.scanner.take() else { return Ok(None) };
    let scan = scanner.finish().map_err(|error| Refusal::BadBody(error.to_string()))?;
    Inspected::new(ctx.surface, scan, ctx.body.chunks()).map(Some).map_err(|_| Refusal::BadModel)
}

#[async_trait]
impl ProxyHttp for Gateway {
    /// Boxed: Pingora keeps it in futures that it moves, whole, several times in each request.
    type CTX = Box<Ctx>;

    fn new_ctx(&self) -> Box<Ctx> {
        Box::default()
    }

    async fn early_request_filter(&self, session: &mut Session, ctx: &mut Box<Ctx>) -> Result<()> {
        ctx.began = Instant::now();
        ctx.active = Some(self.fleet.enter());
        ctx.request_id = respond::request_id(&session.req_header().headers);
        Ok(())
    }

    async fn request_filter(&self, session: &mut Session, ctx: &mut Box<Ctx>) -> Result<bool> {
        match self.prepare(session, ctx).await {
            Ok(answered) => Ok(answered),
            Err(IntakeError::Refused(refusal)) => {
                respond::refuse(session, ctx, refusal).await?;
                Ok(true)
            }
            Err(IntakeError::Broken(error)) => Err(error),
        }
    }

    async fn upstream_peer(&self, _session: &mut Session, ctx: &mut Box<Ctx>) -> Result<Box<HttpPeer>> {
        let target = ctx.target.clone().ok_or_else(attempt::no_target)?;
        if !ctx.attempt.again {
            attempt::pick(&self.fleet, &target, ctx)?;
        }
        // The failure before this attempt is history.
        ctx.failure = None;
        ctx.detail.clear();
        let timeouts = &target.pool.settings.timeouts;
        if let Some(handle) = &ctx.handle {
            handle.set_patience(Patience { first_byte: timeouts.ttft, gap: timeouts.token_gap, end: ctx.deadline });
        }
        attempt::peer(&self.fleet, &target, ctx)
    }

    async fn upstream_request_filter(
        &self,
        _session: &mut Session,
        request: &mut RequestHeader,
        ctx: &mut Box<Ctx>,
    ) -> Result<()> {
        upstream_head::write(request, ctx)
    }

    async fn request_body_filter(
        &self,
        _session: &mut Session,
        body: &mut Option<Bytes>,
        _end_of_stream: bool,
        ctx: &mut Box<Ctx>,
    ) -> Result<()> {
        if ctx.handle.is_some() {
            return Ok(()); // forward phase
        }
        if let (Some(scanner), Some(chunk)) = (&mut ctx.scanner, body.as_ref())
            && let Err(error) = scanner.feed(chunk)
        {
            ctx.refusal = Some(Refusal::BadBody(error.to_string()));
            return Error::e_explain(ErrorType::HTTPStatus(400), "request body is not usable");
        }
        Ok(())
    }

    async fn connected_to_upstream(
        &self,
        _session: &mut Session,
        reused: bool,
        _peer: &HttpPeer,
        _fd: std::os::unix::io::RawFd,
        digest: Option<&Digest>,
        ctx: &mut Box<Ctx>,
    ) -> Result<()> {
        // To ask the kernel is a system call, which a connection is worth once.
        attempt::connected(&self.fleet, ctx, digest.filter(|_| !reused));
        Ok(())
    }

    fn fail_to_connect(
        &self,
        session: &mut Session,
        _peer: &HttpPeer,
        ctx: &mut Box<Ctx>,
        error: Box<Error>,
    ) -> Box<Error> {
        ctx.attempt.connect_timed_out = *error.etype() == ErrorType::ConnectTimedout;
        attempt::failed(&self.fleet, session, ctx, Failure::Connect, error)
    }

    fn error_while_proxy(
        &self,
        _peer: &HttpPeer,
        session: &mut Session,
        error: Box<Error>,
        ctx: &mut Box<Ctx>,
        client_reused: bool,
    ) -> Box<Error> {
        let failure = attempt::classify(ctx, &error, client_reused);
        attempt::failed(&self.fleet, session, ctx, failure, error)
    }

    async fn upstream_response_filter(
        &self,
        _session: &mut Session,
        response: &mut ResponseHeader,
        ctx: &mut Box<Ctx>,
    ) -> Result<()> {
        if response.status == http::StatusCode::SWITCHING_PROTOCOLS {
            // Upgrades are never asked for: see `upstream_head`.
            return Error::e_explain(ErrorType::Custom("SwitchedProtocols"), "endpoint switches protocols unasked")
                .map_err(Error::into_up);
        }
        if response.status.is_informational() {
            return Ok(());
        }
        ctx.attempt.status = Some(response.status.as_u16());
        let header = |name: http::HeaderName| response.headers.get(name).map(http::HeaderValue::as_bytes);
        let kind = Kind::of(
            response.status.as_u16(),
            header(CONTENT_TYPE),
            header(http::header::CONTENT_ENCODING),
            dialect(ctx.surface).unwrap_or(Dialect::Chat),
        );
        let is_stream = matches!(kind, Kind::EventStream(_));
        if is_stream {
            // A length would make Pingora gather events until a buffer is full.
            response.remove_header(&CONTENT_LENGTH);
        }
        // How the streams of other APIs end is theirs to know.
        let kind = if is_stream && dialect(ctx.surface).is_none() { Kind::Opaque } else { kind };
        if let Some(handle) = &ctx.handle {
            handle.await_token(matches!(kind, Kind::EventStream(_)));
        }
        ctx.attempt.observer = Some(Observer::new(kind));
        respond::strip_connection_headers(response);
        response.insert_header(&respond::REQUEST_ID, ctx.request_id.as_str())?;
        Ok(())
    }

    /// Clients of HTTP/1.0 know no chunks: their bodies end with the connection. Here, because Pingora frames bodies without
    /// a length just before.
    async fn response_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        _ctx: &mut Box<Ctx>,
    ) -> Result<()> {
        if session.req_header().version < http::Version::HTTP_11 {
            response.remove_header(&TRANSFER_ENCODING);
        }
        Ok(())
    }

    fn response_body_filter(
        &self,
        _session: &mut Session,
        body: &mut Option<Bytes>,
        end_of_stream: bool,
        ctx: &mut Box<Ctx>,
    ) -> Result<Option<Duration>> {
        if let Some(chunk) = body.as_ref().filter(|chunk| !chunk.is_empty()) {
            attempt::saw_chunk(&self.fleet, ctx, chunk);
        }
        if end_of_stream {
            attempt::saw_end(ctx, body);
        }
        Ok(None)
    }

    async fn fail_to_proxy(&self, session: &mut Session, error: &Error, ctx: &mut Box<Ctx>) -> FailToProxy {
        if let Some(handle) = &ctx.handle {
            handle.restore(session);
        }
        if ctx.attempt.ended && ctx.failure.is_none() {
            // All that is missing is the end in the framing. A client that has left has no use for it, nor harm from it.
            let _ = session.write_response_body(None, true).await;
            return FailToProxy { error_code: 0, can_reuse_downstream: false };
        }
        if ctx.failure.is_none() {
            ctx.failure = Some(attempt::classify(ctx, error, false));
        }
        if ctx.detail.is_empty() && !matches!(ctx.failure, Some(Failure::Expired(_))) {
            ctx.detail = detail::of(error);
        }
        let code = respond::failure(session, ctx).await;
        FailToProxy { error_code: code, can_reuse_downstream: false }
    }

    async fn logging(&self, session: &mut Session, _error: Option<&Error>, ctx: &mut Box<Ctx>) {
        if let Some(handle) = &ctx.handle {
            handle.restore(session);
        }
        attempt::finish(&self.fleet, ctx);
        crate::record::request(&self.fleet, &self.log, &self.recorder, session, ctx);
    }

    /// The access log has the facts of every failure; Pingora's own lines would repeat them without.
    fn suppress_error_log(&self, _session: &Session, _ctx: &Box<Ctx>, _error: &Error) -> bool {
        true
    }

    fn suppress_proxy_warn_log(
        &self,
        _session: &Session,
        _ctx: &Box<Ctx>,
        _error: &Error,
        _context: ProxyWarnLogContext,
    ) -> bool {
        true
    }
}

/// The form of an API's streams, where it is known.
fn dialect(surface: Surface) -> Option<Dialect> {
    match surface {
        Surface::Messages => Some(Dialect::Messages),
        Surface::Responses => Some(Dialect::Responses),
        Surface::ChatCompletions | Surface::Completions => Some(Dialect::Chat),
        _ => None,
    }
}
