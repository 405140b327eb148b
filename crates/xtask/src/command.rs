//! Runs other programs in the workspace root, with inherited input and output.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("this crate lies two levels below the root").to_owned()
}

/// Runs `cargo ARGS` in the root. An error names the command, so that it can be run again by hand.
pub(crate) fn cargo(args: &[&str]) -> Result<(), String> {
    finish(Command::new("cargo").args(args).current_dir(root()), args)
}

/// Runs `cargo ARGS` in the caller's directory, for arguments that name files.
pub(crate) fn cargo_here(args: &[&str]) -> Result<(), String> {
    finish(Command::new("cargo").args(args), args)
}

/// Runs `cargo ARGS` in the root, with additional environment variables.
pub(crate) fn cargo_with(args: &[&str], environment: &[(&str, &str)]) -> Result<(), String> {
    let environment = environment.iter().copied();
    finish(Command::new("cargo").args(args).envs(environment).current_dir(root()), args)
}

/// The output of `cargo ARGS`.
pub(crate) fn cargo_output(args: &[&str]) -> Result<String, String> {
    let output = Command::new("cargo")
        .args(args)
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run {}: {error}", shell_command(args)))?;
    if !output.status.success() {
        return Err(format!("{} failed: {}", shell_command(args), output.status));
    }
    String::from_utf8(output.stdout)
        .map_err(|_| format!("{} did not print UTF-8", shell_command(args)))
}

/// The output of `git ARGS` in the root, without the trailing newline.
pub(crate) fn git(args: &[&str]) -> Result<String, String> {
    let output = Command::new("git").args(args).current_dir(root()).output();
    let output = output.map_err(|error| format!("cannot run git: {error}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(format!("`git {}` failed: {why}", args.join(" ")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// Whether `cargo NAME` is installed.
pub(crate) fn has_cargo_command(name: &str) -> bool {
    Command::new("cargo")
        .args([name, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn finish(command: &mut Command, args: &[&str]) -> Result<(), String> {
    let status =
        command.status().map_err(|error| format!("cannot run {}: {error}", shell_command(args)))?;
    if status.success() { Ok(()) } else { Err(format!("{} failed: {status}", shell_command(args))) }
}

/// The command in shell syntax.
fn shell_command(args: &[&str]) -> String {
    let quoted = args.iter().map(|arg| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,=:".contains(c);
        if !arg.is_empty() && arg.chars().all(plain) {
            (*arg).to_owned()
        } else {
            format!("'{}'", arg.replace('\'', r"'\''"))
        }
    });
    format!("`cargo {}`", quoted.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_has_the_workspace_manifest() {
        assert!(root().join("Cargo.toml").is_file());
        assert!(root().join("crates/xtask").is_dir());
    }

    #[test]
    fn a_failing_command_is_an_error_that_names_it() {
        let message = cargo(&["--no-such-flag"]).expect_err("refused by cargo");
        assert!(message.contains("`cargo --no-such-flag` failed"), "{message}");
        assert!(cargo_output(&["--no-such-flag"]).is_err());
    }

    #[test]
    fn commands_are_shown_as_a_shell_takes_them() {
        assert_eq!(shell_command(&["test", "--features", ""]), "`cargo test --features ''`");
        assert_eq!(shell_command(&["a=['b']"]), r"`cargo 'a=['\''b'\'']'`");
    }
}
