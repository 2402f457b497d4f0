//! The speeds that endpoints of one kind share, readable without a lock.
//!
//! Each dispatch judges one endpoint, in turn, so that a fleet of thousands costs no request more than another. A decision
//! reads the lines once, before it looks at endpoints: those of one kind are equal in it to the last bit.

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

/// Lines by place of their kind, read at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speeds {
    prefill: [Line; MOST_KINDS],
    decode: [Line; MOST_KINDS],
}

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
            if kinds != state.sheet.kinds() {
                // One of them may be new.
                self.prefill.publish(&judging.prefill);
                self.decode.publish(&judging.decode);
                state.sheet.set_kinds(kinds);
            }
            judging.judged += 1;
        }
    }

    /// The lines as they are now.
    pub(crate) fn speeds(&self) -> Speeds {
        Speeds { prefill: self.prefill.read(), decode: self.decode.read() }
    }
}

impl Speeds {
    /// The speed that an endpoint is believed to have: that of its kind.
    #[inline]
    pub(crate) fn rates(&self, sheet: &Sheet) -> Rates {
        let own = sheet.rates();
        let [prefill, decode] = sheet.kinds();
        let line = |lines: &[Line; MOST_KINDS], kind: Option<usize>| {
            // Another thread may have named a kind whose line was not yet there when these were read.
            kind.and_then(|kind| lines.get(kind)).copied().filter(|(p, q)| !p.is_nan() && !q.is_nan())
        };
        let (a, b) = line(&self.prefill, prefill).unwrap_or((own.a, own.b));
        let (t0, t1) = line(&self.decode, decode).unwrap_or((own.t0, own.t1));
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

    fn read(&self) -> [Line; MOST_KINDS] {
        self.0.each_ref().map(|[p, q]| (p.get(), q.get()))
    }
}
