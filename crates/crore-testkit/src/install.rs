//! Installs missing packages, so that a fresh machine can run every test.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{DebianPackage, Error};

/// Debian runs this script before it starts a service; exit code 101 denies it.
const POLICY: &str = "/usr/sbin/policy-rc.d";
const POLICY_DENIES: i32 = 101;

/// Installs the missing ones of `packages` with apt, as root, and logs to standard error. Starts no service:
/// tests start their own.
///
/// # Errors
///
/// [`Error::Failed`] names the packages if they cannot be installed here.
pub fn install_missing(packages: &[DebianPackage]) -> Result<(), Error> {
    let missing = || packages.iter().filter(|package| !package.is_installed());
    let mut names: Vec<_> = missing().map(|package| package.name()).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return Ok(());
    }
    let list = names.join(" ");
    eprintln!("testkit: installing {list}");
    let cannot = |why: &str| Error::Failed(format!("install {list} manually: {why}"));
    let _policy = ServicePolicy::deny().map_err(|why| cannot(&why))?;
    apt_get(&["update", "-q"]).map_err(|why| cannot(&why))?;
    let install = ["install", "-q", "-y", "--no-install-recommends"];
    apt_get(&[&install, names.as_slice()].concat()).map_err(|why| cannot(&why))?;
    match missing().next() {
        None => Ok(()),
        Some(package) => Err(cannot(&format!("apt-get succeeded, but {package} lacks a program"))),
    }
}

/// Redirects stdout to standard error, so that it never mixes with the output of a command.
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

/// Guard: while it lives, packages start no service.
struct ServicePolicy {
    ours: bool,
}

impl ServicePolicy {
    /// Creates a script that denies, or verifies that the existing one does.
    fn deny() -> Result<Self, String> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o755).open(POLICY);
        match file {
            Ok(mut file) => {
                let made = Self { ours: true };
                let script = format!("#!/bin/sh\nexit {POLICY_DENIES}\n");
                file.write_all(script.as_bytes()).map_err(|error| error.to_string())?;
                Ok(made)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Self::check_existing(),
            Err(error) => Err(format!("cannot write `{POLICY}`; run as root: {error}")),
        }
    }

    fn check_existing() -> Result<Self, String> {
        let answer = Command::new(POLICY).args(["redis-server", "start"]).status();
        if answer.is_ok_and(|status| status.code() == Some(POLICY_DENIES)) {
            Ok(Self { ours: false })
        } else {
            Err(format!("`{POLICY}` exists and lets packages start their servers; remove it"))
        }
    }
}

impl Drop for ServicePolicy {
    fn drop(&mut self) {
        if self.ours
            && let Err(error) = fs::remove_file(Path::new(POLICY))
        {
            eprintln!("testkit: `{POLICY}` could not be removed: {error}");
        }
    }
}
