//! The request body as it came: a list of chunks, kept once and sent as often as attempts need it.
//!
//! Nothing here copies a large chunk. Only runs of tiny ones are merged, because a client that drips single bytes would
//! otherwise cost far more memory in bookkeeping than in body.

use bytes::{Bytes, BytesMut};

/// Chunks below this many bytes are merged with their neighbours. A `Bytes` costs about 32 bytes plus an allocation, so a
/// chunk of 1 KiB has at most a few percent of overhead.
const TINY: usize = 1024;

/// Merged runs are closed at this many bytes, a size that writes well and keeps the copy short.
const RUN: usize = 16 * 1024;

/// A body in the making: push chunks, then [`finish`](BodyBuffer::finish).
#[derive(Debug, Default)]
pub struct BodyBuffer {
    chunks: Vec<Bytes>,
    run: BytesMut,
    len: usize,
}

impl BodyBuffer {
    /// Appends a chunk. Empty chunks are dropped: the replay takes an empty chunk for the end.
    pub fn push(&mut self, chunk: Bytes) {
        self.len += chunk.len();
        if chunk.is_empty() {
            return;
        }
        if chunk.len() >= TINY || (self.run.is_empty() && self.chunks.is_empty()) {
            self.close_run();
            self.chunks.push(chunk);
            return;
        }
        self.run.extend_from_slice(&chunk);
        if self.run.len() >= RUN {
            self.close_run();
        }
    }

    /// Bytes pushed so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no byte has been pushed.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The whole body, in order.
    pub fn finish(mut self) -> Body {
        self.close_run();
        Body { len: self.len, chunks: self.chunks.into() }
    }

    fn close_run(&mut self) {
        if !self.run.is_empty() {
            let run = self.run.split().freeze();
            self.chunks.push(run);
        }
    }
}

/// A whole body. Cloning it is one reference count.
#[derive(Clone, Debug, Default)]
pub struct Body {
    chunks: std::sync::Arc<[Bytes]>,
    len: usize,
}

impl Body {
    /// The chunks in order; none of them is empty.
    pub fn chunks(&self) -> &[Bytes] {
        &self.chunks
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl From<Vec<Bytes>> for Body {
    fn from(mut chunks: Vec<Bytes>) -> Self {
        chunks.retain(|chunk| !chunk.is_empty());
        Self { len: chunks.iter().map(Bytes::len).sum(), chunks: chunks.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn concat(body: &Body) -> Vec<u8> {
        body.chunks().iter().flat_map(|chunk| chunk.iter().copied()).collect()
    }

    #[test]
    fn single_bytes_do_not_cost_a_chunk_each() {
        let mut buffer = BodyBuffer::default();
        let sent: Vec<u8> = (0..100_000_u32).map(|i| (i % 251) as u8).collect();
        for byte in &sent {
            buffer.push(Bytes::copy_from_slice(&[*byte]));
        }
        let body = buffer.finish();
        assert_eq!(concat(&body), sent);
        assert!(body.chunks().len() < 10, "{} chunks for 100 kB in single bytes", body.chunks().len());
    }

    #[test]
    fn large_chunks_are_kept_as_they_are() {
        let mut buffer = BodyBuffer::default();
        let big = Bytes::from(vec![7_u8; 64 * 1024]);
        buffer.push(Bytes::from_static(b"head"));
        buffer.push(Bytes::from_static(b"tiny"));
        buffer.push(big.clone());
        buffer.push(Bytes::new());
        let body = buffer.finish();
        assert_eq!(body.chunks().len(), 3);
        assert_eq!(body.chunks()[2].as_ptr(), big.as_ptr(), "a large chunk was copied");
        assert_eq!(body.len(), 8 + 64 * 1024);
    }
}
