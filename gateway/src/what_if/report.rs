//! What a replay says: a column for what was recorded, one for what the model makes of it, one for each configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::endpoints::Modelled;
use super::fit::Fits;
use super::play::Played;
use super::work::{Asked, Work};

/// One way the requests were led.
#[derive(Clone, Debug, Serialize)]
pub struct Column {
    /// What is above it.
    pub name: String,
    /// Who decided.
    pub policy: Option<String>,
    /// Part of the prompt tokens that was cached, 0 to 1.
    pub hit_rate: Option<f64>,
    /// Part of the requests that each endpoint got, 0 to 1.
    pub shares: BTreeMap<Arc<str>, f64>,
    /// Time to first token, over the streams whose first token was recorded.
    pub ttft_seconds: Option<Quantiles>,
    /// Requests that got no endpoint, by code.
    pub refused: BTreeMap<String, usize>,
    /// Requests that failed otherwise; the model has no failures.
    pub failed: Option<usize>,
    /// Part of the requests that went where they had gone, 0 to 1.
    pub as_recorded: Option<f64>,
}

/// The value that half, 90, 95 and 99 % of values are not above.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// Half.
    pub p50: f64,
    /// 90 %.
    pub p90: f64,
    /// 95 %.
    pub p95: f64,
    /// 99 %.
    pub p99: f64,
}

/// How far the model is from what was measured, under the decisions that were made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ModelError {
    /// Streams compared.
    pub streams: usize,
    /// Predicted minus measured time to first token, without its sign, seconds.
    pub ttft_seconds: Quantiles,
    /// The same as part of what was measured.
    pub ttft_ratio: Quantiles,
    /// Mean of predicted minus measured, with its sign, seconds.
    pub ttft_bias_seconds: f64,
    /// Predicted minus measured part of tokens cached.
    pub hit_rate: Option<f64>,
}

/// All of one pool.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Its name in the trace.
    pub pool: Arc<str>,
    /// Requests played.
    pub requests: usize,
    /// Requests that were not, since endpoints answered them with an error or broke them off before any output.
    pub left_out: usize,
    /// From the first arrival to the last end.
    pub seconds: f64,
    /// Endpoints as they are modelled.
    pub endpoints: Vec<Speeds>,
    /// First tokens, or whole answers, that prefill was fitted to.
    pub fitted_prefills: usize,
    /// Streams that decoding was fitted to.
    pub fitted_streams: usize,
    /// How far the model can be trusted.
    pub model_error: Option<ModelError>,
    /// Recorded, modelled, and then one for each configuration.
    pub columns: Vec<Column>,
    /// What to know besides.
    pub notes: Vec<String>,
}

/// How one endpoint is modelled.
#[derive(Clone, Debug, Serialize)]
pub struct Speeds {
    endpoint: Arc<str>,
    prefill_seconds: f64,
    prefill_token_seconds: f64,
    prefill_stream_seconds: f64,
    step_seconds: f64,
    step_stream_seconds: f64,
    cache_tokens: Option<f64>,
}

impl Quantiles {
    /// By nearest rank; `None` of no values.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let rank = |part: f64| {
            let rank = (part * values.len() as f64).ceil() as usize;
            values.get(rank.max(1) - 1).copied()
        };
        Some(Self { p50: rank(0.50)?, p90: rank(0.90)?, p95: rank(0.95)?, p99: rank(0.99)? })
    }
}

