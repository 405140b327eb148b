//! Programs in Python that tests speak to, from PyPI, each in an environment that is made once for all runs.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Error, environment};

/// What tests take from PyPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pypi {
    /// `grpcio`, the gRPC of C++, with what makes messages from a `.proto` file.
    GrpcTools,
    /// OpenTelemetry's messages.
    OpenTelemetry,
    /// `schemathesis`, which holds a server to its description, and MessagePack for it.
    Schemathesis,
}

impl Pypi {
    /// All of it.
    pub const ALL: [Self; 3] = [Self::GrpcTools, Self::OpenTelemetry, Self::Schemathesis];

    const fn name(self) -> &'static str {
        match self {
            Self::GrpcTools => "grpc-tools",
            Self::OpenTelemetry => "opentelemetry",
            Self::Schemathesis => "schemathesis",
        }
    }

    const fn packages(self) -> &'static [&'static str] {
        match self {
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
        let made = self.made(&cache());
        if environment::is_ci() { never_missing(made) } else { made }
    }

    fn made(self, cache: &Path) -> Result<PathBuf, Error> {
        let home = cache.join(self.name());
        let failed = |error: io::Error| Error::io(home.display(), &error);
        fs::create_dir_all(cache).map_err(failed)?;
        // Tests run side by side, and one of them makes it.
        let lock = File::create(cache.join(format!("{}.lock", self.name()))).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let (mark, wanted) = (home.join("made-of"), self.packages().join(" "));
        let programs = home.join("bin");
        if fs::read_to_string(&mark).is_ok_and(|made| made == wanted)
            && run(Command::new(programs.join("python")).arg("--version")).is_ok()
        {
            return Ok(programs);
        }
        eprintln!("testkit: installing {wanted} from PyPI");
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&home))?;
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        run(Command::new(programs.join("python")).args(install).args(self.packages()))?;
        fs::write(&mark, wanted).map_err(failed)?;
        Ok(programs)
    }
}

fn run(command: &mut Command) -> Result<(), Error> {
    let shown = format!("{command:?}").replace('"', "");
    let unable = |why: String| Error::Unable(format!("`{shown}`: {why}"));
    let ran = command.stdin(Stdio::null()).output().map_err(|error| unable(error.to_string()))?;
    if ran.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    Err(unable(said.trim().lines().last().unwrap_or("it failed").to_owned()))
}

/// Outside of any checkout, so that a fresh one need not download it again.
fn cache() -> PathBuf {
    let own = environment::read(environment::CACHE).map(PathBuf::from);
    let users = || environment::read("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || environment::read("HOME").map(|home| Path::new(&home).join(".cache"));
    let users = || users().or_else(home).unwrap_or_else(std::env::temp_dir);
    own.unwrap_or_else(|| users().join("crore-testkit"))
}

fn never_missing(made: Result<PathBuf, Error>) -> Result<PathBuf, Error> {
    made.map_err(|error| panic!("nothing may be skipped where CI=true: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_run_is_named_with_its_last_words() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo first >&2; echo the last words >&2; exit 3"]);
        let Err(Error::Unable(why)) = run(&mut command) else { panic!("it went well") };
        assert!(why.starts_with("`sh -c") && why.ends_with(": the last words"), "{why}");
        assert!(matches!(run(&mut Command::new("no-such-program")), Err(Error::Unable(_))));
    }

    #[test]
    #[should_panic(expected = "nothing may be skipped where CI=true")]
    fn where_nothing_may_be_skipped_what_cannot_be_had_is_a_failure() {
        _ = never_missing(Err(Error::Unable("no network".into())));
    }
}
