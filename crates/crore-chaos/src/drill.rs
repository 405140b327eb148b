//! The drill: checks that chaos finds each bug planted in the doors and the API.

use std::path::{Path, PathBuf};
use std::process::Command;

use crore_testkit::SeededRng;

use crate::fault::ChaosFault;
use crate::run::{ChaosError, ChaosPlan, run};

/// Each bug is found within this many rounds.
const MAX_ROUNDS: u32 = 100;
/// Rounds per run.
const ROUNDS_PER_RUN: u32 = 10;
/// Rounds of each fault that a server with no bug enabled has to pass.
const CLEAN_ROUNDS: u32 = 12;

/// The bugs planted in `crore-doors` and `crore-api`, and the fault that reveals each.
const BUGS: [(&str, ChaosFault); 4] = [
    ("bug-31", ChaosFault::Stop),
    ("bug-32", ChaosFault::Kill),
    ("bug-33", ChaosFault::Kill),
    ("bug-34", ChaosFault::Stop),
];

/// Builds a server with all planted bugs (the feature `bug-drill`), in a folder of its own. It shares compiled
/// dependencies with the server without bugs.
///
/// # Errors
///
/// The build failed.
pub fn server_with_bugs() -> Result<PathBuf, String> {
    let this = std::env::current_exe()
        .map_err(|error| format!("the path of this program is unknown: {error}"))?;
    let target = this.ancestors().skip(1).find(|folder| !folder.ends_with("deps"));
    let target =
        target.and_then(Path::parent).ok_or("the path of this program has no target directory")?;
    let folder = target.join("bug-drill");
    // The same packages as `cargo xtask chaos` builds: with others, dependencies would be compiled again.
    let packages = ["build", "-q", "-p", "crore-server", "-p", "crore-chaos"];
    let built = Command::new("cargo")
        .args(packages)
        .args(["--features", "crore-server/bug-drill", "--target-dir"])
        .arg(&folder)
        .env("CARGO_BUILD_BUILD_DIR", target)
        .status();
    let server = folder.join("debug").join("crore");
    match built {
        Ok(status) if status.success() && server.is_file() => Ok(server),
        other => Err(format!("no server was built at `{}`: {other:?}", server.display())),
    }
}

/// Runs a server that was built with the feature `bug-drill`, with no bug enabled and with each in turn, and passes
/// each result to `say`.
///
/// # Errors
///
/// Bugs that were not found, or a failure without an enabled bug.
pub fn drill(server: &Path, seed: u64, mut say: impl FnMut(String)) -> Result<(), String> {
    let mut rng = SeededRng(seed);
    let mut plan = |harm, rounds, bug: Option<&str>| ChaosPlan {
        fault: harm,
        rounds,
        seed: rng.next_u64(),
        server: server.to_owned(),
        set: Vec::new(),
        keep: false,
        bug: bug.map(str::to_owned),
    };
    for harm in [ChaosFault::Kill, ChaosFault::Stop] {
        let tally = run(&plan(harm, CLEAN_ROUNDS, None));
        tally.map_err(|failed| format!("failed without an enabled bug: {failed}"))?;
        say(format!("none    {harm}: {CLEAN_ROUNDS} rounds, no violation"));
    }
    let mut missed = Vec::new();
    for (bug, harm) in BUGS {
        match run_until_found(|| plan(harm, ROUNDS_PER_RUN, Some(bug)))? {
            Some((rounds, what)) => {
                say(format!("{bug}  {harm}: caught within {rounds} rounds: {what}"));
            }
            None => missed.push(bug),
        }
    }
    match missed.as_slice() {
        [] => Ok(()),
        missed => Err(format!("not caught within {MAX_ROUNDS} rounds: {}", missed.join(", "))),
    }
}

/// Runs plans until one fails: the number of rounds and the first violation, or `None` if none failed.
fn run_until_found(mut plan: impl FnMut() -> ChaosPlan) -> Result<Option<(u32, String)>, String> {
    for n in 1..=MAX_ROUNDS / ROUNDS_PER_RUN {
        match run(&plan()) {
            Ok(_) => {}
            Err(ChaosError::Broken(broken)) => {
                return Ok(Some((n * ROUNDS_PER_RUN, broken.first_violation())));
            }
            Err(ChaosError::CannotRun(error)) => return Err(error.to_string()),
        }
    }
    Ok(None)
}
