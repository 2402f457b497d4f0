//! Which endpoint costs less, and why.

use super::*;

/// A prompt of 2,000 tokens in a pool of four endpoints at this many requests per second.
fn job(arrival_rate: f64) -> Job {
    Job {
        prompt: 2000.0,
        output: 200.0,
        arrival_rate,
        residence: 5.0,
        adapter_load: 0.1,
        guess: 0.75,
        speed: 4.0 / 0.040,
        best_cached: 0.0,
        weights: Adaptive::default(),
    }
}

/// An idle endpoint of known cache.
fn idle() -> Site {
    Site {
        rates: Rates { a: 0.010, b: 20e-6, t0: 0.008, t1: 0.0002 },
        mean_service: 0.040,
        cached: 0.0,
        is_away: false,
        pending: 0.0,
        prefills: 0.0,
        streams: 0.0,
        others_waiting: 0.0,
        others_streams: 0.0,
        places: None,
        kv_usage: Some(0.3),
        kv_tokens: Some(400_000.0),
        adapter: AdapterSite::of(AdapterState::Unknown),
    }
}

fn total(job: &Job, site: &Site) -> f64 {
    job.price(site).iter().sum()
}

fn term(name: &str, job: &Job, site: &Site) -> f64 {
    let at = TERMS.iter().position(|term| term.name == name).expect("a term of this name");
    job.price(site)[at]
}

#[test]
fn a_faster_endpoint_costs_less_in_every_load() {
    let slow = idle();
    for rate in [0.0, 10.0, 60.0, 99.0] {
        for streams in [0.0, 10.0] {
            let slow = Site { streams, ..slow };
            let Rates { a, b, t0, t1 } = slow.rates;
            let faster = [
                Rates { a: a * 0.9, ..slow.rates },
                Rates { b: b * 0.9, ..slow.rates },
                Rates { t0: t0 * 0.9, ..slow.rates },
                Rates { t1: t1 * 0.9, ..slow.rates },
            ];
            for rates in faster {
                let fast = Site { rates, ..slow };
                assert!(
                    total(&job(rate), &fast) < total(&job(rate), &slow),
                    "{rates:?} at {rate}/s, {streams} streams"
                );
            }
        }
    }
}

#[test]
fn work_streams_and_missing_prefixes_each_make_an_endpoint_dearer() {
    let job = job(40.0);
    let base = total(&job, &idle());
    let dearer = [
        Site { pending: 0.05, ..idle() },
        Site { streams: 3.0, ..idle() },
        Site { others_waiting: 2.0, ..idle() },
        Site { others_streams: 3.0, ..idle() },
        Site { kv_usage: Some(0.95), ..idle() },
        Site { adapter: AdapterSite::of(AdapterState::Absent), ..idle() },
        Site { is_away: true, ..idle() },
    ];
    for site in dearer {
        assert!(total(&job, &site) > base, "{site:?}");
    }
    assert!(total(&job, &Site { cached: 1000.0, ..idle() }) < base);
}

#[test]
fn at_low_load_the_order_is_that_of_ttft() {
    let job = job(0.01);
    let mut sites: Vec<Site> = (0..60)
        .map(|i: i32| Site {
            pending: f64::from(i * 37 % 60) * 0.004,
            rates: Rates { a: 0.005 + f64::from(i * 23 % 7) * 0.003, ..idle().rates },
            ..idle()
        })
        .collect();
    let ttft = |site: &Site| term("wait", &job, site) + term("prefill", &job, site);
    sites.sort_by(|one, two| total(&job, one).total_cmp(&total(&job, two)));
    for pair in sites.windows(2) {
        assert!(ttft(&pair[0]) <= ttft(&pair[1]) + 1e-6, "{pair:?}");
    }
}

#[test]
fn near_saturation_a_cached_prefix_is_worth_a_longer_wait() {
    let home = Site { cached: 1900.0, pending: 0.085, ..idle() };
    let elsewhere = idle();
    let ttft = |site: &Site| term("wait", &job(0.0), site) + term("prefill", &job(0.0), site);
    assert!(ttft(&home) > ttft(&elsewhere), "by TTFT alone the prefix would be left");
    assert!(total(&job(1.0), &home) > total(&job(1.0), &elsewhere), "idle: a copy elsewhere costs nobody anything");
    assert!(total(&job(95.0), &home) < total(&job(95.0), &elsewhere), "busy: a second prefill delays everyone");
}

#[test]
fn an_idle_pool_spreads_its_streams() {
    let (busy, empty) = (Site { streams: 8.0, ..idle() }, idle());
    assert!(total(&job(0.1), &busy) - total(&job(0.1), &empty) > 0.003, "more than the tie band");
}

#[test]
fn a_full_cache_gets_no_copy_but_keeps_what_it_has() {
    let job = Job { best_cached: 1500.0, ..job(10.0) };
    let full = |cached| Site { cached, kv_usage: Some(0.95), ..idle() };
    assert!(total(&job, &full(0.0)).is_infinite());
    assert!(total(&job, &full(1500.0)).is_finite(), "the holder itself");
    assert!(total(&job, &full(1100.0)).is_finite(), "a few blocks behind the best");
    assert!(total(&job, &Site { kv_usage: None, ..full(0.0) }).is_finite(), "an unknown cache is not a full one");
    let unknown_prefix = Job { best_cached: 0.0, ..job };
    assert!(total(&unknown_prefix, &full(0.0)).is_finite(), "a prefix that nobody has must go somewhere");
}

