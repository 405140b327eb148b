//! Tools that parts of a soak need: cargo subcommands, installed below `target` if they are missing.

use std::path::PathBuf;

use crate::command;

/// A cargo subcommand.
#[derive(Debug, Clone, Copy)]
pub(super) struct CargoTool {
    /// The subcommand: `audit` for `cargo audit`.
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    /// Additional arguments of its installation.
    pub(super) install: &'static [&'static str],
}

impl CargoTool {
    /// The program, which is installed if it is missing. It takes the name of the subcommand as its first argument.
    pub(super) fn program(self) -> Result<PathBuf, String> {
        let program = format!("cargo-{}", self.name);
        if command::has_cargo_command(self.name) {
            return Ok(program.into());
        }
        let folder = command::root().join("target/tools");
        let path = folder.join("bin").join(&program);
        if !path.is_file() {
            let root = folder.to_string_lossy();
            let install = ["install", "-q", "--locked", &program, "--version", self.version];
            command::cargo(&[&install[..], self.install, &["--root", &root]].concat())
                .map_err(|why| format!("no {program}: {why}"))?;
        }
        Ok(path)
    }
}
