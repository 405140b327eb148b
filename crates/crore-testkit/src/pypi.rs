//! PyPI packages for tests, each set in a virtual environment that is made once for all runs.

use std::path::PathBuf;
use std::process::Command;

use crate::Error;
use crate::download::{installed, run};

/// A set of PyPI packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pypi {
    /// `grpcio` (the C++ gRPC implementation) and its compiler for `.proto` files.
    GrpcTools,
    /// `grpcio` (the C++ gRPC implementation) and its reflection client.
    Grpc,
    /// OpenTelemetry's messages.
    OpenTelemetry,
    /// `schemathesis`, which tests a server against its OpenAPI description, and MessagePack for it.
    Schemathesis,
}

impl Pypi {
    /// All sets.
    pub const ALL: [Self; 4] =
        [Self::Grpc, Self::GrpcTools, Self::OpenTelemetry, Self::Schemathesis];

    const fn name(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::GrpcTools => "grpc-tools",
            Self::OpenTelemetry => "opentelemetry",
            Self::Schemathesis => "schemathesis",
        }
    }

    const fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Grpc => &["grpcio==1.85.1", "grpcio-reflection==1.85.1", "protobuf==7.36.2"],
            Self::GrpcTools => &["grpcio==1.85.1", "grpcio-tools==1.85.1"],
            Self::OpenTelemetry => &["opentelemetry-proto==1.45.2"],
            Self::Schemathesis => &["schemathesis==4.32.5", "msgpack==1.2.4"],
        }
    }

    /// The directory of its programs, including `python`. Downloaded the first time, kept in the user's
    /// cache, and reinstalled when the versions here change.
    ///
    /// # Errors
    ///
    /// [`Error::Unable`] with pip's last line of output, if the installation fails.
    ///
    /// # Panics
    ///
    /// If the installation fails and `CI=true`: there, a test that silently does not run is a failure.
    pub fn programs(self) -> Result<PathBuf, Error> {
        let wanted = self.packages().join(" ");
        let home = installed(self.name(), &wanted, "bin/python", |home| {
            run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(home))?;
            let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
            run(Command::new(home.join("bin/python")).args(install).args(self.packages()))
        });
        home.map(|home| home.join("bin"))
    }
}
