//! What the gateway carries through the hooks of one request.
//!
//! Everything that must be given back is a guard in here ([`Share`], [`Admitted`], the picker's `Flight`): the `logging`
//! hook does not run on a panic or a dropped connection task, but the context is always dropped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus::Histogram;
use spillway_picker::decide::{AffinityResult, Reason};
use spillway_picker::flight::Flight;
use spillway_picker::pool::Endpoint;
use spillway_picker::request::RequestInfo;

use crate::address::Address;
use crate::auth::Caller;
use crate::body::Body;
use crate::budget::Share;
use crate::error::Refusal;
use crate::fleet::{Active, Admitted, Live};
use crate::observe::{Observer, Summary};
use crate::replay::Handle;
use crate::retry::Failure;
use crate::routes::Target;
use crate::scan::Scanner;
use crate::surface::Surface;

/// One request.
pub struct Ctx {
    /// `x-request-id`: the client's, or ours.
    pub request_id: String,
    /// When the request head was read.
    pub began: Instant,
    /// Keeps a shutdown waiting for this request.
    pub active: Option<Active>,
    /// The API called.
    pub surface: Surface,
    /// The configuration this request lives under.
    pub live: Option<Arc<Live>>,
    /// Feeds on the body in the inspect phase; taken when the body is whole.
    pub scanner: Option<Scanner>,
    /// The body as it came, kept for the attempts.
    pub body: Body,
    /// Bytes of the body as it came.
    pub request_bytes: u64,
    /// Our room for it.
    pub share: Option<Share>,
    /// Our place in the pool.
    pub admitted: Option<Admitted>,
    /// Who asks; `None` where no keys are asked for.
    pub caller: Option<Arc<Caller>>,
    /// Where the model leads.
    pub target: Option<Target>,
    /// What the picker is told.
    pub info: RequestInfo,
    /// Where the model's name stands in the body.
    pub model_range: Option<std::ops::Range<usize>>,
    /// Whether the client asked for a stream.
    pub stream: bool,
    /// The wrapped session's other end.
    pub handle: Option<Handle>,
    /// When the whole request must be over.
    pub deadline: Option<tokio::time::Instant>,
    /// The attempt under way or the last one.
    pub attempt: Attempt,
    /// Attempts made; second tries after a stale connection do not count.
    pub attempts: u32,
    /// What the gateway answered itself.
    pub refusal: Option<Refusal>,
    /// The failure that ended the request, if one did.
    pub failure: Option<Failure>,
    /// Detail of it for the access log.
    pub detail: String,
    /// Time until the body was whole.
    pub body_time: Option<Duration>,
    /// Time that hashing the prompt took.
    pub scan_time: Option<Duration>,
    /// Time of the last pick.
    pub pick_time: Option<Duration>,
    /// From the request head to the first output token of a stream.
    pub ttft: Option<Duration>,
}

/// One try at one endpoint.
#[derive(Default)]
pub struct Attempt {
    /// The endpoint picked.
    pub endpoint: Option<Arc<Endpoint>>,
    /// Where it is. Kept, since a reload may forget it between the pick and the connection.
    pub address: Option<Arc<Address>>,
    /// The in-flight guard.
    pub flight: Option<Flight>,
    /// Why this endpoint.
    pub reason: Option<Reason>,
    /// What prefix affinity did.
    pub affinity: Option<AffinityResult>,
    /// When it was picked.
    pub picked: Option<Instant>,
    /// What the picker expects, from the pick on.
    pub predicted_ttft: Option<Duration>,
    /// Whether the next connection must be a fresh one, to the same endpoint.
    pub again: bool,
    /// Whether the connection could not be made in time, rather than was refused.
    pub connect_timed_out: bool,
    /// The response's status.
    pub status: Option<u16>,
    /// Watches the response.
    pub observer: Option<Observer>,
    /// What it saw, once over.
    pub summary: Option<Summary>,
    /// Where the gaps between its tokens are counted: looked up once, not with each.
    pub gaps: Option<Histogram>,
    /// Output tokens seen in a stream.
    pub tokens: u32,
    /// When output was last seen.
    pub last_token: Option<Instant>,
    /// Response body bytes so far.
    pub response_bytes: u64,
    /// Whether the response ended as its framing says.
    pub ended: bool,
}

impl Default for Ctx {
    fn default() -> Self {
        Self {
            request_id: String::new(),
            began: Instant::now(),
            active: None,
            surface: Surface::Unknown,
            live: None,
            scanner: None,
            body: Body::default(),
            request_bytes: 0,
            share: None,
            admitted: None,
            caller: None,
            target: None,
            info: RequestInfo::default(),
            model_range: None,
            stream: false,
            handle: None,
            deadline: None,
            attempt: Attempt::default(),
            attempts: 0,
            refusal: None,
            failure: None,
            detail: String::new(),
            body_time: None,
            scan_time: None,
            pick_time: None,
            ttft: None,
        }
    }
}

impl Ctx {
    /// The model as a metrics label.
    pub fn model(&self) -> &str {
        self.target.as_ref().map_or("", |target| &target.model)
    }

    /// The pool's name, empty before there is one.
    pub fn pool(&self) -> &str {
        self.target.as_ref().map_or("", |target| &target.pool.state.name)
    }

    /// The arm of the split the request went to, if the model has one.
    pub fn arm(&self) -> Option<&str> {
        self.target.as_ref()?.arm.as_deref()
    }

    /// The name sent on, empty when it is the client's own.
    pub fn sent_on(&self) -> &str {
        self.target.as_ref().and_then(|target| target.sent_on.as_deref()).unwrap_or_default()
    }

    /// The tenant's name, empty where no keys are asked for.
    pub fn tenant(&self) -> &str {
        self.caller.as_ref().map_or("", |caller| &caller.tenant)
    }

    /// The endpoint of the last attempt, empty before there is one.
    pub fn endpoint(&self) -> &str {
        self.attempt.endpoint.as_ref().map_or("", |endpoint| &endpoint.id)
    }
}
