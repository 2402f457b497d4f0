//! The speeds that endpoints of one kind share, readable without a lock.
//!
//! Each dispatch judges one endpoint, in turn, so that a fleet of thousands costs no request more than another. The lines of
//! the kinds change at one moment for all: endpoints that are equal are equal in every decision.

use std::sync::Mutex;

use crate::learn::{Kinds, Line, MOST_KINDS, Rates};
use crate::pool::sheet::{Number, Sheet};
use crate::pool::state::State;

/// The kinds of endpoint in a pool: those that compute prompts alike, and those that decode alike.
#[derive(Debug, Default)]
pub(crate) struct SpeedKinds {
    judging: Mutex<Judging>,
    prefill: Lines,
    decode: Lines,
}

#[derive(Debug, Default)]
struct Judging {
    prefill: Kinds,
    decode: Kinds,
    /// Endpoints judged in this round.
    judged: usize,
}

/// Lines by place of their kind.
#[derive(Debug, Default)]
struct Lines([[Number; 2]; MOST_KINDS]);

impl SpeedKinds {
    /// Judges the next endpoint of those that `state` has at `0..endpoints`. Does nothing while another thread does it.
    pub(crate) fn judge<'a>(&self, endpoints: usize, state: impl Fn(usize) -> &'a State) {
        let Ok(mut judging) = self.judging.try_lock() else { return };
        let judging = &mut *judging;
        if judging.judged >= endpoints {
            judging.judged = 0;
            judging.prefill.turn_over();
            judging.decode.turn_over();
            self.prefill.publish(&judging.prefill);
            self.decode.publish(&judging.decode);
        }
        if judging.judged < endpoints {
            let state = state(judging.judged);
            let (prefill, decode) = state.fits();
            let kinds = [judging.prefill.judge(&prefill), judging.decode.judge(&decode)];
            // A kind that is new with this endpoint.
            self.prefill.publish(&judging.prefill);
            self.decode.publish(&judging.decode);
            state.sheet.set_kinds(kinds);
            judging.judged += 1;
        }
    }

    /// The speed that an endpoint is believed to have: that of its kind.
    #[inline]
    pub(crate) fn rates(&self, sheet: &Sheet) -> Rates {
        let own = sheet.rates();
        let [prefill, decode] = sheet.kinds();
        let (a, b) = self.prefill.line(prefill).unwrap_or((own.a, own.b));
        let (t0, t1) = self.decode.line(decode).unwrap_or((own.t0, own.t1));
        Rates { a, b, t0, t1 }
    }
}

impl Lines {
    fn publish(&self, kinds: &Kinds) {
        for (place, (p, q)) in kinds.lines() {
            let [first, second] = &self.0[place];
            first.set(p);
            second.set(q);
        }
    }

    #[inline]
    fn line(&self, place: usize) -> Option<Line> {
        let [p, q] = self.0.get(place)?;
        Some((p.get(), q.get()))
    }
}
