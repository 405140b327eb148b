//! The doors, a file each: how one pushes there, and how one works. Another door is another file, and a line in each
//! table of this one.

mod grpc;
mod http;
mod jobber;
mod lakh;
mod lightjq;

use std::fmt;
use std::time::Duration;

use super::load::{Producer, Worker};

/// By which protocol jobs travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Door {
    Grpc,
    Http,
    Lakh,
    Jobber,
    Lightjq,
}

impl fmt::Display for Door {
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

impl Door {
    /// Pushes what there is to push, until there is nothing more.
    pub(super) async fn push(self, producer: &mut Producer) -> anyhow::Result<()> {
        match self {
            Self::Grpc => grpc::push(producer).await,
            Self::Http => http::push(producer).await,
            Self::Lakh => lakh::push(producer).await,
            Self::Jobber => jobber::push(producer).await,
            Self::Lightjq => lightjq::push(producer).await,
        }
    }

    /// Takes jobs and finishes them, until told to stop.
    pub(super) async fn work(self, worker: &mut Worker) -> anyhow::Result<()> {
        match self {
            Self::Grpc => grpc::work(worker).await,
            Self::Http | Self::Jobber => http::work(worker).await,
            Self::Lakh => lakh::work(worker).await,
            Self::Lightjq => lightjq::work(worker).await,
        }
    }

    /// How many tasks a producer is made of: where a connection takes one call at a time, one for each.
    pub(super) const fn tasks(self, in_flight: usize) -> usize {
        match self {
            Self::Grpc | Self::Lakh => 1,
            Self::Http | Self::Jobber | Self::Lightjq => in_flight,
        }
    }

    /// For how long whoever was handed a job has it; `None`: as long as he is there.
    pub(super) const fn lease(self) -> Option<Duration> {
        match self {
            Self::Grpc => None,
            Self::Http => Some(Duration::from_secs(30)),
            Self::Lakh => Some(lakh::RESERVED),
            Self::Jobber => Some(Duration::from_secs(15)),
            Self::Lightjq => Some(Duration::from_secs(30)),
        }
    }

    /// The queue in which jobs of this name wait.
    pub(super) const fn queue(self, name: &str) -> &str {
        match self {
            Self::Grpc | Self::Http | Self::Lakh | Self::Jobber => name,
            Self::Lightjq => lightjq::QUEUE,
        }
    }

    /// Whether a report is answered when it is on the disk.
    pub(super) const fn answers_reports(self) -> bool {
        match self {
            Self::Grpc | Self::Http | Self::Jobber => true,
            Self::Lakh | Self::Lightjq => false,
        }
    }

    /// How many jobs a push has, unless told otherwise.
    pub(super) const fn batch(self) -> u64 {
        match self {
            Self::Grpc | Self::Http | Self::Lakh => 100,
            Self::Jobber | Self::Lightjq => 1,
        }
    }

    /// How many pushes are under way, unless told otherwise.
    pub(super) const fn in_flight(self) -> usize {
        match self {
            Self::Grpc | Self::Http | Self::Lakh => 16,
            Self::Jobber | Self::Lightjq => 64,
        }
    }

    /// How many work, unless told otherwise.
    pub(super) const fn workers(self) -> usize {
        match self {
            Self::Grpc | Self::Lakh => 1,
            Self::Http | Self::Jobber | Self::Lightjq => 4,
        }
    }

    /// The most jobs that a worker has at once.
    pub(super) const fn most_slots(self) -> usize {
        match self {
            Self::Grpc | Self::Lakh | Self::Lightjq => 10_000,
            Self::Http | Self::Jobber => 1000,
        }
    }
}
