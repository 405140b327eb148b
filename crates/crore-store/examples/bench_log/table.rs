//! What was found out: rows to compare, and notes beside them.

use serde_json::{Value, json};

/// What a ratio has to be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
    /// It is there to be looked at.
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
pub(crate) struct Row {
    name: String,
    value: f64,
    unit: &'static str,
    baseline: String,
    baseline_value: f64,
    ratio: f64,
    /// The ratios of all runs.
    ratios: Runs,
    goal: Goal,
}

/// The figures of alternated runs.
#[derive(Debug, Default, Clone)]
pub(crate) struct Runs(pub(crate) Vec<f64>);

impl Runs {
    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }

    /// Run by run.
    pub(crate) fn over(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(one, other)| one / other).collect())
    }

    pub(crate) fn times(&self, factor: f64) -> Self {
        Self(self.0.iter().map(|value| value * factor).collect())
    }
}

impl Row {
    /// The median of the ratios of each run, and the medians of both figures.
    pub(crate) fn beside(
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

    /// A figure that may be at most so large.
    pub(crate) fn allowed(
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

    /// The same figure, to be looked at only.
    pub(crate) fn without_goal(self) -> Self {
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

/// All of it, with the facts of the machine.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) facts: Vec<String>,
    pub(crate) rows: Vec<Row>,
    pub(crate) notes: Vec<String>,
}

impl Report {
    pub(crate) fn json(&self) -> String {
        let rows: Vec<Value> = self.rows.iter().map(Row::json).collect();
        serde_json::to_string_pretty(&rows).unwrap() + "\n"
    }

    pub(crate) fn text(&self) -> String {
        let rows: Vec<String> = self.rows.iter().map(Row::text).collect();
        [&self.facts, &rows, &self.notes].map(|lines| lines.join("\n") + "\n").join("\n")
    }
}
