//! All processes of a run.
//!
//! The first process leads a process group, which is signalled as a whole. Processes that leave the group (by
//! `setsid`, or a double fork) are found in `/proc` by the [`RunMark`] that every descendant inherits. The
//! children, group and session of a process that was found belong to the run as well.
//!
//! This needs no privileges, unlike a cgroup. The host does not become a *subreaper*: it would be the parent
//! of all orphans, and would have to tell those of its runs from children of the program that embeds it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, child_subreaper, getpid, kill_process,
    kill_process_group, pidfd_open, pidfd_send_signal, waitid,
};

use super::mark::RunMark;
use super::pid_scan::PidScan;

/// Maximum number of scans for processes that started in the meantime.
const MAX_ROUNDS: usize = 100;

/// Time to wait for a killed process per round; it may be blocked in a write in the kernel.
const KILL_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// `PF_KTHREAD`: flags a kernel thread.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// All processes of a run. Its leader must not be reaped while this exists: until then the kernel does not
/// reuse its process id, which is also the id of its group.
#[derive(Debug, Clone)]
pub(super) struct ProcessTree {
    pub(super) leader: Pid,
    pub(super) mark: RunMark,
}

/// A process of the run, pinned by a pidfd so that its id cannot be reused unnoticed.
#[derive(Debug)]
pub(super) struct PinnedProcess {
    pid: Pid,
    pub(super) handle: OwnedFd,
}

/// A process without a mark, and its relations.
struct ProcessStat {
    pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    /// Start time in clock ticks. Unique together with the id.
    start: u64,
}

/// The relation of a process to this run.
enum ProcessClass {
    Ours,
    Other(ProcessStat),
    /// Gone, a zombie, a kernel thread, or certainly of another run.
    Unrelated,
}

impl PinnedProcess {
    /// Sends a signal. False if the process has ended or the host lacks permission.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        pidfd_send_signal(&self.handle, signal).is_ok()
    }

    /// Waits until a killed process is gone, and reaps it: as the first process of a container, the host is
    /// the parent of all orphans.
    fn reap(&self) {
        let handle = self.handle.as_fd();
        // A process that does not die in time is found again in the next round.
        let _ = poll(&mut [PollFd::from_borrowed_fd(handle, PollFlags::IN)], Some(&KILL_WAIT));
        let _ = waitid(WaitId::PidFd(handle), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    }
}

impl ProcessTree {
    /// Marks the leader and the descendants that exist already.
    pub(super) fn mark(&self) {
        self.mark.set(self.leader);
        for _ in 0..MAX_ROUNDS {
            let mut found = self.find(PidScan::After(self.leader));
            found.retain(|held| RunMark::in_limits(held.pid.as_raw_pid()) != Some(self.mark));
            let marked = found.iter().filter(|held| self.mark.set(held.pid)).count();
            if marked == 0 {
                return;
            }
        }
    }

