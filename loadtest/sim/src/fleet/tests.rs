use std::time::Duration;

use super::*;
use crate::engine::{Preset, Slowness, Speed};
use crate::{FaultKind, Flavor};

const EXAMPLE: &str = "
time_scale: 4
seed: 1
endpoints:
  - {count: 2, preset: 8b-h100, model: llama, listen: 127.0.0.1:8001}
  - {count: 2, serial: {overhead_ms: 60, prefill_us: 350, gap_ms: 40, slots: 24, crowding: 2, kv_tokens: 40000},
     adapters: [a, b], max_loras: 2, adapter_load_ms: 1200}
faults:
  - {endpoint: 0, at: 60s, for: 30s, kind: slow, factor: 4}
  - {endpoint: 3, at: 1m 30s, kind: status, code: 429, retry_after: '2'}
";

#[test]
fn a_file_becomes_servers_in_its_order() {
    let fleet = Fleet::parse(EXAMPLE).unwrap();
    assert_eq!((fleet.len(), fleet.is_empty(), fleet.time_scale, fleet.seed), (4, false, 4.0, 1));
    let servers = fleet.servers();
    let ports: Vec<_> = servers.iter().map(|server| server.listen.port()).collect();
    assert_eq!(ports, [8001, 8002, 0, 0]);
    let names: Vec<_> = servers.iter().map(|server| (server.replica.as_str(), server.seed)).collect();
    assert_eq!(names, [("sim-0", 1), ("sim-1", 2), ("sim-2", 3), ("sim-3", 4)]);
    assert_eq!(
        (servers[0].model.as_str(), servers[2].model.as_str(), servers[3].time_scale),
        ("llama", "sim-model", 4.0)
    );
    assert_eq!(servers[0].engine.blocks, Preset::Llama8bH100.config().blocks);
    let engine = fleet.endpoints[1].engine();
    let Speed::Serial(speed) = engine.speed else { panic!("{engine:?}") };
    assert_eq!((speed.overhead_ms, speed.prefill_us, speed.gap_ms, speed.crowding), (60.0, 350.0, 40.0, 2.0));
    assert_eq!((engine.max_seqs, engine.usable_blocks(), engine.lora.slots), (24, 2_500, 2));
    assert_eq!(engine.lora.load_from_disk, Duration::from_millis(1_200));
    assert!(engine.vocabulary.is_some(), "a reply must be found again in virtual time too");
}

#[test]
fn faults_of_speed_become_the_pace_of_their_endpoint() {
    let fleet = Fleet::parse(EXAMPLE).unwrap();
    let slow: Vec<_> = pace(&fleet.faults, 0).faults().copied().collect();
    assert_eq!((slow.len(), slow[0].slowness), (1, Slowness::Slow { factor: 4.0 }));
    assert_eq!((slow[0].from, slow[0].until), (Duration::from_secs(60), Some(Duration::from_secs(90))));
    let status = &fleet.faults[1];
    assert_eq!((status.at, status.lasts, status.fault.kind), (Duration::from_secs(90), None, FaultKind::Status));
    assert_eq!((status.speed(), pace(&fleet.faults, 3).faults().count()), (None, 0));
}

