//! npm packages for tests, installed once for all runs.

use std::path::PathBuf;
use std::process::Command;

use crate::download::{installed, run};
use crate::{DebianPackage, Error};

/// A set of npm packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Npm {
    /// `buf`, a gRPC and gRPC-Web client, and `connect-web`, the one for browsers.
    Connect,
    /// `playwright-core`, which drives a browser, `axe-core`, which checks pages for screen readers, and `typescript`.
    Browser,
}

impl Npm {
    /// All sets.
    pub const ALL: [Self; 2] = [Self::Connect, Self::Browser];

    const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Browser => "browser",
        }
    }

    /// A program of the set, which runs if it is installed.
    const fn program(self) -> &'static str {
        match self {
            Self::Connect => "node_modules/.bin/buf",
            Self::Browser => "node_modules/.bin/tsc",
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
            Self::Browser => &["axe-core@4.14.0", "playwright-core@1.65.1", "typescript@7.0.2"],
        }
    }

    /// The directory with its `node_modules`; programs are in `node_modules/.bin`. Downloaded the first time,
    /// kept in the user's cache, and reinstalled when the versions here change.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] without Node, [`Error::Unable`] with npm's last line of output if the installation
    /// fails.
    ///
    /// # Panics
    ///
    /// If the installation fails and `CI=true`: there, a test that silently does not run is a failure.
    pub fn home(self) -> Result<PathBuf, Error> {
        DebianPackage::Node.require()?;
        let npm = DebianPackage::Npm.require_program("npm")?;
        installed(self.name(), &self.packages().join(" "), self.program(), |home| {
            let install = ["install", "--no-fund", "--no-audit", "--loglevel=error", "--prefix"];
            run(Command::new(npm).args(install).arg(home).args(self.packages()))
        })
    }
}
