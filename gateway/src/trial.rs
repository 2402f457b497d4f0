//! What is counted of a trial: the same few things for both of its arms, so that they can be compared.
//!
//! An arm is counted only while it is in force, by the policy it was when the request came: what ends after a reload that
//! took the arm away, or gave it another policy, would bring its series back or mix two policies in one.

use std::time::Duration;

use spillway_picker::decide::AffinityResult;
use spillway_picker::trial::Arm;

use crate::config::{Policies, Policy, Pool};
use crate::ctx::Ctx;
use crate::fleet::{Fleet, Live};
use crate::metrics::Metrics;
use crate::observe::Usage;

/// A request was sent to an endpoint.
pub fn picked(fleet: &Fleet, ctx: &Ctx, affinity: AffinityResult) {
    let Some((pool, arm)) = counted(fleet, ctx) else { return };
    fleet.metrics().arm_affinity_total.with_label_values(&[pool, arm, affinity.as_str()]).inc();
}

/// The first output token of a stream came, so long after the request head.
pub fn first_token(fleet: &Fleet, ctx: &Ctx, ttft: Duration) {
    let Some((pool, arm)) = counted(fleet, ctx) else { return };
    fleet.metrics().arm_ttft_seconds.with_label_values(&[pool, arm]).observe(ttft.as_secs_f64());
}

/// A request is over.
pub fn ended(fleet: &Fleet, ctx: &Ctx, code: &str, usage: Usage) {
    let Some((pool, arm)) = counted(fleet, ctx) else { return };
    let metrics = fleet.metrics();
    metrics.arm_requests_total.with_label_values(&[pool, arm, code]).inc();
    for (kind, tokens) in usage.by_kind() {
        metrics.arm_tokens_total.with_label_values(&[pool, arm, kind]).inc_by(tokens);
    }
}

/// Removes the series of arms that are gone, or that are another policy.
pub fn forget_gone(metrics: &Metrics, old: &Live, new: &Live) {
    for (name, pool) in &old.pools {
        for arm in [Arm::Try, Arm::Control] {
            let before = policy(&pool.settings, arm);
            let after = new.pools.get(name).and_then(|pool| policy(&pool.settings, arm));
            if before.is_some() && before != after {
                metrics.forget_arm(name, arm.as_str());
            }
        }
    }
}

/// The labels of a request's arm, if that is to be counted.
fn counted<'a>(fleet: &Fleet, ctx: &'a Ctx) -> Option<(&'a str, &'static str)> {
    let (arm, target) = (ctx.info.arm?, ctx.target.as_ref()?);
    let came_to = policy(&target.pool.settings, arm)?;
    let live = fleet.live();
    let current = live.pools.get(&*target.pool.state.name)?;
    (policy(&current.settings, arm) == Some(came_to)).then(|| (ctx.pool(), arm.as_str()))
}

/// The policy of an arm; `None` without a trial.
fn policy(pool: &Pool, arm: Arm) -> Option<&Policy> {
    match (&pool.policy, arm) {
        (Policies::One(_), _) => None,
        (Policies::Trial(trial), Arm::Try) => Some(&trial.tried),
        (Policies::Trial(trial), Arm::Control) => Some(&trial.control),
    }
}
