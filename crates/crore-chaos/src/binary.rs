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
