//! Parts that run once, to their end: each passes or fails as a whole.

use std::process::Command;

use super::part::Part;
use super::progress::{Outcome, fresh_seed};
use super::{Soak, output_of, turn_file, xtask};
use crate::links;

/// Every bit and every cut, in a release build.
pub(super) fn damage(soak: &Soak) -> Result<(), String> {
    let test = ["test", "--release", "-q", "-p", "crore-store", "--test", "it", "damage::all"];
    once(soak, Part::Damage, Command::new("cargo").args(test), &format!("cargo {}", test.join(" ")))
}

/// The planted mistakes of the doors, with a fresh seed.
pub(super) fn drill(soak: &Soak) -> Result<(), String> {
    let seed = fresh_seed().to_string();
    let args = ["chaos", "drill", "--seed", &seed];
    once(soak, Part::Drill, &mut xtask(&args)?, &format!("cargo xtask {}", args.join(" ")))
}

/// The documentation of all crates without a warning, and the links of all Markdown files.
pub(super) fn docs(soak: &Soak) -> Result<(), String> {
    if let Err(broken) = links::run() {
        println!("{broken}");
        return ended(soak, Part::Docs, Outcome::Failed, Some("cargo xtask links"));
    }
    let deny = r#"build.rustdocflags=["-D", "warnings"]"#;
    let doc = ["doc", "-q", "--workspace", "--no-deps", "--config", deny];
    let again = "cargo doc --workspace --no-deps";
    once(soak, Part::Docs, Command::new("cargo").args(doc), again)
}

/// Runs a command, and notes its end under a part; `again` repeats it.
pub(super) fn once(soak: &Soak, part: Part, run: &mut Command, again: &str) -> Result<(), String> {
    let (is_good, text) = output_of(run, &turn_file(&soak.file, &format!("{}.log", part.name())))?;
    if is_good {
        return ended(soak, part, Outcome::Passed, None);
    }
    println!("{text}");
    ended(soak, part, Outcome::Failed, Some(again))
}

/// Notes the end of a part that runs once.
pub(super) fn ended(
    soak: &Soak,
    part: Part,
    outcome: Outcome,
    again: Option<&str>,
) -> Result<(), String> {
    println!("soak: {}: {outcome}", part.name());
    soak.note(|progress| {
        progress.parts.insert(part.name().to_owned(), outcome);
        progress.failures.extend(again.map(str::to_owned));
    })
}
