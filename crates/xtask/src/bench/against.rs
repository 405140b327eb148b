//! `bench NAME --against REV`: the benchmark of an earlier commit and of this one, alternating on the same machine, to
//! show that a change costs no speed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{BUILD_SERVER, BenchProgram};
use crate::command;

/// Default number of turns of each side.
const DEFAULT_TURNS: usize = 3;
/// The minimum ratio of a figure to that of the earlier commit.
const MIN_RATIO: f64 = 0.97;

/// The arguments of a comparison; all others go to both benchmarks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AgainstArgs<'a> {
    revision: &'a str,
    turns: usize,
    json: Option<&'a str>,
    rest: Vec<&'a str>,
}

/// Reads the arguments; `None` without `--against`.
pub(super) fn parse_args<'a>(args: &[&'a str]) -> Result<Option<AgainstArgs<'a>>, String> {
    let (mut revision, mut turns, mut json, mut rest) = (None, DEFAULT_TURNS, None, Vec::new());
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().copied().ok_or_else(|| format!("{word} needs a value"));
        match *word {
            "--against" => revision = Some(value()?),
            "--turns" => {
                let n = value()?.parse().ok().filter(|n| *n > 0);
                turns = n.ok_or("--turns needs a number of at least 1")?;
            }
            "--json" => json = Some(value()?),
            other => rest.push(other),
        }
    }
    Ok(revision.map(|revision| AgainstArgs { revision, turns, json, rest }))
}

/// Builds both sides, alternates their runs, and compares the medians.
pub(super) fn run(bench: &BenchProgram, args: &AgainstArgs<'_>) -> Result<(), String> {
    let root = command::root();
    let commit = command::git(&["rev-parse", "--short", &format!("{}^{{commit}}", args.revision)])?;
    let tree = check_out(&root.join("target/against").join(&commit), &commit)?;
    let (before, after) = (build(bench, &tree)?, build(bench, &root)?);
    let (mut old, mut new) = (AgainstFigures::default(), AgainstFigures::default());
    for turn in 1..=args.turns {
        println!("bench: turn {turn} of {}: {commit}, then this commit", args.turns);
        old.add(&measure(&before, args)?);
        new.add(&measure(&after, args)?);
    }
    let rows = compare(&old, &new, &commit);
    for row in &rows {
        println!("{}", row_line(row));
    }
    if let Some(file) = args.json {
        let text = serde_json::to_string_pretty(&rows).unwrap_or_default() + "\n";
        std::fs::write(file, text).map_err(|error| format!("cannot write {file}: {error}"))?;
    }
    Ok(())
}

/// A work tree of an earlier commit. It is kept, so that the next comparison builds less.
fn check_out(tree: &Path, commit: &str) -> Result<PathBuf, String> {
    if !tree.join("Cargo.toml").is_file() {
        command::git(&["worktree", "prune"])?;
        let path = tree.to_string_lossy();
        command::git(&["worktree", "add", "--detach", "--force", &path, commit])?;
    }
    Ok(tree.to_owned())
}

/// Builds the programs of a tree in its own build directory, and returns the benchmark. The two sides cannot share a
/// build directory: cargo identifies workspace crates by their paths within the workspace, and would confuse the two
/// trees.
fn build(bench: &BenchProgram, tree: &Path) -> Result<PathBuf, String> {
    if bench.starts_server {
        cargo(tree, &BUILD_SERVER)?;
    }
    cargo(tree, &["build", "--release", "-p", bench.package, "--bin", bench.binary])?;
    Ok(tree.join("target/release").join(bench.binary))
}

fn cargo(tree: &Path, args: &[&str]) -> Result<(), String> {
    let mut cargo = Command::new("cargo");
    cargo.args(args).env("CARGO_TARGET_DIR", tree.join("target")).current_dir(tree);
    let status = cargo.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    let failed = || format!("`cargo {}` failed in {}", args.join(" "), tree.display());
    if status.success() { Ok(()) } else { Err(failed()) }
}

