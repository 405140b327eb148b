//! The drill: planted mistakes in the doors, each of which chaos must catch.

use std::path::{Path, PathBuf};
use std::process::Command;

use crore_testkit::Dice;

use crate::harm::Harm;
use crate::run::{Failed, Plan, run};

/// Each mistake is caught within so many rounds.
const MOST_ROUNDS: u32 = 100;
/// Rounds that are judged together.
const TOGETHER: u32 = 10;
/// Rounds of each harm that a server without an armed mistake has to pass.
const CLEAN_ROUNDS: u32 = 12;

/// The mistakes of `crore-doors`, and the harm that shows each.
const BUGS: [(&str, Harm); 4] = [
    ("bug-31", Harm::Stop),
    ("bug-32", Harm::Kill),
    ("bug-33", Harm::Kill),
    ("bug-34", Harm::Stop),
];

/// A server that has all planted mistakes in it (the feature `bug-drill`), built for this call. It shares what is
/// compiled with the server without them, and lies in a folder of its own.
///
/// # Errors
///
/// Why there is none, in words.
pub fn server_with_bugs() -> Result<PathBuf, String> {
    let this = std::env::current_exe().map_err(|error| format!("who am I? {error}"))?;
    let target = this.ancestors().skip(1).find(|folder| !folder.ends_with("deps"));
    let target = target.and_then(Path::parent).ok_or("this program lies nowhere")?;
    let folder = target.join("bug-drill");
    // The packages that `cargo xtask chaos` builds: with others, dependencies would be compiled again.
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
        other => Err(format!("there is no server at {}: {other:?}", server.display())),
    }
}

/// Runs a server that was built with the feature `bug-drill`, with each mistake in turn and with none, and tells
/// `say` what was found.
///
/// # Errors
///
/// Which mistakes were not caught, or what is wrong where none is armed.
pub fn drill(server: &Path, seed: u64, mut say: impl FnMut(String)) -> Result<(), String> {
    let mut dice = Dice(seed);
    let mut plan = |harm, rounds, bug: Option<&str>| Plan {
        harm,
        rounds,
        seed: dice.roll(),
        server: server.to_owned(),
        set: Vec::new(),
        keep: false,
        bug: bug.map(str::to_owned),
    };
    for harm in [Harm::Kill, Harm::Stop] {
        let tally = run(&plan(harm, CLEAN_ROUNDS, None));
        tally.map_err(|failed| format!("no mistake is armed, and {failed}"))?;
        say(format!("none    {harm}: {CLEAN_ROUNDS} rounds, nothing is found"));
    }
    let mut missed = Vec::new();
    for (bug, harm) in BUGS {
        match caught(|| plan(harm, TOGETHER, Some(bug)))? {
            Some((rounds, what)) => {
                say(format!("{bug}  {harm}: caught within {rounds} rounds: {what}"));
            }
            None => missed.push(bug),
        }
    }
    match missed.as_slice() {
        [] => Ok(()),
        missed => Err(format!("not caught within {MOST_ROUNDS} rounds: {}", missed.join(", "))),
    }
}

/// Runs plans until one fails: after how many rounds, and what was found; `None`: none failed.
fn caught(mut plan: impl FnMut() -> Plan) -> Result<Option<(u32, String)>, String> {
    for n in 1..=MOST_ROUNDS / TOGETHER {
        match run(&plan()) {
            Ok(_) => {}
            Err(Failed::Broken(broken)) => return Ok(Some((n * TOGETHER, broken.first()))),
            Err(Failed::Here(error)) => return Err(error.to_string()),
        }
    }
    Ok(None)
}
