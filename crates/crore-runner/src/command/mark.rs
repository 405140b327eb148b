//! What every process that a run starts inherits, and is known by wherever it goes.
//!
//! There are two marks, each unique to its run. One is the variable `CRORE_RUN` in the environment,
//! which is there from the first instruction on, but may be dropped (`env -i`). The other is a
//! resource limit that limits nothing: that of the time which a *realtime* process may take without a
//! pause, set to more than a hundred thousand years and a number. It outlives every fork, exec and
//! change of session, only root can raise it, and everybody can read it; but it can only be set once
//! the program runs, and for what it has started by then. So a process gets away only if it drops its
//! environment, makes a session of its own and loses its parent, all that before the host has seen it.

use std::fs;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::environment::MARK;

/// Where the numbers begin that are marks: no limit that means anything is as large.
const BASE: u64 = 1 << 62;

/// The mark of a run: the number of its host, and its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark(u64);

/// What marks this host's runs: 30 random bits, so that no two hosts of a machine share them.
pub(super) fn host() -> u32 {
    static HOST: OnceLock<u32> = OnceLock::new();
    *HOST.get_or_init(|| {
        let random = getrandom::u32().expect("the system gives randomness");
        random >> 2 | (BASE >> 32) as u32
    })
}

impl Mark {
    /// For one more run.
    pub(super) fn new() -> Self {
        static RUNS: AtomicU32 = AtomicU32::new(1);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        Self(u64::from(host()) << 32 | u64::from(run))
    }

    /// As it stands in an environment.
    pub(super) fn text(self) -> String {
        format!("{}-{}", self.0 >> 32, self.0 & u64::from(u32::MAX))
    }

    /// Sets the mark that is a limit. It cannot be set for a program that has become another user's,
    /// or by a host that is itself held to a smaller number.
    pub(super) fn set(self, pid: Pid) -> bool {
        let limit = Rlimit { current: Some(self.0), maximum: Some(self.0) };
        prlimit(Some(pid), Resource::Rttime, limit).is_ok()
    }

    /// Whether it is of another run of this host.
    pub(super) fn is_of_host(self) -> bool {
        self.0 >> 32 == u64::from(host())
    }

    /// The mark in the environment of a process; an error if there is no such process, or it is
    /// somebody else's.
    pub(super) fn in_environment(pid: i32) -> io::Result<Option<Self>> {
        let environ = fs::read(format!("/proc/{pid}/environ"))?;
        let mut variables = environ.split(|byte| *byte == 0);
        let text = variables
            .find_map(|variable| variable.strip_prefix(MARK.as_bytes())?.strip_prefix(b"="));
        Ok(text.and_then(|text| Self::parse(std::str::from_utf8(text).ok()?)))
    }

    /// The mark among the limits of a process.
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
    fn a_mark_is_unique_large_and_read_as_it_is_written() {
        let (one, other) = (Mark::new(), Mark::new());
        assert_ne!(one, other);
        assert!(one.is_of_host() && other.is_of_host());
        assert!(one.0 >= BASE && one.0 < BASE * 2, "{one:?}");
        assert_eq!(Mark::parse(&one.text()), Some(one));
        for text in ["", "1", "-", "1-", "x-1", "1-2-3", "99999999999-1"] {
            assert_eq!(Mark::parse(text), None, "{text}");
        }
    }

    #[test]
    fn this_process_bears_no_mark() {
        let own = i32::try_from(std::process::id()).expect("a small number");
        assert_eq!(Mark::in_limits(own), None);
        assert!(Mark::in_environment(own).is_ok());
        assert!(Mark::in_environment(i32::MAX).is_err());
    }
}
