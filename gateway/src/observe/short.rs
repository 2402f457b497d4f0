//! A few bytes kept aside because the piece they came in may end before they mean anything.
//!
//! Longer input is not an error: every word that is looked for is short, so what overflows matches none of them.

/// At most `N` bytes; remembers that there were more, but not which.
#[derive(Clone, Copy, Debug)]
pub(super) struct Short<const N: usize> {
    bytes: [u8; N],
    /// `N + 1` once it has overflowed.
    len: u8,
}

impl<const N: usize> Short<N> {
    const FITS: () = assert!(N < u8::MAX as usize, "the length must fit its byte");

    pub(super) const fn new() -> Self {
        let () = Self::FITS;
        Self { bytes: [0; N], len: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    pub(super) fn push(&mut self, more: &[u8]) {
        let len = usize::from(self.len);
        let Some(room) = self.bytes.get_mut(len..len + more.len()) else {
            // Adding nothing to a full one changes nothing.
            if !more.is_empty() {
                self.len = (N + 1) as u8;
            }
            return;
        };
        room.copy_from_slice(more);
        self.len += more.len() as u8;
    }

    /// Returns whether nothing was pushed.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the bytes, or none at all when there were too many.
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl<const N: usize> Default for Short<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_reads_as_nothing_but_is_not_empty() {
        let mut short = Short::<4>::new();
        assert!(short.is_empty());
        short.push(b"ab");
        short.push(b"cd");
        short.push(b"");
        assert_eq!(short.as_bytes(), b"abcd");
        short.push(b"e");
        assert_eq!(short.as_bytes(), b"", "five bytes match no word of four");
        assert!(!short.is_empty(), "it did hold something");
        short.push(b"f");
        short.push(b"");
        assert!(!short.is_empty());
        short.clear();
        short.push(b"ok");
        assert_eq!(short.as_bytes(), b"ok");
    }
}
