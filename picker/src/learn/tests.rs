//! What the learners make of honest, changing and absurd samples.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::time::Time;

/// Repeatable noise in [-1, 1).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

/// Feeds prefills of an endpoint with these rates: one to three requests of 50 to 3,000 tokens, 5 % of noise.
fn feed(learner: &mut PrefillLearner, (a, b): (f64, f64), samples: usize, noise: &mut Noise) {
    for _ in 0..samples {
        let requests = (2.0 + noise.next() * 1.5).round();
        let tokens = (1525.0 + noise.next() * 1475.0) * requests;
        learner.observe((a * requests + b * tokens) * (1.0 + 0.05 * noise.next()), requests, tokens, 1.0);
    }
}

fn assert_near(actual: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((actual / expected - 1.0).abs() <= tolerance, "{what}: {actual}, expected {expected}");
}

#[test]
fn thirty_noisy_prefills_tell_both_rates_within_a_tenth() {
    for (a, b) in [(0.008, 20e-6), (0.020, 60e-6), (0.060, 285e-6)] {
        let (mut mean_a, mut mean_b) = (0.0, 0.0);
        for seed in 0..20 {
            let mut learner = PrefillLearner::new(Rates::default());
            feed(&mut learner, (a, b), 30, &mut Noise(seed));
            assert_near(learner.b(), b, 0.1, "b");
            // What a decision is made of: the time of a prompt of common size.
            assert_near(learner.a() + learner.b() * 1500.0, a + b * 1500.0, 0.1, "1500 tokens");
            mean_a += learner.a() / 20.0;
            mean_b += learner.b() / 20.0;
        }
        assert_near(mean_a, a, 0.1, "mean a");
        assert_near(mean_b, b, 0.1, "mean b");
    }
}

#[test]
fn an_endpoint_that_slows_by_a_fifth_is_noticed_within_sixty_prefills() {
    let mut noise = Noise(3);
    let mut learner = PrefillLearner::new(Rates::default());
    feed(&mut learner, (0.010, 50e-6), 200, &mut noise);
    let before = learner.a() + learner.b() * 1500.0;
    feed(&mut learner, (0.012, 60e-6), 60, &mut noise);
    let after = learner.a() + learner.b() * 1500.0;
    assert_near(after / before, 1.2, 0.05, "slowdown");
}

#[test]
fn before_the_first_sample_the_prior_holds() {
    let prior = Rates { a: 0.030, b: 1e-4, t0: 0.02, t1: 0.001 };
    let (prefill, decode) = (PrefillLearner::new(prior), DecodeLearner::new(prior));
    assert_near(prefill.a(), prior.a, 0.01, "a");
    assert_near(prefill.b(), prior.b, 0.01, "b");
    assert_near(decode.t0(), prior.t0, 0.01, "t0");
    assert_near(decode.t1(), prior.t1, 0.02, "t1");
    assert_eq!((prefill.samples(), decode.samples()), (0, 0));
}

#[test]
fn prefills_of_one_size_still_cost_more_when_longer() {
    let mut learner = PrefillLearner::new(Rates::default());
    for _ in 0..500 {
        learner.observe(0.050, 1.0, 1000.0, 1.0);
    }
    assert_near(learner.a() + learner.b() * 1000.0, 0.050, 0.01, "the size that was seen");
    assert!(learner.b() >= 0.19 * 0.050 / 1000.0, "b {}", learner.b());
}

#[test]
fn gaps_tell_the_cost_of_a_stream() {
    let mut learner = DecodeLearner::new(Rates::default());
    let mut noise = Noise(5);
    for _ in 0..200 {
        let streams = (16.5 + noise.next() * 15.0).round();
        learner.observe(streams, (0.012 + 0.0005 * streams) * (1.0 + 0.05 * noise.next()));
    }
    assert_near(learner.t0(), 0.012, 0.1, "t0");
    assert_near(learner.t1(), 0.0005, 0.1, "t1");
}

/// Decode samples of an endpoint with these rates: in each stretch every one of `streams` streams sees the same steps, and
/// stretches differ by 10 %.
fn stretches(learner: &mut DecodeLearner, (t0, t1): (f64, f64), count: usize, noise: &mut Noise) {
    for _ in 0..count {
        let streams = (16.5 + noise.next() * 15.0).round();
        let gap = (t0 + t1 * streams) * (1.0 + 0.1 * noise.next());
        for _ in 0..streams as usize {
            learner.observe(streams, gap);
        }
    }
}

