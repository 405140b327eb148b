//! Ends all programs when the host dies, even by SIGKILL.
//!
//! One shell per host waits until its standard input closes, which happens when the host ends, and then kills
//! every process with the host's mark. `PR_SET_PDEATHSIG` does not work here: setting it between fork and
//! exec is `unsafe`; the first fork of the program loses it, so grandchildren would survive; and it follows
//! the *thread* that started the program, which a runtime may end while the host lives. The guard has no cost
//! per run.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use super::{environment, mark};

static GUARD: Mutex<Option<Child>> = Mutex::new(None);

/// Starts the guard if it is not running. Commands also run without one, so a machine without a shell works.
pub(super) fn ensure_running() {
    let mut guard = GUARD.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if guard.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None))) {
        return;
    }
    match start() {
        Ok(child) => *guard = Some(child),
        Err(error) => {
            tracing::warn!(%error, "cannot start the guard process; commands would outlive a killed host");
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
