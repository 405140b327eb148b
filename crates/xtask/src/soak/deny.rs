//! The part `deny`: licences, bans and sources of all dependencies, by the policy in `deny.toml`.

use std::path::Path;
use std::process::Command;

use super::audit::shell_quoted;
use super::part::SoakPart;
use super::progress::PartOutcome;
use super::tools::CargoTool;
use super::{Soak, checks};

/// Without its default features it cannot fetch an index from a git repository, which is not needed here.
const TOOL: CargoTool =
    CargoTool { name: "deny", version: "0.20.2", install: &["--no-default-features"] };

/// One for each lock file.
const MANIFESTS: [&str; 2] = ["Cargo.toml", "fuzz/Cargo.toml"];

const REPEAT: &str = "cargo deny check licenses bans sources";

/// Checks the dependencies of every lock file; without the tool the part is skipped.
pub(super) fn run(soak: &Soak) -> Result<(), String> {
    let tool = match TOOL.program() {
        Ok(tool) => tool,
        Err(why) => {
            let skipped = PartOutcome::Skipped(why);
            return checks::record_outcome(soak, SoakPart::Deny, skipped, None);
        }
    };
    // One command for all lock files, so that the part has one result.
    let script = MANIFESTS.map(|manifest| deny_line(&tool, manifest)).join(" && ");
    checks::run_once(soak, SoakPart::Deny, Command::new("sh").args(["-c", &script]), REPEAT)
}

fn deny_line(tool: &Path, manifest: &str) -> String {
    let tool = shell_quoted(tool);
    format!(
        "{tool} deny --locked --manifest-path {manifest} --config deny.toml check licenses bans sources"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command;

    #[test]
    fn every_lock_file_is_checked_with_the_policy() {
        for manifest in MANIFESTS {
            let lock = command::root().join(manifest).with_extension("lock");
            assert!(lock.is_file(), "{}", lock.display());
            let line = deny_line(Path::new("/a b/cargo-deny"), manifest);
            assert!(
                line.starts_with("'/a b/cargo-deny' deny ") && line.contains(manifest),
                "{line}"
            );
        }
        assert!(command::root().join("deny.toml").is_file());
    }
}
