//! Nothing of a server stays behind.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crore_testkit::{Process, eventually};

/// Longer than a supervisor gives a server that does not want to stop.
const LIMIT: Duration = Duration::from_secs(15);

/// What a server leaves if nobody cleans up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Traces {
    pub(crate) pid: u32,
    dir: PathBuf,
}

impl Traces {
    pub(crate) fn of(process: &Process) -> Self {
        Self::new(process.pid(), process.dir().to_owned())
    }

    /// Of a server that runs now; else its end would prove nothing.
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

    /// A drop waits: afterwards there is nothing.
    pub(crate) fn assert_gone(&self) {
        assert_eq!(self.left(), Vec::<PathBuf>::new());
    }

    /// After the owner's death the supervisor cleans up on its own time.
    pub(crate) fn assert_gone_soon(&self) {
        eventually(LIMIT, || {
            let left = self.left();
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
    }
}
