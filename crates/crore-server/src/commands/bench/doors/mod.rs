//! The protocol of each door, one file each: how a producer pushes and how a worker works. A new door needs a file
//! and an arm in each match of this one.

mod grpc;
mod http;
mod jobber;
mod lakh;
mod lightjq;

use std::fmt;
use std::time::Duration;

use super::load::{BenchProducer, BenchWorker};

/// Protocol of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum BenchDoor {
    Grpc,
    Http,
    Lakh,
    Jobber,
    Lightjq,
}

impl fmt::Display for BenchDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Grpc => "grpc",
            Self::Http => "http",
            Self::Lakh => "lakh",
            Self::Jobber => "jobber",
            Self::Lightjq => "lightjq",
        })
    }
}

impl BenchDoor {
    /// Pushes batches until there are no more.
    pub(super) async fn push(self, producer: &mut BenchProducer) -> anyhow::Result<()> {
        match self {
            Self::Grpc => grpc::push(producer).await,
            Self::Http => http::push(producer).await,
            Self::Lakh => lakh::push(producer).await,
            Self::Jobber => jobber::push(producer).await,
            Self::Lightjq => lightjq::push(producer).await,
        }
    }

    /// Receives and finishes jobs until the stop signal.
    pub(super) async fn work(self, worker: &mut BenchWorker) -> anyhow::Result<()> {
        match self {
            Self::Grpc => grpc::work(worker).await,
            Self::Http | Self::Jobber => http::work(worker).await,
            Self::Lakh => lakh::work(worker).await,
            Self::Lightjq => lightjq::work(worker).await,
        }
    }

    /// Tasks per producer: one per concurrent push if a connection takes one call at a time.
    pub(super) const fn tasks(self, in_flight: usize) -> usize {
        match self {
            Self::Grpc | Self::Lakh => 1,
            Self::Http | Self::Jobber | Self::Lightjq => in_flight,
        }
    }

    /// Lease of a delivered job; `None`: held as long as the worker is connected.
    pub(super) const fn lease(self) -> Option<Duration> {
        match self {
            Self::Grpc => None,
            Self::Http => Some(Duration::from_secs(30)),
            Self::Lakh => Some(lakh::RESERVATION),
            Self::Jobber => Some(Duration::from_secs(15)),
            Self::Lightjq => Some(Duration::from_secs(30)),
        }
    }

    /// The queue of jobs with this name.
    pub(super) const fn queue(self, name: &str) -> &str {
        match self {
            Self::Grpc | Self::Http | Self::Lakh | Self::Jobber => name,
            Self::Lightjq => lightjq::QUEUE,
        }
    }

    /// Whether the server acknowledges reports.
    pub(super) const fn acknowledges_reports(self) -> bool {
        match self {
            Self::Grpc | Self::Http | Self::Jobber => true,
            Self::Lakh | Self::Lightjq => false,
        }
    }

    /// Default number of jobs per push.
    pub(super) const fn batch(self) -> u64 {
        match self {
            Self::Grpc | Self::Http | Self::Lakh => 100,
            Self::Jobber | Self::Lightjq => 1,
        }
    }

    /// Default number of concurrent pushes.
    pub(super) const fn in_flight(self) -> usize {
        match self {
            Self::Grpc | Self::Http | Self::Lakh => 16,
            Self::Jobber | Self::Lightjq => 64,
        }
    }

    /// Default number of workers.
    pub(super) const fn workers(self) -> usize {
        match self {
            Self::Grpc | Self::Lakh => 1,
            Self::Http | Self::Jobber | Self::Lightjq => 4,
        }
    }

    /// Maximum slots per worker.
    pub(super) const fn max_slots(self) -> usize {
        match self {
            Self::Grpc | Self::Lakh | Self::Lightjq => 10_000,
            Self::Http | Self::Jobber => 1000,
        }
    }
}
