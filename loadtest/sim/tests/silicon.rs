//! The step model beside measured devices: inter-token times of closed loops, published with aiconfigurator-core.
//!
//! `validation/README.md` has the figures below with what they mean. They are held closely however large they are: the
//! error of a preset beside a framework that it was not made for is known too, and must not change unnoticed.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use spillway_sim::engine::{Coefficients, Config, Engine, Preset, Request, Speed, What};

/// Percentage points by which median error and mean absolute error may differ from what is said of them.
const POINTS: f64 = 0.5;

/// By how much less a rank correlation may be.
const RANK: f64 = 0.005;

/// The runs of one preset, and how far the model is from them without and with host overhead.
struct Group {
    preset: &'static str,
    framework: &'static str,
    device: &'static str,
    bare: Distance,
    hosted: Distance,
}

/// How far simulated times are from measured ones.
#[derive(Clone, Copy)]
struct Distance {
    /// Median error, percent.
    median: f64,
    /// Mean absolute error, percent.
    mape: f64,
    /// Spearman's rank correlation.
    rank: f64,
}

/// One measured run.
struct Row {
    prompt: usize,
    output: u32,
    clients: usize,
    /// Mean time per output token after the first, ms.
    tpot_ms: f64,
}

const fn group(
    preset: &'static str,
    [framework, device]: [&'static str; 2],
    bare: [f64; 3],
    hosted: [f64; 3],
) -> Group {
    const fn distance([median, mape, rank]: [f64; 3]) -> Distance {
        Distance { median, mape, rank }
    }
    Group { preset, framework, device, bare: distance(bare), hosted: distance(hosted) }
}

const GROUPS: [Group; 10] = [
    group("32b-h100-tp2", ["vllm", "h100"], [-12.9, 14.0, 0.986], [-1.1, 4.5, 0.982]),
    group("32b-h100-tp4", ["vllm", "h100"], [-19.6, 20.6, 0.988], [-2.4, 5.3, 0.983]),
    group("32b-h100-tp8", ["vllm", "h100"], [-24.8, 24.9, 0.983], [-1.4, 6.7, 0.985]),
    group("70b-fp8-h100-tp2", ["vllm", "h100"], [-9.9, 10.9, 0.993], [1.7, 5.5, 0.996]),
    group("70b-fp8-h100-tp4", ["vllm", "h100"], [-15.2, 16.3, 0.979], [-2.8, 4.1, 0.993]),
    group("70b-fp8-h100-tp8", ["vllm", "h100"], [-19.8, 19.1, 0.996], [-0.4, 4.6, 0.986]),
    group("8b-h100", ["trtllm", "h100"], [-7.8, 8.5, 0.993], [-4.9, 5.6, 0.993]),
    group("235b-h100-tp8", ["trtllm", "h100"], [60.5, 57.5, 0.975], [62.9, 60.1, 0.990]),
    group("235b-h100-tp4", ["trtllm", "h100"], [52.4, 55.2, 0.993], [54.6, 57.5, 0.993]),
    group("235b-h100-tp4", ["vllm", "h200"], [8.5, 9.1, 0.741], [14.1, 14.9, 0.699]),
];

impl Group {
    fn rows(&self) -> Vec<Row> {
        let mut lines = include_str!("../validation/silicon.csv").lines().filter(|line| !line.starts_with('#'));
        assert_eq!(lines.next(), Some("preset,framework,device,isl,osl,concurrency,tpot_ms"));
        let fields = lines.map(|line| line.split(',').collect::<Vec<_>>());
        let own = fields.filter(|fields| fields[..3] == [self.preset, self.framework, self.device]);
        own.map(|fields| Row {
            prompt: fields[3].parse().unwrap(),
            output: fields[4].parse().unwrap(),
            clients: fields[5].parse().unwrap(),
            tpot_ms: fields[6].parse().unwrap(),
        })
        .collect()
    }

    fn config(&self) -> Config {
        Preset::from_name(self.preset).unwrap().config()
    }

    /// The preset's step without noise and without host overhead.
    fn bare(&self) -> Coefficients {
        Coefficients { host_ms: 0.0, host_us: 0.0, ..self.hosted() }
    }

    /// The preset's step without noise, with the host overhead of the framework; the preset's own is vLLM's.
    fn hosted(&self) -> Coefficients {
        let Speed::Steps(step) = self.config().speed else { panic!("{} has no steps", self.preset) };
        let (host_ms, host_us) = if self.framework == "trtllm" { (0.25, 7.0) } else { (step.host_ms, step.host_us) };
        Coefficients { host_ms, host_us, sigma: 0.0, tail_chance: 0.0, ..step }
    }

    fn distance(&self, step: Coefficients, rows: &[Row]) -> Distance {
        // All prompts are the same one, and none shall be found in the cache.
        let config = Config { speed: Speed::Steps(step), prefix_caching: false, ..self.config() };
        let simulated: Vec<_> = rows.iter().map(|row| closed_loop(config.clone(), row)).collect();
        Distance::new(&simulated, &rows.iter().map(|row| row.tpot_ms).collect::<Vec<_>>())
    }
}

/// Mean time per output token, ms. Each client asks anew as soon as it has its answer. The first answers, as many as
/// there are clients, do not count; as many after them do.
fn closed_loop(config: Config, row: &Row) -> f64 {
    let clients = row.clients as u64;
    let request = Request { prompt: vec![0; row.prompt], max_tokens: row.output, ..Request::default() };
    let ask = |engine: &mut Engine, now| {
        engine.submit(request.clone(), now).unwrap();
    };
    let mut engine = Engine::new(config, 0);
    let (mut now, mut events, mut warm) = (Duration::ZERO, Vec::new(), None);
    (0..clients).for_each(|_| ask(&mut engine, now));
    loop {
        let next = engine.advance(now, &mut events);
        let finished = events.drain(..).filter(|event| matches!(event.what, What::Finished(_)));
        finished.for_each(|_| ask(&mut engine, now));
        let (sum, count) = {
            let times = &engine.stats().time_per_output_token;
            (times.sum(), times.count())
        };
        if count >= clients {
            let (sum_before, count_before) = *warm.get_or_insert((sum, count));
            if count >= count_before + clients {
                return (sum - sum_before) / (count - count_before) as f64 * 1e3;
            }
        }
        now = next.unwrap_or(now);
    }
}

impl Distance {
    fn new(simulated: &[f64], measured: &[f64]) -> Self {
        let mut errors: Vec<_> = simulated.iter().zip(measured).map(|(got, real)| (got / real - 1.0) * 100.0).collect();
        errors.sort_by(f64::total_cmp);
        let middle = |values: &[f64]| f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
        Self {
            median: middle(&errors),
            mape: errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len() as f64,
            rank: correlation(&ranks(simulated), &ranks(measured)),
        }
    }

    fn is_as(&self, said: &Self) -> bool {
        self.has_errors_of(said) && self.rank >= said.rank - RANK
    }

    fn has_errors_of(&self, said: &Self) -> bool {
        (self.median - said.median).abs() <= POINTS && (self.mape - said.mape).abs() <= POINTS
    }
}

impl Display for Distance {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        write!(to, "{:+.1} % | {:.1} % | {:.3}", self.median, self.mape, self.rank)
    }
}

