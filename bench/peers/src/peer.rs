//! A peer: its packages, its settings with their durability, its server and its client.

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crore_testkit::{DebianPackage, SupervisedServer};

use crate::ledger::{LedgerPlan, PeerLedger};
use crate::{beanstalkd, bullmq, crore, drive, nats, rabbitmq, redis};

pub(crate) type PeerFault = Box<dyn Error + Send + Sync>;

/// Durability of a push when it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerDurability {
    /// The job is in memory.
    None,
    /// The job is synced later; a power cut before that loses it.
    Later(&'static str),
    /// The job is synced.
    Synced,
}

impl PeerDurability {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Later(when) => when,
            Self::Synced => "synced",
        }
    }
}

/// A configuration of a peer: a row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PeerSetting {
    pub(crate) name: &'static str,
    pub(crate) durability: PeerDurability,
}

impl PeerSetting {
    pub(crate) const fn new(name: &'static str, durability: PeerDurability) -> Self {
        Self { name, durability }
    }
}

/// A queue to compare with. A new one needs one file, and one line in [`ALL`].
pub(crate) trait QueuePeer: Sync {
    fn name(&self) -> &'static str;

    /// Its Debian packages.
    fn packages(&self) -> Vec<DebianPackage>;

    /// Installs what does not come from Debian.
    fn prepare(&self) -> Result<(), PeerFault> {
        Ok(())
    }

    /// The versions of what does not come from Debian.
    fn versions(&self) -> Vec<String> {
        Vec::new()
    }

    /// The settings to measure.
    fn settings(&self) -> Result<Vec<PeerSetting>, PeerFault>;

    /// Starts a fresh, empty server in a new directory below this one.
    fn start(&self, setting: &PeerSetting, below: &Path) -> Result<SupervisedServer, PeerFault>;

    /// The client program, which runs in a process of its own; by default this program.
    fn driver(
        &self,
        setting: &PeerSetting,
        server: &SupervisedServer,
        plan: LedgerPlan,
    ) -> Result<Command, PeerFault> {
        drive::this_program(self.name(), setting, server.port(), plan)
    }

    /// Runs one producer and one worker with all slots until the run is over. Returns the server's count of
    /// remaining jobs.
    fn drive(
        &self,
        setting: &PeerSetting,
        port: u16,
        ledger: &Arc<PeerLedger>,
    ) -> Result<u64, PeerFault>;
}

/// The measured peers, in this order, alternating with crore.
pub(crate) const ALL: [&dyn QueuePeer; 5] = [
    &redis::RedisPeer,
    &beanstalkd::BeanstalkdPeer,
    &nats::NatsPeer,
    &rabbitmq::RabbitMqPeer,
    &bullmq::BullMqPeer,
];

/// The peer with this name, crore included.
pub(crate) fn by_name(name: &str) -> Result<&'static dyn QueuePeer, PeerFault> {
    let all = [&crore::CrorePeer as &dyn QueuePeer].into_iter().chain(ALL);
    all.into_iter()
        .find(|peer| peer.name() == name)
        .ok_or_else(|| format!("unknown peer `{name}`").into())
}
