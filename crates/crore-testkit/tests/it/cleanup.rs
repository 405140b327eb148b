//! Checks that a server leaves nothing behind.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crore_testkit::{SupervisedServer, eventually};

/// Longer than a supervisor waits for a server to stop.
const LIMIT: Duration = Duration::from_secs(15);

/// The process and directory of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerTraces {
    pub(crate) pid: u32,
    dir: PathBuf,
}

impl ServerTraces {
    pub(crate) fn of(process: &SupervisedServer) -> Self {
        Self::new(process.pid(), process.dir().to_owned())
    }

    /// The server must be running, or its end would prove nothing.
    pub(crate) fn new(pid: u32, dir: PathBuf) -> Self {
        let traces = Self { pid, dir };
        assert!(traces.process().exists() && traces.dir.is_dir());
        traces
    }

    fn process(&self) -> PathBuf {
        Path::new("/proc").join(self.pid.to_string())
    }

    fn left(&self) -> Vec<PathBuf> {
        [self.process(), self.dir.clone()].into_iter().filter(|path| path.exists()).collect()
    }

    /// For a dropped server: `drop` waits until the cleanup is done.
    pub(crate) fn assert_gone(&self) {
        assert_eq!(self.left(), Vec::<PathBuf>::new());
    }

    /// For a killed owner: the supervisor cleans up asynchronously.
    pub(crate) fn assert_gone_soon(&self) {
        eventually(LIMIT, || {
            let left = self.left();
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
    }
}
