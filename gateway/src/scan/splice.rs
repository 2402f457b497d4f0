//! Puts another model name into a body without touching any other byte of it.
//!
//! The name a client sent may be written with escapes, or not be a string; what is replaced is the raw value, quotes
//! included.

use std::ops::Range;

use bytes::Bytes;

/// Returns the body with the bytes in `range` replaced by `new_name` as a JSON string. Chunks are shared, not copied.
/// `range` is that of the model's raw value.
pub fn splice_model(chunks: &[Bytes], range: Range<usize>, new_name: &str) -> Vec<Bytes> {
    let mut spliced = Vec::with_capacity(chunks.len() + 2);
    let mut name = Some(Bytes::from(quoted(new_name)));
    let mut start = 0;
    for chunk in chunks {
        let end = start + chunk.len();
        let before = range.start.clamp(start, end) - start;
        let after = range.end.clamp(start, end) - start;
        if before > 0 {
            spliced.push(chunk.slice(..before));
        }
        if range.start <= end {
            spliced.extend(name.take());
        }
        if after < chunk.len() && range.end <= end {
            spliced.push(chunk.slice(after.max(before)..));
        }
        start = end;
    }
    spliced
}

/// Returns the length of the body that [`splice_model`] makes of one of `body_bytes` bytes.
pub fn spliced_len(body_bytes: usize, range: &Range<usize>, new_name: &str) -> usize {
    body_bytes - range.len() + quoted(new_name).len()
}

/// Returns the name as a JSON string, escaping only what must be.
fn quoted(name: &str) -> String {
    let mut json = String::with_capacity(name.len() + 2);
    json.push('"');
    for char in name.chars() {
        match char {
            '"' | '\\' => json.extend(['\\', char]),
            '\0'..='\x1f' => {
                let code = char as u8;
                json.extend(["\\u00", if code < 0x10 { "0" } else { "1" }]);
                json.extend(char::from_digit(u32::from(code % 0x10), 0x10));
            }
            _ => json.push(char),
        }
    }
    json.push('"');
    json
}
