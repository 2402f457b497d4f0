//! Payloads of every encoding, and the events in them one by one.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::kv_events::batch::{self, Batch, DecodeError, Event, Stored};
use crate::kv_events::{Adapter, Change, Group};

/// What a fixture of this name holds.
fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/fixtures/kv-events/{name}.msgpack", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// JSON as `MessagePack`, as an engine's encoder writes it.
fn packed(value: &Value) -> Vec<u8> {
    fn pack(value: &Value, out: &mut Vec<u8>) {
        match value {
            Value::Null => out.push(0xc0),
            Value::Bool(is) => out.push(0xc2 + u8::from(*is)),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number @ 0..=127), _) => out.push(number as u8),
                (Some(number), _) => out.extend([&[0xcf][..], &number.to_be_bytes()].concat()),
                (_, Some(number)) => out.extend([&[0xd3][..], &number.to_be_bytes()].concat()),
                _ => out.extend([&[0xcb][..], &number.as_f64().unwrap().to_be_bytes()].concat()),
            },
            // A digest: binary, which JSON has not.
            Value::String(text) if text.starts_with("bin:") => {
                let bytes = &text.as_bytes()[4..];
                out.extend([&[0xc4, bytes.len() as u8][..], bytes].concat());
            }
            Value::String(text) => out.extend([&[0xd9, text.len() as u8][..], text.as_bytes()].concat()),
            Value::Array(items) => {
                out.extend([&[0xdd][..], &(items.len() as u32).to_be_bytes()].concat());
                for item in items {
                    pack(item, out);
                }
            }
            Value::Object(map) => {
                out.extend([&[0xdf][..], &(map.len() as u32).to_be_bytes()].concat());
                for (key, item) in map {
                    pack(&Value::String(key.clone()), out);
                    pack(item, out);
                }
            }
        }
    }
    let mut out = Vec::new();
    pack(value, &mut out);
    out
}

fn decoded(value: &Value) -> Batch {
    batch::decode(&packed(value)).unwrap()
}

fn removed(blocks: &[u64]) -> Event {
    Event::Removed { blocks: blocks.to_vec(), is_on_device: true, group: None }
}

#[test]
fn the_three_encodings_say_the_same() {
    for name in ["made-array-array", "made-array-map", "made-map-map"] {
        let batch = batch::decode(&fixture(name)).unwrap();
        let stored = Stored {
            blocks: vec![11, u64::MAX],
            parent: None,
            block_tokens: 2,
            adapter: None,
            has_adapter: false,
            is_on_device: true,
            group: Some(0),
            is_full_attention: true,
        };
        let removed = Event::Removed { blocks: vec![11], is_on_device: true, group: Some(0) };
        assert_eq!(batch.events, [Event::Stored(stored), removed, Event::Cleared], "{name}");
        assert_eq!((batch.rank, batch.skipped), (Some(0), 0), "{name}");
    }
}

#[test]
fn what_vllm_sent_during_two_chats() {
    let mut group = Group::default();
    let mut changes = Vec::new();
    for seq in 6..=11 {
        changes.extend(group.changes(batch::decode(&fixture(&format!("vllm-chat-{seq:03}"))).unwrap()));
    }
    let stored: Vec<_> = changes
        .iter()
        .map(|change| match change {
            Change::Stored { blocks, parent, block_tokens: 32, adapter } => (blocks.clone(), *parent, adapter.clone()),
            other => panic!("{other:?}"),
        })
        .collect();
    let lengths: Vec<_> = stored.iter().map(|(blocks, ..)| blocks.len()).collect();
    assert_eq!(lengths, [12, 1, 1, 12, 1, 1]);
    assert_eq!(stored[0].0[0], 11_644_173_983_103_639_637);
    for at in [1, 2, 4, 5] {
        assert_eq!(stored[at].1, stored[at - 1].0.last().copied(), "batch {at} continues the one before it");
    }
    assert_eq!((stored[0].1, stored[3].1), (None, None));
    assert_eq!(stored[0].2, Adapter::None);
    assert!(stored[3..].iter().all(|(.., adapter)| *adapter == Adapter::Named("lora-b".into())));
}

#[test]
fn what_vllm_sent_when_its_cache_was_full_and_when_it_was_reset() {
    let batch = batch::decode(&fixture("vllm-evicting-312")).unwrap();
    assert_eq!(batch.events.len(), 7);
    let removed = batch.events.iter().filter(|event| matches!(event, Event::Removed { is_on_device: true, .. }));
    assert_eq!(removed.count(), 6);
    let first = batch::decode(&fixture("vllm-reset-000")).unwrap();
    let again = batch::decode(&fixture("vllm-reset-001")).unwrap();
    assert_eq!(again.events, [Event::Cleared, first.events[0].clone()], "the clear comes with the next request");
    let [salted, adapted] =
        ["vllm-salt-lora-000", "vllm-salt-lora-001"].map(|name| batch::decode(&fixture(name)).unwrap().events);
    assert_ne!(salted, adapted);
}

#[test]
fn events_of_both_forms_stand_in_one_batch_and_an_unknown_one_costs_itself() {
    let batch = decoded(&json!([
        1.5,
        [
            ["BlockRemoved", [1]],
            {"type": "BlockRemoved", "block_hashes": [2]},
            {"type": "BlockMoved", "block_hashes": [3], "to": {"tier": ["CPU", 1]}},
            ["BlockMoved", [4], {}],
            {"type": "BlockRemoved", "block_hashes": [5], "session_id": "s", "ownership": {"a": [1]}},
            {"block_hashes": [6]},
            7,
            [],
            ["AllBlocksCleared", "more"],
        ],
        0
    ]));
    assert_eq!(batch.events, [removed(&[1]), removed(&[2]), removed(&[5]), Event::Cleared]);
    assert_eq!(batch.skipped, 5);
}

