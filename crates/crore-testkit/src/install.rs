//! Installing the packages that a machine lacks, so that a fresh one can run every test.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{Error, Package};

/// Debian asks this file before it starts a service; 101 says no.
const POLICY: &str = "/usr/sbin/policy-rc.d";
const POLICY_DENIES: i32 = 101;

/// Installs those of `packages` that are missing, with apt, as root, and says on standard error
/// what it does. Starts none of them: tests start their own.
///
/// # Errors
///
/// [`Error::Failed`] names the packages if they cannot be installed here.
pub fn install_missing(packages: &[Package]) -> Result<(), Error> {
    let missing = || packages.iter().filter(|package| !package.is_installed());
    let mut names: Vec<_> = missing().map(|package| package.name()).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return Ok(());
    }
    let list = names.join(" ");
    eprintln!("testkit: installing {list}");
    let cannot = |why: &str| Error::Failed(format!("install {list} by hand: {why}"));
    let _policy = Policy::deny().map_err(|why| cannot(&why))?;
    apt_get(&["update", "-q"]).map_err(|why| cannot(&why))?;
    let install = ["install", "-q", "-y", "--no-install-recommends"];
    apt_get(&[&install, names.as_slice()].concat()).map_err(|why| cannot(&why))?;
    match missing().next() {
        None => Ok(()),
        Some(package) => Err(cannot(&format!("apt-get went well, but {package} lacks a program"))),
    }
}

/// Its output goes to standard error, so that it never mixes with what a command says.
fn apt_get(words: &[&str]) -> Result<(), String> {
    eprintln!("testkit: apt-get {}", words.join(" "));
    let status = Command::new("apt-get")
        .args(["-o", "DPkg::Lock::Timeout=300"])
        .args(words)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status()
        .map_err(|error| format!("`apt-get` cannot be run: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`apt-get {}`: {status}", words[0])) }
}

/// While this lives, packages start no service.
struct Policy {
    ours: bool,
}

impl Policy {
    /// Puts a file there that says no, or makes sure that the one that is there does.
    fn deny() -> Result<Self, String> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o755).open(POLICY);
        match file {
            Ok(mut file) => {
                let made = Self { ours: true };
                let script = format!("#!/bin/sh\nexit {POLICY_DENIES}\n");
                file.write_all(script.as_bytes()).map_err(|error| error.to_string())?;
                Ok(made)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Self::ask_theirs(),
            Err(error) => Err(format!("`{POLICY}` cannot be written, are you root? {error}")),
        }
    }

    fn ask_theirs() -> Result<Self, String> {
        let answer = Command::new(POLICY).args(["redis-server", "start"]).status();
        if answer.is_ok_and(|status| status.code() == Some(POLICY_DENIES)) {
            Ok(Self { ours: false })
        } else {
            Err(format!("`{POLICY}` is there and lets packages start their servers"))
        }
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        if self.ours
            && let Err(error) = fs::remove_file(Path::new(POLICY))
        {
            eprintln!("testkit: `{POLICY}` could not be removed: {error}");
        }
    }
}
