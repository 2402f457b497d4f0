//! Speed faults: at which step they begin, and what they come to in both time models.

use super::serial::lane;
use super::*;

fn fault(from: u64, until: Option<u64>, slowness: Slowness) -> SpeedFault {
    SpeedFault { from: ms(from), until: until.map(ms), slowness }
}

/// When the tokens of one request at 0 come, with steps of 1 ms.
fn tokens(slowness: SpeedFault, count: u32) -> Vec<Duration> {
    let mut engine = Engine::new(config(64, 8, 512), 0);
    engine.set_pace(Pace::new([slowness]));
    let id = engine.submit(request(1, 16, count), ms(0)).unwrap();
    token_times(&mut engine).remove(&id).unwrap()
}

#[test]
fn slowness_changes_the_steps_that_begin_in_it() {
    let times = tokens(fault(3, Some(11), Slowness::Slow { factor: 4.0 }), 7);
    assert_eq!(times, [1, 2, 3, 7, 11, 12, 13].map(ms));
}

#[test]
fn a_caller_that_is_late_sees_the_same_slowness() {
    let run = |stride: u64| {
        let mut engine = Engine::new(config(64, 8, 512), 0);
        engine.set_pace(Pace::new([fault(5, Some(9), Slowness::Slow { factor: 3.0 })]));
        for index in 0..4 {
            engine.submit(request(index, 30, 20), ms(u64::from(index) * 3)).unwrap();
        }
        let (mut events, mut now) = (Vec::new(), 0);
        while engine.advance(ms(now), &mut events).is_some() {
            now += stride;
        }
        (events, engine.clock)
    };
    assert_eq!(run(1), run(1_000));
}

#[test]
fn a_hot_device_slows_along_its_ramp_and_may_swing_after_it() {
    let pace = |period| {
        Pace::new([fault(1_000, None, Slowness::Thermal { factor: 1.25, ramp: Duration::from_secs(20), period })])
    };
    let factor = |period: Option<Duration>, seconds| pace(period).factor(Duration::from_secs(seconds), Work::default());
    let close = |got: f64, wanted: f64| assert!((got - wanted).abs() < 1e-9, "{got} is not {wanted}");
    for (seconds, wanted) in [(0, 1.0), (1, 1.0), (11, 1.125), (21, 1.25), (500, 1.25)] {
        close(factor(None, seconds), wanted);
    }
    let swing = Some(Duration::from_secs(40));
    for (seconds, wanted) in [(11, 1.125), (21, 1.25), (31, 1.125), (41, 1.0), (61, 1.25)] {
        close(factor(swing, seconds), wanted);
    }
}

#[test]
fn the_first_steps_are_slow_and_ever_less() {
    let times = tokens(fault(0, None, Slowness::FirstSteps { factor: 3.0, steps: 4 }), 6);
    // Steps of 3, 2.5, 2, 1.5, 1 and 1 ms.
    assert_eq!(times, [3_000, 5_500, 7_500, 9_000, 10_000, 11_000].map(Duration::from_micros));
}

#[test]
fn all_is_slow_until_enough_requests_have_ended() {
    let mut engine = Engine::new(config(64, 1, 512), 0);
    engine.set_pace(Pace::new([fault(0, None, Slowness::FirstRequests { factor: 5.0, requests: 2 })]));
    let ids: Vec<_> = (1..=4).map(|first| engine.submit(request(first, 16, 1), ms(0)).unwrap()).collect();
    let times = token_times(&mut engine);
    assert_eq!(ids.iter().map(|id| times[id][0]).collect::<Vec<_>>(), [5, 10, 11, 12].map(ms));
}

#[test]
fn slow_loads_of_adapters_slow_nothing_else() {
    let mut engine = Engine::new(config(64, 8, 512), 0);
    engine.set_pace(Pace::new([fault(0, None, Slowness::AdapterLoads { factor: 10.0 })]));
    let adapted = engine.submit(Request { adapter: Some("a".into()), ..request(1, 16, 1) }, ms(0)).unwrap();
    let base = engine.submit(request(2, 16, 1), ms(0)).unwrap();
    assert!(!engine.holds_adapter(&"a".into()));
    let times = token_times(&mut engine);
    assert_eq!(times[&base], [ms(1)]);
    // 30 ms of load ten times as long, and a step 3.5 % longer for its adapter.
    assert_eq!(times[&adapted], [Duration::from_micros(301_035)]);
    assert!(engine.holds_adapter(&"a".into()));
}

#[test]
fn the_serial_model_is_slowed_in_prefill_overhead_and_gap() {
    let mut engine = Engine::new(lane(1_000, 8), 0);
    engine.set_pace(Pace::new([fault(0, Some(200), Slowness::Slow { factor: 2.0 })]));
    let id = engine.submit(request(1, 1_000, 8), ms(0)).unwrap();
    // Twice 50 + 30 ms, then gaps of 24 ms and, from the first token after 200 ms on, of 12.
    assert_eq!(token_times(&mut engine)[&id], [160, 184, 208, 220, 232, 244, 256, 268].map(ms));
}

#[test]
fn a_fault_that_stays_goes_on_counting_and_a_restart_counts_anew() {
    let warm_up = fault(0, None, Slowness::FirstSteps { factor: 3.0, steps: 4 });
    let slow = fault(0, None, Slowness::Slow { factor: 1.0 });
    let mut engine = Engine::new(config(64, 8, 512), 0);
    engine.set_pace(Pace::new([warm_up]));
    engine.submit(request(1, 16, 4), ms(0)).unwrap();
    drain(&mut engine);
    engine.set_pace(Pace::new([slow, warm_up]));
    let second = engine.submit(request(2, 16, 1), ms(100)).unwrap();
    assert_eq!(token_times(&mut engine)[&second], [ms(101)], "four steps were before the change");
    engine.reset();
    let third = engine.submit(request(3, 16, 1), ms(200)).unwrap();
    assert_eq!(token_times(&mut engine)[&third], [ms(203)]);
}

#[test]
fn the_tail_strikes_as_often_and_for_as_long_as_it_says() {
    let step = Coefficients { tail_chance: 0.001, tail_ms: [50.0, 200.0], ..Coefficients::default() };
    let mut random = fastrand::Rng::with_seed(3);
    let draws: Vec<_> = (0..200_000).map(|_| step.noisy(ms(10), &mut random)).collect();
    let tail: Vec<_> = draws.iter().filter(|&&time| time != ms(10)).collect();
    assert!((150..250).contains(&tail.len()), "{} of 200,000", tail.len());
    assert!(tail.iter().all(|&&time| (ms(60)..ms(210)).contains(&time)));
}

#[test]
fn noise_is_as_wide_as_sigma_and_right_in_the_middle() {
    let step = Coefficients { sigma: 0.03, ..Coefficients::default() };
    let mut random = fastrand::Rng::with_seed(4);
    let logs: Vec<f64> = (0..50_000).map(|_| (step.noisy(ms(10), &mut random).as_secs_f64() / 0.01).ln()).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let width = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / logs.len() as f64).sqrt();
    assert!(mean.abs() < 0.001 && (width - 0.03).abs() < 0.001, "mean {mean}, width {width}");
}
