//! Audit log: a line of JSON for each change, each refusal and each start of the server.
//!
//! It never contains payloads or secrets. A line is synced to disk before the response of its call is sent. If it
//! cannot be written, the loss is logged and counted, and the server continues.

mod entry;
mod file;
mod read;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use crore_core::Size;
use crore_core::settings::section;
use tokio::sync::oneshot;

pub use entry::{AuditDetails, AuditEntry, PendingEntry};
use file::AuditFile;
pub(crate) use read::{AuditPosition, AuditReader};

section! {
    /// Audit log: a line of JSON for each change by an operator, each refused call and each start of the server.
    pub struct Options: Eq = "audit" {
        /// Path of the audit log. Default: no audit log.
        file: Option<PathBuf> = none,
        /// Size at which the file is rotated.
        max_size: Size = "64MiB",
        /// Number of rotated files to keep; `audit.jsonl.1` is the newest.
        keep: u32 = "8",
    }
}

/// Maximum number of lines waiting to be written.
const MAX_WAITING: usize = 1024;
/// Maximum number of lines per write.
const MAX_BATCH: usize = 256;

/// Handle of the audit log; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Audit(Option<Arc<AuditWriter>>);

#[derive(Debug)]
struct AuditWriter {
    lines: SyncSender<AuditLine>,
    lost: Arc<AtomicU64>,
    path: PathBuf,
    keep: u32,
}

#[derive(Debug)]
struct AuditLine {
    bytes: Vec<u8>,
    /// Notified when the line is on disk, or lost.
    written: Option<oneshot::Sender<()>>,
}

impl Audit {
    /// A disabled audit log.
    pub fn none() -> Self {
        Self::default()
    }

    /// Opens the audit log that is configured, if any.
    pub fn open(options: &Options) -> io::Result<Self> {
        let Some(path) = &options.file else { return Ok(Self::none()) };
        let file = AuditFile::open(path.clone(), options.max_size.0, options.keep)?;
        let (lines, waiting) = sync_channel(MAX_WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&lost);
        let name = "crore-audit".to_owned();
        thread::Builder::new().name(name).spawn(move || write(file, &waiting, &counter))?;
        let (path, keep) = (path.clone(), options.keep);
        Ok(Self(Some(Arc::new(AuditWriter { lines, lost, path, keep }))))
    }

    /// Reads what was written; `None`: the audit log is disabled.
    pub(crate) fn reader(&self) -> Option<AuditReader> {
        let log = self.0.as_ref()?;
        Some(AuditReader { path: log.path.clone(), keep: log.keep })
    }

    /// Number of lines that could not be written since the start.
    pub fn lost(&self) -> u64 {
        self.0.as_ref().map_or(0, |log| log.lost.load(Ordering::Relaxed))
    }

    /// Writes an entry, and waits until it is on disk or lost.
    pub async fn record(&self, entry: &AuditEntry) {
        let (written, done) = oneshot::channel();
        if self.send(entry, Some(written)) {
            let _ = done.await;
        }
    }

    /// Writes an entry without waiting.
    fn record_soon(&self, entry: &AuditEntry) {
        self.send(entry, None);
    }

    fn send(&self, entry: &AuditEntry, written: Option<oneshot::Sender<()>>) -> bool {
        let Some(log) = &self.0 else { return false };
        match log.lines.try_send(AuditLine { bytes: entry.line(), written }) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                report_lost(&log.lost, 1, "the disk is too slow");
                false
            }
        }
    }
}

fn report_lost(lost: &AtomicU64, n: u64, why: &str) {
    let lost = lost.fetch_add(n, Ordering::Relaxed) + n;
    tracing::error!(lost, why, "audit log entry lost");
}

/// Writer thread: writes waiting lines together and syncs once, until all senders are gone.
fn write(mut file: AuditFile, waiting: &Receiver<AuditLine>, lost: &AtomicU64) {
    while let Ok(first) = waiting.recv() {
        let lines: Vec<AuditLine> =
            [first].into_iter().chain(waiting.try_iter().take(MAX_BATCH)).collect();
        for line in &lines {
            if let Err(error) = file.append(&line.bytes) {
                report_lost(lost, 1, &error.to_string());
            }
        }
        if let Err(error) = file.sync() {
            report_lost(lost, lines.len() as u64, &error.to_string());
        }
        for written in lines.into_iter().filter_map(|line| line.written) {
            // The caller may have disconnected.
            let _ = written.send(());
        }
    }
}
