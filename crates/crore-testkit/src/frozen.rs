//! Processes stopped between two of their instructions, as a power cut stops them.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::eventually::poll;

/// Timeout for all threads of a process to stop.
const FREEZE_TIMEOUT: Duration = Duration::from_secs(10);

/// Stops a process and waits until none of its threads runs code of its own. A thread that waits for a disk inside
/// the kernel stops before it learns the result. A process that has exited counts as stopped.
///
/// # Errors
///
/// The states of its threads, if one of them does not stop.
pub(crate) fn freeze(process: u32) -> Result<(), String> {
    // The process may have exited; the states of its threads tell.
    let _ = Command::new("kill").args(["-s", "STOP", &process.to_string()]).output();
    poll(FREEZE_TIMEOUT, || {
        let states = thread_states(process);
        if states.chars().all(|state| "TDZX".contains(state)) { Ok(()) } else { Err(states) }
    })
    .map_err(|states| {
        format!("process {process} does not stop: its threads are in states {states}")
    })
}

/// The state of each thread, as one letter: `T` stopped, `D` in an uninterruptible wait, `R` running, and others.
fn thread_states(process: u32) -> String {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return String::new() };
    let stats =
        threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok());
    // The name in parentheses may contain any character.
    stats.filter_map(|stat| stat.rsplit_once(") ")?.1.chars().next()).collect()
}
