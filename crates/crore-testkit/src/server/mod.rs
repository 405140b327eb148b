//! Real servers: each in a private temp dir, on a free port of 127.0.0.1, ready when its `start`
//! returns, and gone with its directory when dropped or when this process ends in any way.

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

pub use process::{Launch, Process};

use crate::environment;

/// What a server does before it says that a write is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Nothing is synced: for tests that never cut the power. A killed server may lose data.
    #[default]
    Fast,
    /// Every acknowledged write is synced first, as in the server's safest usual setting.
    Durable,
}

/// A command with a known environment, so that no `PGHOST` or locale of the machine reaches it.
fn command(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    let path = environment::read("PATH").unwrap_or_else(|| "/usr/sbin:/usr/bin:/sbin:/bin".into());
    command.env_clear().env("PATH", path).env("LC_ALL", "C").env("TZ", "UTC");
    command.stdin(Stdio::null());
    command
}

/// Runs a client and gives what it printed, without the white space around it.
fn ask(client: &mut Command) -> Result<String, String> {
    let output = client.output().map_err(|error| error.to_string())?;
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        Ok(said.trim().to_owned())
    } else {
        Err(format!("{}: {} {}", output.status, complained.trim(), said.trim()))
    }
}
