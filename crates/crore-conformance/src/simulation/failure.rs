//! A failed run, in readable form.

use std::collections::BTreeSet;
use std::fmt;

use crore_testkit::history::History;

use super::config::SimConfig;

/// A run with violations.
#[derive(Debug, Clone)]
pub struct SimFailure {
    /// The configuration of the run.
    pub config: SimConfig,
    /// The command that repeats it.
    pub repeat_command: String,
    /// Violated invariants, as text.
    pub violations: Vec<String>,
    /// All lines of the trace.
    pub trace: Vec<String>,
    /// All calls and responses.
    pub history: History,
}

/// Maximum printed violations of a run; the others mostly follow from these.
const VIOLATIONS: usize = 3;
/// Maximum printed lines of the trace.
const LINES: usize = 60;
/// Maximum printed width of a line.
const WIDTH: usize = 260;

impl SimFailure {
    /// The class of the failure: the invariant that was violated first or, if the first violation names none, its
    /// message without numbers. A shrunk run has the same class.
    pub fn class(&self) -> String {
        let first = self.violations.first().map(String::as_str).unwrap_or_default();
        let class = first.split_once(':').map_or(first, |(class, _)| class);
        if class.starts_with('I') {
            return class.to_owned();
        }
        class.chars().filter(|c| c.is_alphabetic() || *c == ' ').collect()
    }

    /// The relevant lines of the trace: all of them if there are few, otherwise those about the jobs of the
    /// violations and the lifecycle of the store.
    fn relevant_lines(&self) -> Vec<&str> {
        let lines: Vec<&str> = self.trace.iter().map(String::as_str).collect();
        if lines.len() <= LINES {
            return lines;
        }
        let jobs: BTreeSet<u64> = self.violations.iter().flat_map(|text| jobs_in(text)).collect();
        let is_relevant = |line: &&str| {
            let lifecycle = ["fault:", "ends:", "store: opened", "WRONG"];
            lifecycle.iter().any(|word| line.contains(word))
                || jobs_in(line).any(|id| jobs.contains(&id))
        };
        let relevant: Vec<&str> = lines.into_iter().filter(is_relevant).collect();
        relevant.get(relevant.len().saturating_sub(LINES)..).unwrap_or_default().to_vec()
    }
}

/// The jobs that a text names, as `#7` or as `job 7`.
fn jobs_in(text: &str) -> impl Iterator<Item = u64> + '_ {
    let after = |mark: &'static str| text.split(mark).skip(1).filter_map(leading_number);
    after("#").chain(after("job "))
}

fn leading_number(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.get(..digits)?.parse().ok()
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{} …", line.get(..end).unwrap_or(line)),
        None => line.to_owned(),
    }
}

impl fmt::Display for SimFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SimConfig { seed, steps, last_step, skip, .. } = &self.config;
        let performed = *last_step as usize - skip.range(..=last_step).count();
        writeln!(f, "seed {seed} fails; to repeat: {}", self.repeat_command)?;
        writeln!(f, "{performed} of {steps} steps reproduce it, with {}", self.config.summary())?;
        let lines = self.relevant_lines();
        writeln!(f, "{} of {} lines (step, milliseconds, caller):", lines.len(), self.trace.len())?;
        lines.into_iter().try_for_each(|line| writeln!(f, "  {}", cut(line)))?;
        writeln!(f, "violations:")?;
        let mut shown = self.violations.iter().take(VIOLATIONS).flat_map(|text| text.lines());
        shown.try_for_each(|line| writeln!(f, "  {}", cut(line)))?;
        match self.violations.len().saturating_sub(VIOLATIONS) {
            0 => Ok(()),
            more => writeln!(f, "  and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(violation: &str, trace: Vec<String>) -> SimFailure {
        let (config, again) = (SimConfig::draw(1), String::new());
        let violations = vec![violation.to_owned()];
        SimFailure { config, repeat_command: again, violations, trace, history: History::default() }
    }

    #[test]
    fn a_failure_class_is_the_promise_or_the_message_without_numbers() {
        assert_eq!(failure("I8: ready since 39", Vec::new()).class(), "I8");
        let left = |n| failure(&format!("after {n} rounds jobs are left"), Vec::new()).class();
        assert_eq!(left(60), left(7));
    }

    #[test]
    fn only_lines_about_the_job_are_shown_of_a_long_trace() {
        let mut trace: Vec<String> = (0..100).map(|n| format!("w1: report #{n}")).collect();
        trace.push("fault: Kill".to_owned());
        let failure = failure("I8: passed over [job 7]", trace);
        assert_eq!(failure.relevant_lines(), ["w1: report #7", "fault: Kill"]);
    }
}
