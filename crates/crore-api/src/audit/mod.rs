//! The audit log: who changed what, one line of JSON each, and who tried to.
//!
//! It never holds a payload or a secret. A line is on the disk before the call that it is about is
//! answered. If it cannot be written, that is said loudly and counted, and the server goes on.

mod entry;
mod file;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use crore_core::Size;
use crore_core::settings::section;
use tokio::sync::oneshot;

pub use entry::{About, Entry, Pending};
use file::File;

section! {
    /// What operators change, and who was refused: a line of JSON for each.
    pub struct Options: Eq = "audit" {
        /// The file; none is written, unless one is named.
        file: Option<PathBuf> = none,
        /// When the file would be larger than this, a new one is begun.
        max_size: Size = "64MiB",
        /// How many older files are kept: `audit.jsonl.1` is the youngest of them.
        keep: u32 = "8",
    }
}

/// How many lines may wait to be written.
const WAITING: usize = 1024;
/// How many lines are written together.
const TOGETHER: usize = 256;

/// The audit log. Cloning gives another handle to the same.
#[derive(Debug, Clone, Default)]
pub struct Audit(Option<Arc<Log>>);

#[derive(Debug)]
struct Log {
    lines: SyncSender<Line>,
    lost: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Line {
    bytes: Vec<u8>,
    /// Told when it is on the disk, or lost.
    written: Option<oneshot::Sender<()>>,
}

impl Audit {
    /// No audit log.
    pub fn none() -> Self {
        Self::default()
    }

    /// Opens the audit log that the options name, if they name one.
    pub fn open(options: &Options) -> io::Result<Self> {
        let Some(path) = &options.file else { return Ok(Self::none()) };
        let file = File::open(path.clone(), options.max_size.0, options.keep)?;
        let (lines, waiting) = sync_channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&lost);
        let name = "crore-audit".to_owned();
        thread::Builder::new().name(name).spawn(move || write(file, &waiting, &counter))?;
        Ok(Self(Some(Arc::new(Log { lines, lost }))))
    }

    /// How many lines could not be written since the start.
    pub fn lost(&self) -> u64 {
        self.0.as_ref().map_or(0, |log| log.lost.load(Ordering::Relaxed))
    }

    /// Writes an entry; comes back when it is on the disk, or lost.
    pub async fn record(&self, entry: &Entry) {
        let (written, told) = oneshot::channel();
        if self.send(entry, Some(written)) {
            let _ = told.await;
        }
    }

    /// Writes an entry that nobody waits for.
    fn record_soon(&self, entry: &Entry) {
        self.send(entry, None);
    }

    fn send(&self, entry: &Entry, written: Option<oneshot::Sender<()>>) -> bool {
        let Some(log) = &self.0 else { return false };
        match log.lines.try_send(Line { bytes: entry.line(), written }) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                lose(&log.lost, 1, "its disk does not keep up");
                false
            }
        }
    }
}

fn lose(lost: &AtomicU64, n: u64, why: &str) {
    let lost = lost.fetch_add(n, Ordering::Relaxed) + n;
    tracing::error!(lost, why, "an entry of the audit log is lost");
}

/// Writes lines until nobody can send any more: what waits is written together, and synced once.
fn write(mut file: File, waiting: &Receiver<Line>, lost: &AtomicU64) {
    while let Ok(first) = waiting.recv() {
        let lines: Vec<Line> =
            [first].into_iter().chain(waiting.try_iter().take(TOGETHER)).collect();
        for line in &lines {
            if let Err(error) = file.append(&line.bytes) {
                lose(lost, 1, &error.to_string());
            }
        }
        if let Err(error) = file.sync() {
            lose(lost, lines.len() as u64, &error.to_string());
        }
        for told in lines.into_iter().filter_map(|line| line.written) {
            // Whoever waited may be gone.
            let _ = told.send(());
        }
    }
}
