//! Programs in Python that tests speak to, from PyPI, each in an environment that is made once for all runs.

use std::path::PathBuf;
use std::process::Command;

use crate::Error;
use crate::download::{made, run};

/// What tests take from PyPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pypi {
    /// `grpcio`, the gRPC of C++, with what makes messages from a `.proto` file.
    GrpcTools,
    /// `grpcio`, the gRPC of C++, and what asks by reflection.
    Grpc,
    /// OpenTelemetry's messages.
    OpenTelemetry,
    /// `schemathesis`, which holds a server to its description, and MessagePack for it.
    Schemathesis,
}

impl Pypi {
    /// All of it.
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

    /// The directory of its programs, `python` among them. The first time it is downloaded; then it lies in
    /// the user's cache, and is made anew when the versions here change.
    ///
    /// # Errors
    ///
    /// [`Error::Unable`] with pip's last words, if it cannot be had.
    ///
    /// # Panics
    ///
    /// If it cannot be had and `CI=true`: there, a test that silently does not run is a failure.
    pub fn programs(self) -> Result<PathBuf, Error> {
        let wanted = self.packages().join(" ");
        let home = made(self.name(), &wanted, "bin/python", |home| {
            run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(home))?;
            let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
            run(Command::new(home.join("bin/python")).args(install).args(self.packages()))
        });
        home.map(|home| home.join("bin"))
    }
}
