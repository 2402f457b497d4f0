//! A policy tried on a share of the traffic, beside the one in force.
//!
//! Both arms choose among the same endpoints, and see the same load, beliefs and learning: an arm is not a pool of its own.
//! What one arm does badly, the other one feels; what is compared is who decides better for its own requests.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::config::PoolConfig;
use crate::policy::Plan;
use crate::registry::{PolicyError, Registry};
use crate::request::Turn;
use crate::select::unit;

/// Makes the arm of a ring key independent of its place on the ring: without it an arm would own a part of the endpoints.
/// The same on every gateway, so that a conversation keeps its arm wherever it arrives.
const SEED: u64 = 0x7472_6961_6c20_6172;

/// A side of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// Decided by the policy that is tried.
    Try,
    /// Decided by the policy that it is compared with.
    Control,
}

impl Arm {
    /// The name used in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Try => "try",
            Self::Control => "control",
        }
    }
}

/// The policies of a pool.
pub(crate) struct Plans {
    /// The pool's own; in a trial, of the control arm.
    own: Plan,
    /// The policy that is tried, and its share of the ring keys.
    tried: Option<(Plan, f64)>,
}

impl fmt::Debug for Plans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plans").field("own", &self.own).field("tried", &self.tried).finish()
    }
}

impl Plans {
    /// Builds what the configuration names.
    pub(crate) fn new(config: &PoolConfig, registry: &Registry) -> Result<Self, PolicyError> {
        let own = Plan::new(&config.policy, &config.affinity, registry)?;
        let Some(trial) = &config.trial else { return Ok(Self { own, tried: None }) };
        if !(0.0..=1.0).contains(&trial.share) {
            return Err(PolicyError::Share { share: trial.share });
        }
        let tried = Plan::new(&trial.policy, &config.affinity, registry)?;
        Ok(Self { own, tried: Some((tried, trial.share)) })
    }

    /// The policy for a request, and in a trial its arm: the one of an earlier attempt, else by the ring key, else at
    /// random.
    pub(crate) fn choose(&self, earlier: Option<Arm>, ring_key: Option<u64>, turn: Turn) -> (Option<Arm>, &Plan) {
        let Some((tried, share)) = &self.tried else { return (None, &self.own) };
        let by_share = || {
            let place = unit(xxh3_64_with_seed(&ring_key.unwrap_or(turn.random).to_le_bytes(), SEED));
            if place < *share { Arm::Try } else { Arm::Control }
        };
        match earlier.unwrap_or_else(by_share) {
            Arm::Try => (Some(Arm::Try), tried),
            Arm::Control => (Some(Arm::Control), &self.own),
        }
    }

    /// Whether decisions depend on where prefixes are believed to be.
    pub(crate) fn reads_prefixes(&self) -> bool {
        self.own.reads_prefixes || self.tried.as_ref().is_some_and(|(tried, _)| tried.reads_prefixes)
    }
}

/// How many decisions each arm has made. An arm that takes turns must count its own: by a counter shared with the other it
/// would step unevenly through the endpoints.
#[derive(Debug, Default)]
pub(crate) struct ArmTurns {
    tried: AtomicU64,
    control: AtomicU64,
}

impl ArmTurns {
    /// The rotation of the arm's next decision, which counts unless it is only explained.
    pub(crate) fn next(&self, arm: Arm, counts: bool) -> u64 {
        let turns = match arm {
            Arm::Try => &self.tried,
            Arm::Control => &self.control,
        };
        turns.fetch_add(u64::from(counts), Ordering::Relaxed)
    }
}
