//! The part `fuzz`: libFuzzer on every target in `fuzz/`, in turns.
//!
//! Inputs that reach new code are kept below `fuzz/target`, so that a later turn begins with them; those in
//! `fuzz/corpus` are the first seeds, and are not changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::part::{SoakLane, SoakPart};
use super::tools::CargoTool;
use super::{Soak, output_of, turn_file};
use crate::command;

const TOOL: CargoTool = CargoTool { name: "fuzz", version: "0.13.2", install: &[] };

/// Duration of a turn of one target, in seconds.
const TURN_SECONDS: u64 = 300;
/// Maximum length of an input, in bytes.
const MAX_INPUT: u64 = 16 << 10;
/// Maximum memory of the process. The targets themselves bound the memory of a reader more strictly.
const MAX_MEMORY_MB: u64 = 2048;
/// An input that takes longer, in seconds, is a failure.
const MAX_INPUT_SECONDS: u64 = 20;

/// Totals of one target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct FuzzTotals {
    pub(super) seconds: u64,
    /// Executed inputs.
    pub(super) runs: u64,
    /// Edges of the code that were reached.
    pub(super) coverage: u64,
    /// Inputs that are kept because each reaches something else.
    pub(super) inputs: u64,
}

impl FuzzTotals {
    pub(super) fn to_json(self) -> Value {
        let Self { seconds, runs, coverage, inputs } = self;
        json!({ "seconds": seconds, "runs": runs, "coverage": coverage, "inputs": inputs })
    }
}

/// The totals in a soak file. Files of earlier soaks have none.
pub(super) fn totals_of_json(value: &Value) -> BTreeMap<String, FuzzTotals> {
    let all = value.as_object().into_iter().flatten();
    all.map(|(name, value)| {
        let number = |key: &str| value[key].as_u64().unwrap_or_default();
        let totals = FuzzTotals {
            seconds: number("seconds"),
            runs: number("runs"),
            coverage: number("coverage"),
            inputs: number("inputs"),
        };
        (name.clone(), totals)
    })
    .collect()
}

/// The names of all targets.
pub(super) fn targets() -> Vec<String> {
    let folder = std::fs::read_dir(command::root().join("fuzz/fuzz_targets"));
    let files = folder.into_iter().flatten().flatten().map(|file| file.path());
    let names = files.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names
}

/// Whether every target was fuzzed for this long.
pub(super) fn is_done(totals: &BTreeMap<String, FuzzTotals>, seconds: u64) -> bool {
    let targets = targets();
    let is_done = |name: &String| totals.get(name).is_some_and(|done| done.seconds >= seconds);
    !targets.is_empty() && targets.iter().all(is_done)
}

/// The done and the wanted time of each target, with its executions and coverage.
pub(super) fn amount(totals: &BTreeMap<String, FuzzTotals>, seconds: u64) -> String {
    let all = targets().into_iter().map(|name| {
        let FuzzTotals { seconds: done, runs, coverage, .. } =
            totals.get(&name).copied().unwrap_or_default();
        format!("{name} {done} of {seconds} s, {runs} runs, coverage {coverage}")
    });
    all.collect::<Vec<_>>().join("; ")
}

/// Runs turns until each target has its time. Uses a second core if no part needs it.
pub(super) fn run(soak: &Soak) -> Result<(), String> {
    if let Err(why) = TOOL.program().and_then(|tool| build(&tool)) {
        println!("soak: fuzz SKIPPED: {why}");
        return soak.update(|progress| {
            progress.skipped.insert(format!("{} build", SoakPart::Fuzz.name()), why);
        });
    }
    let has_core = !soak.parts.iter().any(|part| part.lane() == SoakLane::Processes);
    let (targets, lanes) = (targets(), if has_core { 2 } else { 1 });
    let lane = |first: usize| {
        let mine = targets.iter().skip(first).step_by(lanes);
        mine.map(|target| fuzz_target(soak, target)).fold(Ok(()), Result::and)
    };
    std::thread::scope(|scope| {
        let other = (lanes > 1).then(|| scope.spawn(|| lane(1)));
        let first = lane(0);
        let panicked = |_| Err("a part of the soak panicked".to_owned());
        first.and(other.map_or(Ok(()), |other| other.join().unwrap_or_else(panicked)))
    })
}

/// Builds all targets, without a sanitizer: those need a nightly toolchain.
fn build(tool: &Path) -> Result<(), String> {
    let log = command::root().join("target/fuzz-build.log");
    let (is_good, text) =
        output_of(Command::new(tool).args(["fuzz", "build", "-s", "none"]), &log)?;
    if is_good { Ok(()) } else { Err(last_lines(&text)) }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().rev().take(5).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" / ")
}

fn fuzz_target(soak: &Soak, target: &str) -> Result<(), String> {
    loop {
        let left = {
            let progress = soak.progress();
            let done = progress.fuzz.get(target).copied().unwrap_or_default().seconds;
            let has_failed = progress.failures.iter().any(|again| is_failure_of(again, target));
            if has_failed { 0 } else { progress.goals.fuzz_seconds.saturating_sub(done) }
        };
        if left == 0 || soak.end.is_over() {
            return Ok(());
        }
        turn(soak, target, left.min(TURN_SECONDS))?;
    }
}

