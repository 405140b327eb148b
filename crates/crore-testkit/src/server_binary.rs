//! The path of the built server, for tests and tools that start it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Path of the `crore` binary in the build directory of this program. It is built first if it is missing or older than
/// a source of the workspace.
///
/// # Errors
///
/// A description of why it could not be built.
pub fn server_binary() -> Result<PathBuf, String> {
    let this =
        std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let folder = this.ancestors().skip(1).find(|folder| !folder.ends_with("deps"));
    let server = folder.ok_or("this program has no directory")?.join("crore");
    if is_fresh(&server).unwrap_or(false) {
        return Ok(server);
    }
    let built = Command::new("cargo").args(["build", "-q", "-p", "crore-server"]).status();
    match built {
        Ok(status) if status.success() && server.is_file() => Ok(server),
        other => Err(format!(
            "no server at `{}`: `cargo build -p crore-server` builds it ({other:?})",
            server.display()
        )),
    }
}

/// Whether the server is newer than every source file of the workspace. Cargo's dep-info file does not help:
/// it is written only when the server itself is the target, not when it is built for tests.
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

/// Whether a file, or one below a directory, was changed after `than`.
fn is_newer(path: &Path, than: SystemTime) -> bool {
    let Ok(found) = fs::metadata(path) else { return false };
    if !found.is_dir() {
        return found.modified().is_ok_and(|changed| changed > than);
    }
    fs::read_dir(path).into_iter().flatten().flatten().any(|entry| is_newer(&entry.path(), than))
}
