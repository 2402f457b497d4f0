//! `GET /v1/models` and `/v1/models/{id}`: the union of what live pools serve, and the configured names.
//!
//! Answered from what the endpoints last listed, never by asking them: one that hangs must not stall the list. What is
//! listed can be called: a name whose pool has no live endpoint is left out.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use pingora_core::Result;
use pingora_http::ResponseHeader;
use pingora_proxy::Session;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::ctx::Ctx;
use crate::error::Refusal;
use crate::fleet::{Fleet, Live};
use crate::respond;
use crate::routes;
use crate::surface::{self, Surface};

/// Answers a request for the list, or for one entry of it.
pub async fn answer(session: &mut Session, ctx: &mut Ctx, fleet: &Fleet, live: &Live, path: &str) -> Result<()> {
    let mut entries = entries(fleet, live);
    if let Some(caller) = &ctx.caller {
        entries.retain(|entry| caller.may_use(&entry.id));
    }
    let anthropic = session.req_header().headers.contains_key("anthropic-version");
    let body = if ctx.surface == Surface::Model {
        let id = surface::model_in_path(path).unwrap_or_default();
        match entries.iter().find(|entry| *entry.id == *id) {
            Some(entry) if anthropic => anthropic_entry(&entry.id).to_string(),
            Some(entry) => entry.card.get().to_owned(),
            None => return respond::refuse(session, ctx, Refusal::UnknownModel(id.into_owned())).await,
        }
    } else if anthropic {
        let data: Vec<_> = entries.iter().map(|entry| anthropic_entry(&entry.id)).collect();
        let (first, last) = (entries.first().map(|one| &*one.id), entries.last().map(|one| &*one.id));
        json!({"data": data, "has_more": false, "first_id": first, "last_id": last}).to_string()
    } else {
        let cards: Vec<&str> = entries.iter().map(|entry| entry.card.get()).collect();
        format!("{{\"object\":\"list\",\"data\":[{}]}}", cards.join(","))
    };
    let mut head = ResponseHeader::build(200, Some(3))?;
    head.insert_header("content-type", "application/json")?;
    head.insert_header("content-length", body.len())?;
    head.insert_header(&respond::REQUEST_ID, ctx.request_id.as_str())?;
    let is_head = session.req_header().method == http::Method::HEAD;
    session.write_response_header(Box::new(head), is_head).await?;
    if is_head { Ok(()) } else { session.write_response_body(Some(Bytes::from(body)), true).await }
}

struct Entry {
    id: Arc<str>,
    card: Box<RawValue>,
}

fn entries(fleet: &Fleet, live: &Live) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut seen = BTreeSet::new();
    for (name, pool) in &live.pools {
        let snapshot = pool.state.picker.snapshot(fleet.now());
        let is_live = |id: &str| snapshot.iter().any(|one| *one.id == *id && one.healthy && !one.draining);
        if !snapshot.iter().any(|one| one.healthy && !one.draining) {
            continue;
        }
        let cards = pool.state.catalogue.cards(is_live);
        for card in cards.iter().filter(|card| !card.is_adapter() || routes::offers(pool, &card.id)) {
            if seen.insert(Arc::clone(&card.id)) {
                entries.push(Entry { id: Arc::clone(&card.id), card: card.raw.clone() });
            }
        }
        for (alias, sent_on) in live.routes.names_of(name) {
            let id: Arc<str> = alias.into();
            let root = cards.iter().find(|card| card.id == *sent_on);
            let created = root.and_then(|card| card.created).unwrap_or(0);
            let card = json!({
                "id": alias, "object": "model", "created": created, "owned_by": "spillway", "root": &**sent_on,
                "max_model_len": root.and_then(|card| card.max_model_len),
            });
            if let Ok(card) = to_raw_value(&card)
                && seen.insert(Arc::clone(&id))
            {
                entries.push(Entry { id, card });
            }
        }
    }
    entries
}

fn anthropic_entry(id: &str) -> serde_json::Value {
    json!({"type": "model", "id": id, "display_name": id, "created_at": "1970-01-01T00:00:00Z"})
}
