//! Where servers say that they publish.

use crate::kv_events::source::{Source, sglang, vllm};
use crate::kv_events::zmtp::{Kind, frame};

#[test]
fn vllm_names_a_publisher_for_each_rank() {
    let page = include_bytes!("../../../fixtures/kv-events/vllm-sources.json");
    let source = Source { rank: 0, port: 15_557, replay_port: Some(16_557), topic: "kv@tiny".into() };
    assert_eq!(vllm(page), Some(vec![source.clone()]));
    let two =
        br#"{"1":{"publisher":"zmq","endpoint":"tcp://*:5558"},"0":{"publisher":"zmq","endpoint":"tcp://[::]:5557"}}"#;
    let ports: Vec<_> =
        vllm(two).unwrap().iter().map(|source| (source.rank, source.port, source.replay_port)).collect();
    assert_eq!(ports, [(0, 5_557, None), (1, 5_558, None)]);
    for none in [
        r#"{"0":{"enable_kv_cache_events":false,"endpoint":"tcp://*:5557"}}"#,
        r#"{"0":{"publisher":"null","endpoint":"tcp://*:5557"}}"#,
        r#"{"0":{"publisher":"zmq","endpoint":"ipc://kv"}}"#,
        r#"{"0":{"publisher":"zmq","endpoint":"tcp://*:0"}}"#,
        "{}",
    ] {
        assert_eq!(vllm(none.as_bytes()), Some(Vec::new()), "{none}");
    }
    for other in ["", "[]", r#"{"detail":"Not Found"}"#] {
        assert_eq!(vllm(other.as_bytes()), None, "{other}");
    }
}

#[test]
fn sglang_names_one_and_the_ranks_follow() {
    let page = br#"{"dp_size":2,"kv_events_config":"{\"publisher\":\"zmq\",\"endpoint\":\"tcp://*:5557\",\"topic\":\"kv\",\"replay_endpoint\":\"tcp://*:6557\"}"}"#;
    let ports: Vec<_> = sglang(page).unwrap().into_iter().map(|one| (one.rank, one.port, one.replay_port)).collect();
    assert_eq!(ports, [(0, 5_557, Some(6_557)), (1, 5_558, Some(6_558))]);
    assert_eq!(sglang(br#"{"kv_events_config":null}"#), Some(Vec::new()));
    assert_eq!(sglang(b"404"), None);
}

#[test]
fn frames_are_written_as_zmq_reads_them() {
    let greeting = frame::greeting();
    assert!(frame::is_greeting(&greeting));
    assert_eq!((&greeting[..1], &greeting[9..16], greeting[32]), (&b"\xff"[..], &b"\x7f\x03\0NULL"[..], 0));
    let mut plain = greeting;
    plain[12..17].copy_from_slice(b"PLAIN");
    assert!(!frame::is_greeting(&plain), "another mechanism");
    assert_eq!(frame::ready(Kind::Sub), b"\x05READY\x0bSocket-Type\0\0\0\x03SUB");
    let mut bytes = Vec::new();
    frame::write(&mut bytes, frame::MORE, b"ab");
    assert_eq!(bytes, b"\x01\x02ab");
    bytes.clear();
    frame::write(&mut bytes, 0, &[7; 256]);
    assert_eq!(&bytes[..9], b"\x02\0\0\0\0\0\0\x01\0");
    assert_eq!(frame::header(&bytes), Some(frame::Header { flags: 2, length: 256 }));
    assert_eq!(frame::header(b"\x08\x00"), None, "a flag without a meaning");
    assert_eq!(frame::header(b"\x02\x00"), None, "short");
    assert_eq!(frame::ping(b"\x04PING\0\x0actx"), Some(&b"ctx"[..]));
    assert_eq!(frame::ping(b"\x04PING\0"), None);
}
