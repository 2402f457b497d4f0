//! The body as the endpoint is to get it: the client's bytes, save for the model's name where the target has another.

use bytes::Bytes;

use crate::body::Body;
use crate::ctx::Ctx;
use crate::scan;

/// The context's body with the target's model name.
pub fn model(ctx: &Ctx) -> Body {
    let name = ctx.target.as_ref().and_then(|target| target.sent_on.as_deref());
    match (name, &ctx.model_range) {
        (Some(name), Some(range)) => scan::splice_model(ctx.body.chunks(), range.clone(), name).into(),
        (Some(name), None) if ctx.surface.reads_body() => insert(ctx.body.chunks(), name).into(),
        // Nothing to change, or not JSON: there the name cannot be put in, and the server applies its own default.
        _ => ctx.body.clone(),
    }
}

/// Puts a `model` key at the front of the object.
fn insert(chunks: &[Bytes], name: &str) -> Vec<Bytes> {
    let Some((index, at)) =
        chunks.iter().enumerate().find_map(|(index, chunk)| Some((index, memchr::memchr(b'{', chunk)?)))
    else {
        return chunks.to_vec();
    };
    let after = at + 1;
    let is_empty_object = chunks[index..]
        .iter()
        .enumerate()
        .flat_map(|(later, chunk)| chunk.iter().skip(if later == 0 { after } else { 0 }))
        .find(|byte| !byte.is_ascii_whitespace())
        == Some(&b'}');
    let comma = if is_empty_object { "" } else { "," };
    let key = format!("\"model\":{}{comma}", serde_json::Value::from(name));
    let mut out = chunks[..index].to_vec();
    out.push(chunks[index].slice(..after));
    out.push(Bytes::from(key));
    out.push(chunks[index].slice(after..));
    out.extend_from_slice(&chunks[index + 1..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inserted(parts: &[&'static str]) -> String {
        let chunks: Vec<Bytes> = parts.iter().map(|part| Bytes::from_static(part.as_bytes())).collect();
        let out: Vec<u8> = insert(&chunks, "a\"b").iter().flat_map(|chunk| chunk.to_vec()).collect();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_default_model_is_put_in_front_and_nothing_else_changes() {
        assert_eq!(inserted(&["{\"n\":1e-7}"]), r#"{"model":"a\"b","n":1e-7}"#);
        assert_eq!(inserted(&[" ", "\n{", " \t", "}"]), " \n{\"model\":\"a\\\"b\" \t}");
        assert_eq!(inserted(&["{", "\"x\":{}}"]), r#"{"model":"a\"b","x":{}}"#);
    }
}
