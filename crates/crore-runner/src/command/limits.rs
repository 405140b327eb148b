//! Resource limits of a command.

use std::fmt::Display;
use std::io;

use crore_core::{Code, Invalid};
use crore_wire::units::Size;
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions};
use rustix::process::{kill_process, prlimit, waitid};
use serde::Deserialize;

/// Resource limits of a command, for each of its processes. An absent limit is inherited from the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandLimits {
    /// CPU time in seconds. Then the process gets SIGXCPU, and one second later SIGKILL.
    pub cpu_seconds: Option<u64>,
    /// Address space in bytes.
    pub memory: Option<Size>,
    /// Open files, pipes and sockets.
    pub open_files: Option<u64>,
    /// Processes and threads of the host's user in total; the system does not apply it to root.
    pub processes: Option<u64>,
    /// Largest file that it may write, in bytes.
    pub file_size: Option<Size>,
}

/// The launcher: a shell that stops itself, gets its limits from the host and then executes the program, so
/// no instruction of the program runs without limits. Setting them between fork and exec would need `unsafe`,
/// and `prlimit` the program is not installed everywhere.
pub(super) const LAUNCHER: [&str; 4] = ["/bin/sh", "-c", "kill -STOP $$; exec \"$@\"", "sh"];

impl CommandLimits {
    /// Whether nothing is limited.
    pub(super) fn is_none(self) -> bool {
        self == Self::default()
    }

    /// These limits with the operator's limits as defaults. None may exceed the operator's.
    pub(super) fn within(self, most: Self) -> Result<Self, Invalid> {
        Ok(Self {
            cpu_seconds: lower("cpu_seconds", self.cpu_seconds, most.cpu_seconds)?,
            memory: lower("memory", self.memory, most.memory)?,
            open_files: lower("open_files", self.open_files, most.open_files)?,
            processes: lower("processes", self.processes, most.processes)?,
            file_size: lower("file_size", self.file_size, most.file_size)?,
        })
    }

    /// Sets the limits of a stopped launcher ([`LAUNCHER`]) and resumes it.
    pub(super) fn set(self, pid: Pid) -> io::Result<()> {
        let awaited = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), awaited)?;
        let both = |n: u64| Rlimit { current: Some(n), maximum: Some(n) };
        let cpu = |n: u64| Rlimit { current: Some(n), maximum: Some(n.saturating_add(1)) };
        let limits = [
            (Resource::Cpu, self.cpu_seconds.map(cpu)),
            (Resource::As, self.memory.map(|size| both(size.0))),
            (Resource::Nofile, self.open_files.map(both)),
            (Resource::Nproc, self.processes.map(both)),
            (Resource::Fsize, self.file_size.map(|size| both(size.0))),
        ];
        for (resource, limit) in limits {
            if let Some(limit) = limit {
                prlimit(Some(pid), resource, limit)?;
            }
        }
        Ok(kill_process(pid, Signal::CONT)?)
    }
}

fn lower<T: Ord + Display>(
    name: &str,
    asked: Option<T>,
    most: Option<T>,
) -> Result<Option<T>, Invalid> {
    match (asked, most) {
        (Some(asked), Some(most)) if asked > most => {
            let key = format!("runners.command-{}", name.replace('_', "-"));
            let message =
                format!("`{asked}` is more than `{key}` in the configuration, which is `{most}`");
            Err(Invalid::new(Code::RunnerForbidden, format!("settings.limits.{name}"), message))
        }
        (asked, most) => Ok(asked.or(most)),
    }
}
