//! Prints a trace as a table, the same for the command line and over HTTP.

use std::fmt::{self, Write};

use crate::explain::{EndpointTrace, FactTrace, Trace};

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy {}", self.policy)?;
        if let Some(arm) = self.arm {
            write!(f, " (arm {})", arm.as_str())?;
        }
        write!(f, ", prompt {} tokens, output {} tokens", self.prompt_tokens, self.output_tokens)?;
        match &self.ring_key {
            Some(key) => writeln!(f, ", ring key {key}")?,
            None => writeln!(f, ", no ring key")?,
        }
        let mut table = vec![self.header()];
        table.extend(self.endpoints.iter().map(|endpoint| self.row(endpoint)));
        print(f, &table)?;
        match (&self.chosen, self.reason, self.none) {
            (Some(chosen), Some(reason), _) => {
                let affinity = self.affinity.map_or("none", |affinity| affinity.as_str());
                writeln!(f, "chosen: {chosen} (reason {}, affinity {affinity})", reason.as_str())
            }
            (_, _, Some(none)) => writeln!(f, "chosen: none, {none}"),
            _ => writeln!(f, "chosen: nothing was decided"),
        }
    }
}

impl Trace {
    fn header(&self) -> Vec<String> {
        let mut header = vec![String::new(), "endpoint".to_owned(), "removed by".to_owned()];
        header.extend(self.columns.iter().map(|column| match column.unit.as_str() {
            "score" => format!("{} x{}", column.name, number(column.weight)),
            unit => format!("{} [{unit}]", column.name),
        }));
        header.push(self.total_header());
        let fixed = [
            "ring",
            "load",
            "bound",
            "in flight",
            "prefill/decode",
            "tokens",
            "outside",
            "ahead [s]",
            "cached",
            "ttft [s]",
        ];
        header.extend(fixed.map(str::to_owned));
        let facts = self.endpoints.first().map(|endpoint| endpoint.facts.as_slice()).unwrap_or_default();
        header.extend(facts.iter().map(|fact| fact.name.to_owned()));
        header.push("facts age [s]".to_owned());
        header
    }

    /// The unit is shown where all terms share one.
    fn total_header(&self) -> String {
        if !self.lower_is_better {
            return "score".to_owned();
        }
        let mut units = self.columns.iter().map(|column| column.unit.as_str());
        match units.next() {
            Some(unit) if units.all(|other| other == unit) => format!("cost [{unit}]"),
            _ => "cost".to_owned(),
        }
    }

    fn row(&self, endpoint: &EndpointTrace) -> Vec<String> {
        let EndpointTrace {
            endpoint: id,
            chosen,
            removed_by,
            values,
            total,
            ring_position,
            bound,
            load,
            demoted,
            in_flight,
            outside,
            prefills,
            decodes,
            pending_seconds,
            outstanding_tokens,
            cached_tokens,
            predicted_ttft_seconds,
            facts,
        } = endpoint;
        let removed = match removed_by {
            Some(filter) => (*filter).to_owned(),
            None if *demoted => "(demoted)".to_owned(),
            None => "-".to_owned(),
        };
        let mut row = vec![if *chosen { "*" } else { "" }.to_owned(), id.to_string(), removed];
        row.extend((0..self.columns.len()).map(|column| optional(values.get(column).copied())));
        row.extend([
            optional(*total),
            ring_position.map_or_else(|| "-".to_owned(), |place| place.to_string()),
            number(*load),
            optional(*bound),
            in_flight.to_string(),
            format!("{prefills}/{decodes}"),
            outstanding_tokens.to_string(),
            number(*outside),
            number(*pending_seconds),
            format!("{cached_tokens:.0}"),
            number(*predicted_ttft_seconds),
        ]);
        row.extend(facts.iter().map(fact));
        row.push(optional(facts.first().and_then(|fact| fact.age_seconds)));
        row
    }
}

fn fact(fact: &FactTrace) -> String {
    match (fact.value, fact.unknown) {
        (Some(value), _) => number(value),
        (None, Some(why)) => format!("? {why}"),
        (None, None) => "?".to_owned(),
    }
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), number)
}

/// Whole numbers as such, others to four digits behind the point: a tenth of a millisecond.
fn number(value: f64) -> String {
    if !value.is_finite() {
        "inf".to_owned()
    } else if value.fract().abs() < 1e-9 && value.abs() < 1e9 {
        format!("{value:.0}")
    } else {
        format!("{value:.4}")
    }
}

/// Pads each column to its widest cell.
fn print(f: &mut fmt::Formatter<'_>, table: &[Vec<String>]) -> fmt::Result {
    let count = table.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count)
        .map(|i| table.iter().filter_map(|row| row.get(i)).map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect();
    for row in table {
        let mut line = String::new();
        for (cell, &width) in row.iter().zip(&widths) {
            write!(line, "{cell:width$}  ")?;
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}
