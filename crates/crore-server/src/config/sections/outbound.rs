use crore_core::settings::{Given, Setting, Shape, section};
use std::net::SocketAddr;
use std::path::PathBuf;

use crore_core::{Size, Span};
use crore_outbound as outbound;
use crore_wire::words::Period;

section! {
    /// Whom crore may call: push workers, and whatever else is named by a URL. Public addresses always;
    /// loopback, if crore listens on loopback alone; its own ports, link-local addresses and a cloud's
    /// metadata never.
    pub(crate) struct Outbound = "outbound" {
        /// What may be called although it is not public: ranges, addresses and hosts, as
        /// `["10.1.0.0/16", "build.lan"]`.
        allow: Option<Allowed> = none,
        /// A PEM file with the authorities whose certificates are believed, besides those that everybody believes.
        ca: Option<PathBuf> = none,
        /// How long a name may take to be resolved, and each address to be reached.
        connect_time: Span = "5s",
        /// The largest answer.
        max_answer: Size = "1MiB",
    }
}

/// Ranges, addresses and hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Allowed(Vec<outbound::Allow>);

impl Setting for Allowed {
    const SHAPE: Shape = Shape::Texts;

    fn read(given: &Given) -> Result<Self, String> {
        given.texts().into_iter().map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl Outbound {
    /// Whom a server may call that listens here.
    pub(crate) fn options(&self, listens: Vec<SocketAddr>) -> outbound::Options {
        outbound::Options {
            allow: self.allow.clone().map(|Allowed(allow)| allow).unwrap_or_default(),
            connect_time: Period(self.connect_time),
            max_answer: self.max_answer,
            listens,
            ..outbound::Options::default()
        }
    }
}