fn turn(soak: &Soak, target: &str, seconds: u64) -> Result<(), String> {
    let log = turn_file(&soak.file, &format!("fuzz-{target}.log"));
    let (is_good, text) = output_of(&mut fuzzer(target, seconds)?, &log)?;
    let stats = read_stats(&text);
    soak.update(|progress| {
        let totals = progress.fuzz.entry(target.to_owned()).or_default();
        totals.runs += stats.runs;
        totals.coverage = totals.coverage.max(stats.coverage);
        totals.inputs = totals.inputs.max(stats.inputs);
        if is_good {
            totals.seconds += seconds;
            println!("soak: fuzz {target}: {} runs, coverage {}", stats.runs, stats.coverage);
        } else {
            println!("{text}");
            progress.failures.push(repeat_command(target, crash_file(&text)));
        }
    })
}

/// The command that fuzzes a target for this long, beginning with the inputs of earlier turns and of the corpus.
fn fuzzer(target: &str, seconds: u64) -> Result<Command, String> {
    let fuzz = command::root().join("fuzz");
    let (found, artifacts) = (fuzz.join("target/inputs").join(target), fuzz.join("artifacts"));
    let artifacts = artifacts.join(target);
    for folder in [&found, &artifacts] {
        std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    }
    let mut command = Command::new(binary(&fuzz, target)?);
    command
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={MAX_INPUT}"))
        .arg(format!("-rss_limit_mb={MAX_MEMORY_MB}"))
        .arg(format!("-timeout={MAX_INPUT_SECONDS}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg("-print_final_stats=1")
        .args([found, fuzz.join("corpus").join(target)]);
    Ok(command)
}

/// The binary of a target, which is in the folder of this machine's target triple.
fn binary(fuzz: &Path, target: &str) -> Result<PathBuf, String> {
    let folders = std::fs::read_dir(fuzz.join("target")).map_err(|error| error.to_string())?;
    let binaries = folders.flatten().map(|folder| folder.path().join("release").join(target));
    let mut binaries = binaries.filter(|path| path.is_file());
    binaries.next().ok_or_else(|| format!("`cargo fuzz build` made no binary for `{target}`"))
}

/// Reads executions, coverage and kept inputs from the output of a turn.
fn read_stats(text: &str) -> FuzzTotals {
    let after = |line: &str, label: &str| -> Option<u64> {
        let (_, rest) = line.split_once(label)?;
        let digits = rest.trim_start().split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    };
    let last = |label: &str| text.lines().rev().find_map(|line| after(line, label));
    FuzzTotals {
        seconds: 0,
        runs: last("stat::number_of_executed_units:").unwrap_or_default(),
        coverage: last(" cov: ").unwrap_or_default(),
        inputs: last(" corp: ").unwrap_or_default(),
    }
}

/// The file with the input that failed.
fn crash_file(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.split_once("Test unit written to ")).map(|(_, path)| path)
}

fn repeat_command(target: &str, file: Option<&str>) -> String {
    format!("cargo fuzz run -s none {target} {}", file.unwrap_or_default()).trim_end().to_owned()
}

/// Whether a command repeats a failure of this target.
fn is_failure_of(again: &str, target: &str) -> bool {
    again.strip_prefix("cargo fuzz run -s none ").and_then(|rest| rest.split(' ').next())
        == Some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_a_turn_is_read() {
        let text = "#2\tINITED cov: 90 ft: 91 corp: 1/1b exec/s: 0 rss: 30Mb\n\
            #600\tNEW    cov: 100 ft: 140 corp: 12/200b lim: 4 exec/s: 0 rss: 31Mb L: 3/4 MS: 1 X-\n\
            #70000\tDONE   cov: 1234 ft: 5678 corp: 400/50Kb lim: 4096 exec/s: 700 rss: 90Mb\n\
            Done 70000 runs in 100 second(s)\n\
            stat::number_of_executed_units: 70000\n\
            stat::average_exec_per_sec:     700\n";
        let expected = FuzzTotals { seconds: 0, runs: 70_000, coverage: 1234, inputs: 400 };
        assert_eq!(read_stats(text), expected);
        assert_eq!(read_stats(""), FuzzTotals::default());
    }

    #[test]
    fn a_crash_is_repeated_with_its_file_and_belongs_to_its_target() {
        let text = "==7== ERROR: libFuzzer: deadly signal\n\
            artifact_prefix='/r/fuzz/artifacts/texts/'; Test unit written to /r/fuzz/artifacts/texts/crash-12\n\
            Base64: eA==\n";
        let again = repeat_command("texts", crash_file(text));
        assert_eq!(again, "cargo fuzz run -s none texts /r/fuzz/artifacts/texts/crash-12");
        assert_eq!(SoakPart::repeated_by(&again), SoakPart::Fuzz);
        assert!(is_failure_of(&again, "texts") && !is_failure_of(&again, "text"));
        let unknown = repeat_command("texts", crash_file("out of memory"));
        assert!(is_failure_of(&unknown, "texts"));
    }

    #[test]
    fn every_target_needs_its_time() {
        let all = |seconds: u64| -> BTreeMap<String, FuzzTotals> {
            let totals = FuzzTotals { seconds, runs: 9, ..FuzzTotals::default() };
            targets().into_iter().map(|name| (name, totals)).collect()
        };
        assert!(targets().contains(&"recover".to_owned()));
        assert!(is_done(&all(600), 600) && !is_done(&all(599), 600));
        let mut one_less = all(600);
        one_less.remove("recover");
        assert!(!is_done(&one_less, 600));
        assert!(amount(&one_less, 600).contains("recover 0 of 600 s, 0 runs"));
    }

    #[test]
    fn totals_survive_the_file() {
        let totals = FuzzTotals { seconds: 1, runs: 2, coverage: 3, inputs: 4 };
        let file = json!({ "texts": totals.to_json() });
        assert_eq!(totals_of_json(&file), BTreeMap::from([("texts".to_owned(), totals)]));
        assert!(totals_of_json(&Value::Null).is_empty());
    }
}