#[test]
fn what_many_streams_saw_of_the_same_steps_counts_once() {
    let mut learner = DecodeLearner::new(Rates::default());
    stretches(&mut learner, (0.012, 0.0005), 60, &mut Noise(5));
    let gap = |learner: &DecodeLearner| learner.t0() + 30.0 * learner.t1();
    let before = gap(&learner);
    assert_near(before, 0.027, 0.05, "noise of stretches evens out");
    (0..30).for_each(|_| learner.observe(30.0, 3.0 * 0.027));
    assert!(gap(&learner) / before < 1.3, "30 samples of one slow stretch are one: {}", gap(&learner) / before);
}

/// A round of judging; returns the place of the kind of each, and all lines after it.
fn judge(kinds: &mut Kinds, fits: &[fit::Fit]) -> (Vec<Option<usize>>, Vec<(usize, fit::Line)>) {
    let places = fits.iter().map(|fit| kinds.judge(fit)).collect();
    kinds.turn_over();
    (places, kinds.lines().collect())
}

/// The samples of endpoints with these rates, after so many prefills each, of this much noise.
fn prefills(rates: &[(f64, f64)], samples: usize, share: f64, seed: u64) -> Vec<fit::Fit> {
    let mut noise = Noise(seed);
    let fits = rates.iter().map(|(a, b)| {
        let mut learner = PrefillLearner::new(Rates::default());
        for _ in 0..samples {
            let tokens = 1525.0 + noise.next() * 1475.0;
            learner.observe((a + b * tokens) * (1.0 + share * noise.next()), 1.0, tokens, 1.0);
        }
        *learner.fit()
    });
    fits.collect()
}

#[test]
fn endpoints_that_cannot_be_told_apart_share_one_line() {
    let mut strays = 0;
    for seed in 0..50 {
        let mut kinds = Kinds::default();
        let fits = prefills(&[(0.010, 50e-6); 16], 100, 0.3, seed);
        judge(&mut kinds, &fits);
        let (places, lines) = judge(&mut kinds, &fits);
        let at = |place: usize| places.iter().filter(|found| **found == Some(place)).count();
        let (largest, (a, b)) = lines.into_iter().max_by_key(|(place, _)| at(*place)).unwrap();
        assert_near(a + b * 1500.0, 0.085, 0.03, "the line of all is known better than that of one");
        strays += 16 - at(largest);
    }
    assert!(strays <= 16, "of 800 endpoints {strays} were taken for something else by chance");
}

#[test]
fn three_cards_are_three_kinds_whatever_their_order() {
    let cards = [(0.008, 20e-6), (0.020, 60e-6), (0.060, 285e-6)];
    let mut kinds = Kinds::default();
    let fits = prefills(&std::array::from_fn::<_, 12, _>(|number| cards[number % 3]), 60, 0.1, 1);
    judge(&mut kinds, &fits);
    let (places, lines) = judge(&mut kinds, &fits);
    assert_eq!(lines.len(), 3, "{lines:?}");
    for (number, place) in places.iter().enumerate() {
        assert_eq!(*place, places[number % 3], "{places:?}");
        let (_, (a, b)) = lines.iter().find(|(at, _)| Some(*at) == *place).unwrap();
        let (own_a, own_b) = cards[number % 3];
        assert_near(a + b * 1500.0, own_a + own_b * 1500.0, 0.05, "the line of its card");
    }
}

#[test]
fn one_that_is_a_fifth_slower_is_told_apart_and_one_that_is_no_more_returns() {
    let mut rates = [(0.010, 50e-6); 8];
    rates[3] = (0.012, 60e-6);
    let mut kinds = Kinds::default();
    let mut noise = Noise(2);
    let mut learners = [PrefillLearner::new(Rates::default()); 8];
    let mut after = |rates: [(f64, f64); 8]| {
        for (learner, rates) in learners.iter_mut().zip(rates) {
            feed(learner, rates, 60, &mut noise);
        }
        judge(&mut kinds, &learners.map(|learner| *learner.fit())).0
    };
    let places = after(rates);
    assert!(places.iter().enumerate().all(|(number, place)| (*place == places[0]) == (number != 3)), "{places:?}");
    let places = after([(0.010, 50e-6); 8]);
    let places = if places.iter().all(|place| *place == places[0]) { places } else { after([(0.010, 50e-6); 8]) };
    assert!(places.iter().all(|place| *place == places[0]), "{places:?}");
}

