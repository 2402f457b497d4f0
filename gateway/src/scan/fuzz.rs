//! The entry for fuzzing and for tests with arbitrary bytes: whatever arrives, nothing panics, and how the body was cut
//! into chunks on the way never shows.

use bytes::Bytes;
use spillway_picker::prefix::{Depths, Prompt};

use super::{Scan, ScanError, Scanner, splice_model, spliced_len};
use crate::surface::{InspectError, Inspected, Surface};

/// The surfaces that read bodies, each in its own way.
const SURFACES: [Surface; 7] = [
    Surface::ChatCompletions,
    Surface::Completions,
    Surface::Embeddings,
    Surface::Responses,
    Surface::Messages,
    Surface::Rerank,
    Surface::OtherJson,
];

/// Scans `data`, whole and in small chunks, and reads it as every surface would.
///
/// The first byte chooses the size of the chunks; the rest is the body.
///
/// # Panics
///
/// If two ways of cutting the body give different results.
pub fn fuzz(data: &[u8]) {
    let Some((&size, body)) = data.split_first() else { return };
    let whole = [Bytes::copy_from_slice(body)];
    let cut: Vec<Bytes> = body.chunks(usize::from(size % 16) + 1).map(Bytes::copy_from_slice).collect();
    let scan = scan(&whole);
    assert_eq!(scan, self::scan(&cut), "the scan depends on how the body was cut");
    let Ok(scan) = scan else { return };
    for surface in SURFACES {
        let prompt = prompt(surface, &scan, &whole);
        assert_eq!(
            prompt,
            self::prompt(surface, &scan, &cut),
            "{surface:?}: the prompt depends on how the body was cut"
        );
    }
    if let Some(model) = scan.value(super::Key::Model) {
        let spliced = splice_model(&cut, model.range(), "a\"\\\u{1}é").concat();
        assert_eq!(
            spliced,
            splice_model(&whole, model.range(), "a\"\\\u{1}é").concat(),
            "the splice depends on the cut"
        );
        assert_eq!(
            spliced.len(),
            spliced_len(body.len(), &model.range(), "a\"\\\u{1}é"),
            "the length told is not true"
        );
        assert!(self::scan(&[Bytes::from(spliced)]).is_ok(), "a spliced body does not scan");
    }
}

fn scan(chunks: &[Bytes]) -> Result<Scan, ScanError> {
    let mut scanner = Scanner::new();
    for chunk in chunks {
        scanner.feed(chunk)?;
    }
    scanner.finish()
}

fn prompt(surface: Surface, scan: &Scan, chunks: &[Bytes]) -> Result<Prompt, InspectError> {
    let seen = Inspected::new(surface, scan.clone(), chunks)?;
    Ok(seen.prompt(seen.hash(chunks, Depths::default()), chunks, "m", "", None))
}
