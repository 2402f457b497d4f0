//! Endpoints whose speeds cannot be told apart, and the line that they share.
//!
//! What one endpoint has shown of its speed lately is known to a tenth or so. Taken as it is, that noise decides where
//! requests go in a fleet of equals, which is worse than turns. So an endpoint is believed to be of a kind, and to have the
//! line through the samples of all of that kind, until its own samples say for certain that it is not.

use super::fit::{Fit, Line};

/// Kinds that are told apart. In a fleet of more the rest stand for themselves.
pub(crate) const MOST_KINDS: usize = 8;

/// The kinds of a pool. Every endpoint is judged in turn, and after a round of all the kinds are what that round has made of
/// them.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    places: [Kind; MOST_KINDS],
    /// Places of the kinds there are, that of most samples first.
    order: Vec<usize>,
    /// Endpoints judged in this round, and in the last.
    judged: usize,
    endpoints: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    /// Its line since the last round; one that is new has that of its first endpoint.
    line: Option<Line>,
    /// Weight of the samples of that line.
    weight: f64,
    /// Samples of those that were found to be of it in this round.
    gathered: Option<Fit>,
}

impl Kinds {
    /// The kind that an endpoint of these samples is of. `None` when it has shown too little, and when it is of none that is
    /// known and there is no place for another.
    pub(crate) fn judge(&mut self, fit: &Fit) -> Option<usize> {
        self.judged += 1;
        if !fit.has_shown() {
            return None;
        }
        let among = self.endpoints.max(self.judged);
        let is_new = |place: &usize| !self.order.contains(place);
        let places = self.order.iter().copied().chain((0..MOST_KINDS).filter(is_new));
        let is_like = |place: &usize| {
            let Kind { line, weight, .. } = self.places[*place];
            line.is_none_or(|line| !fit.differs(line, weight, among))
        };
        let place = places.into_iter().find(is_like)?;
        let kind = &mut self.places[place];
        if kind.line.is_none() {
            (kind.line, kind.weight) = (Some(fit.solve()), fit.weight());
        }
        match &mut kind.gathered {
            Some(others) => others.join(fit),
            alone => *alone = Some(*fit),
        }
        Some(place)
    }

    /// Every endpoint has been judged.
    pub(crate) fn turn_over(&mut self) {
        for kind in &mut self.places {
            if let Some(fit) = kind.gathered.take() {
                (kind.line, kind.weight) = (Some(fit.solve()), fit.weight());
            } else if kind.weight > 0.0 {
                // Kept for a round more: one that was passed over when endpoints came or went may still be of it.
                kind.weight = 0.0;
            } else {
                kind.line = None;
            }
        }
        self.endpoints = std::mem::take(&mut self.judged);
        self.order.clear();
        self.order.extend((0..MOST_KINDS).filter(|place| self.places[*place].line.is_some()));
        self.order.sort_by(|one, other| self.places[*other].weight.total_cmp(&self.places[*one].weight));
    }

    /// The line of each kind there is.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, Line)> {
        self.places.iter().enumerate().filter_map(|(place, kind)| kind.line.map(|line| (place, line)))
    }
}
