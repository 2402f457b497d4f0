//! The serial time model against arithmetic that fits on a napkin, and against a queue whose wait is known.

use super::*;

/// 30 ms and 50 us a token to the first token, 12 ms a token after it, twice that with all `slots` running; one unit of
/// each is what scenario B1a writes as 30/50/12/S/2.
pub(super) fn lane(blocks: usize, slots: usize) -> Config {
    let speed = Serial { overhead_ms: 30.0, prefill_us: 50.0, gap_ms: 12.0, crowding: 2.0 };
    Config { speed: Speed::Serial(speed), ..config(blocks, slots, 1) }
}

#[test]
fn prefills_go_one_after_the_other() {
    let mut engine = Engine::new(lane(1_000, 8), 0);
    let first = engine.submit(request(1, 1_000, 1), ms(0)).unwrap();
    let second = engine.submit(request(2, 2_000, 1), ms(0)).unwrap();
    let times = token_times(&mut engine);
    assert_eq!((times[&first][0], times[&second][0]), (ms(80), ms(180)), "50 ms, then 100 more, each with 30 after");
}

#[test]
fn what_is_cached_is_not_in_the_lane() {
    let mut engine = Engine::new(lane(1_000, 8), 0);
    engine.submit(request(1, 1_600, 1), ms(0)).unwrap();
    token_times(&mut engine);
    let again = engine.submit(request(1, 1_616, 1), ms(1_000)).unwrap();
    // 1,600 of 1,616 tokens are there.
    assert_eq!(token_times(&mut engine)[&again][0], ms(1_000) + Duration::from_micros(30_800));
}

#[test]
fn the_gap_grows_in_proportion_to_those_that_run() {
    let speed = Serial { overhead_ms: 0.0, prefill_us: 0.0, gap_ms: 12.0, crowding: 2.0 };
    assert_eq!([1, 2, 3].map(|running| speed.gap(running, 3)), [ms(12), ms(18), ms(24)]);
    assert_eq!(speed.gap(1, 1), ms(12), "one slot: nobody to share with");
    let mut engine = Engine::new(lane(1_000, 8), 0);
    let alone = engine.submit(request(1, 16, 4), ms(0)).unwrap();
    let times = token_times(&mut engine);
    assert_eq!(times[&alone], [30_800, 42_800, 54_800, 66_800].map(Duration::from_micros));
}

#[test]
fn those_without_a_slot_wait_in_order() {
    let mut engine = Engine::new(lane(1_000, 1), 0);
    let ids: Vec<_> = (1..=3).map(|first| engine.submit(request(first, 100, 2), ms(0)).unwrap()).collect();
    let times = token_times(&mut engine);
    // 5 ms of prefill, 30 of overhead, 12 to the second token, which frees the slot.
    assert_eq!(ids.iter().map(|id| times[id][0]).collect::<Vec<_>>(), [ms(35), ms(82), ms(129)]);
}

#[test]
fn who_waits_takes_the_slot_of_one_that_is_aborted_at_that_time() {
    let mut engine = Engine::new(lane(1_000, 1), 0);
    let first = engine.submit(request(1, 100, 50), ms(0)).unwrap();
    let second = engine.submit(request(2, 100, 1), ms(0)).unwrap();
    engine.advance(ms(41), &mut Vec::new());
    assert!(engine.abort(first));
    // 5 ms of prefill and 30 of overhead from then on.
    assert_eq!(token_times(&mut engine)[&second], [ms(76)]);
}

#[test]
fn who_is_short_of_blocks_takes_them_from_the_last_and_both_end() {
    let mut engine = Engine::new(lane(6, 8), 0);
    let first = engine.submit(request(1, 31, 40), ms(0)).unwrap();
    let second = engine.submit(request(2, 31, 40), ms(0)).unwrap();
    let times = token_times(&mut engine);
    assert!(engine.stats().preemptions > 0, "two times five blocks do not fit six");
    assert_eq!((times[&first].len(), times[&second].len()), (40, 40));
}

#[test]
fn the_lane_waits_as_md1_says() {
    let requests = 50_000;
    for (rho, tolerance) in [(0.3, 0.02), (0.5, 0.02), (0.8, 0.04)] {
        let mut engine = Engine::new(lane(1_000_000, 100_000), 0);
        engine.config.prefix_caching = false;
        let service = 16.0 * 50e-6;
        let mut random = fastrand::Rng::with_seed(11);
        let (mut at, mut arrivals, mut events, mut waited) = (0.0, HashMap::new(), Vec::new(), 0.0);
        let mut book = |events: &mut Vec<Event>, arrivals: &mut HashMap<SequenceId, f64>, now: Duration| {
            for event in events.drain(..).filter(|event| matches!(event.what, What::Token(_))) {
                waited += now.as_secs_f64() - arrivals.remove(&event.id).unwrap() - service - 30e-3;
            }
        };
        for index in 0..requests {
            at += -(1.0 - random.f64()).ln() * service / rho;
            let due = Duration::from_secs_f64(at);
            while let Some(next) = engine.next_time().filter(|next| *next <= due) {
                engine.advance(next, &mut events);
                book(&mut events, &mut arrivals, next);
            }
            let id = engine.submit(request(index % 8, 16, 1), due).unwrap();
            arrivals.insert(id, at);
        }
        while let Some(next) = engine.next_time() {
            engine.advance(next, &mut events);
            book(&mut events, &mut arrivals, next);
        }
        let (mean, theory) = (waited / f64::from(requests), rho * service / (2.0 * (1.0 - rho)));
        assert!((mean / theory - 1.0).abs() < tolerance, "load {rho}: mean wait {mean} s, theory {theory} s");
    }
}