#[test]
fn a_scrape_that_is_unknown_changes_no_term() {
    let blind = Site { kv_usage: None, kv_tokens: None, ..idle() };
    let seen = Site { kv_usage: Some(0.0), ..idle() };
    assert_eq!(job(40.0).price(&blind).map(f64::to_bits), job(40.0).price(&seen).map(f64::to_bits));
}

#[test]
fn a_request_short_of_memory_waits_for_its_share_of_it() {
    let tight = Site { kv_usage: Some(0.95), kv_tokens: Some(20_000.0), ..idle() };
    // 2,200 of 20,000 tokens, for 5 s.
    assert!((term("prefill", &job(0.0), &tight) - 0.55).abs() < 1e-9);
    let ample = Site { kv_usage: Some(0.80), ..tight };
    assert!((term("prefill", &job(0.0), &ample) - 0.050).abs() < 1e-9);
}

#[test]
fn an_adapter_goes_where_it_is_then_where_there_is_room() {
    let site = |state, room| {
        let adapter = AdapterSite { room, ..AdapterSite::of(state) };
        total(&job(1.0), &Site { adapter, ..idle() })
    };
    let running = site(AdapterState::Running, Some(true));
    let room = site(AdapterState::Absent, Some(true));
    let none = site(AdapterState::Absent, Some(false));
    assert!(running < room && room < none, "{running} {room} {none}");
    assert!((running - site(AdapterState::Unknown, None)).abs() < 1e-12, "nothing known, nothing charged");
}

#[test]
fn an_adapter_without_a_place_waits_until_another_has_no_request_left() {
    let price = |state, busy, in_line| {
        let adapter = AdapterSite { room: Some(false), busy, in_line, ..AdapterSite::of(state) };
        term("adapter", &job(1.0), &Site { adapter, ..idle() })
    };
    let absent = |busy| price(AdapterState::Absent, busy, 0);
    assert!((absent(Some(1.0)) - (0.2 + 5.0 * 1.718)).abs() < 0.01, "one is there, and others come: 1.7 stays");
    assert!(absent(None) < absent(Some(1.0)) && absent(Some(1.0)) < absent(Some(3.0)));
    assert!(absent(Some(1e9)).is_finite());
    let waiting = price(AdapterState::Waiting, Some(2.0), 1);
    assert!(waiting < price(AdapterState::Absent, Some(2.0), 1), "who is in line is before who comes");
}

#[test]
fn an_adapter_leaves_a_place_that_it_can_spare_to_who_waits_for_it() {
    let price = |state, is_spare, in_line| {
        let adapter = AdapterSite { in_line, is_spare, ..AdapterSite::of(state) };
        term("adapter", &job(1.0), &Site { adapter, ..idle() })
    };
    assert!(price(AdapterState::Running, true, 0).abs() < 1e-12, "nobody wants the place");
    assert!(price(AdapterState::Running, false, 2).abs() < 1e-12, "it needs the place");
    assert!((price(AdapterState::Running, true, 2) - 10.0).abs() < 1e-9, "a stay for each that waits");
    assert!((price(AdapterState::Absent, true, 0) - 5.1).abs() < 1e-9, "one more place than it should have");
}

#[test]
fn a_full_batch_costs_the_time_until_a_place_is_free() {
    let site = |streams, places| Site { streams, places, ..idle() };
    let wait = |site: &Site| job(1.0).price(site)[0];
    assert!(wait(&site(9.0, Some(10.0))).abs() < 1e-12, "one place is free");
    assert!((wait(&site(10.0, Some(10.0))) - 0.5).abs() < 1e-9, "ten that stay 5 s leave one every half second");
    assert!((wait(&site(12.0, Some(10.0))) - 1.5).abs() < 1e-9, "behind two that wait");
    assert!(wait(&site(500.0, None)).abs() < 1e-12, "nobody ever waited there");
}

#[test]
fn no_term_is_negative_or_undefined() {
    let odd = [0.0, 1e-12, 1.0, 1e12, f64::INFINITY];
    for value in odd {
        for other in odd {
            let job = Job {
                prompt: value,
                output: other,
                arrival_rate: other,
                residence: value,
                adapter_load: other,
                speed: value.max(1.0),
                best_cached: other,
                guess: 0.75,
                weights: Adaptive::default(),
            };
            let site = Site {
                cached: other,
                is_away: value > other,
                pending: value,
                streams: other,
                kv_usage: Some(value),
                kv_tokens: Some(other),
                rates: Rates { a: other, b: value, t0: other, t1: value },
                ..idle()
            };
            for (term, spec) in job.price(&site).iter().zip(TERMS) {
                assert!(!term.is_nan() && *term >= 0.0, "{} is {term}: {job:?} {site:?}", spec.name);
            }
        }
    }
}