#[test]
fn of_two_endpoints_the_slower_is_told_apart_in_the_line_that_is_half_its_own() {
    let mut noticed = 0;
    for seed in 0..50 {
        let fits = prefills(&[(0.010, 50e-6), (0.012, 60e-6)], 100, 0.2, seed);
        let mut kinds = Kinds::default();
        // Believed to be of one kind, as they were before it slowed down.
        let same = prefills(&[(0.010, 50e-6); 2], 100, 0.2, seed);
        judge(&mut kinds, &same);
        judge(&mut kinds, &fits);
        let (places, _) = judge(&mut kinds, &fits);
        noticed += usize::from(places[0] != places[1]);
    }
    assert!(noticed >= 45, "a fifth slower, noticed in {noticed} of 50");
}

#[test]
fn chance_makes_no_more_strays_in_a_fleet_of_a_thousand() {
    let fits = prefills(&[(0.010, 50e-6); 1_000], 100, 0.3, 3);
    let mut kinds = Kinds::default();
    judge(&mut kinds, &fits);
    judge(&mut kinds, &fits);
    let (places, _) = judge(&mut kinds, &fits);
    let strays = places.iter().filter(|place| **place != places[0]).count();
    assert!(strays <= 3, "{strays} of 1,000");
}

#[test]
fn a_difference_that_is_certain_but_of_no_account_makes_no_kind() {
    let exact = |b: f64| {
        let mut learner = PrefillLearner::new(Rates::default());
        (0..500).for_each(|i| learner.observe(0.01 + b * f64::from(i), 1.0, f64::from(i), 1.0));
        *learner.fit()
    };
    let (places, _) = judge(&mut Kinds::default(), &[exact(50e-6), exact(51e-6), exact(70e-6)]);
    assert_eq!(places[0], places[1], "2 %");
    assert_ne!(places[0], places[2], "40 %");
}

#[test]
fn in_a_fleet_of_more_kinds_than_places_the_rest_stand_for_themselves() {
    let rates: Vec<_> = (0..12).map(|number| (0.004 * 2_f64.powi(number), 10e-6 * 2_f64.powi(number))).collect();
    let fits = prefills(&rates, 60, 0.1, 1);
    let mut kinds = Kinds::default();
    for _ in 0..3 {
        let (places, lines) = judge(&mut kinds, &fits);
        assert_eq!(places.iter().flatten().count(), MOST_KINDS, "{places:?}");
        assert_eq!(lines.len(), MOST_KINDS, "a place each");
    }
    let (_, lines) = judge(&mut kinds, &fits[..2]);
    assert_eq!(lines.len(), MOST_KINDS, "kept for a round more, for who was passed over");
    let (places, lines) = judge(&mut kinds, &fits[..2]);
    assert_eq!((lines.len(), places[0] == places[1]), (2, false), "places of kinds that are gone are free again");
}

#[test]
fn a_newcomer_is_of_a_kind_when_it_has_shown_something() {
    let cards = [(0.020, 60e-6), (0.008, 20e-6), (0.008, 20e-6)];
    let mut kinds = Kinds::default();
    let with = |samples: usize| {
        let mut fits = prefills(&cards, 60, 0.1, 1);
        fits.extend(prefills(&cards[..1], samples, 0.1, 2));
        fits
    };
    judge(&mut kinds, &with(0));
    let (places, lines) = judge(&mut kinds, &with(3));
    assert_eq!((places[3], lines.len()), (None, 2), "its prior is no evidence, neither of it nor of a kind");
    let (places, _) = judge(&mut kinds, &with(12));
    assert_eq!(places[3], places[0], "{places:?}");
}