impl Column {
    /// What was measured.
    pub fn recorded(work: &Work<'_>) -> Self {
        let usage = work.asked.iter().filter_map(|asked| {
            let request = &asked.recorded.request;
            Some((f64::from(request.cached?), f64::from(request.prompt?)))
        });
        let went = work.asked.iter().filter_map(|asked| asked.endpoint());
        let of = |asked: &Asked<'_>| {
            let request = &asked.recorded.request;
            request.endpoint.is_none().then(|| request.error.clone().unwrap_or_else(|| "no_endpoint".to_owned()))
        };
        let mut refused = BTreeMap::new();
        for code in work.asked.iter().filter_map(of) {
            *refused.entry(code).or_default() += 1;
        }
        let has_failed = |asked: &&Asked<'_>| asked.endpoint().is_some() && asked.recorded.request.error.is_some();
        Self {
            name: "recorded".to_owned(),
            policy: None,
            hit_rate: rate(usage),
            shares: shares(went.cloned(), &[]),
            ttft_seconds: Quantiles::of(work.asked.iter().filter_map(measured).collect()),
            refused,
            failed: Some(work.left_out + work.asked.iter().filter(has_failed).count()),
            as_recorded: None,
        }
    }

    /// What a run came to.
    pub fn played(
        name: String,
        policy: Option<String>,
        work: &Work<'_>,
        endpoints: &[Modelled],
        played: &Played,
    ) -> Self {
        let both = || work.asked.iter().zip(&played.outcomes);
        let cached = both().filter(|(_, outcome)| outcome.ttft.is_some());
        let streams = both().filter_map(|(asked, outcome)| measured(asked).and(outcome.ttft));
        let id = |number: usize| &endpoints[number].spec.id;
        let went = played.outcomes.iter().filter_map(|outcome| outcome.endpoint.map(|number| id(number).clone()));
        let had = both().filter(|(asked, _)| asked.endpoint().is_some());
        let same = had.clone().filter(|(asked, outcome)| outcome.endpoint.map(id) == asked.endpoint()).count();
        let ids: Vec<Arc<str>> = endpoints.iter().map(|one| Arc::clone(&one.spec.id)).collect();
        Self {
            name,
            policy,
            hit_rate: rate(cached.map(|(asked, outcome)| (outcome.cached, asked.tokens))),
            shares: shares(went, &ids),
            ttft_seconds: Quantiles::of(streams.collect()),
            refused: played.refused.iter().map(|(code, count)| ((*code).to_owned(), *count)).collect(),
            failed: None,
            as_recorded: Some(same as f64 / had.count().max(1) as f64),
        }
    }
}

impl ModelError {
    /// Compares what was measured with the run of the recorded decisions.
    pub fn of(work: &Work<'_>, recorded: &Column, modelled: &Column, played: &Played) -> Option<Self> {
        let both = work.asked.iter().zip(&played.outcomes);
        let pairs: Vec<(f64, f64)> =
            both.filter_map(|(asked, outcome)| Some((outcome.ttft?, measured(asked)?))).collect();
        let bias: f64 = pairs.iter().map(|(predicted, measured)| predicted - measured).sum();
        let off = |(predicted, measured): &(f64, f64)| (predicted - measured).abs();
        Some(Self {
            streams: pairs.len(),
            ttft_seconds: Quantiles::of(pairs.iter().map(off).collect())?,
            ttft_ratio: Quantiles::of(pairs.iter().map(|pair| off(pair) / pair.1.max(1e-6)).collect())?,
            ttft_bias_seconds: bias / pairs.len() as f64,
            hit_rate: modelled.hit_rate.zip(recorded.hit_rate).map(|(predicted, measured)| predicted - measured),
        })
    }
}

impl Report {
    /// A report without configurations yet.
    pub fn new(work: &Work<'_>, fits: &Fits, endpoints: &[Modelled], played: &Played) -> Self {
        let recorded = Column::recorded(work);
        let modelled = Column::played("modelled".to_owned(), None, work, endpoints, played);
        let speeds = |one: &Modelled| Speeds {
            endpoint: Arc::clone(&one.spec.id),
            prefill_seconds: one.speed.prefill,
            prefill_token_seconds: one.speed.prefill_token,
            prefill_stream_seconds: one.speed.prefill_stream,
            step_seconds: one.speed.step,
            step_stream_seconds: one.speed.step_stream,
            cache_tokens: one.cache_tokens,
        };
        Self {
            pool: Arc::clone(&work.pool),
            requests: work.asked.len(),
            left_out: work.left_out,
            seconds: work.seconds(),
            endpoints: endpoints.iter().map(speeds).collect(),
            fitted_prefills: fits.prefills,
            fitted_streams: fits.streams,
            model_error: ModelError::of(work, &recorded, &modelled, played),
            columns: vec![recorded, modelled],
            notes: Vec::new(),
        }
    }
}

/// The time to first token that was measured, seconds.
fn measured(asked: &Asked<'_>) -> Option<f64> {
    asked.recorded.request.ttft.map(|micros| micros as f64 * 1e-6)
}

fn rate(of: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let (part, all) = of.fold((0.0, 0.0), |(part, all), (one, of)| (part + one, all + of));
    (all > 0.0).then_some(part / all)
}

