//! How long one decision takes, reservation and release included, by policy and size of the fleet.

#![expect(missing_docs, reason = "criterion's macro makes a public function without")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use spillway_picker::config::{Policy, PoolConfig, Trial};
use spillway_picker::facts::Facts;
use spillway_picker::pool::{EndpointSpec, Event, Pool};
use spillway_picker::prefix::{Depths, PrefixHasher};
use spillway_picker::registry::Registry;
use spillway_picker::request::{RequestInfo, Turn};
use spillway_picker::time::Time;

/// A prompt of 8 KiB: 32 blocks.
fn request(seed: u64) -> RequestInfo {
    let mut hasher = PrefixHasher::new(Depths::default());
    let text: Vec<u8> = (0..1_024_u64).flat_map(|i| seed.wrapping_mul(31).wrapping_add(i).to_le_bytes()).collect();
    hasher.text(&text);
    let prompt = Arc::new(hasher.finish(seed, None));
    RequestInfo { model: "m".into(), prompt, streams: true, ..RequestInfo::default() }
}

fn fleet(policy: &str, trial: Option<Trial>, endpoints: u64) -> Arc<Pool> {
    let config = PoolConfig { policy: Policy::Named(policy.to_owned()), trial, ..PoolConfig::default() };
    let pool = Pool::new(config, &Registry::default()).expect("a policy that exists");
    let now = Time::from_nanos(1);
    pool.set_endpoints((0..endpoints).map(|i| EndpointSpec::new(format!("http://node-{i}:8000"))).collect(), now);
    for (i, endpoint) in pool.endpoints().iter().enumerate() {
        let facts = Facts {
            queued: Some((i % 3) as f64),
            running: Some((i % 7) as f64),
            kv_usage: Some((i % 10) as f64 / 10.0),
            block_size: Some(16),
            blocks: Some(10_000),
            progress: Some(i as u64),
            ..Facts::default()
        };
        pool.observe(Event::Scraped { endpoint: endpoint.slot, facts }, now);
    }
    pool
}

fn decide(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decide");
    let requests: Vec<_> = (0..64).map(request).collect();
    let registry = Registry::default();
    let trial = Some(Trial { policy: Policy::Named("adaptive".to_owned()), share: 0.1 });
    let cases = registry.policies().map(|policy| (policy, policy, None)).chain([("trial", "round_robin", trial)]);
    for (case, policy, trial) in cases {
        for endpoints in [4, 64, 1_000, 4_000] {
            let pool = fleet(policy, trial.clone(), endpoints);
            let mut count = 0_u64;
            group.bench_function(BenchmarkId::new(case, endpoints), |bencher| {
                bencher.iter(|| {
                    count += 1;
                    let turn = Turn { random: count.wrapping_mul(0x9E37_79B9_7F4A_7C15), rotation: count };
                    let request = &requests[count as usize % requests.len()];
                    black_box(pool.decide(request, turn, Time::from_nanos(count * 1_000), None))
                });
            });
        }
    }
    group.finish();
}

fn topology(criterion: &mut Criterion) {
    criterion.bench_function("set_endpoints/1000", |bencher| {
        let pool = fleet("adaptive", None, 1_000);
        let specs: Vec<_> = pool.endpoints().iter().map(|endpoint| EndpointSpec::new(endpoint.id.clone())).collect();
        let mut count = 1_000;
        bencher.iter(|| {
            // One less each second time: the ring is built anew each time.
            count = if count == 1_000 { 999 } else { 1_000 };
            pool.set_endpoints(specs[..count].to_vec(), Time::from_nanos(1));
        });
    });
}

criterion_group!(benches, decide, topology);
criterion_main!(benches);