#[test]
fn a_slow_first_token_shows_at_once_and_fades_within_a_minute() {
    let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
    let mut latency = PeakMean::default();
    assert_eq!(latency.seconds(at(5)), None, "nothing is known before the first");
    for i in 0..100 {
        latency.observe(0.1, at(i * 100));
    }
    assert_near(latency.seconds(at(9_900)).unwrap(), 0.1, 0.01, "steady");
    latency.observe(2.0, at(10_000));
    assert_near(latency.seconds(at(10_000)).unwrap(), 2.0, 1e-9, "a peak counts whole");
    for i in 1..=100 {
        latency.observe(0.1, at(10_000 + i * 100));
    }
    assert_near(
        latency.seconds(at(20_000)).unwrap(),
        0.1 + 1.9 / std::f64::consts::E,
        0.02,
        "a third of it is left after ten seconds",
    );
    assert!(latency.seconds(at(80_000)).unwrap() < 0.01, "an endpoint that nobody asks becomes attractive again");
}

#[test]
fn absurd_first_tokens_teach_nothing() {
    let mut latency = PeakMean::default();
    for seconds in [f64::NAN, f64::INFINITY, -1.0] {
        latency.observe(seconds, Time::from_nanos(1));
    }
    assert_eq!(latency.seconds(Time::from_nanos(2)), None);
    latency.observe(0.5, Time::from_nanos(5_000_000_000));
    latency.observe(0.25, Time::from_nanos(1));
    let seconds = latency.seconds(Time::from_nanos(1)).unwrap();
    assert_near(seconds, 0.5, 1e-9, "time that runs backwards");
}

#[test]
fn a_new_endpoint_starts_from_what_its_kind_has_learned() {
    let mut mean = ClassMean::default();
    assert_eq!(mean.mean(), Rates::default());
    mean.add(Rates { a: 9.0, b: 9.0, t0: 9.0, t1: 9.0 }, 3);
    assert_eq!(mean.mean(), Rates::default(), "three samples are no example");
    mean.add(Rates { a: 0.25, b: 0.5, t0: 1.0, t1: 2.0 }, 100);
    mean.add(Rates { a: 0.75, b: 1.5, t0: 3.0, t1: 6.0 }, 100);
    assert_eq!(mean.mean(), Rates { a: 0.5, b: 1.0, t0: 2.0, t1: 4.0 });
}

#[test]
fn answers_are_expected_as_long_as_that_tenant_gets_them_from_that_model() {
    let mut output = OutputMean::default();
    assert_near(output.expected(1, "m", None), 256.0, 1e-6, "nothing known");
    for _ in 0..100 {
        output.observe(1, "m", 1000);
        output.observe(2, "m", 10);
    }
    assert_near(output.expected(1, "m", None), 1000.0, 0.1, "tenant 1");
    assert!(output.expected(2, "m", None) < 60.0);
    let stranger = output.expected(3, "m", None);
    assert!((200.0..800.0).contains(&stranger), "someone new gets the mean over everyone, got {stranger}");
    assert_near(output.expected(1, "m", Some(16)), 16.0, 1e-6, "max_tokens");
}

#[test]
fn a_busy_pair_outlasts_strangers_in_the_table_of_answers() {
    let mut output = OutputMean::default();
    for stranger in 0..100_000_u64 {
        output.observe(stranger + 10, "m", 100);
        if stranger % 10 == 0 {
            output.observe(1, "busy", 2000);
        }
    }
    assert!(output.expected(1, "busy", None) > 1500.0);
}

#[test]
fn the_arrival_rate_follows_within_the_window() {
    let mut rate = ArrivalRate::default();
    let mut now = Time::from_nanos(1_000_000_000_000);
    assert!(rate.per_second(now).abs() < 1e-9);
    let mut run = |rate: &mut ArrivalRate, per_second: u64, seconds: u64| {
        for _ in 0..per_second * seconds {
            now = now + Duration::from_nanos(1_000_000_000 / per_second);
            rate.observe(now);
        }
        rate.per_second(now)
    };
    assert_near(run(&mut rate, 50, 2), 50.0, 0.1, "after two seconds");
    assert_near(run(&mut rate, 50, 30), 50.0, 0.05, "steady");
    assert_near(run(&mut rate, 200, 30), 200.0, 0.1, "after a rise");
    let idle = rate.per_second(now + Duration::from_secs(120));
    assert!(idle < 0.01, "two idle minutes must fade, still {idle}");
}

