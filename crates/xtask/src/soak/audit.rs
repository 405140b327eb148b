//! The audit: checks the locked versions of all dependencies against the RustSec advisory database, offline.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::part::SoakPart;
use super::progress::PartOutcome;
use super::tools::CargoTool;
use super::{Soak, checks};
use crate::command;

/// The database, unless [`DATABASE_VARIABLE`] names another: a directory beside the repository.
const DATABASE: &str = "../shared/advisory-db";
const DATABASE_VARIABLE: &str = "CRORE_ADVISORY_DB";
/// Without its default features it cannot scan binaries, which is not needed here.
const TOOL: CargoTool =
    CargoTool { name: "audit", version: "0.22.2", install: &["--no-default-features"] };
const LOCKS: [&str; 2] = ["Cargo.lock", "fuzz/Cargo.lock"];

/// Audits every lock file; without a database or the tool the part is skipped.
pub(super) fn run(soak: &Soak) -> Result<(), String> {
    let skipped = |why: String| {
        checks::record_outcome(soak, SoakPart::Audit, PartOutcome::Skipped(why), None)
    };
    let database = database();
    if !database.join("crates").is_dir() {
        return skipped(format!(
            "no advisory database at `{}`; {DATABASE_VARIABLE} names another place",
            database.display()
        ));
    }
    let tool = match TOOL.program() {
        Ok(tool) => tool,
        Err(why) => return skipped(why),
    };
    // One command for all lock files, so that the part has one result.
    let script = LOCKS.map(|lock| audit_line(&tool, &database, lock)).join(" && ");
    checks::run_once(
        soak,
        SoakPart::Audit,
        Command::new("sh").args(["-c", &script]),
        &repeat_command(&database),
    )
}

fn audit_line(tool: &Path, database: &Path, lock: &str) -> String {
    let (tool, database) = (shell_quoted(tool), shell_quoted(database));
    format!("{tool} audit --no-fetch --stale --db {database} --file {lock}")
}

/// A path as an argument of a shell command.
pub(super) fn shell_quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

fn repeat_command(database: &Path) -> String {
    format!("cargo audit --no-fetch --stale --db {}", database.display())
}

#[expect(clippy::disallowed_methods, reason = "a developer names the database")]
fn database() -> PathBuf {
    std::env::var(DATABASE_VARIABLE).map_or_else(|_| command::root().join(DATABASE), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_for_the_shell() {
        let line = audit_line(Path::new("/a b/cargo-audit"), Path::new("/it's"), "Cargo.lock");
        assert_eq!(
            line,
            r"'/a b/cargo-audit' audit --no-fetch --stale --db '/it'\''s' --file Cargo.lock"
        );
    }
}
