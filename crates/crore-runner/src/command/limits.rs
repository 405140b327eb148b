//! What a run may use of the machine.

use std::fmt::Display;
use std::io;

use crore_core::{Code, Invalid};
use crore_wire::words::Size;
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions};
use rustix::process::{kill_process, prlimit, waitid};
use serde::Deserialize;

/// What a run may use of the machine, each process of it by itself; what is not named is as the host
/// has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Seconds of processor time; then it is told by SIGXCPU, and a second later killed.
    pub cpu_seconds: Option<u64>,
    /// Bytes of address space.
    pub memory: Option<Size>,
    /// Files, pipes and sockets that are open at once.
    pub open_files: Option<u64>,
    /// Processes and threads of the host's user, all together; the system does not apply it to root.
    pub processes: Option<u64>,
    /// Bytes of the largest file that it writes.
    pub file_size: Option<Size>,
}

/// The shell stops itself, is given its limits by the host, and becomes the program: so not one
/// instruction of the program runs without them. Setting them between fork and exec would need
/// `unsafe`, and a program that sets them (`prlimit`) is not on every machine.
pub(super) const GATE: [&str; 4] = ["/bin/sh", "-c", "kill -STOP $$; exec \"$@\"", "sh"];

impl Limits {
    /// Whether nothing is limited.
    pub(super) fn is_none(self) -> bool {
        self == Self::default()
    }

    /// These, and where they say nothing, those of the operator, which must not be passed.
    pub(super) fn within(self, most: Self) -> Result<Self, Invalid> {
        Ok(Self {
            cpu_seconds: lower("cpu_seconds", self.cpu_seconds, most.cpu_seconds)?,
            memory: lower("memory", self.memory, most.memory)?,
            open_files: lower("open_files", self.open_files, most.open_files)?,
            processes: lower("processes", self.processes, most.processes)?,
            file_size: lower("file_size", self.file_size, most.file_size)?,
        })
    }

    /// Sets them for a process that is waiting at the [`GATE`], and lets it through.
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
