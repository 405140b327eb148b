//! `ci`: the steps that must pass before a change is merged, in order, up to the first failure. Tests that take too
//! long for each change belong to `soak`.

mod slowest;

use std::time::{Duration, Instant};

use crate::command::{cargo, has_cargo_command};
use crate::{layers, links, sizes, words};

/// Which steps are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CiScope {
    Full,
    /// Without database servers, for the inner loop.
    Quick,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepExtent {
    Always,
    Only(CiScope),
}

enum StepWork {
    Cargo(&'static [&'static str]),
    Call(fn() -> Result<(), String>),
}

struct CiStep {
    name: &'static str,
    when: StepExtent,
    work: StepWork,
}

use CiScope::{Full, Quick};
use StepExtent::{Always, Only};
use StepWork::{Call, Cargo};

/// Features beyond the default ones that every step builds with, as `package/feature`, comma-separated. All steps use
/// one set, so that nothing is built twice. Never a `bug-` feature: those plant bugs.
const FEATURES: &str = "";

const TESTSERVERS: [&str; 7] =
    ["run", "-q", "-p", "crore-testkit", "--bin", "crore-testservers", "--"];

/// The servers that the tests use, as flags of `crore-testservers`.
const SERVERS: &[&str] = &["--postgres", "--redis-cluster", "--redis", "--mariadb"];

