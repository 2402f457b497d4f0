//! What a decision needs to know of one request, and the randomness it may use.
//!
//! `tried` is what makes a retry go elsewhere: the caller adds each endpoint it has already used for the request.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::pool::Slot;
use crate::prefix::Prompt;
use crate::trial::Arm;

/// One request, as far as the choice of an endpoint depends on it.
#[derive(Clone, Debug, Default)]
pub struct RequestInfo {
    /// The model name sent on: a base model or the target of an alias.
    pub model: Arc<str>,
    /// The LoRA adapter, when the model sent on is one.
    pub adapter: Option<Arc<str>>,
    /// Hashes and sizes of the prompt; never its text. Shared, so that a retry and the flight need no copy.
    pub prompt: Arc<Prompt>,
    /// Hash of the tenant's name; 0 for none.
    pub tenant: u64,
    /// The client's limit on output tokens.
    pub max_tokens: Option<u32>,
    /// Whether tokens come back one by one, so that the first can be seen.
    pub streams: bool,
    /// Endpoints already tried for this request.
    pub tried: SmallVec<[Slot; 4]>,
    /// The arm of a trial that decided an earlier attempt: a request stays in its arm. `None` for a first attempt.
    pub arm: Option<Arm>,
}

/// All the randomness of one decision: equal input and equal turn give an equal decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Uniform random bits.
    pub random: u64,
    /// A counter that goes up by one with each decision **of this pool**. A counter shared by several pools would step
    /// unevenly through each and leave some of their endpoints out.
    pub rotation: u64,
}
