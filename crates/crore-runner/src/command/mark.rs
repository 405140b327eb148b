//! Marks that all processes of a run inherit, and by which the host finds them.
//!
//! Each run has two marks, both unique. The first is the variable `CRORE_RUN`: it is set from the first
//! instruction on, but a program may drop it (`env -i`). The second is a resource limit without effect,
//! `RLIMIT_RTTIME` (CPU time of a *realtime* process) set to more than a hundred thousand years plus a
//! number. It survives fork, exec and `setsid`, only root can raise it, and every process can read it; but
//! the host can only set it once the program runs, and on the descendants that exist by then. A process
//! escapes only if it drops its environment, creates its own session and loses its parent, all before the
//! host has seen it.

use std::fs;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::environment::MARK_VARIABLE;

/// Marks start here; no real limit is this large.
const BASE: u64 = 1 << 62;

/// The mark of a run: the number of its host, and its own number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunMark(u64);

/// The number of this host in its marks: 30 random bits, to differ from other hosts on the machine.
pub(super) fn host() -> u32 {
    static HOST: OnceLock<u32> = OnceLock::new();
    *HOST.get_or_init(|| {
        let random = getrandom::u32().expect("the system provides randomness");
        random >> 2 | (BASE >> 32) as u32
    })
}

impl RunMark {
    /// The mark of a new run.
    pub(super) fn new() -> Self {
        static RUNS: AtomicU32 = AtomicU32::new(1);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        Self(u64::from(host()) << 32 | u64::from(run))
    }

    /// Its form in the environment variable.
    pub(super) fn text(self) -> String {
        format!("{}-{}", self.0 >> 32, self.0 & u64::from(u32::MAX))
    }

    /// Sets the mark in the resource limits. Fails for a process that has changed its user, and in a host
    /// whose own limit is smaller.
    pub(super) fn set(self, pid: Pid) -> bool {
        let limit = Rlimit { current: Some(self.0), maximum: Some(self.0) };
        prlimit(Some(pid), Resource::Rttime, limit).is_ok()
    }

    /// Whether it belongs to a run of this host.
    pub(super) fn is_of_host(self) -> bool {
        self.0 >> 32 == u64::from(host())
    }

    /// The mark in the environment of a process. An error if the process is gone or belongs to another user.
    pub(super) fn in_environment(pid: i32) -> io::Result<Option<Self>> {
        let environ = fs::read(format!("/proc/{pid}/environ"))?;
        let mut variables = environ.split(|byte| *byte == 0);
        let text = variables.find_map(|variable| {
            variable.strip_prefix(MARK_VARIABLE.as_bytes())?.strip_prefix(b"=")
        });
        Ok(text.and_then(|text| Self::parse(std::str::from_utf8(text).ok()?)))
    }

    /// The mark in the resource limits of a process.
    pub(super) fn in_limits(pid: i32) -> Option<Self> {
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
        let limit = limits.lines().find_map(|line| line.strip_prefix("Max realtime timeout"))?;
        let limit: u64 = limit.split_whitespace().next()?.parse().ok()?;
        (BASE..u64::MAX).contains(&limit).then_some(Self(limit))
    }

    fn parse(text: &str) -> Option<Self> {
        let (host, run) = text.split_once('-')?;
        let (host, run): (u32, u32) = (host.parse().ok()?, run.parse().ok()?);
        Some(Self(u64::from(host) << 32 | u64::from(run)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_unique_and_parses_back() {
        let (one, other) = (RunMark::new(), RunMark::new());
        assert_ne!(one, other);
        assert!(one.is_of_host() && other.is_of_host());
        assert!(one.0 >= BASE && one.0 < BASE * 2, "{one:?}");
        assert_eq!(RunMark::parse(&one.text()), Some(one));
        for text in ["", "1", "-", "1-", "x-1", "1-2-3", "99999999999-1"] {
            assert_eq!(RunMark::parse(text), None, "{text}");
        }
    }

    #[test]
    fn this_process_has_no_mark() {
        let own = i32::try_from(std::process::id()).expect("a small number");
        assert_eq!(RunMark::in_limits(own), None);
        assert!(RunMark::in_environment(own).is_ok());
        assert!(RunMark::in_environment(i32::MAX).is_err());
    }
}
