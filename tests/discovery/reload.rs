//! Reloads and answers do not undo each other.

use http::Method;

use super::{CHAT, become_these, config_over, endpoints, ips, looks, pods, pool, urls};
use crate::harness::{Config, Gateway, NameServer, Says, chat, config_for, sim_of};
use crate::reload::traffic::Traffic;

async fn reload(gateway: &Gateway, config: &Config) {
    gateway.rewrite(config);
    gateway.admin(Method::POST, "/reload", "").await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_something_else_keeps_what_was_found_even_during_an_outage() {
    let (dns, pods) = (NameServer::start().await, pods(2).await);
    dns.set("vllm.test", Says::addresses(ips(&pods)));
    let gateway = Gateway::start(&config_over(&dns, &pods)).await;
    dns.set("vllm.test", Says::Silence);
    let traffic = Traffic::start(&gateway, "sim-model");
    for turn in 1..=5 {
        reload(&gateway, &config_over(&dns, &pods).with(&format!("limits: {{in_flight: {turn}00}}"))).await;
        let pool = pool(&gateway).await;
        assert_eq!(pool["limits"]["in_flight"], turn * 100, "{pool}");
        assert_eq!(endpoints(&gateway).await, urls(&pods));
        for endpoint in pool["endpoints"].as_array().unwrap() {
            assert_eq!(endpoint["freshness"], "fresh", "what was scraped is still known: {endpoint}");
        }
    }
    traffic.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_name_is_asked_for_before_the_endpoints_of_the_old_one_go() {
    let (dns, pods) = (NameServer::start().await, pods(4).await);
    dns.set("vllm.test", Says::addresses(ips(&pods[..2])));
    dns.set("other.test", Says::addresses(ips(&pods[2..])));
    let named = |name: &str| {
        let port = format!("port: {}", pods[0].addr().port());
        Config::default().pool("main", &[]).with(&dns.setting(name, &port))
    };
    let gateway = Gateway::start(&named("vllm.test.")).await;
    let traffic = Traffic::start(&gateway, "sim-model");
    reload(&gateway, &named("other.test.")).await;
    assert_eq!(endpoints(&gateway).await, urls(&pods[2..]), "the reload has asked");
    // A name that leads nowhere, until it does.
    reload(&gateway, &named("later.test.")).await;
    looks(&dns, 2).await;
    assert_eq!(endpoints(&gateway).await, urls(&pods[2..]));
    assert_eq!(pool(&gateway).await["dns"]["name"], "later.test.");
    dns.set("later.test", Says::addresses(ips(&pods[..1])));
    become_these(&gateway, &urls(&pods[..1])).await;
    traffic.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_becomes_a_name_and_a_name_a_list() {
    let (dns, pods) = (NameServer::start().await, pods(3).await);
    let gateway = Gateway::start(&config_for(&pods[..1])).await;
    let traffic = Traffic::start(&gateway, "sim-model");
    reload(&gateway, &config_over(&dns, &pods)).await;
    assert_eq!(endpoints(&gateway).await, urls(&pods[..1]), "the name leads nowhere yet");
    dns.set("vllm.test", Says::addresses(ips(&pods[1..])));
    become_these(&gateway, &urls(&pods[1..])).await;
    reload(&gateway, &config_for(&pods[..2])).await;
    assert_eq!(endpoints(&gateway).await, urls(&pods[..2]));
    assert!(pool(&gateway).await["dns"].is_null());
    looks_stop(&dns).await;
    assert_eq!(endpoints(&gateway).await, urls(&pods[..2]), "no late answer changes the list");
    traffic.stop().await;
    gateway.post(CHAT, chat("hello")).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_endpoints_replaced_at_once_leave_no_model_unknown() {
    let (dns, pods) = (NameServer::start().await, pods(4).await);
    dns.set("vllm.test", Says::addresses(ips(&pods[..2])));
    dns.set("other.test", Says::addresses(ips(&pods[2..])));
    let apart = [sim_of(spillway_sim::Config { model: "apart".into(), ..spillway_sim::Config::default() }).await];
    // The model is not in the file, and there are two pools: it is known only because endpoints list it.
    let named = |name: &str| {
        let port = format!("port: {}", pods[0].addr().port());
        Config::default().pool("main", &[]).with(&dns.setting(name, &port)).pool("apart", &apart)
    };
    let gateway = Gateway::start(&named("vllm.test.")).await;
    let traffic = Traffic::start(&gateway, "sim-model");
    for name in ["other.test.", "vllm.test.", "other.test.", "vllm.test."] {
        let changed = std::time::Instant::now();
        reload(&gateway, &named(name)).await;
        traffic.passes(changed).await;
        gateway.post(CHAT, chat("hello")).await.expect(200);
    }
    traffic.stop().await;
}

/// Waits until the name has not been asked for over some intervals.
async fn looks_stop(dns: &NameServer) {
    let count = || dns.questions(hickory_proto::rr::RecordType::AAAA);
    let (mut before, mut since) = (count(), std::time::Instant::now());
    crate::harness::eventually("the name is left alone", async || {
        if count() != before {
            (before, since) = (count(), std::time::Instant::now());
        }
        (since.elapsed() > std::time::Duration::from_millis(300)).then_some(())
    })
    .await;
}