    /// Kills all processes including the leader, until two scans in a row find nothing: a single scan can
    /// miss a process that forks and exits.
    pub(super) fn kill(&self, pid_scan: PidScan) {
        // The leader separately, as it may have changed its group. Its children are orphans once it is dead.
        let _ = kill_process(self.leader, Signal::KILL);
        self.signal_group(Signal::KILL);
        let _ = waitid(WaitId::Pid(self.leader), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        let mut quiet = 0;
        for _ in 0..MAX_ROUNDS {
            let found = self.find(pid_scan);
            // The whole group at once, so that no member can escape by forking.
            self.signal_group(Signal::KILL);
            let killed = found.iter().filter(|held| held.signal(Signal::KILL));
            let n = killed.map(PinnedProcess::reap).count();
            quiet = if n == 0 { quiet + 1 } else { 0 };
            if quiet == 2 {
                return;
            }
        }
        tracing::warn!(
            leader = self.leader.as_raw_pid(),
            "processes of a command survived SIGKILL"
        );
    }

    /// Whether a leader that has ended after a short run left no processes.
    pub(super) fn is_alone(&self) -> bool {
        let (found, next) = self.scan(PidScan::After(self.leader));
        next != PidScan::All && found.is_empty() && self.scan(next).0.is_empty()
    }

    /// Signals the leader's group.
    pub(super) fn signal_group(&self, signal: Signal) {
        // Fails only if the group is empty.
        let _ = kill_process_group(self.leader, signal);
    }

    /// All processes of the run except its leader.
    pub(super) fn find(&self, pid_scan: PidScan) -> Vec<PinnedProcess> {
        self.scan(pid_scan).0
    }

    /// The processes of the run in this scan, and the scan for processes started since.
    fn scan(&self, pid_scan: PidScan) -> (Vec<PinnedProcess>, PidScan) {
        let (candidates, next) = pid_scan.candidates();
        let mut found = BTreeSet::from([self.leader.as_raw_pid()]);
        let mut held = Vec::new();
        let mut others = Vec::new();
        for pid in candidates {
            match self.classify(pid) {
                ProcessClass::Ours => {
                    found.insert(pid);
                    held.extend(pin_process(pid, || {
                        matches!(self.classify(pid), ProcessClass::Ours)
                    }));
                }
                ProcessClass::Other(process) => others.push(process),
                ProcessClass::Unrelated => {}
            }
        }
        while let Some(i) = others.iter().position(|other| other.belongs_to(&found)) {
            let other = others.swap_remove(i);
            found.insert(other.pid);
            let is_same =
                || ProcessStat::read(other.pid).is_some_and(|now| now.start == other.start);
            held.extend(pin_process(other.pid, is_same));
        }
        (held, next)
    }

    fn classify(&self, pid: i32) -> ProcessClass {
        if is_child_of_host(pid) {
            return ProcessClass::Unrelated;
        }
        match RunMark::in_environment(pid) {
            Ok(Some(mark)) if mark == self.mark => return ProcessClass::Ours,
            Ok(Some(mark)) if mark.is_of_host() => return ProcessClass::Unrelated,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return ProcessClass::Unrelated;
            }
            Ok(_) | Err(_) => {}
        }
        let Some(process) = ProcessStat::read(pid) else {
            if is_reaper() && RunMark::in_limits(pid) == Some(self.mark) {
                // An orphan of this run that has ended: only the host can reap it.
                wait_for_child(pid, WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            }
            return ProcessClass::Unrelated;
        };
        match RunMark::in_limits(pid) {
            Some(mark) if mark == self.mark => ProcessClass::Ours,
            Some(mark) if mark.is_of_host() => ProcessClass::Unrelated,
            _ => ProcessClass::Other(process),
        }
    }
}

/// Whether the process is a direct child of the host, usually the leader of another run. Saves three reads in
/// `/proc`. A descendant of a run can be a child of the host only if the host is the parent of all orphans;
/// then this is false.
fn is_child_of_host(pid: i32) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    wait_for_child(pid, options) && !is_reaper()
}

/// Waits for a child of the host; false if the process is not its child.
fn wait_for_child(pid: i32, options: WaitIdOptions) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| waitid(WaitId::Pid(pid), options).is_ok())
}

/// Whether orphans become children of this process.
pub(super) fn is_reaper() -> bool {
    getpid() == Pid::INIT || child_subreaper().is_ok_and(|is_one| is_one.is_some())
}

/// Opens a pidfd, then checks that the id still belongs to the same process.
fn pin_process(pid: i32, is_same: impl FnOnce() -> bool) -> Option<PinnedProcess> {
    let pid = Pid::from_raw(pid)?;
    let handle = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    is_same().then_some(PinnedProcess { pid, handle })
}

impl ProcessStat {
    fn belongs_to(&self, found: &BTreeSet<i32>) -> bool {
        [self.parent, self.group, self.session].iter().any(|id| found.contains(id))
    }

    /// None if it has ended or is a kernel thread.
    fn read(pid: i32) -> Option<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        // The name may contain anything, so parse after its last bracket.
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