/// Runs one side once, and reads its rows.
fn measure(program: &Path, args: &AgainstArgs<'_>) -> Result<Vec<Value>, String> {
    let file = std::env::temp_dir().join(format!("crore-against-{}.json", std::process::id()));
    let mut run = Command::new(program);
    run.args(&args.rest).arg("--json").arg(&file);
    let status = run.status();
    let status = status.map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    let text = std::fs::read_to_string(&file);
    let _ = std::fs::remove_file(&file);
    let _ = std::fs::remove_file(file.with_extension("txt"));
    if !status.success() {
        return Err(format!("{} failed: {status}", program.display()));
    }
    let text = text.map_err(|error| format!("{} wrote nothing: {error}", program.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("the figures are not valid JSON: {error}"))
}

/// The figures of one side: each row's values, its unit, and whether a larger one is better.
#[derive(Debug, Default)]
struct AgainstFigures {
    names: Vec<String>,
    rows: BTreeMap<String, AgainstFigure>,
}

#[derive(Debug)]
struct AgainstFigure {
    unit: String,
    is_larger_better: bool,
    values: Vec<f64>,
}

impl AgainstFigures {
    fn add(&mut self, rows: &[Value]) {
        for row in rows {
            let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            let (name, Some(value)) = (text("name"), row["value"].as_f64()) else { continue };
            let figure = self.rows.entry(name.clone()).or_insert_with(|| {
                self.names.push(name);
                let unit = text("unit");
                let is_larger_better = is_larger_better(&unit, &text("goal"));
                AgainstFigure { unit, is_larger_better, values: Vec::new() }
            });
            figure.values.push(value);
        }
    }
}

/// By the goal (`>=` or `<=`); without a goal, larger is better for rates only.
fn is_larger_better(unit: &str, goal: &str) -> bool {
    goal.starts_with(">=") || (!goal.starts_with("<=") && unit.ends_with("/s"))
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// A row for each figure that both sides have. The ratio is above 1 if this commit is better.
fn compare(old: &AgainstFigures, new: &AgainstFigures, commit: &str) -> Vec<Value> {
    let row = |name: &String| {
        let (before, after) = (old.rows.get(name)?, new.rows.get(name)?);
        let (baseline, value) = (median(&before.values), median(&after.values));
        let ratio = if after.is_larger_better { value / baseline } else { baseline / value };
        Some(json!({
            "name": name, "value": value, "unit": after.unit, "baseline": commit,
            "baseline_value": baseline, "ratio": ratio, "goal": format!(">= {MIN_RATIO}"),
            "ok": ratio >= MIN_RATIO, "turns": after.values, "baseline_turns": before.values,
        }))
    };
    new.names.iter().filter_map(row).collect()
}

fn row_line(row: &Value) -> String {
    let number = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
    let text = |key: &str| row[key].as_str().unwrap_or_default();
    let missed = if row["ok"] == true { "" } else { "  below the goal" };
    format!(
        "{:>6.3}  {:<60} {:.2} {} (before: {:.2}){missed}",
        number("ratio"),
        text("name"),
        number("value"),
        text("unit"),
        number("baseline_value"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_takes_its_own_arguments_and_passes_the_others_on() {
        let words = ["--against", "main~1", "--only", "cycle", "--turns", "5", "--json", "f.json"];
        let found = parse_args(&words).expect("read").expect("a comparison");
        let rest = vec!["--only", "cycle"];
        let json = Some("f.json");
        assert_eq!(found, AgainstArgs { revision: "main~1", turns: 5, json, rest });
        assert_eq!(parse_args(&["--json", "f.json"]), Ok(None));
        assert!(
            parse_args(&["--against"]).is_err()
                && parse_args(&["--against", "x", "--turns", "0"]).is_err()
        );
    }

    fn figures(rows: &[(&str, &str, &str, f64)]) -> AgainstFigures {
        let mut figures = AgainstFigures::default();
        for (name, unit, goal, value) in rows {
            figures.add(&[json!({ "name": name, "unit": unit, "goal": goal, "value": value })]);
        }
        figures
    }

    #[test]
    fn a_ratio_above_one_is_better_whichever_way_a_figure_goes() {
        let rate = |value| ("cycle", "jobs/s", "none", value);
        let time = |value| ("pick-up", "µs", "<= 1", value);
        let old = figures(&[rate(100.0), rate(90.0), rate(500.0), time(40.0)]);
        let new = figures(&[rate(110.0), time(50.0), ("new", "jobs/s", "none", 1.0)]);
        let rows = compare(&old, &new, "abc");
        let found: Vec<_> = rows.iter().map(|row| (row["name"].as_str(), &row["ok"])).collect();
        assert_eq!(found, [(Some("cycle"), &json!(true)), (Some("pick-up"), &json!(false))]);
        assert_eq!(rows[0]["ratio"], 1.1, "the median of three is compared");
        assert_eq!(rows[1]["ratio"], 0.8);
    }
}
