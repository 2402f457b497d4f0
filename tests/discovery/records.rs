//! Which records lead where.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use hickory_proto::rr::RecordType;

use super::{CHAT, NAME, become_these, config_over, endpoints, ips, pods, pool, urls};
use crate::harness::{Config, Gateway, NameServer, Says, chat, eventually, sim_of, sims};

#[tokio::test]
async fn each_address_is_an_endpoint_and_is_looked_at_before_the_gateway_is_ready() {
    let (dns, pods) = (NameServer::start().await, pods(3).await);
    dns.set("vllm.test", Says::addresses(ips(&pods)));
    let gateway = Gateway::start(&config_over(&dns, &pods)).await;
    let pool = pool(&gateway).await;
    assert_eq!(endpoints(&gateway).await, urls(&pods));
    assert_eq!(pool["dns"]["name"], NAME, "{pool}");
    assert_eq!(pool["dns"]["error"], serde_json::Value::Null, "{pool}");
    for endpoint in pool["endpoints"].as_array().unwrap() {
        assert_eq!(endpoint["freshness"], "fresh", "{endpoint}");
    }
    // Its own address is what an endpoint is told as its host, and its model list is read.
    let answer = gateway.post(CHAT, r#"{"model":"sim-model","messages":[{"role":"user","content":"hi"}]}"#).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[tokio::test]
async fn both_kinds_of_address_are_taken_and_one_written_as_the_other_is_the_same() {
    let (dns, mut pods) = (NameServer::start().await, pods(1).await);
    let port = pods[0].addr().port();
    let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
    if std::net::TcpListener::bind(v6).is_err() {
        println!("skipped: no IPv6 here, or the port is taken");
        return;
    }
    pods.push(
        sim_of(spillway_sim::Config { replica: "b".into(), listen: v6, ..spillway_sim::Config::default() }).await,
    );
    let IpAddr::V4(v4) = pods[0].addr().ip() else { panic!("pods have IPv4 addresses") };
    let all = [v4.into(), v4.into(), IpAddr::V6(v4.to_ipv6_mapped()), v6.ip(), IpAddr::from([0, 0, 0, 0])];
    dns.set("vllm.test", Says::addresses(all));
    let gateway = Gateway::start(&config_over(&dns, &pods)).await;
    let expected = [format!("http://127.0.0.2:{port}"), format!("http://[::1]:{port}")].into();
    assert_eq!(endpoints(&gateway).await, expected);
    let mut met = std::collections::BTreeSet::new();
    for _ in 0..4 {
        met.insert(gateway.post(CHAT, chat("hello")).await.expect(200).header("x-sim-replica").to_owned());
    }
    assert_eq!(met.len(), 2, "both serve: {met:?}");
}

#[tokio::test]
async fn srv_records_have_port_and_weight_and_the_lowest_priority_counts() {
    let (dns, sims) = (NameServer::start().await, sims(3).await);
    let port = |at: usize| sims[at].addr().port();
    let records = [(1, 30, port(0), "One.test."), (1, 10, port(1), "one.test."), (2, 50, port(2), "one.test.")];
    dns.set("_http._tcp.vllm.test", Says::services(&records));
    dns.set("one.test", Says::addresses([IpAddr::from([127, 0, 0, 1])]));
    let config = Config::default().pool("main", &[]).with(&dns.setting("_http._tcp.vllm.test.", "type: srv"));
    let gateway = Gateway::start(&config).await;
    assert_eq!(endpoints(&gateway).await, urls(&sims[..2]));
    let pool = pool(&gateway).await;
    for endpoint in pool["endpoints"].as_array().unwrap() {
        let weight = if endpoint["id"] == *sims[0].url() { 1.0 } else { 10.0 / 30.0 };
        assert!((endpoint["weight"].as_f64().unwrap() - weight).abs() < 1e-9, "{endpoint}");
    }
    // The hosts of other records are asked for, and other ports are other endpoints.
    dns.set("_http._tcp.vllm.test", Says::services(&[(0, 0, port(2), "one.test.")]));
    become_these(&gateway, &urls(&sims[2..])).await;
    gateway.post(CHAT, chat("hello")).await.expect(200);
}

#[tokio::test]
async fn an_address_where_no_endpoint_can_be_is_left_out() {
    let (dns, pods) = (NameServer::start().await, pods(1).await);
    let odd = ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "fe80::1"].map(|ip| ip.parse().unwrap());
    dns.set("vllm.test", Says::addresses(ips(&pods).into_iter().chain(odd)));
    let gateway = Gateway::start(&config_over(&dns, &pods)).await;
    assert_eq!(endpoints(&gateway).await, urls(&pods));
}

#[tokio::test]
async fn a_host_with_both_kinds_of_address_is_one_server() {
    let (dns, pods) = (NameServer::start().await, pods(1).await);
    let port = pods[0].addr().port();
    dns.set("_http._tcp.vllm.test", Says::services(&[(0, 1, port, "one.test.")]));
    dns.set("one.test", Says::addresses([ips(&pods)[0], Ipv6Addr::LOCALHOST.into()]));
    for sends_along in [false, true] {
        dns.send_along(sends_along);
        let config = Config::default().pool("main", &[]).with(&dns.setting("_http._tcp.vllm.test.", "type: srv"));
        let asked = dns.questions(RecordType::A);
        let gateway = Gateway::start(&config).await;
        assert_eq!(endpoints(&gateway).await, urls(&pods), "sent along: {sends_along}");
        assert_eq!(dns.questions(RecordType::A) == asked, sends_along, "what came along is not asked for");
    }
}

#[tokio::test]
async fn an_answer_too_long_for_a_packet_comes_over_tcp() {
    let (dns, pods) = (NameServer::start().await, pods(1).await);
    let more = (0..199_u8).map(|last| IpAddr::from([127, 0, 1, last]));
    dns.set("vllm.test", Says::addresses(ips(&pods).into_iter().chain(more)));
    // Only one of them answers: it is not waited for that all are known to be down.
    let gateway = Gateway::start(&config_over(&dns, &pods).with("retries: {attempts: 10}")).await;
    assert_eq!(endpoints(&gateway).await.len(), 200);
    assert!(dns.over_tcp() > 0, "the packet held 200 addresses");
}

#[tokio::test]
async fn a_name_server_that_never_answers_for_ipv6_takes_nothing_away() {
    let (dns, pods) = (NameServer::start().await, pods(2).await);
    dns.forget_v6();
    dns.set("vllm.test", Says::addresses(ips(&pods)));
    let gateway = Gateway::start_unready(&config_over(&dns, &pods)).await;
    become_these(&gateway, &urls(&pods)).await;
    dns.set("vllm.test", Says::addresses(ips(&pods[..1])));
    let asked = dns.questions(RecordType::A);
    eventually("two more looks", async || (dns.questions(RecordType::A) > asked + 2).then_some(())).await;
    assert_eq!(endpoints(&gateway).await, urls(&pods), "a part of an answer proves no absence");
    gateway.post(CHAT, chat("hello")).await.expect(200);
}
