//! DNS fails; the endpoints do not.

use hickory_proto::op::ResponseCode;

use super::{CHAT, become_these, config_over, endpoints, ips, looks, pods, pool, urls};
use crate::harness::{Gateway, NameServer, Says, chat, eventually};

#[tokio::test]
async fn a_name_that_leads_nowhere_empties_no_pool_and_says_so_once() {
    let outages = [
        ("no records", Says::Records(Vec::new())),
        ("NXDOMAIN", Says::Code(ResponseCode::NXDomain)),
        ("SERVFAIL", Says::Code(ResponseCode::ServFail)),
        ("REFUSED", Says::Code(ResponseCode::Refused)),
        ("silence", Says::Silence),
    ];
    let (dns, pods) = (NameServer::start().await, pods(2).await);
    dns.set("vllm.test", Says::addresses(ips(&pods)));
    let gateway = Gateway::start(&config_over(&dns, &pods)).await;
    let errors = async || gateway.metric("spillway_discovery_errors_total", &[("pool", "main")]).await;
    for (turn, (outage, says)) in outages.into_iter().enumerate() {
        let looks_wanted = if outage == "silence" { 1.0 } else { 3.0 };
        let before = errors().await;
        dns.set("vllm.test", says);
        let failed = async || (errors().await >= before + looks_wanted).then_some(());
        eventually(&format!("{outage} is counted"), failed).await;
        assert_eq!(endpoints(&gateway).await, urls(&pods), "after {outage}");
        let pool = pool(&gateway).await;
        assert!(pool["dns"]["error"].is_string(), "{outage}: {}", pool["dns"]);
        gateway.post(CHAT, chat("hello")).await.expect(200);
        dns.set("vllm.test", Says::addresses(ips(&pods)));
        let again = async || super::pool(&gateway).await["dns"]["error"].is_null().then_some(());
        eventually(&format!("{outage} is over"), again).await;
        let events = gateway.events();
        let said = |what: &str| events.iter().filter(|line| line.contains(what)).count();
        assert_eq!(said("dns leads to no endpoint"), turn + 1, "once per outage, {outage}");
    }
    looks(&dns, 2).await;
    assert_eq!(endpoints(&gateway).await, urls(&pods));
    let others: Vec<_> =
        gateway.events().into_iter().filter(|line| !line.contains("\"target\":\"spillway::")).collect();
    assert!(others.is_empty(), "an outage is told once, and by nobody else: {others:#?}");
}

#[tokio::test]
async fn a_name_that_comes_later_is_found_and_the_gateway_is_ready_without_it() {
    let (dns, pods) = (NameServer::start().await, pods(1).await);
    let gateway = Gateway::start(&config_over(&dns, &pods)).await;
    gateway.post(CHAT, chat("hello")).await.expect(503);
    dns.set("vllm.test", Says::addresses(ips(&pods)));
    become_these(&gateway, &urls(&pods)).await;
    gateway.post(CHAT, chat("hello")).await.expect(200);
}
