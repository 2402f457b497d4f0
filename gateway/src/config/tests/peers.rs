//! The `peers` section.

use super::{bad, good};

fn file(peers: &str) -> String {
    format!("peers: {{{peers}}}\npools: {{a: {{endpoints: [\"http://h:1\"]}}}}")
}

#[test]
fn peers_are_off_or_have_a_list_or_a_name() {
    assert_eq!(good(&file("")).peers.listen, None);
    assert_eq!(good(&file("listen: off, gateways: [\"a:1\"]")).peers.listen, None);
    let listed = good(&file("listen: \"0.0.0.0:8766\", gateways: [\"10.0.0.1:8766\", \"b:1\"], secret_file: /s")).peers;
    assert_eq!(listed.gateways, ["10.0.0.1:8766", "b:1"]);
    let named = good(&file("listen: \"[::]:8766\", dns: {name: peers.svc, port: 8766}, secret_file: /s")).peers;
    let question = named.dns.unwrap().question();
    assert_eq!((&*question.name, question.port, question.interval.as_secs()), ("peers.svc", Some(8_766), 5));
}

#[test]
fn peers_that_cannot_be_are_refused() {
    let listen = "listen: \"0.0.0.0:8766\"";
    for (peers, message) in [
        (listen.to_owned(), "peers.secret_file: is missing"),
        (format!("{listen}, secret_file: /s"), "peers.gateways: is missing"),
        (format!("{listen}, secret_file: /s, gateways: []"), "peers.gateways: is missing"),
        (format!("{listen}, secret_file: /s, gateways: [\"a:1\"], dns: {{name: b, port: 1}}"), "cannot stand beside"),
        (format!("{listen}, secret_file: /s, gateways: [a]"), "is not host and port"),
        (format!("{listen}, secret_file: /s, dns: {{name: b}}"), "port"),
        ("listen: \"0.0.0.0:0\", secret_file: /s, gateways: [\"a:1\"]".to_owned(), "has no port"),
        ("listen: 8766".to_owned(), "peers.listen"),
    ] {
        let found = bad(&file(&peers));
        assert!(found.iter().any(|problem| problem.contains(message)), "{peers}: {found:?}");
    }
}
