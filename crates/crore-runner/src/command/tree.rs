//! Everything that a run has started, wherever it went.
//!
//! A run's first process leads a process group, which is signalled as one. What leaves the group (by
//! `setsid`, or as a daemon by forking twice) is found in `/proc` by a [`Mark`] that every descendant
//! inherits. Whatever belongs to something that was found belongs to the run as well: its children,
//! its group, its session.
//!
//! This needs no privileges, unlike a cgroup, which few processes may make; and it leaves the host
//! alone: as a *subreaper* it would become the parent of all orphans, and would have to tell those of
//! its runs from the children of the program that it is part of.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, child_subreaper, getpid, kill_process,
    kill_process_group, pidfd_open, pidfd_send_signal, waitid,
};

use super::mark::Mark;
use super::reach::Reach;

/// How often it is looked again for what was started meanwhile.
const MAX_ROUNDS: usize = 100;

/// How long a killed process is waited for in each round: the system may be busy writing for it.
const DEATH: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Marks kernel threads in the flags of a process.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Everything that a run has started. Its leader must not have been waited for yet: so long its
/// process id, which is also its group's, is nobody else's.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    pub(super) leader: Pid,
    pub(super) mark: Mark,
}

/// A process of the run, held so that its id cannot become another's unnoticed.
#[derive(Debug)]
pub(super) struct Held {
    pid: Pid,
    pub(super) handle: OwnedFd,
}

/// A process that is not marked, and what it belongs to.
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    /// When it began, in ticks: with its id, this names it.
    start: u64,
}

/// What a look at a process showed.
enum Seen {
    Ours,
    Other(Process),
    /// It is gone, a zombie, part of the kernel, or certainly somebody else's.
    Nothing,
}

impl Held {
    /// Signals it; false if it has ended, or the host may not.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        pidfd_send_signal(&self.handle, signal).is_ok()
    }

    /// Waits until it is gone, once it was killed. Where the host is the first process of a container,
    /// it is the parent of all orphans, and has to wait for their exit codes too.
    fn see_off(&self) {
        let handle = self.handle.as_fd();
        // What does not die in time is looked at again in the next round.
        let _ = poll(&mut [PollFd::from_borrowed_fd(handle, PollFlags::IN)], Some(&DEATH));
        let _ = waitid(WaitId::PidFd(handle), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    }
}

impl Tree {
    /// Marks the leader, and what it has started before that.
    pub(super) fn mark(&self) {
        self.mark.set(self.leader);
        for _ in 0..MAX_ROUNDS {
            let mut found = self.find(Reach::After(self.leader));
            found.retain(|held| Mark::in_limits(held.pid.as_raw_pid()) != Some(self.mark));
            let marked = found.iter().filter(|held| self.mark.set(held.pid)).count();
            if marked == 0 {
                return;
            }
        }
    }