#[test]
fn a_lone_request_is_no_burst_and_a_clock_that_steps_back_no_panic() {
    let mut rate = ArrivalRate::default();
    rate.observe(Time::from_nanos(5_000_000_000));
    rate.observe(Time::from_nanos(4_000_000_000));
    let now = rate.per_second(Time::from_nanos(3_000_000_000));
    assert!(now <= 3.0, "{now}");
}

fn anything() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        0.0..1e4_f64,
        prop::sample::select(vec![0.0, 1e-300, 1e300, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE])
    ]
}

fn assert_sane(value: f64) -> Result<(), TestCaseError> {
    prop_assert!(value.is_finite() && value >= 0.0, "{}", value);
    Ok(())
}

/// Requests of others lie between ours, as many as there are of them to one of ours, by chance.
fn among_others(learner: &mut PrefillLearner, others: f64, ours: f64, noise: &mut Noise) {
    for _ in 0..400 {
        let between = (-others * (0.5 + 0.5 * noise.next()).max(1e-3).ln()).round();
        let gap = |requests: f64, tokens: f64| 0.010 * requests + 50e-6 * tokens;
        learner.observe(gap(1.0 + between, 800.0 * (1.0 + between)), 1.0, 800.0, ours);
    }
}

#[test]
fn prefills_of_others_in_the_gap_are_not_taken_for_slowness() {
    let truth = 0.010 + 50e-6 * 800.0;
    let mut learners = [PrefillLearner::new(Rates::default()); 2];
    among_others(&mut learners[0], 1.0, 1.0, &mut Noise(7));
    among_others(&mut learners[1], 1.0, 0.2, &mut Noise(7));
    let [naive, wary] = learners.map(|learner| (learner.a() + 800.0 * learner.b()) / truth);
    assert!(naive > 1.7, "without a word of the others their time counts as the endpoint's: {naive}");
    assert!(wary < 1.3, "with it the fast ones count: {wary}");
}

#[test]
fn a_slowdown_shows_among_others_too() {
    let mut learner = PrefillLearner::new(Rates::default());
    for seconds in [0.050, 0.100] {
        (0..400).for_each(|_| learner.observe(seconds, 1.0, 800.0, 0.25));
        let learned = learner.a() + 800.0 * learner.b();
        assert!((learned / seconds - 1.0).abs() < 0.05, "{learned} for {seconds}");
    }
}

proptest! {
    #[test]
    fn no_sample_makes_a_rate_negative_or_undefined(
        samples in prop::collection::vec((anything(), anything(), anything(), anything()), 0..60), repeats in 1_usize..200,
    ) {
        let mut prefill = PrefillLearner::new(Rates::default());
        let mut decode = DecodeLearner::new(Rates::default());
        let mut mean = RunningMean::new(1.0);
        let mut kinds = Kinds::default();
        for (x, y, z, w) in samples.iter().cycle().take(samples.len() * repeats) {
            prefill.observe(*x, *y, *z, *w);
            decode.observe(*x, *y);
            mean.observe(*x);
            for value in [prefill.a(), prefill.b(), decode.t0(), decode.t1(), mean.mean()] {
                assert_sane(value)?;
            }
            kinds.judge(prefill.fit());
            kinds.judge(decode.fit());
            kinds.turn_over();
            for (_, (p, q)) in kinds.lines() {
                assert_sane(p)?;
                assert_sane(q)?;
            }
        }
    }

    #[test]
    fn nothing_but_zeros_for_a_long_time_keeps_the_rates_defined(count in 1_usize..30_000) {
        let mut prefill = PrefillLearner::new(Rates::default());
        for _ in 0..count {
            prefill.observe(0.0, 1.0, 0.0, 1.0);
        }
        assert_sane(prefill.a())?;
        assert_sane(prefill.b())?;
        prop_assert!(prefill.b() > 0.0, "no token was seen, so nothing says that tokens are free");
    }

    #[test]
    fn a_mean_stays_between_its_values(values in prop::collection::vec(0.0..1e6_f64, 1..100)) {
        let mut mean = RunningMean::new(values[0]);
        for value in &values {
            mean.observe(*value);
        }
        let (least, most) = values.iter().fold((f64::MAX, 0.0_f64), |(least, most), v| (least.min(*v), most.max(*v)));
        prop_assert!(mean.mean() >= least - 1e-6 && mean.mean() <= most + 1e-6);
    }
}
