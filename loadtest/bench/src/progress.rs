//! How far the runs are: a bar on a terminal; elsewhere, such as in a log, a line for each hundredth of them.

use anyhow::Result;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

/// Runs that are over, on standard error.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Of so many runs, none of which is over.
    pub fn new(runs: u64) -> Result<Self> {
        let bar = ProgressBar::new(runs);
        let style = "{bar:40} {pos}/{len} runs, {elapsed} gone, {eta} to go  {msg}";
        bar.set_style(ProgressStyle::with_template(style)?);
        Ok(Self { bar })
    }

    /// One more run is over, this one.
    pub fn over(&self, run: String) {
        self.bar.inc(1);
        if !self.bar.is_hidden() {
            self.bar.set_message(run);
        } else if let Some(line) = line(self.bar.position(), self.bar.length().unwrap_or_default()) {
            eprintln!("{line}, {} gone, last {run}", HumanDuration(self.bar.elapsed()));
        }
    }

    /// All of them are over.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// What a log is told when so many of so many runs are over, if a hundredth of them was completed by the last.
fn line(over: u64, of: u64) -> Option<String> {
    let hundredths = |runs: u64| (runs * 100).checked_div(of).unwrap_or_default();
    (over > 0 && hundredths(over) > hundredths(over - 1)).then(|| format!("{over}/{of} runs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_a_line_for_each_hundredth_and_one_for_the_last_run() {
        for runs in [1, 7, 100, 1_501] {
            let lines: Vec<_> = (1..=runs).filter_map(|over| line(over, runs)).collect();
            assert_eq!(lines.len() as u64, runs.min(100), "{runs}");
            assert_eq!(lines.last(), Some(&format!("{runs}/{runs} runs")));
        }
        assert_eq!(line(0, 0), None, "nothing to play");
    }
}
