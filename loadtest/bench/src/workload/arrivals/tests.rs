//! Rates and gaps are those asked for, and what no run can play is refused.

use super::*;

const HOUR: Duration = Duration::from_secs(3_600);

fn times(arrivals: &Arrivals) -> Vec<f64> {
    let times = arrivals.times(HOUR, &mut Random::new(7, "arrivals"));
    assert!(times.is_sorted() && times.last().is_none_or(|last| *last < HOUR), "in order, and inside the run");
    times.into_iter().map(|at| at.as_secs_f64()).collect()
}

fn gap_cv(times: &[f64]) -> f64 {
    let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    variance.sqrt() / mean
}

#[test]
fn every_process_keeps_its_rate() {
    for arrivals in [
        Arrivals::Even(10.0),
        Arrivals::Poisson(10.0),
        Arrivals::Gamma { rate: 10.0, cv: 3.0 },
        Arrivals::Weibull { rate: 10.0, shape: 0.6 },
        Arrivals::OnOff { rate: 10.0, ratio: 6.0, on: 8.0, off: 24.0 },
        Arrivals::Square { burst: 25.0, base: 5.0, on: 5.0, every: 20.0 },
        Arrivals::Diurnal { rate: 10.0, swing: 0.6, period: 600.0 },
    ] {
        let rate = times(&arrivals).len() as f64 / 3_600.0;
        assert!((rate - 10.0).abs() < 0.7, "{arrivals:?} came at {rate} per second");
    }
}

#[test]
fn gaps_vary_as_asked() {
    let cv = |arrivals| gap_cv(&times(&arrivals));
    assert!(cv(Arrivals::Even(10.0)) < 1e-6);
    assert!((cv(Arrivals::Poisson(10.0)) - 1.0).abs() < 0.03);
    assert!((cv(Arrivals::Gamma { rate: 10.0, cv: 3.0 }) / 3.0 - 1.0).abs() < 0.08);
    assert!(cv(Arrivals::OnOff { rate: 10.0, ratio: 20.0, on: 4.0, off: 36.0 }) > 1.5);
}

#[test]
fn bursts_stand_where_they_should() {
    let times = times(&Arrivals::Square { burst: 5.0, base: 1.5, on: 5.0, every: 20.0 });
    let inside = times.iter().filter(|at| **at % 20.0 < 5.0).count() as f64;
    let share = inside / times.len() as f64;
    assert!((share - 25.0 / 47.5).abs() < 0.02, "{share}");
}

#[test]
fn users_of_a_closed_loop_do_not_begin_at_once() {
    let arrivals = Arrivals::Closed { users: 4, think: Amount::Fixed(8.0), requests: 10 };
    assert_eq!(times(&arrivals), [0.0, 0.25, 0.5, 0.75]);
}

#[test]
fn arrivals_outside_their_limits_are_refused_with_their_key() {
    for (text, said) in [
        ("even: 0", "even: must be 0.000001 to 1,000,000"),
        ("poisson: 1e300", "poisson: must be"),
        ("poisson: .nan", "poisson: must be"),
        ("gamma: {rate: 1, cv: 1e9}", "gamma.cv: must be"),
        ("gamma: {rate: 1, cv: 0}", "gamma.cv: must be"),
        ("weibull: {rate: 1, shape: 1e-9}", "weibull.shape: must be"),
        ("on_off: {rate: 1, ratio: .inf, on: 1, off: 1}", "on_off.ratio: must be"),
        ("on_off: {rate: 1, ratio: 1, on: 1e-300, off: 1}", "on_off.on: must be"),
        ("on_off: {rate: 1, ratio: 1, on: 1, off: 1e300}", "on_off.off: must be"),
        ("on_off: {rate: 900000, ratio: 1000, on: 1, off: 9}", "on_off.rate while on, "),
        ("square: {burst: 1, base: 0, on: 1, every: 2}", "square.base: must be"),
        ("square: {burst: 1, base: 1, on: 2, every: 2}", "square.on: 2 must be less than every, 2"),
        ("square: {burst: 1, base: 1, on: 1e-9, every: 1e-8}", "square.every: must be"),
        ("diurnal: {rate: 1, swing: 1.5, period: 60}", "diurnal.swing: must be"),
        ("diurnal: {rate: 1, swing: 0.5, period: 0}", "diurnal.period: must be"),
        ("closed: {users: 0, think: {fixed: 1}, requests: 1}", "closed.users: must be"),
        ("closed: {users: 1, think: {fixed: -1}, requests: 1}", "closed.think.fixed: must be"),
        ("closed: {users: 1, think: {fixed: 1}, requests: 0}", "closed.requests: must be"),
    ] {
        let document = serde_yaml::Deserializer::from_str(text);
        let arrivals: Arrivals = serde_yaml::with::singleton_map_recursive::deserialize(document).unwrap();
        let mut problems = Problems::default();
        arrivals.check(&mut problems);
        let found = problems.lines().join("; ");
        assert!(found.contains(said), "{text}: {found:?}");
    }
}

#[test]
fn requests_of_a_run_are_counted_before_it() {
    assert!((Arrivals::Poisson(10.0).requests(60.0, 4.0) - 2_400.0).abs() < 1e-9);
    let closed = Arrivals::Closed { users: 20, think: Amount::Fixed(0.0), requests: 400 };
    assert!((closed.requests(60.0, 1.0) - 8_000.0).abs() < 1e-9, "whatever the length of the run");
}

#[test]
fn the_gamma_function_meets_factorials() {
    for (x, expected) in [(1.0, 1.0), (2.0, 1.0), (3.0, 2.0), (5.0, 24.0), (2.5, 1.329_340_388)] {
        assert!((gamma_function(x) / expected - 1.0).abs() < 1e-8, "{x}");
    }
}