/// The steps. To add one, add a line.
///
/// Warnings are errors here and only here. The flags are passed behind `--` and by `--config`, not in `RUSTFLAGS`,
/// which would build every dependency a second time.
#[rustfmt::skip]
const STEPS: &[CiStep] = &[
    CiStep { name: "set-up", when: Only(Full),  work: Call(|| testservers(&["--xfs", "--faketime", "--prometheus", "--sslscan", "--tmux", "--docker", "--pypi", "--npm", "--install"])) },
    CiStep { name: "fmt",    when: Always,      work: Cargo(&["fmt", "--all", "--check"]) },
    CiStep { name: "clippy", when: Always,      work: Cargo(&["clippy", "--workspace", "--features", FEATURES, "--all-targets", "--", "-D", "warnings"]) },
    CiStep { name: "layers", when: Always,      work: Call(layers::run) },
    CiStep { name: "sizes",  when: Always,      work: Call(sizes::run) },
    CiStep { name: "links",  when: Always,      work: Call(links::run) },
    CiStep { name: "words",  when: Always,      work: Call(words::run) },
    CiStep { name: "docs",   when: Always,      work: Cargo(&["doc", "--workspace", "--features", FEATURES, "--no-deps", "--config", r#"build.rustdocflags=["-D", "warnings"]"#]) },
    CiStep { name: "tests",  when: Only(Full),  work: Call(|| with_servers(&test_command(Full))) },
    CiStep { name: "tests",  when: Only(Quick), work: Call(|| cargo(&test_command(Quick)[1..])) },
    CiStep { name: "doc tests", when: Always,   work: Cargo(&["test", "--workspace", "--features", FEATURES, "--doc"]) },
    CiStep { name: "bugs",   when: Always,      work: Cargo(&["test", "-p", "crore-store", "--features", "bug-drill", "--test", "bugs"]) },
    CiStep { name: "engine bugs", when: Always, work: Cargo(&["test", "-p", "crore", "--features", "bug-drill", "--test", "it", "sim::bugs"]) },
    CiStep { name: "example", when: Always,     work: Cargo(&["run", "-q", "-p", "crore-store", "--example", "first_job"]) },
];

/// Runs every step of `extent`; the first that fails ends the run.
pub(crate) fn run(extent: CiScope) -> Result<(), String> {
    let steps: Vec<&CiStep> = STEPS.iter().filter(|step| step.when.includes(extent)).collect();
    slowest::remove_report(extent.profile());
    let result = run_steps(&steps);
    if let Some(tests) = slowest::text(extent.profile()) {
        println!("\n{tests}");
    }
    result
}

fn run_steps(steps: &[&CiStep]) -> Result<(), String> {
    let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
    println!("{} steps: {}", steps.len(), names.join(", "));
    let mut table = String::new();
    let mut whole = Duration::ZERO;
    for (nth, step) in steps.iter().enumerate() {
        println!("\n==> {}", heading(nth + 1, steps.len(), step.name, whole));
        let (result, took) = timed(|| step.work.run());
        whole += took;
        let line = format!("{:<11} {:>7.1} s", step.name, took.as_secs_f64());
        result.map_err(|message| format!("{message}\n==> {line}, failed\n\n{table}"))?;
        println!("==> {line}");
        table += &format!("{line}\n");
    }
    println!("\n{table}{:<11} {:>7.1} s", "all", whole.as_secs_f64());
    Ok(())
}

/// The line above a step: which one it is, and the time so far.
fn heading(nth: usize, of: usize, name: &str, so_far: Duration) -> String {
    let seconds = so_far.as_secs();
    format!("step {nth} of {of}: {name} ({}:{:02} so far)", seconds / 60, seconds % 60)
}

impl CiScope {
    /// The profile of nextest that runs the tests.
    const fn profile(self) -> &'static str {
        match self {
            Full => "ci",
            Quick => "quick",
        }
    }
}

impl StepExtent {
    fn includes(self, extent: CiScope) -> bool {
        match self {
            Always => true,
            Only(only) => only == extent,
        }
    }
}

impl StepWork {
    fn run(&self) -> Result<(), String> {
        match self {
            Cargo(args) => cargo(args),
            Call(call) => call(),
        }
    }
}

/// Runs `command` while the servers run. With `CI` set, an unreachable server is a failure instead of a skipped test.
fn with_servers(command: &[&str]) -> Result<(), String> {
    testservers(&[&["--", "env", "CI=true"], command].concat())
}

fn testservers(args: &[&str]) -> Result<(), String> {
    cargo(&[&TESTSERVERS, SERVERS, args].concat())
}

/// Installs the packages of these flags of `crore-testservers` that are missing.
pub(crate) fn install(flags: &[&str]) -> Result<(), String> {
    cargo(&[&TESTSERVERS, flags, &["--install"]].concat())
}

/// The command that runs all tests except the doc tests. Without nextest the same tests run under plain `cargo test`,
/// in threads instead of processes.
fn test_command(extent: CiScope) -> Vec<&'static str> {
    let runner: &[&str] = match (has_cargo_command("nextest"), extent) {
        (true, _) => &["nextest", "run", "--profile", extent.profile()],
        (false, Full) => &["test", "--tests", "--no-fail-fast"],
        (false, Quick) => &[
            "test",
            "--tests",
            "--exclude",
            "crore-remote",
            "--exclude",
            "crore-testkit",
            "--exclude",
            "crore-chaos",
        ],
    };
    if runner[0] == "test" {
        println!("`cargo nextest` is not installed; plain `cargo test` runs the tests");
    }
    [&["cargo"], runner, &["--workspace", "--features", FEATURES]].concat()
}

#[expect(clippy::disallowed_methods, reason = "a tool that times other programs needs real time")]
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(extent: CiScope) -> Vec<&'static str> {
        STEPS.iter().filter(|step| step.when.includes(extent)).map(|step| step.name).collect()
    }

    #[test]
    fn each_extent_has_each_step_once_and_quick_only_leaves_out() {
        let full = names(Full);
        for (i, name) in full.iter().enumerate() {
            assert!(!full[..i].contains(name), "{name} is listed twice");
        }
        let quick = names(Quick);
        assert!(quick.iter().all(|name| full.contains(name)));
        assert!(quick.contains(&"tests") && !quick.contains(&"set-up"));
    }

    #[test]
    fn a_heading_shows_the_progress() {
        let heading = heading(3, 12, "clippy", Duration::from_secs(125));
        assert_eq!(heading, "step 3 of 12: clippy (2:05 so far)");
    }

    #[test]
    fn the_first_failure_ends_the_run_and_is_named() {
        let passes = CiStep { name: "one", when: Always, work: Call(|| Ok(())) };
        let fails = CiStep { name: "two", when: Always, work: Call(|| Err("it broke".to_owned())) };
        let never =
            CiStep { name: "three", when: Always, work: Call(|| panic!("ran after a failure")) };
        assert_eq!(run_steps(&[&passes, &passes]), Ok(()));
        let message = run_steps(&[&passes, &fails, &never]).expect_err("step two fails");
        assert!(message.contains("it broke") && message.contains("two"), "{message}");
    }
}
