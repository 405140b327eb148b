//! The state of the store: sizes, growth, backups.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

use crore::store::StoreProblem;
use crore_core::Time;
use crore_wire::api::storage::{BackupState, DiskSample, DiskUse, Storage, StoredBackup};
use crore_wire::units::Moment;
use tokio::task::spawn_blocking;

use crate::metrics::ProcessUsage;
use crate::{Api, Fault};

/// Maximum number of samples: a day of them.
const MAX_SAMPLES: usize = 144;
/// Maximum number of backups that are counted.
const MAX_BACKUPS: usize = 1000;

/// Sizes of the store since the start of the server.
#[derive(Debug)]
pub(crate) struct DiskHistory {
    started_at: Time,
    samples: Mutex<VecDeque<DiskSample>>,
}

impl DiskHistory {
    pub(crate) fn new(now: Time) -> Self {
        Self { started_at: now, samples: Mutex::default() }
    }

    fn samples(&self) -> MutexGuard<'_, VecDeque<DiskSample>> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Api {
    /// Records the size of the store.
    pub(crate) fn sample_disk(&self) {
        let Some(metrics) = self.engine().telemetry().store_metrics() else { return };
        let at = Moment(self.engine().status().now());
        let (bytes, live_bytes) = (metrics.bytes_on_disk, metrics.live_bytes);
        let mut samples = self.disk().samples();
        if samples.len() >= MAX_SAMPLES {
            samples.pop_front();
        }
        samples.push_back(DiskSample { at, bytes, live_bytes });
    }

    /// The state of the store.
    pub async fn storage(&self) -> Result<Storage, Fault> {
        let options = self.options();
        let (data, backups) = (options.data.clone(), options.backups.clone());
        let read = spawn_blocking(move || {
            let free = data.as_deref().and_then(free_bytes);
            (free, backups.as_deref().map(backup_state), ProcessUsage::own())
        });
        let (free_bytes, backups, process) = read.await.unwrap_or_default();
        let status = self.engine().status();
        let metrics = self.engine().telemetry().store_metrics();
        let is_stuck = metrics.as_ref().is_some_and(|metrics| metrics.is_stuck);
        let problem = status.store_problem().map(|problem| match problem {
            StoreProblem::Poisoned => "poisoned",
            StoreProblem::Full(_) => "full",
        });
        let problems = problem.into_iter().chain(is_stuck.then_some("stuck"));
        let disk = metrics.map(|metrics| DiskUse {
            bytes: metrics.bytes_on_disk,
            live_bytes: metrics.live_bytes,
            segments: metrics.segments,
            written_bytes: metrics.bytes_written,
            free_bytes,
            history: self.disk().samples().iter().copied().collect(),
        });
        Ok(Storage {
            durability: status.durability().to_string(),
            problems: problems.map(str::to_owned).collect(),
            disk,
            backups,
            started_at: Moment(self.disk().started_at),
            resident_bytes: process.map(|process| process.resident_bytes),
            cpu_ms: process.map(|process| (process.cpu_seconds * 1000.0) as u64),
        })
    }
}

/// Free bytes of a file system, for a user without privileges.
#[cfg(unix)]
fn free_bytes(dir: &Path) -> Option<u64> {
    let state = rustix::fs::statvfs(dir).ok()?;
    state.f_bavail.checked_mul(state.f_frsize)
}

#[cfg(not(unix))]
fn free_bytes(_: &Path) -> Option<u64> {
    None
}

/// The backups in a directory. One that cannot be read counts as empty: backups create it.
fn backup_state(dir: &Path) -> BackupState {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|it| it.is_dir()));
    let made = dirs.take(MAX_BACKUPS).filter_map(|entry| {
        let age = entry.metadata().ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        let at = Time::from_millis(i64::try_from(age.as_millis()).ok()?);
        Some((at, entry.file_name().to_string_lossy().into_owned(), entry.path()))
    });
    let made: Vec<_> = made.collect();
    let count = made.len();
    let last = made.into_iter().max().map(|(at, name, path)| StoredBackup {
        name,
        at: Moment(at),
        bytes: dir_bytes(&path),
    });
    BackupState { count, last }
}

fn dir_bytes(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|file| file.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_backup_is_shown_with_its_size() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(backup_state(&dir.path().join("none")), BackupState { count: 0, last: None });
        for (name, bytes) in [("a", 10), ("b", 300)] {
            fs::create_dir(dir.path().join(name)).expect("created");
            fs::write(dir.path().join(name).join("1.log"), vec![0; bytes]).expect("written");
        }
        fs::write(dir.path().join("file"), "").expect("written");
        let state = backup_state(dir.path());
        assert_eq!(state.count, 2);
        let last = state.last.expect("a backup");
        assert!(["a", "b"].contains(&last.name.as_str()) && last.bytes >= 10, "{last:?}");
        assert!(free_bytes(dir.path()).is_some_and(|bytes| bytes > 0));
    }
}
