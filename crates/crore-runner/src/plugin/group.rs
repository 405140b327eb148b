//! A process with a group of its own, which ends whole: whatever a plugin starts goes with it.

use std::os::unix::process::ExitStatusExt;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

use crate::runner::Failure;

/// Signals that end a process that did something wrong, or too much.
const NAMED: [(Signal, &str); 12] = [
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

/// A process and all that it has started; dropped, they are killed.
#[derive(Debug)]
pub(super) struct Group {
    process: Child,
    /// The group's number, until it was killed.
    group: Option<Pid>,
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Group {
    /// Of a process that was started as the first of a group.
    pub(super) fn of(process: Child) -> Self {
        let group = process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Self { process, group }
    }

    /// Kills whoever is left, once: later the number may be somebody else's.
    fn kill(&mut self) {
        if let Some(group) = self.group.take() {
            // Nobody is left: so be it.
            _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// Whether the process still runs.
    pub(super) fn is_there(&mut self) -> bool {
        let is_there = matches!(self.process.try_wait(), Ok(None));
        if !is_there {
            self.kill();
        }
        is_there
    }

    /// Waits until the process has ended, and kills whoever is left of its group.
    pub(super) async fn wait(&mut self) {
        // One that cannot be waited for is asked for again by `end`, which tells why.
        _ = self.process.wait().await;
        self.kill();
    }

    /// Kills whoever is left, and says how the process had ended.
    pub(super) async fn end(&mut self) -> Failure {
        self.kill();
        let status = match self.process.wait().await {
            Ok(status) => status,
            Err(error) => return Failure::other(format!("the plugin's process is lost: {error}")),
        };
        if let Some(signal) = status.signal() {
            let signal = name(signal);
            return Failure::other(format!("the plugin crashed (signal {signal})"))
                .with("signal", signal);
        }
        let code = status.code().unwrap_or_default();
        Failure::other(format!("the plugin ended its process (exit code {code})"))
            .with("exit_code", code)
    }
}

fn name(signal: i32) -> String {
    let named = NAMED.iter().find(|(known, _)| known.as_raw() == signal);
    named.map_or_else(|| signal.to_string(), |(_, name)| (*name).to_owned())
}