#[test]
fn arrays_may_be_shorter_and_longer_and_the_rank_may_be_missing() {
    let old = decoded(&json!([1.5, [["BlockStored", [1, 2], 9, [5, 6], 1, null]]]));
    let new = decoded(&json!([
        1.5,
        [[
            "BlockStored",
            [1, 2],
            9,
            [[5, 6], [6, 7]],
            1,
            null,
            "GPU",
            null,
            [null, ["k"]],
            0,
            "full_attention",
            8,
            "more"
        ]],
        3,
        "more"
    ]));
    let ([Event::Stored(old_event)], [Event::Stored(new_event)]) = (&old.events[..], &new.events[..]) else {
        panic!("{old:?} {new:?}")
    };
    assert_eq!((old.rank, new.rank), (None, Some(3)));
    assert_eq!(Stored { group: Some(0), ..old_event.clone() }, *new_event);
    assert_eq!((old_event.parent, old_event.block_tokens), (Some(9), 1));
    // Without a size it stores nothing that could be placed.
    assert_eq!(decoded(&json!([1.5, [["BlockStored", [1], null, [5]]]])).skipped, 1);
    assert_eq!(decoded(&json!([1.5, [["BlockStored", [1], null, [5], 0]]])).skipped, 1);
}

#[test]
fn names_are_numbers_with_and_without_a_sign_and_digests() {
    let digest = "bin:0123456789abcdef01234567\0\0\0\0\0\0\0\x09";
    let batch = decoded(&json!([0, [["BlockRemoved", [u64::MAX, -1, i64::MIN, digest, 5]]]]));
    assert_eq!(batch.events, [removed(&[u64::MAX, u64::MAX, 1 << 63, 9, 5])]);
    let odd = decoded(&json!([0, [["BlockRemoved", [1, null, 2]], ["BlockRemoved", {"a": 1}]]]));
    assert_eq!((odd.events.len(), odd.skipped), (0, 2), "a chain with a hole is no chain");
}

#[test]
fn only_full_attention_on_the_device_is_followed_and_of_several_groups_the_first() {
    let stored = |block: u64, medium: Value, group: Value, kind: Value| {
        json!({"type": "BlockStored", "block_hashes": [block], "parent_block_hash": null, "token_ids": [1], "block_size": 1,
               "medium": medium, "group_idx": group, "kv_cache_spec_kind": kind})
    };
    let mut group = Group::default();
    let changes = group.changes(decoded(&json!([0, [
        stored(1, json!("GPU"), json!(0), json!("sliding_window")),
        stored(2, json!("CPU"), json!(1), json!("full_attention")),
        stored(3, json!("GPU"), json!(1), json!("full_attention")),
        stored(4, json!("GPU"), json!(2), json!("full_attention")),
        stored(5, json!("EXTERNAL"), json!(1), json!("full_attention")),
        {"type": "BlockRemoved", "block_hashes": [3], "medium": "CPU", "group_idx": 1},
        {"type": "BlockRemoved", "block_hashes": [3], "medium": "STORAGE"},
        {"type": "BlockRemoved", "block_hashes": [3], "medium": "GPU", "group_idx": 0},
        {"type": "BlockRemoved", "block_hashes": [3], "medium": "GPU", "group_idx": 1},
    ]])));
    let stored = Change::Stored { blocks: vec![3], parent: None, block_tokens: 1, adapter: Adapter::None };
    assert_eq!(changes, [stored, Change::Removed { blocks: vec![3] }]);
}

#[test]
fn an_adapter_without_a_name_is_still_one() {
    let mut group = Group::default();
    let changes = group.changes(decoded(&json!([0, [["BlockStored", [1], null, [5], 1, 2]]])));
    assert!(matches!(&changes[..], [Change::Stored { adapter: Adapter::Unnamed, .. }]), "{changes:?}");
}

#[test]
fn what_is_no_batch_is_an_error_and_costs_little() {
    for (bytes, error) in [
        (&b""[..], DecodeError::Short),
        (b"\xc1", DecodeError::Malformed),
        (b"\x93\xcb\0", DecodeError::Short),
        (b"\xc0", DecodeError::NoBatch),
        (b"\x80", DecodeError::NoBatch),
        (b"\x92\x00\x00", DecodeError::NoBatch),
        // Four thousand million events, of which none comes.
        (b"\x92\x00\xdd\xff\xff\xff\xff", DecodeError::Short),
        (b"\x92\x00\x91\x92\xacBlockRemoved\xdd\xff\xff\xff\xff", DecodeError::Short),
    ] {
        assert_eq!(batch::decode(bytes), Err(error), "{}", bytes.escape_ascii());
    }
    // As deep as it is long.
    let deep = [&[0x92, 0, 0x91][..], &vec![0x91; 1 << 20], &[0xc0]].concat();
    assert_eq!(batch::decode(&deep).unwrap().skipped, 1);
}

proptest! {
    #[test]
    fn every_start_of_a_batch_is_an_error_and_never_a_panic(name in 0_usize..4, cut in 0.0..1.0) {
        let whole = fixture(["made-array-array", "made-map-map", "vllm-chat-006", "vllm-evicting-312"][name]);
        let cut = (whole.len() as f64 * cut) as usize;
        prop_assert!(batch::decode(&whole[..cut]).is_err());
        prop_assert!(batch::decode(&whole).is_ok());
    }
}
