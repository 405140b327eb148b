//! Packages of the servers' programs, and where the programs are installed.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{Error, environment};

/// A Debian package that contains a server (its clients come as dependencies) or tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DebianPackage {
    /// `postgresql-15`.
    Postgres,
    /// `mariadb-server`.
    MariaDb,
    /// `redis-server`.
    Redis,
    /// `prometheus`, with `promtool`.
    Prometheus,
    /// `sslscan`, which scans a TLS endpoint for weak settings.
    Sslscan,
    /// `docker.io`, the container engine.
    Docker,
    /// `busybox-static`, the only file that a container needs.
    Busybox,
    /// `util-linux`, for `setsid` and `setpriv`.
    UtilLinux,
    /// `xfsprogs`, for XFS and for `xfs_io`, which shuts a file system down as a power cut does.
    Xfs,
    /// `nodejs`.
    Node,
    /// `npm`.
    Npm,
    /// `chromium`, the browser.
    Chromium,
    /// `libfaketime`, which fakes a program's clock.
    FakeTime,
    /// Any other package.
    Other {
        /// Its name.
        name: &'static str,
        /// Programs, or absolute paths, that it must provide.
        programs: &'static [&'static str],
    },
}

impl DebianPackage {
    /// The package's name, as apt knows it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgresql-15",
            Self::MariaDb => "mariadb-server",
            Self::Redis => "redis-server",
            Self::Prometheus => "prometheus",
            Self::Sslscan => "sslscan",
            Self::Docker => "docker.io",
            Self::Busybox => "busybox-static",
            Self::UtilLinux => "util-linux",
            Self::Xfs => "xfsprogs",
            Self::Node => "nodejs",
            Self::Npm => "npm",
            Self::Chromium => "chromium",
            Self::FakeTime => "libfaketime",
            Self::Other { name, .. } => name,
        }
    }

    /// Whether every program that the testkit runs from this package is installed.
    pub fn is_installed(self) -> bool {
        self.programs().iter().all(|program| self.find(program).is_ok())
    }

    /// Checks that every program that the testkit runs from this package is installed.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] for the first missing one.
    ///
    /// # Panics
    ///
    /// If one is missing and `CI=true`: there, a test that silently does not run is a failure.
    pub fn require(self) -> Result<(), Error> {
        self.programs().iter().try_for_each(|program| self.require_program(program).map(drop))
    }

    const fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Postgres => &["initdb", "postgres", "psql"],
            Self::MariaDb => &["mariadb-install-db", "mariadbd", "mariadb"],
            Self::Redis => &["redis-server", "redis-cli"],
            Self::Prometheus => &["prometheus", "promtool"],
            Self::Sslscan => &["sslscan"],
            Self::Docker => &["dockerd", "docker", "containerd", "runc"],
            Self::Busybox => &["busybox"],
            Self::UtilLinux => &["setsid", "setpriv", "unshare"],
            Self::Xfs => &["mkfs.xfs", "xfs_io"],
            Self::Node => &["node"],
            Self::Npm => &["npm"],
            Self::Chromium => &["chromium"],
            Self::FakeTime => &[FAKETIME],
            Self::Other { programs, .. } => programs,
        }
    }

    fn find(self, program: &str) -> Result<PathBuf, Error> {
        let found = self.search_path().into_iter().map(|dir| dir.join(program));
        let missing = || Error::Missing { program: program.to_owned(), package: self };
        found.into_iter().find(|path| path.is_file()).ok_or_else(missing)
    }

    /// PostgreSQL's own directories come first: programs of different versions must not be mixed.
    fn search_path(self) -> Vec<PathBuf> {
        let path = environment::read("PATH").unwrap_or_default();
        let path = std::env::split_paths(&path).filter(|dir| dir.is_absolute());
        let system = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(PathBuf::from);
        let own = match self {
            Self::Postgres => postgres_places(),
            Self::FakeTime => faketime_places(),
            Self::MariaDb
            | Self::Redis
            | Self::Prometheus
            | Self::Sslscan
            | Self::Docker
            | Self::Busybox
            | Self::UtilLinux
            | Self::Node
            | Self::Npm
            | Self::Chromium
            | Self::Xfs
            | Self::Other { .. } => Vec::new(),
        };
        own.into_iter().chain(path).chain(system).collect()
    }

    /// The `libfaketime` library, for `LD_PRELOAD`.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] if it is not installed; panics like [`DebianPackage::require`].
    pub fn faketime() -> Result<PathBuf, Error> {
        Self::FakeTime.require_program(FAKETIME)
    }

    /// The path of a program that a test requires.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] if it is not installed.
    ///
    /// # Panics
    ///
    /// Like [`DebianPackage::require`].
    pub fn require_program(self, program: &str) -> Result<PathBuf, Error> {
        let found = self.find(program);
        if environment::is_ci() { never_missing(found) } else { found }
    }
}

/// Its variant for multi-threaded programs.
const FAKETIME: &str = "libfaketimeMT.so.1";

/// Debian keeps libraries in a directory per architecture.
fn faketime_places() -> Vec<PathBuf> {
    let machines = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    machines.map(|machine| machine.path().join("faketime")).collect()
}

fn never_missing(found: Result<PathBuf, Error>) -> Result<PathBuf, Error> {
    found.map_err(|error| panic!("nothing may be skipped where CI=true: {error}"))
}

impl fmt::Display for DebianPackage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Debian keeps a directory per version; the tests prefer 15, then the newest.
fn postgres_places() -> Vec<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let mut versions: Vec<_> =
        versions.filter_map(|entry| Some((number(&entry.path())?, entry.path()))).collect();
    versions.sort_by_key(|(version, _)| (*version != 15, u32::MAX - version));
    versions.into_iter().map(|(_, path)| path.join("bin")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_reported_with_its_package() {
        let missing = DebianPackage::Redis.find("no-such-program");
        let program = "no-such-program".to_owned();
        assert_eq!(missing, Err(Error::Missing { program, package: DebianPackage::Redis }));
    }

    #[test]
    #[should_panic(expected = "apt-get install redis-server")]
    fn a_missing_program_is_a_failure_where_skipping_is_forbidden() {
        _ = never_missing(DebianPackage::Redis.find("no-such-program"));
    }

    #[test]
    fn programs_are_found_in_the_system_places() {
        assert!(DebianPackage::UtilLinux.find("sh").is_ok_and(|path| path.is_absolute()));
    }

    #[test]
    fn any_package_can_be_asked_for_by_its_programs_or_their_paths() {
        let dash = DebianPackage::Other { name: "dash", programs: &["sh", "/bin/sh"] };
        assert!(dash.is_installed() && dash.name() == "dash");
        let none = DebianPackage::Other { name: "none", programs: &["/no/such/program"] };
        assert!(!none.is_installed());
    }
}
