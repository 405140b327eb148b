//! Programs die with their host, also when the host is killed with -9.
//!
//! One shell for the whole host waits until its standard input closes, which the system sees to when
//! the host ends, and then kills all that bears the host's mark. The system's own means for this
//! (`PR_SET_PDEATHSIG`) would have to be set between fork and exec, which is `unsafe`; it is lost on
//! the first fork of the program, so that grandchildren would stay; and it follows the *thread* that
//! started the program, which a runtime may end while the host lives. Per run this costs nothing.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use super::{environment, mark};

static GUARD: Mutex<Option<Child>> = Mutex::new(None);

/// Sees to it that there is a guard. Without one, commands are still run: a machine without a shell
/// can run them as well.
pub(super) fn post() {
    let mut guard = GUARD.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if guard.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None))) {
        return;
    }
    match start() {
        Ok(child) => *guard = Some(child),
        Err(error) => {
            tracing::warn!(%error, "commands would outlive a host that is killed: no `/bin/sh`");
        }
    }
}

fn start() -> std::io::Result<Child> {
    Command::new("/bin/sh")
        .args(["-c", include_str!("guard.sh"), "crore-guard", &mark::host().to_string()])
        .env_clear()
        .env("PATH", environment::path())
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}
