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

/// Whether no source is newer than what was built from it, as cargo's own list of them says.
fn is_fresh(server: &Path) -> Option<bool> {
    let built = changed(server)?;
    let list = fs::read_to_string(server.with_extension("d")).ok()?;
    let (_, sources) = list.split_once(": ")?;
    let newer = |source: &str| changed(Path::new(source)).is_none_or(|changed| changed > built);
    Some(!sources.split_whitespace().any(newer))
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}
