//! Real servers: each in a private temporary directory, on a free port of 127.0.0.1, ready when its `start`
//! returns. The server and its directory are removed when it is dropped or this process ends in any way.

use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) mod docker;
pub(crate) mod mariadb;
pub(crate) mod package;
pub(crate) mod port;
pub(crate) mod postgres;
mod process;
pub(crate) mod redis;
pub(crate) mod redis_cluster;

pub use process::{ServerSpec, SupervisedServer};

use crate::environment;

/// Whether a server syncs a write before it acknowledges it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ServerDurability {
    /// Nothing is synced: for tests that never cut power. A killed server may lose data.
    #[default]
    Fast,
    /// Every write is synced before it is acknowledged, as in the server's safest usual setting.
    Durable,
}

/// A command with a clean environment, so that no `PGHOST` or locale of the machine reaches it.
fn command(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    let path = environment::read("PATH").unwrap_or_else(|| "/usr/sbin:/usr/bin:/sbin:/bin".into());
    command.env_clear().env("PATH", path).env("LC_ALL", "C").env("TZ", "UTC");
    command.stdin(Stdio::null());
    command
}

/// Runs a client and returns its trimmed output.
fn run_client(client: &mut Command) -> Result<String, String> {
    let output = client.output().map_err(|error| error.to_string())?;
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        Ok(stdout.trim().to_owned())
    } else {
        Err(format!("{}: {} {}", output.status, stderr.trim(), stdout.trim()))
    }
}
