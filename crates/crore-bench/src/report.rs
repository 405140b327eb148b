//! The report of a benchmark: rows with a baseline and a goal, facts about the machine, and notes. Its JSON is the
//! format of `bench/results`.

use serde_json::{Value, json};

/// The bound that a ratio has to keep.
#[derive(Debug, Clone, Copy)]
pub enum Goal {
    AtLeast(f64),
    AtMost(f64),
    /// For information only.
    None,
}

impl Goal {
    fn met(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(goal) => ratio >= goal,
            Self::AtMost(goal) => ratio <= goal,
            Self::None => true,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(goal) => format!(">= {goal}"),
            Self::AtMost(goal) => format!("<= {goal}"),
            Self::None => "none".to_owned(),
        }
    }
}

#[derive(Debug)]
pub struct ReportRow {
    name: String,
    value: f64,
    unit: &'static str,
    baseline: String,
    baseline_value: f64,
    ratio: f64,
    /// The ratio of each run.
    ratios: RunValues,
    goal: Goal,
}

/// The figures of alternating runs.
#[derive(Debug, Default, Clone)]
pub struct RunValues(pub Vec<f64>);

impl RunValues {
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }

    /// The quotients, run by run.
    pub fn ratios_to(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(one, other)| one / other).collect())
    }

    pub fn scaled(&self, factor: f64) -> Self {
        Self(self.0.iter().map(|value| value * factor).collect())
    }
}

impl ReportRow {
    /// A row with the medians of both figures and the median of the ratios of each run.
    pub fn compared(
        (name, unit): (impl Into<String>, &'static str),
        runs: &RunValues,
        (baseline, bare): (impl Into<String>, &RunValues),
        goal: Goal,
    ) -> Self {
        Self {
            name: name.into(),
            value: runs.median(),
            unit,
            baseline: baseline.into(),
            baseline_value: bare.median(),
            ratio: runs.ratios_to(bare).median(),
            ratios: runs.ratios_to(bare),
            goal,
        }
    }

    /// A figure with an upper bound.
    pub fn with_bound(
        name: impl Into<String>,
        (value, unit): (f64, &'static str),
        at_most: f64,
    ) -> Self {
        Self {
            name: name.into(),
            value,
            unit,
            baseline: "budget".to_owned(),
            baseline_value: at_most,
            ratio: value / at_most,
            ratios: RunValues(vec![value / at_most]),
            goal: Goal::AtMost(1.0),
        }
    }

    /// The same figure without a goal.
    pub fn without_goal(self) -> Self {
        Self { goal: Goal::None, ..self }
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name, "value": self.value, "unit": self.unit, "baseline": self.baseline,
            "baseline_value": self.baseline_value, "ratio": self.ratio, "goal": self.goal.text(),
            "ok": self.goal.met(self.ratio),
        })
    }

    fn text(&self) -> String {
        let verdict = match self.goal {
            Goal::None => "",
            goal if goal.met(self.ratio) => "ok",
            _ => "MISSED",
        };
        let least = self.ratios.0.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.ratios.0.iter().copied().fold(0.0, f64::max);
        let spread = if least < most { format!("{least:.2}-{most:.2}") } else { String::new() };
        format!(
            "{:<46} {:>12.2} {:<10} {:<29} {:>12.2}  ratio {:>5.2} {spread:<11}  goal {:<8} {verdict}",
            self.name,
            self.value,
            self.unit,
            self.baseline,
            self.baseline_value,
            self.ratio,
            self.goal.text(),
        )
        .trim_end()
        .to_owned()
    }
}

/// Everything that a run found out.
#[derive(Debug, Default)]
pub struct BenchReport {
    pub facts: Vec<String>,
    pub rows: Vec<ReportRow>,
    pub notes: Vec<String>,
}

impl BenchReport {
    pub fn json(&self) -> String {
        let rows: Vec<Value> = self.rows.iter().map(ReportRow::json).collect();
        serde_json::to_string_pretty(&rows).unwrap() + "\n"
    }

    pub fn text(&self) -> String {
        let rows: Vec<String> = self.rows.iter().map(ReportRow::text).collect();
        [&self.facts, &rows, &self.notes].map(|lines| lines.join("\n") + "\n").join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of earlier commits are compared with those of later ones, by programs.
    #[test]
    fn rows_keep_the_format_of_the_results() {
        let runs = |values: [f64; 3]| RunValues(values.into());
        let (ours, bare) = (runs([4.0, 8.0, 6.0]), runs([10.0, 10.0, 10.0]));
        let row =
            ReportRow::compared(("push", "jobs/s"), &ours, ("bare", &bare), Goal::AtLeast(0.5));
        let report = BenchReport { rows: vec![row], ..BenchReport::default() };
        let rows: Value = serde_json::from_str(&report.json()).unwrap();
        let expected = json!([{
            "name": "push", "value": 6.0, "unit": "jobs/s", "baseline": "bare",
            "baseline_value": 10.0, "ratio": 0.6, "goal": ">= 0.5", "ok": true,
        }]);
        assert_eq!(rows, expected);
    }

    #[test]
    fn bounds_are_inclusive() {
        assert!(Goal::AtLeast(0.5).met(0.5) && !Goal::AtLeast(0.5).met(0.4));
        assert!(Goal::AtMost(1.0).met(1.0) && !Goal::AtMost(1.0).met(1.1));
        assert!(Goal::None.met(0.0));
    }
}