    /// Kills all of it, the leader too, and waits until it is gone: until two looks in a row have
    /// found nothing, as one alone may just miss who forks and ends.
    pub(super) fn kill(&self, reach: Reach) {
        // By itself, as it may have gone to another group. What it has left is an orphan once it is dead.
        let _ = kill_process(self.leader, Signal::KILL);
        self.signal_group(Signal::KILL);
        let _ = waitid(WaitId::Pid(self.leader), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        let mut quiet = 0;
        for _ in 0..MAX_ROUNDS {
            let found = self.find(reach);
            // The group at once, so that nobody in it can fork away from this.
            self.signal_group(Signal::KILL);
            let killed = found.iter().filter(|held| held.signal(Signal::KILL));
            let n = killed.map(Held::see_off).count();
            quiet = if n == 0 { quiet + 1 } else { 0 };
            if quiet == 2 {
                return;
            }
        }
        tracing::warn!(leader = self.leader.as_raw_pid(), "a command left processes that stay");
    }

    /// Whether the leader, which has ended and is young, has left nothing.
    pub(super) fn is_alone(&self) -> bool {
        let (found, next) = self.look_around(Reach::After(self.leader));
        next != Reach::All && found.is_empty() && self.look_around(next).0.is_empty()
    }

    /// Signals the leader's group.
    pub(super) fn signal_group(&self, signal: Signal) {
        // It fails only if there is nobody left in it.
        let _ = kill_process_group(self.leader, signal);
    }

    /// All processes of the run but its leader.
    pub(super) fn find(&self, reach: Reach) -> Vec<Held> {
        self.look_around(reach).0
    }

    /// Those within reach, and how far to reach next for what they have started meanwhile.
    fn look_around(&self, reach: Reach) -> (Vec<Held>, Reach) {
        let (candidates, next) = reach.candidates();
        let mut found = BTreeSet::from([self.leader.as_raw_pid()]);
        let mut held = Vec::new();
        let mut others = Vec::new();
        for pid in candidates {
            match self.look(pid) {
                Seen::Ours => {
                    found.insert(pid);
                    held.extend(hold(pid, || matches!(self.look(pid), Seen::Ours)));
                }
                Seen::Other(process) => others.push(process),
                Seen::Nothing => {}
            }
        }
        while let Some(i) = others.iter().position(|other| other.belongs_to(&found)) {
            let other = others.swap_remove(i);
            found.insert(other.pid);
            let is_same = || Process::read(other.pid).is_some_and(|now| now.start == other.start);
            held.extend(hold(other.pid, is_same));
        }
        (held, next)
    }

    fn look(&self, pid: i32) -> Seen {
        if is_child_of_host(pid) {
            return Seen::Nothing;
        }
        match Mark::in_environment(pid) {
            Ok(Some(mark)) if mark == self.mark => return Seen::Ours,
            Ok(Some(mark)) if mark.is_of_host() => return Seen::Nothing,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Seen::Nothing,
            Ok(_) | Err(_) => {}
        }
        let Some(process) = Process::read(pid) else {
            if is_reaper() && Mark::in_limits(pid) == Some(self.mark) {
                // An orphan of this run that has ended by itself: nobody else waits for it.
                waits_for(pid, WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            }
            return Seen::Nothing;
        };
        match Mark::in_limits(pid) {
            Some(mark) if mark == self.mark => Seen::Ours,
            Some(mark) if mark.is_of_host() => Seen::Nothing,
            _ => Seen::Other(process),
        }
    }
}

/// Whether the host has started a process itself: the leader of another run, mostly, that is on its way. What a run has
/// started can be a child of the host only where that is the parent of all orphans, and there this is not asked. It
/// spares three looks into `/proc`.
fn is_child_of_host(pid: i32) -> bool {
    let asks = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waits_for(pid, asks) && !is_reaper()
}

/// Waits for a child of the host; false if it is none.
fn waits_for(pid: i32, how: WaitIdOptions) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| waitid(WaitId::Pid(pid), how).is_ok())
}

/// Whether orphans become children of this process.
pub(super) fn is_reaper() -> bool {
    getpid() == Pid::INIT || child_subreaper().is_ok_and(|is_one| is_one.is_some())
}

/// Takes hold of a process, and makes sure that it is still the one that was found.
fn hold(pid: i32, is_same: impl FnOnce() -> bool) -> Option<Held> {
    let pid = Pid::from_raw(pid)?;
    let handle = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    is_same().then_some(Held { pid, handle })
}

impl Process {
    fn belongs_to(&self, found: &BTreeSet<i32>) -> bool {
        [self.parent, self.group, self.session].iter().any(|tie| found.contains(tie))
    }

    /// None if it has ended, or is part of the kernel.
    fn read(pid: i32) -> Option<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        // The name may hold anything; what follows its last bracket does not.
        let (_, fields) = stat.rsplit_once(") ")?;
        let mut fields = fields.split(' ');
        let state = fields.next()?;
        let mut number = || fields.next()?.parse().ok();
        let (parent, group, session) = (number()?, number()?, number()?);
        let flags: u64 = fields.nth(2)?.parse().ok()?;
        let has_ended = matches!(state, "Z" | "X") || flags & KERNEL_THREAD != 0;
        let start = fields.nth(12)?.parse().ok()?;
        (!has_ended).then_some(Self { pid, parent, group, session, start })
    }
}