#[test]
fn every_key_of_a_group_can_be_set() {
    let text = "
endpoints:
  - {count: 1, preset: fast, blocks: 100, max_seqs: 3, max_batched_tokens: 64, long_prefill_threshold: 32,
     prefix_caching: false, sigma: 0.1, tail_chance: 0.5, model: m, adapters: [x], max_loras: 1, max_cpu_loras: 2,
     adapter_load_ms: 7, adapter_host_load_ms: 3.5, listen: '127.0.0.1:0', replica: r, flavor: llamacpp,
     max_model_len: 99, default_max_tokens: 5, mean_output_tokens: 6, stream_interval: 8, hold_head: true,
     prompt_tokens_details: false, max_queued: 9}
";
    let server = Fleet::parse(text).unwrap().servers().remove(0);
    assert_eq!((server.replica.as_str(), server.model.as_str(), server.flavor), ("r-0", "m", Flavor::LlamaCpp));
    assert_eq!((server.max_model_len, server.default_max_tokens, server.stream_interval), (99, 5, 8));
    assert_eq!((server.mean_output_tokens, server.max_queued), (Some(6), Some(9)));
    assert!(server.hold_head && !server.prompt_tokens_details && server.adapters == ["x"]);
    let engine = server.engine;
    assert_eq!((engine.blocks, engine.max_seqs, engine.max_batched_tokens), (100, 3, 64));
    assert_eq!((engine.long_prefill_threshold, engine.prefix_caching), (Some(32), false));
    assert_eq!((engine.lora.slots, engine.lora.host_slots), (1, 2));
    assert_eq!((engine.lora.load_from_disk, engine.lora.load_from_host.as_micros()), (Duration::from_millis(7), 3_500));
    let Speed::Steps(step) = engine.speed else { panic!("fast has steps") };
    assert_eq!((step.sigma, step.tail_chance, step.tail_ms), (0.1, 0.5, [50.0, 200.0]));
}

#[test]
fn all_that_is_wrong_is_said_at_once_with_its_place() {
    let text = "
time_scale: 0
endpoints:
  - {count: 0, stream_interval: 0}
  - {preset: fast, serial: {overhead_ms: -1, prefill_us: 1, gap_ms: 1, slots: 0}, sigma: 2, adapters: [a, a]}
  - {count: 3, listen: 127.0.0.1:65534}
  - {listen: 127.0.0.1:7000}
  - {listen: 127.0.0.1:7000}
faults:
  - {endpoint: 9, at: 1s, kind: slow, factor: -2, for_ms: 5}
";
    let Err(FleetError::Invalid(problems)) = Fleet::parse(text) else { panic!("it was accepted") };
    for expected in [
        "time_scale: must be 0.001 to 10,000",
        "endpoints[0].count: must be 1 to 65,535",
        "endpoints[0].stream_interval: must be 1 to 100,000,000",
        "endpoints[1].serial: there is a preset too; an endpoint has one of them",
        "endpoints[1].serial.overhead_ms: must be 0 or more, up to a day",
        "endpoints[1].serial.slots: must be 1 to 65,536",
        "endpoints[1].sigma: must be 0 to 1",
        "endpoints[1].sigma: serial has no noise",
        "endpoints[1].adapters[1]: \"a\" is there already",
        "endpoints[2].listen: there are not so many ports above it",
        "endpoints[4].listen: 127.0.0.1:7000 is taken by an endpoint before it",
        "faults[0].endpoint: 9 is not one of 6, counted from 0",
        "faults[0].factor: must be 0 to 1,000",
        "faults[0].for_ms: `for` says it, in model time",
    ] {
        assert!(problems.iter().any(|problem| problem == expected), "{expected:?} is not in {problems:#?}");
    }
}

