//! The leader: the first process of a run. Starts it, and stops it with all its descendants.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use tokio::net::unix::pipe::Receiver;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use super::guard;
use super::limits::CommandLimits;
use super::mark::RunMark;
use super::pid_scan::{LeaderEntry, PidScan, pid_wrap_time};
use super::tree::ProcessTree;

/// Runs shorter than this have rarely started other processes.
const SHORT_RUN: Duration = Duration::from_millis(100);

/// The first process of a run. Dropping it stops it and everything that it started.
#[derive(Debug)]
pub(super) struct Leader {
    process: Option<LeaderProcess>,
    grace: Duration,
    /// Whether it was dropped before; a second drop kills without a grace period.
    is_last: bool,
}

#[derive(Debug)]
struct LeaderProcess {
    child: Child,
    handle: OwnedFd,
    tree: ProcessTree,
    started: Instant,
    _listed: LeaderEntry,
}

/// The host's ends of the pipes.
#[derive(Debug)]
pub(super) struct Pipes {
    pub(super) stdin: Option<ChildStdin>,
    pub(super) stdout: Option<ChildStdout>,
    pub(super) stderr: Option<ChildStderr>,
}

impl Leader {
    /// Starts it in its own process group. Blocks until the program runs, or until the launcher has its
    /// limits and may continue.
    pub(super) fn start(
        command: &mut Command,
        mark: RunMark,
        gate: Option<CommandLimits>,
        grace: Duration,
    ) -> io::Result<(Self, Pipes)> {
        guard::ensure_running();
        let started = Instant::now();
        let mut child = command.process_group(0).spawn()?;
        let pid = Pid::from_child(&child);
        let pipes = Pipes {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
        };
        let listed = LeaderEntry::new(pid);
        let tree = ProcessTree { leader: pid, mark };
        tree.mark();
        let handle = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => handle,
            Err(error) => {
                tree.kill(PidScan::All);
                child.wait()?;
                return Err(error.into());
            }
        };
        let process = LeaderProcess { child, handle, tree, started, _listed: listed };
        let leader = Self { process: Some(process), grace, is_last: false };
        if let Some(limits) = gate {
            limits.set(pid)?;
        }
        Ok((leader, pipes))
    }

    /// Waits until it has ended. Its descendants may still live.
    pub(super) async fn ended(&self) -> io::Result<()> {
        match &self.process {
            Some(process) => readable(process.handle.as_fd()).await,
            None => Ok(()),
        }
    }

    /// Ends its descendants and returns its exit status. It must have ended.
    pub(super) async fn finish(mut self) -> io::Result<ExitStatus> {
        let mut process =
            self.process.take().expect("the process is taken only once, here or by drop");
        // Usually there are no descendants, and checking is faster than waking another thread.
        if process.started.elapsed() < SHORT_RUN && process.tree.is_alone() {
            return process.child.wait();
        }
        spawn_blocking(move || process.finish()).await?
    }

    /// Sends SIGTERM to all processes, and SIGKILL after the grace period.
    pub(super) async fn stop(mut self) -> io::Result<ExitStatus> {
        let process =
            self.process.as_ref().expect("the process is taken only once, here or by drop");
        let (tree, pid_scan) = (process.tree.clone(), process.pid_scan());
        let others = spawn_blocking(move || {
            let others = tree.find(pid_scan);
            tree.signal_group(Signal::TERM);
            for other in &others {
                other.signal(Signal::TERM);
            }
            others
        })
        .await?;
        let all_ended = async {
            self.ended().await?;
            for other in &others {
                readable(other.handle.as_fd()).await?;
            }
            io::Result::Ok(())
        };
        // `finish` kills the rest, whether or not they ended in time.
        let _ = timeout(self.grace, all_ended).await;
        let process = self.process.take().expect("the process is taken only once, here or by drop");
        spawn_blocking(move || process.finish()).await?
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        let Some(process) = self.process.take() else { return };
        match Handle::try_current() {
            Ok(runtime) if !self.is_last => {
                let last = Self { process: Some(process), grace: self.grace, is_last: true };
                drop(runtime.spawn(last.stop()));
            }
            _ => drop(thread::Builder::new().spawn(move || process.finish())),
        }
    }
}

impl LeaderProcess {
    /// The process ids to scan for descendants.
    fn pid_scan(&self) -> PidScan {
        let is_young = self.started.elapsed() < pid_wrap_time();
        if is_young { PidScan::After(self.tree.leader) } else { PidScan::All }
    }

    /// Kills all descendants, and only then reaps the leader, which frees its process id.
    fn finish(mut self) -> io::Result<ExitStatus> {
        self.tree.kill(self.pid_scan());
        self.child.wait()
    }
}

/// Waits until the process of a pidfd has ended. A pipe receiver only serves to poll the descriptor, which is
/// never read; tokio's own type for other descriptors needs `unsafe`.
async fn readable(handle: BorrowedFd<'_>) -> io::Result<()> {
    Receiver::from_owned_fd_unchecked(handle.try_clone_to_owned()?)?.readable().await
}
