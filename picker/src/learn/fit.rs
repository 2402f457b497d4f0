//! A straight line through the recent past: `y = p * u + q * v`, by least squares in which old samples fade.

use super::PROVEN_SAMPLES;

/// Added to the diagonal, as a share of it. Decides, when all samples look alike, that both parts explain half; with
/// samples that differ it changes the answer by a thousandth.
const RIDGE: f64 = 1e-3;

/// Weight of the prior that never fades, so that the line stays determined when nothing but zeros comes for days.
const ANCHOR: f64 = 1e-6;

/// How much less own samples must miss a line of their own than a line shared with others, for the shared one to be wrong:
/// in units of the variance of a sample. By chance the difference is 1 in the mean (chi-squared of two parts; with
/// forgetting a sample counts for half of its weight) and above `x` in `exp(-x)` of all cases. Long prompts, which decide
/// the slope, are noisier than others: twice the variance, so that chance passes this in one case of ninety. Raised
/// for more than [`FEW`] endpoints, so that no more of them stray.
const FIRM: f64 = 9.0;
const FEW: f64 = 16.0;

/// A shared line has own samples in it, so it lies nearer than that of the others. At most so much is made up for: who is
/// nearly alone in a kind is compared with its own past.
const MOST_OWN: f64 = 4.0;

/// Lines that give the same within this share of it are the same for what they are wanted for.
const ALIKE: f64 = 0.05;

/// Sums of products of the samples.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    weight: f64,
    yy: f64,
    uu: f64,
    uv: f64,
    vv: f64,
    uy: f64,
    vy: f64,
}

impl Sums {
    fn parts(&mut self) -> [&mut f64; 7] {
        let Self { weight, yy, uu, uv, vv, uy, vy } = self;
        [weight, yy, uu, uv, vv, uy, vy]
    }

    /// Each fades to `kept` of itself before the new one is added.
    fn add(&mut self, kept: f64, weighs: f64, u: f64, v: f64, y: f64) {
        let products = [1.0, y * y, u * u, u * v, v * v, u * y, v * y];
        for (sum, product) in self.parts().into_iter().zip(products) {
            *sum = *sum * kept + product * weighs;
        }
    }

    fn join(&mut self, mut other: Self) {
        for (sum, more) in self.parts().into_iter().zip(other.parts()) {
            *sum += *more;
        }
    }

    /// Sum of squares by which the samples miss a line.
    fn misfit(&self, (p, q): Line) -> f64 {
        let Self { yy, uu, uv, vv, uy, vy, .. } = self;
        (yy - 2.0 * (p * uy + q * vy) + p * p * uu + 2.0 * p * q * uv + q * q * vv).max(0.0)
    }
}

/// `p` and `q`.
pub(crate) type Line = (f64, f64);

/// The fit. Inputs must be finite, not negative and of sane size; the learners see to that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fit {
    forgetting: f64,
    /// `q` is at least this share of what it would be alone.
    floor: f64,
    sums: Sums,
    anchor: Sums,
    /// Samples without the prior, none of them faded.
    seen: f64,
}

impl Fit {
    /// Starts from samples `(u, v, y)` that count like seen ones.
    pub(super) fn new(forgetting: f64, floor: f64, prior: impl Iterator<Item = (f64, f64, f64)>) -> Self {
        let mut sums = Sums::default();
        for (u, v, y) in prior {
            sums.add(1.0, 1.0, u, v, y);
        }
        Self { forgetting, floor, sums, anchor: sums, seen: 0.0 }
    }

    /// Takes a sample that is one of `of` that tell the same and weighs so much.
    pub(super) fn observe(&mut self, of: f64, weighs: f64, u: f64, v: f64, y: f64) {
        self.sums.add(self.forgetting.powf(1.0 / of), weighs / of, u, v, y);
        self.seen += 1.0 / of;
    }

    /// The fit to the samples of both.
    pub(super) fn join(&mut self, other: &Self) {
        self.sums.join(other.sums);
        self.anchor.join(other.anchor);
    }

    /// Weight of the samples, which fade, with the prior.
    pub(super) fn weight(&self) -> f64 {
        self.sums.weight
    }

    /// Samples without the prior; several that tell the same are one.
    pub(super) fn seen(&self) -> u64 {
        self.seen as u64
    }

    /// Whether there are samples enough to say something.
    pub(super) fn has_shown(&self) -> bool {
        self.seen() >= PROVEN_SAMPLES
    }

    /// Whether the samples say for certain, and for more than matters, that a line is not theirs. The line is through
    /// samples of this weight, these among them, and one of so many endpoints is being judged.
    pub(super) fn differs(&self, line: Line, weight: f64, endpoints: usize) -> bool {
        let own = self.sums.misfit(self.solve());
        let gain = self.sums.misfit(line) - own;
        let others = (weight - self.sums.weight).max(weight / MOST_OWN);
        let share = if others > 0.0 { weight / others } else { 1.0 };
        let firm = FIRM + 2.0 * (endpoints as f64 / FEW).max(1.0).ln();
        share * gain > firm * own / self.sums.weight && gain > ALIKE * ALIKE * self.sums.yy
    }

    /// Returns `(p, q)`, neither negative.
    pub(super) fn solve(&self) -> Line {
        let Sums { uu, uv, vv, uy, vy, .. } = self.sums;
        let (uu, uv, vv) = (uu + ANCHOR * self.anchor.uu, uv + ANCHOR * self.anchor.uv, vv + ANCHOR * self.anchor.vv);
        let (uy, vy) = (uy + ANCHOR * self.anchor.uy, vy + ANCHOR * self.anchor.vy);
        let (ridged_uu, ridged_vv) = (uu * (1.0 + RIDGE), vv * (1.0 + RIDGE));
        let determinant = ridged_uu * ridged_vv - uv * uv;
        let p = (ridged_vv * uy - uv * vy) / determinant;
        let q = (ridged_uu * vy - uv * uy) / determinant;
        let alone = vy / vv;
        if p < 0.0 {
            return (0.0, alone);
        }
        let least = self.floor * alone;
        if q < least {
            // The best `p` for that `q`.
            return (((uy - least * uv) / uu).max(0.0), least);
        }
        (p, q)
    }
}
