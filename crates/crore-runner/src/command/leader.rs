//! The first process of a run, from its start until all that it has started is gone.

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
use super::limits::Limits;
use super::mark::Mark;
use super::reach::{Listed, Reach, youth};
use super::tree::Tree;

/// How long a run is a blink, in which hardly anything else was started.
const BLINK: Duration = Duration::from_millis(100);

/// The first process of a run. Dropped, it is stopped, with all that it has started.
#[derive(Debug)]
pub(super) struct Leader {
    process: Option<Process>,
    grace: Duration,
    /// Whether it was dropped before: then there is no time left for any grace.
    is_last: bool,
}

#[derive(Debug)]
struct Process {
    child: Child,
    handle: OwnedFd,
    tree: Tree,
    started: Instant,
    _listed: Listed,
}

/// The ends of its pipes.
#[derive(Debug)]
pub(super) struct Pipes {
    pub(super) stdin: Option<ChildStdin>,
    pub(super) stdout: Option<ChildStdout>,
    pub(super) stderr: Option<ChildStderr>,
}

impl Leader {
    /// Starts it, in a process group of its own. This blocks until the program runs, or was let through the gate with
    /// its limits.
    pub(super) fn start(
        command: &mut Command,
        mark: Mark,
        gate: Option<Limits>,
        grace: Duration,
    ) -> io::Result<(Self, Pipes)> {
        guard::post();
        let started = Instant::now();
        let mut child = command.process_group(0).spawn()?;
        let pid = Pid::from_child(&child);
        let pipes = Pipes {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
        };
        let listed = Listed::new(pid);
        let tree = Tree { leader: pid, mark };
        tree.mark();
        let handle = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => handle,
            Err(error) => {
                tree.kill(Reach::All);
                child.wait()?;
                return Err(error.into());
            }
        };
        let process = Process { child, handle, tree, started, _listed: listed };
        let leader = Self { process: Some(process), grace, is_last: false };
        if let Some(limits) = gate {
            limits.set(pid)?;
        }
        Ok((leader, pipes))
    }

    /// Waits until it has ended; what it has started may live on.
    pub(super) async fn ended(&self) -> io::Result<()> {
        match &self.process {
            Some(process) => readable(process.handle.as_fd()).await,
            None => Ok(()),
        }
    }

    /// Ends what it has left, and says how it ended itself, which it has.
    pub(super) async fn finish(mut self) -> io::Result<ExitStatus> {
        let mut process = self.process.take().expect("it is taken once, here or by drop");
        // Nearly always there is nothing left: that is seen faster than another thread is woken.
        if process.started.elapsed() < BLINK && process.tree.is_alone() {
            return process.child.wait();
        }
        spawn_blocking(move || process.finish()).await?
    }

    /// Asks all of it to end, and ends after the grace what has not.
    pub(super) async fn stop(mut self) -> io::Result<ExitStatus> {
        let process = self.process.as_ref().expect("it is taken once, here or by drop");
        let (tree, reach) = (process.tree.clone(), process.reach());
        let others = spawn_blocking(move || {
            let others = tree.find(reach);
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
        // Whether they ended in time or not, what is left is ended now.
        let _ = timeout(self.grace, all_ended).await;
        let process = self.process.take().expect("it is taken once, here or by drop");
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

impl Process {
    /// How far to look for what it has started.
    fn reach(&self) -> Reach {
        let is_young = self.started.elapsed() < youth();
        if is_young { Reach::After(self.tree.leader) } else { Reach::All }
    }

    /// Kills all that is left, and only then waits for the leader, whose id is thereby given back.
    fn finish(mut self) -> io::Result<ExitStatus> {
        self.tree.kill(self.reach());
        self.child.wait()
    }
}

/// Waits until a process, held by its handle, has ended. It is never read from, only asked when it
/// could be, for which any receiver serves; tokio's own way to wait for what is no pipe is `unsafe`.
async fn readable(handle: BorrowedFd<'_>) -> io::Result<()> {
    Receiver::from_owned_fd_unchecked(handle.try_clone_to_owned()?)?.readable().await
}
