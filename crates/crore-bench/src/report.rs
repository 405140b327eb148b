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
pub struct Row {
    name: String,
    value: f64,
    unit: &'static str,
    baseline: String,
    baseline_value: f64,
    ratio: f64,
    /// The ratio of each run.
    ratios: Runs,
    goal: Goal,
}

/// The figures of alternated runs.
#[derive(Debug, Default, Clone)]
pub struct Runs(pub Vec<f64>);

impl Runs {
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }

    /// The quotients, run by run.
    pub fn over(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(one, other)| one / other).collect())
    }

    pub fn times(&self, factor: f64) -> Self {
        Self(self.0.iter().map(|value| value * factor).collect())
    }
}

impl Row {
    /// A row with the medians of both figures and the median of the ratios of each run.
    pub fn beside(
        (name, unit): (impl Into<String>, &'static str),
        runs: &Runs,
        (baseline, bare): (impl Into<String>, &Runs),
        goal: Goal,
    ) -> Self {
        Self {
            name: name.into(),
            value: runs.median(),
            unit,
            baseline: baseline.into(),
            baseline_value: bare.median(),
            ratio: runs.over(bare).median(),
            ratios: runs.over(bare),
            goal,
        }
    }

    /// A figure with an upper bound.
    pub fn allowed(
        name: impl Into<String>,
        (value, unit): (f64, &'static str),
        at_most: f64,
    ) -> Self {
        Self {
            name: name.into(),
            value,
            unit,
            baseline: "what is allowed".to_owned(),
            baseline_value: at_most,
            ratio: value / at_most,
            ratios: Runs(vec![value / at_most]),
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
pub struct Report {
    pub facts: Vec<String>,
    pub rows: Vec<Row>,
    pub notes: Vec<String>,
}

impl Report {
    pub fn json(&self) -> String {
        let rows: Vec<Value> = self.rows.iter().map(Row::json).collect();
        serde_json::to_string_pretty(&rows).unwrap() + "\n"
    }

    pub fn text(&self) -> String {
        let rows: Vec<String> = self.rows.iter().map(Row::text).collect();
        [&self.facts, &rows, &self.notes].map(|lines| lines.join("\n") + "\n").join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of earlier commits are compared with those of later ones, by programs.
    #[test]
    fn rows_keep_the_format_of_the_results() {
        let runs = |values: [f64; 3]| Runs(values.into());
        let (ours, bare) = (runs([4.0, 8.0, 6.0]), runs([10.0, 10.0, 10.0]));
        let row = Row::beside(("push", "jobs/s"), &ours, ("bare", &bare), Goal::AtLeast(0.5));
        let report = Report { rows: vec![row], ..Report::default() };
        let rows: Value = serde_json::from_str(&report.json()).unwrap();
        let expected = json!([{
            "name": "push", "value": 6.0, "unit": "jobs/s", "baseline": "bare",
            "baseline_value": 10.0, "ratio": 0.6, "goal": ">= 0.5", "ok": true,
        }]);
        assert_eq!(rows, expected);
    }

    #[test]
    fn a_bound_is_met_from_its_own_side() {
        assert!(Goal::AtLeast(0.5).met(0.5) && !Goal::AtLeast(0.5).met(0.4));
        assert!(Goal::AtMost(1.0).met(1.0) && !Goal::AtMost(1.0).met(1.1));
        assert!(Goal::None.met(0.0));
    }
}
