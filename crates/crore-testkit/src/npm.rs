//! Programs for Node that tests speak to, from npm, in a directory that is made once for all runs.

use std::path::PathBuf;
use std::process::Command;

use crate::download::{made, run};
use crate::{Error, Package};

/// What tests take from npm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Npm {
    /// `buf`, which calls by gRPC and gRPC-Web, and `connect-web`, which does in browsers.
    Connect,
}

impl Npm {
    /// All of it.
    pub const ALL: [Self; 1] = [Self::Connect];

    const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
        }
    }

    const fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Connect => &[
                "@bufbuild/buf@1.74.0",
                "@bufbuild/protobuf@2.17.0",
                "@connectrpc/connect@2.2.0",
                "@connectrpc/connect-web@2.2.0",
            ],
        }
    }

    /// The directory with its `node_modules`, whose programs are in `node_modules/.bin`. The first time it is
    /// downloaded; then it lies in the user's cache, and is made anew when the versions here change.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] if there is no Node, and [`Error::Unable`] with npm's last words, if it cannot be had.
    ///
    /// # Panics
    ///
    /// If it cannot be had and `CI=true`: there, a test that silently does not run is a failure.
    pub fn home(self) -> Result<PathBuf, Error> {
        Package::Node.require()?;
        let npm = Package::Npm.need("npm")?;
        made(self.name(), &self.packages().join(" "), "node_modules/.bin/buf", |home| {
            let install = ["install", "--no-fund", "--no-audit", "--loglevel=error", "--prefix"];
            run(Command::new(npm).args(install).arg(home).args(self.packages()))
        })
    }
}
