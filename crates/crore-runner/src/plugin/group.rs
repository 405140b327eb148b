//! A process in its own process group, which is killed as a whole with everything that a plugin starts.

use std::os::unix::process::ExitStatusExt;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

use crate::runner::RunFailure;

/// Names of signals that end a faulty process.
const SIGNAL_NAMES: [(Signal, &str); 12] = [
    (Signal::ABORT, "SIGABRT"),
    (Signal::ALARM, "SIGALRM"),
    (Signal::BUS, "SIGBUS"),
    (Signal::FPE, "SIGFPE"),
    (Signal::ILL, "SIGILL"),
    (Signal::INT, "SIGINT"),
    (Signal::KILL, "SIGKILL"),
    (Signal::SEGV, "SIGSEGV"),
    (Signal::SYS, "SIGSYS"),
    (Signal::TERM, "SIGTERM"),
    (Signal::TRAP, "SIGTRAP"),
    (Signal::XCPU, "SIGXCPU"),
];

/// A process and everything that it started. Dropping it kills them.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    process: Child,
    /// The id of the group, until it is killed.
    group: Option<Pid>,
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}

impl ProcessGroup {
    /// From a process that was started as the leader of a group.
    pub(super) fn of(process: Child) -> Self {
        let group = process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Self { process, group }
    }

    /// Kills the group, once: afterwards its id may be reused.
    fn kill(&mut self) {
        if let Some(group) = self.group.take() {
            // An error means that the group is empty.
            _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// Whether the process still runs.
    pub(super) fn is_alive(&mut self) -> bool {
        let is_there = matches!(self.process.try_wait(), Ok(None));
        if !is_there {
            self.kill();
        }
        is_there
    }

    /// Waits until the process has ended, and kills the rest of its group.
    pub(super) async fn wait(&mut self) {
        // `end` waits again and reports an error.
        _ = self.process.wait().await;
        self.kill();
    }

    /// Kills the group and describes how the process ended.
    pub(super) async fn end(&mut self) -> RunFailure {
        self.kill();
        let status = match self.process.wait().await {
            Ok(status) => status,
            Err(error) => {
                return RunFailure::other(format!(
                    "waiting for the plugin process failed: {error}"
                ));
            }
        };
        if let Some(signal) = status.signal() {
            let signal = signal_name(signal);
            return RunFailure::other(format!("the plugin crashed (signal {signal})"))
                .with("signal", signal);
        }
        let code = status.code().unwrap_or_default();
        RunFailure::other(format!("the plugin process exited (exit code {code})"))
            .with("exit_code", code)
    }
}

fn signal_name(signal: i32) -> String {
    let named = SIGNAL_NAMES.iter().find(|(known, _)| known.as_raw() == signal);
    named.map_or_else(|| signal.to_string(), |(_, name)| (*name).to_owned())
}
