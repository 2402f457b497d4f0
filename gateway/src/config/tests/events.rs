//! The `events` key of `affinity`.

use super::{bad, good};
use crate::config::{EventPorts, Events};

fn file(events: &str) -> String {
    format!("pools: {{a: {{endpoints: [\"http://h:1\"], affinity: {{events: {events}}}}}}}")
}

#[test]
fn events_are_off_or_asked_for_or_at_ports() {
    let read = |events: &str| good(&file(events)).pools["a"].affinity.clone().unwrap().events;
    assert_eq!(read("off"), None);
    assert_eq!(read("false"), None);
    assert_eq!(read("auto"), Some(Events::Auto));
    let at = |port, replay_port, ranks, topic: Option<&str>| {
        Some(Events::At(EventPorts { port, replay_port, ranks, topic: topic.map(str::to_owned) }))
    };
    assert_eq!(read("{port: 5557}"), at(5_557, None, 1, None));
    let all = "{port: 5557, replay_port: 5559, ranks: 2, topic: kv}";
    assert_eq!(read(all), at(5_557, Some(5_559), 2, Some("kv")));
}

#[test]
fn ports_that_cannot_be_are_refused() {
    for (events, message) in [
        ("on", "off"),
        ("{replay_port: 5558}", "port"),
        ("{port: 70000}", "65535"),
        ("{port: 5557, ports: 2}", "ports"),
        ("{port: 65535, ranks: 2}", "there are not 2 ports from here"),
        ("{port: 5557, replay_port: 5557}", "is one of the 1 ports from 5557"),
        ("{port: 5557, replay_port: 5560, ranks: 4}", "is one of the 4 ports from 5557"),
    ] {
        let found = bad(&file(events));
        assert!(found.iter().any(|problem| problem.contains(message)), "{events}: {found:?}");
    }
}
