//! Reads `GET /v1/models`: which names a server answers to, and which of them are LoRA adapters.
//!
//! llama.cpp lists its models twice, under `models` in Ollama's form and under `data` in OpenAI's; only `data` counts.
//! Each card's own text is kept, so that the lists of many servers can be merged without losing what they say.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;

/// Largest list that is read. A card is about 600 bytes, so this is room for thousands of adapters.
pub const MAX_BYTES: usize = 4 << 20;

/// Most cards that are taken; the rest is left out.
const MAX_CARDS: usize = 4096;

/// Why a body is no list of models.
#[derive(Debug, Error)]
pub enum ModelsError {
    /// More than [`MAX_BYTES`].
    #[error("list of models is larger than {MAX_BYTES} bytes")]
    TooLarge,
    /// Not JSON, or JSON without a list under `data`.
    #[error("list of models cannot be read")]
    Malformed(#[source] serde_json::Error),
}

/// What a server says of one model.
#[derive(Clone, Debug)]
pub struct Card {
    /// The name that requests use.
    pub id: Arc<str>,
    /// The model this one is an adapter of.
    pub parent: Option<Arc<str>>,
    /// Where it was loaded from.
    pub root: Option<Arc<str>>,
    /// Longest prompt and completion together, in tokens.
    pub max_model_len: Option<u64>,
    /// Unix time in seconds. Servers put the time of the request here.
    pub created: Option<i64>,
    /// The card as the server wrote it.
    pub raw: Box<RawValue>,
}

impl Card {
    /// Returns whether this is a LoRA adapter of another model.
    pub fn is_adapter(&self) -> bool {
        self.parent.as_ref().is_some_and(|parent| *parent != self.id)
    }
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    data: Vec<&'a RawValue>,
}

/// The members of a card, whatever their types.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Members {
    id: Value,
    parent: Value,
    root: Value,
    max_model_len: Value,
    created: Value,
}

/// Returns the cards in the order of the list; of two with the same id the first, and none without an id.
pub fn parse(body: &[u8]) -> Result<Vec<Card>, ModelsError> {
    if body.len() > MAX_BYTES {
        return Err(ModelsError::TooLarge);
    }
    let list: List<'_> = serde_json::from_slice(body).map_err(ModelsError::Malformed)?;
    let mut ids = HashSet::new();
    let cards = list.data.into_iter().filter_map(card).filter(|card| ids.insert(Arc::clone(&card.id)));
    Ok(cards.take(MAX_CARDS).collect())
}

fn card(raw: &RawValue) -> Option<Card> {
    let Members { id, parent, root, max_model_len, created } = serde_json::from_str(raw.get()).ok()?;
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(Arc::from);
    Some(Card {
        id: text(&id)?,
        parent: text(&parent),
        root: text(&root),
        max_model_len: max_model_len.as_u64(),
        created: created.as_i64().or_else(|| created.as_f64().map(|seconds| seconds as i64)),
        raw: raw.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(name: &str) -> Vec<Card> {
        let path = format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
        parse(&std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))).unwrap()
    }

    #[test]
    fn a_vllm_list_tells_adapters_from_their_base() {
        let cards = fixture("vllm-models.json");
        let ids: Vec<_> = cards.iter().map(|card| (&*card.id, card.is_adapter())).collect();
        assert_eq!(ids, [("tiny", false), ("lora-a", true), ("lora-b", true)]);
        assert_eq!((cards[0].max_model_len, cards[0].created), (Some(2048), Some(1_795_996_388)));
        assert_eq!((cards[1].max_model_len, cards[1].parent.as_deref()), (None, Some("tiny")));
        assert_eq!(cards[1].root.as_deref(), Some("/models/lora-a"));
        assert!(cards[1].raw.get().contains("modelperm-8104b8e936e71049"), "the card's own text is kept");
    }

    #[test]
    fn a_llama_cpp_list_counts_once() {
        let cards = fixture("llamacpp-models.json");
        let [card] = cards.as_slice() else { panic!("one model is listed in two forms: {cards:?}") };
        assert_eq!((&*card.id, card.is_adapter()), ("tiny", false));
        assert!(card.raw.get().contains("n_ctx_train"));
    }

    #[test]
    fn odd_cards_cost_only_themselves() {
        let body = r#"{"data":[7,null,{"id":null},{"id":""},{"x":1},
            {"id":"a","created":1.5e9,"max_model_len":"8k","parent":7},{"id":"a","root":"second"},{"id":"b","parent":"b"}]}"#;
        let cards = parse(body.as_bytes()).unwrap();
        let seen: Vec<_> = cards.iter().map(|card| (&*card.id, card.created, card.max_model_len)).collect();
        assert_eq!(seen, [("a", Some(1_500_000_000), None), ("b", None, None)]);
        assert!(!cards[1].is_adapter(), "a model that names itself as its parent is no adapter");
        assert_eq!(cards[0].root, None, "the first of an id counts");
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for body in ["", "[]", "{}", r#"{"data":null}"#, r#"{"data":{}}"#, r#"{"error":"x"}"#, r#"{"data":["#, "<html>"]
        {
            assert!(matches!(parse(body.as_bytes()), Err(ModelsError::Malformed(_))), "{body:?}");
        }
        assert!(matches!(parse(&vec![b' '; MAX_BYTES + 1]), Err(ModelsError::TooLarge)));
        assert_eq!(parse(br#"{"data":[]}"#).unwrap().len(), 0);
    }
}
