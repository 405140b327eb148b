//! Parts that run once: each passes or fails as a whole.

use std::process::Command;

use super::part::SoakPart;
use super::progress::{PartOutcome, fresh_seed};
use super::{Soak, output_of, turn_file, xtask};
use crate::{command, links};

/// Every bit flipped and every file cut at every byte, in a release build.
pub(super) fn damage(soak: &Soak) -> Result<(), String> {
    let test = ["test", "--release", "-q", "-p", "crore-store", "--test", "it", "damage::all"];
    run_once(
        soak,
        SoakPart::Damage,
        Command::new("cargo").args(test),
        &format!("cargo {}", test.join(" ")),
    )
}

/// The folder of the screenshots of [`looks`].
const SCREENSHOTS: &str = "target/screenshots";

/// Every page of the Web UI at three widths in both themes. With `CI` set, a missing browser is a failure instead of a
/// skipped test.
pub(super) fn looks(soak: &Soak) -> Result<(), String> {
    let test = [
        "test",
        "-q",
        "-p",
        "crore-server",
        "--test",
        "it",
        "ui::pages_have_no_serious_finding_at_any_width",
        "--",
        "--ignored",
    ];
    let folder = command::root().join(SCREENSHOTS);
    println!("soak: looks: screenshots in {}", folder.display());
    let mut run = Command::new("cargo");
    run.args(test).env("CI", "true").env("CRORE_SCREENSHOTS", folder);
    run_once(soak, SoakPart::Looks, &mut run, &format!("cargo {}", test.join(" ")))
}

/// The bugs planted in the doors, with a fresh seed.
pub(super) fn drill(soak: &Soak) -> Result<(), String> {
    let seed = fresh_seed().to_string();
    let args = ["chaos", "drill", "--seed", &seed];
    run_once(soak, SoakPart::Drill, &mut xtask(&args)?, &format!("cargo xtask {}", args.join(" ")))
}

/// The documentation of all crates without a warning, and the links of all Markdown files.
pub(super) fn docs(soak: &Soak) -> Result<(), String> {
    if let Err(broken) = links::run() {
        println!("{broken}");
        return record_outcome(
            soak,
            SoakPart::Docs,
            PartOutcome::Failed,
            Some("cargo xtask links"),
        );
    }
    let deny = r#"build.rustdocflags=["-D", "warnings"]"#;
    let doc = ["doc", "-q", "--workspace", "--no-deps", "--config", deny];
    let again = "cargo doc --workspace --no-deps";
    run_once(soak, SoakPart::Docs, Command::new("cargo").args(doc), again)
}

/// Runs a command and records its result under a part; `again` is the command that repeats it.
pub(super) fn run_once(
    soak: &Soak,
    part: SoakPart,
    run: &mut Command,
    again: &str,
) -> Result<(), String> {
    let (is_good, text) = output_of(run, &turn_file(&soak.file, &format!("{}.log", part.name())))?;
    if is_good {
        return record_outcome(soak, part, PartOutcome::Passed, None);
    }
    println!("{text}");
    record_outcome(soak, part, PartOutcome::Failed, Some(again))
}

/// Records the result of a part that runs once.
pub(super) fn record_outcome(
    soak: &Soak,
    part: SoakPart,
    outcome: PartOutcome,
    again: Option<&str>,
) -> Result<(), String> {
    println!("soak: {}: {outcome}", part.name());
    soak.update(|progress| {
        progress.parts.insert(part.name().to_owned(), outcome);
        progress.failures.extend(again.map(str::to_owned));
    })
}
