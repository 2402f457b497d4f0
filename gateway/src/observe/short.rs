//! The first bytes of something, kept aside because the piece they came in may end before they mean anything.
//!
//! There is no telling whether more came than fits. Nor need there be: every word that is looked for is shorter than
//! the room, so one that fills it is none of them.

/// The first `N` bytes of what was pushed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Short<const N: usize> {
    bytes: [u8; N],
    len: u8,
}

impl<const N: usize> Short<N> {
    const FITS: () = assert!(N <= u8::MAX as usize, "the length must fit its byte");

    pub(super) const fn new() -> Self {
        let () = Self::FITS;
        Self { bytes: [0; N], len: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    pub(super) fn push(&mut self, more: &[u8]) {
        let room = &mut self.bytes[usize::from(self.len)..];
        let fits = more.len().min(room.len());
        room[..fits].copy_from_slice(&more[..fits]);
        self.len += fits as u8;
    }

    /// Returns whether nothing was pushed.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the bytes that were kept.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
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
    fn what_does_not_fit_is_left_out() {
        let mut short = Short::<4>::new();
        assert!(short.is_empty());
        short.push(b"ab");
        short.push(b"cde");
        short.push(b"f");
        short.push(b"");
        assert_eq!(short.as_bytes(), b"abcd");
        short.clear();
        short.push(b"ok");
        assert_eq!(short.as_bytes(), b"ok");
    }
}
