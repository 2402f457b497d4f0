//! Shares the requests for one name among several arms by weight, so that what belongs together stays together.
//!
//! Weighted rendezvous hashing: each arm draws a number from the key and its own name, and the best for its weight wins.
//! So the same key leads to the same arm for as long as the weights stay, on every gateway, with no memory of it; and when
//! a weight changes, keys move only towards arms whose share has grown.

use std::sync::Arc;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::config::{Arm, Sticky};

/// A name's arms.
#[derive(Clone, Debug)]
pub struct Split {
    /// What stays on one arm.
    pub sticky: Sticky,
    arms: Vec<Weighted>,
}

/// Where an arm leads.
#[derive(Clone, Debug)]
pub struct Lead {
    /// The pool.
    pub pool: String,
    /// The name sent on.
    pub sent_on: Arc<str>,
    /// Whether that is a LoRA adapter, where the configuration says so.
    pub adapter: Option<bool>,
}

#[derive(Clone, Debug)]
struct Weighted {
    lead: Lead,
    weight: f64,
    seed: u64,
}

impl Split {
    /// The arms of `name`, in the order of the file.
    pub fn new(name: &str, arms: &[Arm], sticky: Sticky) -> Self {
        let arms = arms
            .iter()
            .map(|arm| {
                let sent_on = arm.sent_on(name);
                // The name of the split is part of the seed: two splits with the same arms must not move the same keys.
                let seed = xxh3_64(format!("{name}\0{}\0{sent_on}", arm.pool).as_bytes());
                let lead = Lead { pool: arm.pool.clone(), sent_on: sent_on.into(), adapter: arm.adapter };
                Weighted { lead, weight: arm.weight, seed }
            })
            .collect();
        Self { sticky, arms }
    }

    /// Returns where `key` leads. Any key gives an arm; an arm of weight 0 is none while another has more.
    pub fn choose(&self, key: u64) -> Option<&Lead> {
        let best = self.arms.iter().max_by(|one, other| one.draw(key).total_cmp(&other.draw(key)));
        best.map(|arm| &arm.lead)
    }

    /// Returns whether there is nothing to choose.
    pub fn is_one(&self) -> bool {
        self.arms.len() == 1
    }

    /// Returns every place the name may lead to.
    pub fn leads(&self) -> impl Iterator<Item = &Lead> {
        self.arms.iter().map(|arm| &arm.lead)
    }
}

impl Weighted {
    /// With `u` uniform in (0, 1), the arm of the largest `-w / ln u` is each arm in proportion to its weight: `-ln u / w`
    /// is exponential with rate `w`, and the first of several such arrivals is each one's in proportion to its rate.
    fn draw(&self, key: u64) -> f64 {
        let bits = xxh3_64_with_seed(&key.to_le_bytes(), self.seed);
        // The middle of one of 2^53 equal steps, so neither 0 nor 1.
        let uniform = ((bits >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        -self.weight / uniform.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(name: &str, weights: &[f64]) -> Split {
        let arm = |(index, weight): (usize, &f64)| Arm {
            pool: "p".into(),
            model: Some(format!("v{index}")),
            weight: *weight,
            adapter: None,
        };
        Split::new(name, &weights.iter().enumerate().map(arm).collect::<Vec<_>>(), Sticky::Conversation)
    }

    fn chosen(split: &Split, key: u64) -> String {
        split.choose(key).unwrap().sent_on.to_string()
    }

    /// Three standard deviations of the number of hits among `n` draws of probability `p`.
    fn three_sigma(n: f64, p: f64) -> f64 {
        3.0 * (n * p * (1.0 - p)).sqrt()
    }

    #[test]
    fn arms_get_their_shares() {
        for weights in [&[90.0, 10.0][..], &[1.0, 1.0, 2.0], &[0.5, 99.5], &[1.0, 0.0]] {
            let split = split("m", weights);
            let total: f64 = weights.iter().sum();
            for (index, weight) in weights.iter().enumerate() {
                let hits = (0..20_000).filter(|key| chosen(&split, *key) == format!("v{index}")).count() as f64;
                let expected = 20_000.0 * weight / total;
                let bound = three_sigma(20_000.0, weight / total);
                assert!((hits - expected).abs() <= bound, "arm {index} of {weights:?}: {hits} for {expected}");
            }
        }
    }

    #[test]
    fn a_changed_weight_moves_keys_only_towards_what_has_grown() {
        let (before, after) = (split("m", &[90.0, 10.0]), split("m", &[50.0, 50.0]));
        let (mut moved, mut back) = (0, 0);
        for key in 0..20_000 {
            match (&*chosen(&before, key), &*chosen(&after, key)) {
                ("v0", "v1") => moved += 1,
                ("v1", "v0") => back += 1,
                _ => {}
            }
        }
        assert_eq!(back, 0);
        assert!((f64::from(moved) - 8_000.0).abs() < three_sigma(20_000.0, 0.4), "{moved} moved for 8,000");
    }

    #[test]
    fn an_arm_more_takes_from_the_others_and_moves_nothing_between_them() {
        let (before, after) = (split("m", &[1.0, 1.0]), split("m", &[1.0, 1.0, 1.0]));
        for key in 0..5_000 {
            let (old, new) = (chosen(&before, key), chosen(&after, key));
            assert!(new == old || new == "v2", "{key} went from {old} to {new}");
        }
    }

    #[test]
    fn two_splits_do_not_move_the_same_keys() {
        let (one, other) = (split("a", &[1.0, 1.0]), split("b", &[1.0, 1.0]));
        let same = (0..10_000).filter(|key| chosen(&one, *key) == chosen(&other, *key)).count() as f64;
        assert!((same - 5_000.0).abs() < three_sigma(10_000.0, 0.5), "{same} of 10,000 keys agree");
    }
}