/// Place of each value in their order; equal ones share the mean of their places.
fn ranks(values: &[f64]) -> Vec<f64> {
    let place = |value: &f64| {
        let below = values.iter().filter(|other| other.total_cmp(value).is_lt()).count();
        let equal = values.iter().filter(|other| other.total_cmp(value).is_eq()).count();
        below as f64 + (equal - 1) as f64 / 2.0
    };
    values.iter().map(place).collect()
}

/// Pearson's, of two lists of places.
fn correlation(left: &[f64], right: &[f64]) -> f64 {
    // Both have the places 0 to n - 1, whose mean is this.
    let mean = (left.len() - 1) as f64 / 2.0;
    let product = |from: &[f64], to: &[f64]| from.iter().zip(to).map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>();
    product(left, right) / (product(left, left) * product(right, right)).sqrt()
}

#[test]
fn every_group_is_as_far_from_silicon_as_it_is_said_to_be() {
    let mut wrong = Vec::new();
    for group in &GROUPS {
        let rows = &group.rows();
        let [bare, hosted] = std::thread::scope(|scope| {
            [group.bare(), group.hosted()]
                .map(|step| scope.spawn(move || group.distance(step, rows)))
                .map(|arm| arm.join().unwrap())
        });
        let Group { preset, framework, device, .. } = group;
        println!("| `{preset}` | {framework} | {device} | {} | {bare} | {hosted} |", rows.len());
        if !bare.is_as(&group.bare) || !hosted.is_as(&group.hosted) {
            wrong.push(format!(
                "{preset}, {framework}: {bare} | {hosted} but said to be {} | {}",
                group.bare, group.hosted
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn neither_a_doubled_coefficient_nor_a_plain_sum_passes() {
    let group = GROUPS.iter().find(|group| group.preset == "8b-h100").unwrap();
    let rows: Vec<_> = group.rows().into_iter().filter(|row| row.output == 128).collect();
    let step = group.bare();
    let right = group.distance(step, &rows);
    let wrong = [
        ("a plain sum", Coefficients { fixed_ms: step.fixed_ms + step.weights_ms, weights_ms: 0.0, ..step }),
        ("weights_ms", Coefficients { weights_ms: 2.0 * step.weights_ms, ..step }),
        ("compute_us", Coefficients { compute_us: 2.0 * step.compute_us, ..step }),
        ("fixed_ms", Coefficients { fixed_ms: 2.0 * step.fixed_ms, ..step }),
        ("attention_ns", Coefficients { attention_ns: 2.0 * step.attention_ns, ..step }),
        ("decode_us", Coefficients { decode_us: 2.0 * step.decode_us, ..step }),
        ("kv_ns", Coefficients { kv_ns: 2.0 * step.kv_ns, ..step }),
    ];
    for (name, step) in wrong {
        let got = group.distance(step, &rows);
        assert!(!got.has_errors_of(&right), "{name}: {got}, as with the right step: {right}");
    }
}
