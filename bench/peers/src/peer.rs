//! What a peer is: how it is installed and started, how durable it is, and how it is used.

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crore_testkit::{Package, Process};

use crate::ledger::{Ledger, Plan};
use crate::{beanstalkd, bullmq, crore, drive, nats, rabbitmq, redis};

/// What went wrong, in words.
pub(crate) type Fault = Box<dyn Error + Send + Sync>;

/// What holds when a push is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// It is in memory.
    None,
    /// It will be on the disk after a while; a power cut in between loses it.
    Later(&'static str),
    /// It is on the disk.
    Synced,
}

impl Durability {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Later(when) => when,
            Self::Synced => "synced",
        }
    }
}

/// One way to set a peer up: a row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) durability: Durability,
}

impl Setting {
    pub(crate) const fn new(name: &'static str, durability: Durability) -> Self {
        Self { name, durability }
    }
}

/// A queue to stand beside. One that comes later is one file, and one line in [`ALL`].
pub(crate) trait Peer: Sync {
    fn name(&self) -> &'static str;

    /// The Debian packages that it consists of.
    fn packages(&self) -> Vec<Package>;

    /// Installs whatever Debian does not have.
    fn prepare(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// What it has from elsewhere, with the versions.
    fn versions(&self) -> Vec<String> {
        Vec::new()
    }

    /// Every way to set it up that is measured.
    fn settings(&self) -> Result<Vec<Setting>, Fault>;

    /// A fresh server with nothing in it, in a directory of its own below this one.
    fn start(&self, setting: &Setting, below: &Path) -> Result<Process, Fault>;

    /// The program that uses it, in a process of its own: this one, unless told otherwise.
    fn driver(&self, setting: &Setting, server: &Process, plan: Plan) -> Result<Command, Fault> {
        drive::again(self.name(), setting, server.port(), plan)
    }

    /// One producer and one worker with all its slots, until the ledger is over. Gives how many jobs the server
    /// still has, as it says.
    fn drive(&self, setting: &Setting, port: u16, ledger: &Arc<Ledger>) -> Result<u64, Fault>;
}

/// Those who are measured, in this order, with crore in between.
pub(crate) const ALL: [&dyn Peer; 5] =
    [&redis::Redis, &beanstalkd::Beanstalkd, &nats::Nats, &rabbitmq::RabbitMq, &bullmq::BullMq];

/// The one of this name, crore included.
pub(crate) fn named(name: &str) -> Result<&'static dyn Peer, Fault> {
    let all = [&crore::Crore as &dyn Peer].into_iter().chain(ALL);
    all.into_iter()
        .find(|peer| peer.name() == name)
        .ok_or_else(|| format!("there is no peer `{name}`").into())
}
