//! What gateways of a load tell each other.

use serde::Deserialize;

use spillway_sim::Problems;

/// How gateways talk. What each sends is told at once to all others, what each has in flight from time to time.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Talk {
    /// Seconds that a word takes.
    pub delay: f64,
    /// Seconds between two words on what is in flight.
    pub every: f64,
    /// Part of the words that are lost.
    pub loss: f64,
    /// Gateways that talk, from the first on; the others neither tell nor hear. All when it is 0.
    pub talkers: usize,
}

impl Default for Talk {
    fn default() -> Self {
        Self { delay: 0.01, every: 0.2, loss: 0.0, talkers: 0 }
    }
}

impl Talk {
    /// Of so many gateways, those that talk.
    pub fn talkers(&self, gateways: usize) -> usize {
        if self.talkers == 0 { gateways } else { self.talkers.min(gateways) }
    }

    pub(super) fn check(&self, problems: &mut Problems) {
        problems.range("delay", self.delay, 0.0..=10.0);
        problems.range("every", self.every, 0.01..=60.0);
        problems.range("loss", self.loss, 0.0..=1.0);
    }
}
