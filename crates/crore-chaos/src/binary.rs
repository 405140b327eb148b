//! Where the built server is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// The server that was built with this program: beside it, or beside the folder that it lies in. One that
/// is not there, or is older than its sources, is built first.
///
/// # Errors
///
/// Why there is none, in words.
pub fn built() -> Result<PathBuf, String> {
    let this = std::env::current_exe().map_err(|error| format!("who am I? {error}"))?;
    let folder = this.ancestors().skip(1).find(|folder| !folder.ends_with("deps"));
    let server = folder.ok_or("this program lies nowhere")?.join("crore");
    if is_fresh(&server).unwrap_or(false) {
        return Ok(server);
    }
    let built = Command::new("cargo").args(["build", "-q", "-p", "crore-server"]).status();
    match built {
        Ok(status) if status.success() && server.is_file() => Ok(server),
        other => Err(format!(
            "there is no server at {}: `cargo build -p crore-server` builds one ({other:?})",
            server.display()
        )),
    }
}

/// A server that has all planted mistakes in it (the feature `bug-drill`), built for this call. It shares what is
/// compiled with the server without them, and lies in a folder of its own.
///
/// # Errors
///
/// Why there is none, in words.
pub fn with_bugs() -> Result<PathBuf, String> {
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

/// Whether no source of the workspace is newer than what was built from it. Cargo's own list of them is only written where
/// the server is what was asked for, and not where it is built for tests.
fn is_fresh(server: &Path) -> Option<bool> {
    let built = fs::metadata(server).ok()?.modified().ok()?;
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    for room in fs::read_dir(crates).ok()?.flatten() {
        let parts = ["src", "proto", "build.rs", "Cargo.toml"].map(|part| room.path().join(part));
        if parts.iter().any(|part| is_newer(part, built)) {
            return Some(false);
        }
    }
    Some(true)
}

/// Whether a file, or one below a folder, was changed later.
fn is_newer(path: &Path, than: SystemTime) -> bool {
    let Ok(found) = fs::metadata(path) else { return false };
    if !found.is_dir() {
        return found.modified().is_ok_and(|changed| changed > than);
    }
    fs::read_dir(path).into_iter().flatten().flatten().any(|entry| is_newer(&entry.path(), than))
}