/// Part of the requests by endpoint; those of `all` that got none have 0.
fn shares(went: impl Iterator<Item = Arc<str>>, all: &[Arc<str>]) -> BTreeMap<Arc<str>, f64> {
    let mut shares: BTreeMap<Arc<str>, f64> = all.iter().map(|id| (Arc::clone(id), 0.0)).collect();
    for id in went {
        *shares.entry(id).or_default() += 1.0;
    }
    let total: f64 = shares.values().sum();
    for count in shares.values_mut() {
        *count /= total.max(1.0);
    }
    shares
}

fn percent(part: Option<f64>) -> String {
    part.map_or("-".to_owned(), |part| format!("{:.1} %", part * 100.0))
}

fn time(seconds: f64) -> String {
    match seconds.abs() {
        below if below < 0.01 => format!("{:.2} ms", seconds * 1e3),
        below if below < 1.0 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{seconds:.2} s"),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "pool {}: {} requests in {:.1} s over {} endpoints\n",
            self.pool.escape_debug(),
            self.requests,
            self.seconds,
            self.endpoints.len()
        )?;
        table(out, &self.columns)?;
        writeln!(out)?;
        self.model(out)?;
        for note in &self.notes {
            writeln!(out, "- {note}")?;
        }
        Ok(())
    }
}

impl Report {
    fn model(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.model_error {
            None => writeln!(out, "model error: unknown, no first token was recorded")?,
            Some(error) => {
                writeln!(
                    out,
                    "model error: TTFT of half the {} streams is off by {} ({}) or less, of nine in ten by {} ({}) or less, \
                     in the mean by {}{}",
                    error.streams,
                    time(error.ttft_seconds.p50),
                    percent(Some(error.ttft_ratio.p50)),
                    time(error.ttft_seconds.p90),
                    percent(Some(error.ttft_ratio.p90)),
                    if error.ttft_bias_seconds > 0.0 { "+" } else { "" },
                    time(error.ttft_bias_seconds),
                )?;
                if let Some(hit_rate) = error.hit_rate {
                    writeln!(out, "             the hit rate by {:+.1} points", hit_rate * 100.0)?;
                }
            }
        }
        writeln!(
            out,
            "             (`modelled` is the recorded decisions played by the model: compare with that column)"
        )
    }
}

/// A line of the table, by column.
type Cell = Box<dyn Fn(&Column) -> String>;

/// The columns, one line for each thing that is known of them.
fn table(out: &mut fmt::Formatter<'_>, columns: &[Column]) -> fmt::Result {
    let ttft = |pick: fn(&Quantiles) -> f64| {
        move |column: &Column| column.ttft_seconds.as_ref().map_or("-".to_owned(), |all| time(pick(all)))
    };
    let share =
        |pick: fn(f64, f64) -> f64| move |column: &Column| percent(column.shares.values().copied().reduce(pick));
    let count = |count: Option<usize>| count.map_or("-".to_owned(), |count| count.to_string());
    let rows: Vec<(&str, Cell)> = vec![
        ("", Box::new(|column| column.name.clone())),
        ("policy", Box::new(|column| column.policy.clone().unwrap_or_else(|| "-".to_owned()))),
        ("hit rate", Box::new(|column| percent(column.hit_rate))),
        ("share, least", Box::new(share(f64::min))),
        ("share, most", Box::new(share(f64::max))),
        ("TTFT P50", Box::new(ttft(|all| all.p50))),
        ("TTFT P90", Box::new(ttft(|all| all.p90))),
        ("TTFT P95", Box::new(ttft(|all| all.p95))),
        ("TTFT P99", Box::new(ttft(|all| all.p99))),
        ("refused", Box::new(|column| column.refused.values().sum::<usize>().to_string())),
        ("failed", Box::new(move |column| count(column.failed))),
        ("as recorded", Box::new(|column| percent(column.as_recorded))),
    ];
    let cells: Vec<Vec<String>> = rows.iter().map(|(_, cell)| columns.iter().map(cell).collect()).collect();
    let width = |index: usize| cells.iter().map(|row| row[index].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    for ((name, _), row) in rows.iter().zip(&cells) {
        write!(out, "{name:<12}")?;
        for (cell, width) in row.iter().zip(&widths) {
            write!(out, "  {cell:>width$}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}
