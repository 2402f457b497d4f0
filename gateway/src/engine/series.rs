//! The series of one meaning, put together to a number per engine.
//!
//! SGLang exposes what one engine says several times over: once per rank of its process group, where all say the same,
//! and once per priority of requests, with a total beside them. Neither may be counted twice.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::page::Sample;

/// Rank within the data parallelism of a server: the one rank that tells engines apart.
const DATA_PARALLEL_RANK: &[u8] = b"dp_rank";

/// One series.
#[derive(Clone, Copy, Debug)]
pub(super) struct Series {
    /// Which engine says it.
    engine: u64,
    /// Which of the engine's processes says it.
    rank: u64,
    /// Whether it is of the requests of one priority only.
    is_part: bool,
    value: f64,
}

impl Series {
    /// A series that is all that its engine says.
    pub(super) fn whole(engine: usize, value: f64) -> Self {
        Self { engine: engine as u64, rank: 0, is_part: false, value }
    }

    /// A series that is one of several views of an engine: labels that are neither a rank nor the priority tell engines
    /// apart.
    pub(super) fn view(sample: &Sample<'_>, value: f64) -> Self {
        let mut series = Self { engine: 0, rank: 0, is_part: false, value };
        for (name, label) in sample.labels() {
            // Added up, so that the order of labels does not matter.
            let hash = xxh3_64_with_seed(label, xxh3_64(name));
            if name == b"priority" {
                series.is_part = !label.is_empty();
            } else if name.ends_with(b"_rank") && name != DATA_PARALLEL_RANK {
                series.rank = series.rank.wrapping_add(hash);
            } else {
                series.engine = series.engine.wrapping_add(hash);
            }
        }
        series
    }
}

/// Returns the number of each engine, in no order. It is not finite where an engine does not know it.
pub(super) fn per_engine(mut series: Vec<Series>) -> impl Iterator<Item = f64> {
    series.sort_unstable_by(|one, other| {
        (one.engine, one.rank, one.is_part)
            .cmp(&(other.engine, other.rank, other.is_part))
            .then(one.value.total_cmp(&other.value))
    });
    let mut numbers = Vec::new();
    for engine in series.chunk_by(|one, other| one.engine == other.engine) {
        let ranks = engine.chunk_by(|one, other| one.rank == other.rank).map(of_rank);
        numbers.push(ranks.fold(f64::NAN, f64::max));
    }
    numbers.into_iter()
}

/// The total where there is one, else the sum of the parts.
fn of_rank(series: &[Series]) -> f64 {
    let totals = series.iter().filter(|series| !series.is_part).map(|series| series.value);
    let parts = series.iter().map(|series| series.value);
    totals.reduce(f64::max).unwrap_or_else(|| parts.sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::page;

    fn numbers(page: &str) -> Vec<f64> {
        let page = page::parse(page.as_bytes()).unwrap();
        let series = page.samples().map(|sample| Series::view(&sample, sample.value().unwrap_or(f64::NAN)));
        let mut numbers: Vec<f64> = per_engine(series.collect()).collect();
        numbers.sort_by(f64::total_cmp);
        numbers
    }

    #[test]
    fn ranks_of_one_engine_say_the_same() {
        let page = "q{model_name=\"m\",tp_rank=\"0\",pp_rank=\"0\",moe_ep_rank=\"0\"} 7\n\
                    q{model_name=\"m\",tp_rank=\"1\",pp_rank=\"0\",moe_ep_rank=\"1\"} 7\n\
                    q{tp_rank=\"2\",pp_rank=\"1\",moe_ep_rank=\"0\",model_name=\"m\"} 6\n";
        assert_eq!(numbers(page), [7.0]);
    }

    #[test]
    fn engines_are_told_apart_by_all_other_labels() {
        let page = "q{dp_rank=\"0\",tp_rank=\"0\"} 1\nq{dp_rank=\"0\",tp_rank=\"1\"} 1\nq{tp_rank=\"0\",dp_rank=\"1\"} 2\n\
                    q{worker=\"x\"} 4\nq{worker=\"y\"} 8\nq 16\n";
        assert_eq!(numbers(page), [1.0, 2.0, 4.0, 8.0, 16.0]);
        assert_eq!(numbers("q{a=\"b\",c=\"d\"} 1\nq{a=\"d\",c=\"b\"} 2\n"), [1.0, 2.0], "values are not exchanged");
    }

    #[test]
    fn priorities_add_up_only_without_their_total() {
        let parts = "q{priority=\"1\",tp_rank=\"0\"} 3\nq{priority=\"9\",tp_rank=\"0\"} 4\n";
        assert_eq!(numbers(parts), [7.0]);
        let total = "q{priority=\"\",tp_rank=\"0\"} 8\n";
        assert_eq!(numbers(&format!("{parts}{total}")), [8.0]);
        assert_eq!(numbers(&format!("{total}{parts}")), [8.0]);
        let second = parts.replace("tp_rank=\"0\"", "tp_rank=\"1\"");
        assert_eq!(numbers(&format!("{parts}{second}")), [7.0], "the other rank has them again");
    }

    #[test]
    fn what_one_rank_does_not_know_another_may() {
        assert_eq!(numbers("q{tp_rank=\"0\"} NaN\nq{tp_rank=\"1\"} 5\n"), [5.0]);
        assert!(numbers("# a page\nq{tp_rank=\"0\"} NaN\n")[0].is_nan());
    }
}
