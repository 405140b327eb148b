//! What can be done to a server, and how it is written down.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crore_testkit::Error;
use crore_testkit::history::{Fault, Node};
use crore_testkit::mount::Sort;
use tokio::task::spawn_blocking;

use crate::clock::Clock;
use crate::desk::NODE;
use crate::pause::pause;
use crate::place::Place;
use crate::round::Stage;
use crate::server::Server;

/// What is done to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    /// It is killed, sometimes before it listens.
    Kill,
    /// It is stopped for longer than leases last, goes on, and is killed.
    Stop,
    /// It is told to stop, and drains.
    Drain,
    /// Its power is cut, on XFS.
    Power,
    /// Its power is cut, on ext4.
    PowerExt4,
    /// Its disk is full when it starts, and may have room again while it runs; and it is killed.
    Full,
    /// Its disk is filled by others while it runs, or has room again; and it is killed.
    Fill,
    /// Its clock jumps, and it is killed.
    Clock,
}

impl Harm {
    /// All of them, and what they are called.
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

    /// Where a server has its directory to be harmed so.
    pub(crate) fn place(self) -> Result<Place, Error> {
        match self {
            Self::Kill | Self::Stop | Self::Drain | Self::Clock => Place::plain(),
            Self::Power => Place::with_power(Sort::Xfs),
            Self::PowerExt4 => Place::with_power(Sort::Ext4),
            Self::Full | Self::Fill => Place::small(),
        }
    }

    /// The clock that its server sees, if it is not the machine's.
    pub(crate) fn clock(self, place: &Place) -> Result<Option<Clock>, Error> {
        if self == Self::Clock { Clock::new(place.home()).map(Some) } else { Ok(None) }
    }

    /// Whether it may hit a server that does not listen yet.
    pub(crate) const fn may_come_early(self) -> bool {
        matches!(self, Self::Kill | Self::Power | Self::PowerExt4)
    }
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, harm)| harm == self).map_or("?", |(name, _)| name);
        f.pad(name)
    }
}

impl FromStr for Harm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        let names = || Self::ALL.map(|(name, _)| name).join(", ");
        found.map(|(_, harm)| *harm).ok_or_else(|| format!("`{text}` is none of: {}", names()))
    }
}

impl Stage {
    /// Harms a server that is used, and ends it; its callers go on until they notice. What happened is
    /// written down when they all have, so that no answer stands after it.
    pub(crate) async fn hurt(&mut self, mut server: Server) -> Result<Hurt, Error> {
        match self.harm {
            Harm::Kill => {}
            Harm::Stop => self.stop(&server).await?,
            Harm::Drain => return drain(server).await,
            Harm::Power | Harm::PowerExt4 => {
                let place = std::sync::Arc::clone(&self.place);
                blocking(move || place.cut()).await?;
                server.kill();
                return Ok(Hurt::Cut);
            }
            Harm::Full if self.is_full && self.dice.percent(50) => self.fill_or_free().await?,
            Harm::Full => {}
            Harm::Fill => self.fill_or_free().await?,
            Harm::Clock => self.jump().await?,
        }
        server.kill();
        Ok(Hurt::Killed)
    }

    async fn stop(&mut self, server: &Server) -> Result<(), Error> {
        server.signal("STOP").map_err(Error::Failed)?;
        pause(Duration::from_millis(20 + self.dice.below(400))).await;
        server.signal("CONT").map_err(Error::Failed)?;
        self.load().await;
        Ok(())
    }

    /// A full disk stays full over some restarts.
    async fn fill_or_free(&mut self) -> Result<(), Error> {
        let place = std::sync::Arc::clone(&self.place);
        if self.is_full {
            self.desk.recorder.fault(NODE, Fault::DiskFreed);
            blocking(move || place.free()).await?;
        } else {
            blocking(move || place.fill()).await?;
            self.desk.recorder.fault(NODE, Fault::DiskFull);
        }
        self.is_full = !self.is_full;
        self.load().await;
        Ok(())
    }

    /// Fills the disk while no server runs.
    fn fill(&mut self) -> Result<(), Error> {
        if self.harm == Harm::Full && !self.is_full && self.dice.percent(50) {
            self.place.fill()?;
            self.desk.recorder.fault(NODE, Fault::DiskFull);
            self.is_full = true;
        }
        Ok(())
    }

    async fn jump(&mut self) -> Result<(), Error> {
        let furthest = if self.dice.percent(20) { 3_600_000 } else { 1_500 };
        let by = self.dice.below(2 * furthest) as i64 - furthest as i64;
        self.set_clock(by)?;
        self.load().await;
        Ok(())
    }

    /// Makes the clock jump.
    pub(crate) fn set_clock(&mut self, by: i64) -> Result<(), Error> {
        let Some(clock) = &mut self.clock else { return Ok(()) };
        self.desk.recorder.fault(NODE, Fault::ClockJump { by });
        clock.jump(by)
    }

    /// Writes down how the server ended, when nobody hears of it any more, and mends the machine.
    pub(crate) fn write_down(&mut self, hurt: &Hurt) -> Result<(), Error> {
        match hurt {
            Hurt::Killed => self.desk.recorder.fault(NODE, Fault::Crash),
            Hurt::Cut => {
                self.desk.recorder.fault(NODE, Fault::PowerCut);
                self.place.restore()?;
            }
            Hurt::Drained(Ok(())) => self.desk.recorder.node(NODE, Node::Closed),
            Hurt::Drained(Err(how)) => {
                self.desk.recorder.fault(NODE, Fault::Crash);
                self.desk.wrong(format!("the server was told to stop and ended with {how}"));
            }
        }
        self.fill()
    }
}

/// How a server ended.
#[derive(Debug)]
pub(crate) enum Hurt {
    /// It was killed.
    Killed,
    /// The power was cut.
    Cut,
    /// It drained, well or not.
    Drained(Result<(), String>),
}

/// Tells a server to stop, and waits until it has.
pub(crate) async fn drain(mut server: Server) -> Result<Hurt, Error> {
    server.signal("TERM").map_err(Error::Failed)?;
    let ended = blocking(move || Ok(server.ended())).await?;
    let how = if ended.success() { Ok(()) } else { Err(ended.to_string()) };
    Ok(Hurt::Drained(how))
}

/// Does something that takes its time beside the callers.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    spawn_blocking(work).await.map_err(|error| Error::Failed(error.to_string()))?
}
