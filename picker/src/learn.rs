//! Speed of an endpoint, learned from events. Stub.

/// Learned speed: prefill takes `a + b * uncached` seconds, a token gap `t0 + t1 * streams` seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Fixed cost of a prefill, seconds.
    pub a: f64,
    /// Cost per uncached token, seconds.
    pub b: f64,
    /// Gap between tokens of a lone stream, seconds.
    pub t0: f64,
    /// Added gap per stream, seconds.
    pub t1: f64,
}

impl Default for Rates {
    fn default() -> Self {
        Self { a: 0.004, b: 15e-6, t0: 0.008, t1: 0.0002 }
    }
}
