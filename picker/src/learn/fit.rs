//! A straight line through the recent past: `y = p * u + q * v`, by least squares in which old samples fade.

/// Added to the diagonal, as a share of it. Decides, when all samples look alike, that both parts explain half; with
/// samples that differ it changes the answer by a thousandth.
const RIDGE: f64 = 1e-3;

/// Weight of the prior that never fades, so that the line stays determined when nothing but zeros comes for days.
const ANCHOR: f64 = 1e-6;

/// Sums of products of the samples.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    uu: f64,
    uv: f64,
    vv: f64,
    uy: f64,
    vy: f64,
}

impl Sums {
    fn add(&mut self, kept: f64, u: f64, v: f64, y: f64) {
        let Self { uu, uv, vv, uy, vy } = self;
        for (sum, product) in [(uu, u * u), (uv, u * v), (vv, v * v), (uy, u * y), (vy, v * y)] {
            *sum = *sum * kept + product;
        }
    }
}

/// The fit. Inputs must be finite, not negative and of sane size; the learners see to that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fit {
    forgetting: f64,
    /// `q` is at least this share of what it would be alone.
    floor: f64,
    sums: Sums,
    anchor: Sums,
}

impl Fit {
    /// Starts from samples `(u, v, y)` that count like seen ones.
    pub(super) fn new(forgetting: f64, floor: f64, prior: impl Iterator<Item = (f64, f64, f64)>) -> Self {
        let mut sums = Sums::default();
        for (u, v, y) in prior {
            sums.add(1.0, u, v, y);
        }
        Self { forgetting, floor, sums, anchor: sums }
    }

    pub(super) fn observe(&mut self, u: f64, v: f64, y: f64) {
        self.sums.add(self.forgetting, u, v, y);
    }

    /// Returns `(p, q)`, neither negative.
    pub(super) fn solve(&self) -> (f64, f64) {
        let Sums { uu, uv, vv, uy, vy } = self.sums;
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
