//! The faults, how they are injected, and how they are recorded.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crore_testkit::Error;
use crore_testkit::history::{NodeObservation, RecordedFault};
use crore_testkit::mount::FileSystem;
use tokio::task::spawn_blocking;

use crate::clock::JumpingClock;
use crate::context::NODE;
use crate::data_dir::DataDir;
use crate::round::ChaosRun;
use crate::server::ServerProcess;
use crate::time::sleep;

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChaosFault {
    /// SIGKILL, sometimes before the server listens.
    Kill,
    /// SIGSTOP for longer than leases last, SIGCONT, then SIGKILL.
    Stop,
    /// SIGTERM: the server drains.
    Drain,
    /// A power cut, on XFS.
    Power,
    /// A power cut, on ext4.
    PowerExt4,
    /// The disk is full when the server starts, and may be freed while it runs; then SIGKILL.
    Full,
    /// The disk is filled from outside, or freed, while the server runs; then SIGKILL.
    Fill,
    /// The server's clock jumps; then SIGKILL.
    Clock,
}

impl ChaosFault {
    /// All faults with their names.
    pub const ALL: [(&'static str, Self); 8] = [
        ("kill", Self::Kill),
        ("stop", Self::Stop),
        ("drain", Self::Drain),
        ("power", Self::Power),
        ("power-ext4", Self::PowerExt4),
        ("full", Self::Full),
        ("fill", Self::Fill),
        ("clock", Self::Clock),
    ];

    /// A new data directory on which this fault can be injected.
    pub(crate) fn data_dir(self) -> Result<DataDir, Error> {
        match self {
            Self::Kill | Self::Stop | Self::Drain | Self::Clock => DataDir::plain(),
            Self::Power => DataDir::on_image(FileSystem::Xfs),
            Self::PowerExt4 => DataDir::on_image(FileSystem::Ext4),
            Self::Full | Self::Fill => DataDir::on_small_disk(),
        }
    }

    /// The clock for the server, unless it uses the machine's.
    pub(crate) fn clock(self, data_dir: &DataDir) -> Result<Option<JumpingClock>, Error> {
        if self == Self::Clock { JumpingClock::new(data_dir.home()).map(Some) } else { Ok(None) }
    }

    /// Whether the fault may hit a server that does not listen yet.
    pub(crate) const fn may_hit_startup(self) -> bool {
        matches!(self, Self::Kill | Self::Power | Self::PowerExt4)
    }
}

impl fmt::Display for ChaosFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, fault)| fault == self).map_or("?", |(name, _)| name);
        f.pad(name)
    }
}

impl FromStr for ChaosFault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        let names = || Self::ALL.map(|(name, _)| name).join(", ");
        found
            .map(|(_, fault)| *fault)
            .ok_or_else(|| format!("unknown fault `{text}`; expected one of: {}", names()))
    }
}

impl ChaosRun {
    /// Injects the fault into a server under load, and ends the server; callers go on until they notice. The end of the
    /// server is recorded after all callers have stopped, so that no answer follows it in the history.
    pub(crate) async fn inject(&mut self, mut server: ServerProcess) -> Result<ServerExit, Error> {
        match self.fault {
            ChaosFault::Kill => {}
            ChaosFault::Stop => self.stop_and_continue(&server).await?,
            ChaosFault::Drain => return drain(server).await,
            ChaosFault::Power | ChaosFault::PowerExt4 => {
                let data_dir = std::sync::Arc::clone(&self.data_dir);
                let process = server.id();
                blocking(move || data_dir.cut_power(process)).await?;
                server.kill();
                return Ok(ServerExit::PowerCut);
            }
            ChaosFault::Full if self.is_full && self.rng.percent(50) => {
                self.fill_or_free().await?;
            }
            ChaosFault::Full => {}
            ChaosFault::Fill => self.fill_or_free().await?,
            ChaosFault::Clock => self.jump_clock().await?,
        }
        server.kill();
        Ok(ServerExit::Killed)
    }

    async fn stop_and_continue(&mut self, server: &ServerProcess) -> Result<(), Error> {
        server.signal("STOP").map_err(Error::Failed)?;
        sleep(Duration::from_millis(20 + self.rng.below(400))).await;
        server.signal("CONT").map_err(Error::Failed)?;
        self.load().await;
        Ok(())
    }

    /// Changes the state of the disk; a full disk stays full over some restarts.
    async fn fill_or_free(&mut self) -> Result<(), Error> {
        let data_dir = std::sync::Arc::clone(&self.data_dir);
        if self.is_full {
            self.context.recorder.fault(NODE, RecordedFault::DiskFreed);
            blocking(move || data_dir.free()).await?;
        } else {
            blocking(move || data_dir.fill()).await?;
            self.context.recorder.fault(NODE, RecordedFault::DiskFull);
        }
        self.is_full = !self.is_full;
        self.load().await;
        Ok(())
    }

    /// For [`ChaosFault::Full`]: sometimes fills the disk while no server runs.
    fn fill_before_start(&mut self) -> Result<(), Error> {
        if self.fault == ChaosFault::Full && !self.is_full && self.rng.percent(50) {
            self.data_dir.fill()?;
            self.context.recorder.fault(NODE, RecordedFault::DiskFull);
            self.is_full = true;
        }
        Ok(())
    }

    async fn jump_clock(&mut self) -> Result<(), Error> {
        let furthest = if self.rng.percent(20) { 3_600_000 } else { 1_500 };
        let by = self.rng.below(2 * furthest) as i64 - furthest as i64;
        self.set_clock(by)?;
        self.load().await;
        Ok(())
    }

    /// Makes the clock jump by this many milliseconds.
    pub(crate) fn set_clock(&mut self, by: i64) -> Result<(), Error> {
        let Some(clock) = &mut self.clock else { return Ok(()) };
        self.context.recorder.fault(NODE, RecordedFault::ClockJump { by });
        clock.jump(by)
    }

    /// Records how the server ended, once all callers have stopped, and prepares the disk for the next start.
    pub(crate) fn record_exit(&mut self, exit: &ServerExit) -> Result<(), Error> {
        match exit {
            ServerExit::Killed => self.context.recorder.fault(NODE, RecordedFault::Crash),
            ServerExit::PowerCut => {
                self.context.recorder.fault(NODE, RecordedFault::PowerCut);
                self.data_dir.restore_power()?;
            }
            ServerExit::Drained(Ok(())) => {
                self.context.recorder.node(NODE, NodeObservation::Closed);
            }
            ServerExit::Drained(Err(how)) => {
                self.context.recorder.fault(NODE, RecordedFault::Crash);
                self.context
                    .add_anomaly(format!("the server was stopped by SIGTERM and ended with {how}"));
            }
        }
        self.fill_before_start()
    }
}

/// How a server ended.
#[derive(Debug)]
pub(crate) enum ServerExit {
    Killed,
    PowerCut,
    /// After SIGTERM; the error is an unsuccessful exit status.
    Drained(Result<(), String>),
}

/// Stops a server gracefully, and waits until it has exited.
pub(crate) async fn drain(mut server: ServerProcess) -> Result<ServerExit, Error> {
    server.signal("TERM").map_err(Error::Failed)?;
    let ended = blocking(move || Ok(server.wait_for_exit())).await?;
    let how = if ended.success() { Ok(()) } else { Err(ended.to_string()) };
    Ok(ServerExit::Drained(how))
}

/// Runs a blocking operation without stalling the callers.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    spawn_blocking(work).await.map_err(|error| Error::Failed(error.to_string()))?
}