#[test]
fn nothing_is_so_large_that_it_overflows() {
    const MOST: &str = "18446744073709551615";
    for (group, line) in [
        ("count: MOST", "count: must be 1 to 65,535"),
        ("blocks: MOST", "blocks: must be 2 to 100,000,000"),
        ("blocks: 1", "blocks: must be 2 to 100,000,000"),
        ("max_seqs: MOST", "max_seqs: must be 1 to 65,536"),
        ("max_batched_tokens: MOST", "max_batched_tokens: must be 1 to 100,000,000"),
        ("long_prefill_threshold: MOST", "long_prefill_threshold: must be 1 to 100,000,000"),
        ("max_loras: MOST", "max_loras: must be 1 to 10,000"),
        ("max_cpu_loras: MOST", "max_cpu_loras: must be 1 to 10,000"),
        ("max_model_len: MOST", "max_model_len: must be 1 to 100,000,000"),
        ("default_max_tokens: 4294967295", "default_max_tokens: must be 1 to 100,000,000"),
        ("mean_output_tokens: 4294967295", "mean_output_tokens: must be 1 to 100,000,000"),
        ("stream_interval: 4294967295", "stream_interval: must be 1 to 100,000,000"),
        ("max_queued: MOST", "max_queued: must be 0 to 1,000,000"),
        ("sigma: .nan", "sigma: must be 0 to 1"),
        ("host_ms: .inf", "host_ms: must be 0 or more, up to a day"),
        ("model: ''", "model: must have 1 to 256 bytes"),
        ("replica: \"a\\nb\"", "replica: must be the value of a header, up to 256 bytes"),
        ("adapters: [a, '']", "adapters[1]: must have 1 to 256 bytes"),
        ("listen: 127.0.0.1:65535, count: 2", "listen: there are not so many ports above it"),
        ("serial: {overhead_ms: 1, prefill_us: 1, gap_ms: 1, slots: MOST}", "serial.slots: must be 1 to 65,536"),
        (
            "serial: {overhead_ms: 1, prefill_us: 1, gap_ms: 1, slots: 1, kv_tokens: MOST}",
            "serial.kv_tokens: must be 16 to 1,600,000,000",
        ),
    ] {
        let text = format!("endpoints: [{{{}}}]", group.replace("MOST", MOST));
        let Err(FleetError::Invalid(problems)) = Fleet::parse(&text) else { panic!("{group} was accepted") };
        assert!(problems.contains(&format!("endpoints[0].{line}")), "{group}: {problems:#?}");
        assert!(problems.iter().all(|problem| !problem.contains("is taken by")), "{group}: {problems:#?}");
    }
    for scale in ["1e300", "1e-300", ".nan", "-1", ".inf"] {
        let error = Fleet::parse(&format!("time_scale: {scale}\nendpoints: [{{}}]")).unwrap_err().to_string();
        assert_eq!(error, "time_scale: must be 0.001 to 10,000", "{scale}");
    }
}

#[test]
fn a_fleet_has_a_limit_over_all_its_groups() {
    let most = "endpoints: [{count: 18446744073709551615}, {count: 18446744073709551615}]";
    for text in ["endpoints: [{count: 65535}, {count: 65535}]", most] {
        let error = Fleet::parse(text).unwrap_err().to_string();
        assert!(error.contains("endpoints: must be 100,000 at most, over all groups"), "{error}");
    }
    assert_eq!(Fleet::parse("endpoints: [{count: 65535}, {count: 34465}]").unwrap().len(), 100_000);
}

#[test]
fn the_largest_engine_allowed_takes_no_memory_before_it_is_used() {
    let fleet =
        Fleet::parse("endpoints: [{blocks: 100000000, max_seqs: 65536, max_batched_tokens: 100000000}]").unwrap();
    let engines: Vec<_> =
        (0..1_000).map(|seed| crate::engine::Engine::new(fleet.endpoints[0].engine(), seed)).collect();
    assert!(engines.iter().all(|engine| engine.free_blocks() == 99_999_999));
}

#[test]
fn unknown_keys_presets_and_units_are_refused() {
    for (text, expected) in [
        ("endpoints: [{cuont: 2}]", "cuont"),
        ("endpoints: [{preset: 9b-h100}]", "no preset \"9b-h100\"; there are fast, 8b-h100"),
        ("endpoints: [{serial: {overhead_ms: 1, prefill_us: 1, gap_ms: 1, slots: 1, itl: 2}}]", "itl"),
        ("endpoints: [{}]\nspeed: 2", "speed"),
        ("endpoints: [{}]\nfaults: [{endpoint: 0, at: 60, kind: slow}]", "60 is no time with a unit"),
        ("endpoints: [{}]\nfaults: [{endpoint: 0, at: 60s, kind: slow, fctor: 4}]", "fctor"),
        ("endpoints: [{}]\nfaults: [{endpoint: 0, at: 60s, kind: sloow}]", "sloow"),
        ("endpoints: [{}]\nfaults: [{at: 60s, kind: slow}]", "endpoint"),
        ("faults: []", "endpoints"),
    ] {
        let error = Fleet::parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
