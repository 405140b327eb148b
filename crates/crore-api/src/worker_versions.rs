//! Versions of the workers that have connected by a stream, over time, in bounded memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crore_core::Time;
use crore_wire::api::workers::WorkerStream;

/// Maximum number of workers; the one that connected longest ago is forgotten.
const MAX_WORKERS: usize = 4096;
/// Versions of one worker that are kept.
const MAX_CHANGES: usize = 4;
/// Maximum number of kinds of one worker, and the length of a version in bytes.
const MAX_KINDS: usize = 64;
const MAX_VERSION: usize = 64;

/// The versions of each worker, by its name.
#[derive(Debug, Default)]
pub(crate) struct WorkerVersionLog(Mutex<HashMap<String, Vec<KnownVersions>>>);

/// The versions of a worker since a time.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KnownVersions {
    since: Time,
    program: Option<String>,
    kinds: BTreeMap<String, String>,
}

impl WorkerVersionLog {
    fn rows(&self) -> MutexGuard<'_, HashMap<String, Vec<KnownVersions>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the versions of a worker that has connected.
    pub(crate) fn record(&self, worker: &str, stream: &WorkerStream) {
        let kinds = stream.versions.iter().take(MAX_KINDS);
        let known = KnownVersions {
            since: stream.since.0,
            program: stream.version.as_deref().map(shortened),
            kinds: kinds.map(|(kind, version)| (kind.clone(), shortened(version))).collect(),
        };
        let mut rows = self.rows();
        if rows.len() >= MAX_WORKERS && !rows.contains_key(worker) {
            let last = |changes: &[KnownVersions]| changes.last().map(|change| change.since);
            let oldest = rows.iter().min_by_key(|(_, changes)| last(changes));
            let oldest = oldest.map(|(name, _)| name.clone());
            oldest.and_then(|name| rows.remove(&name));
        }
        let changes = rows.entry(worker.to_owned()).or_default();
        let is_same =
            |last: &KnownVersions| last.program == known.program && last.kinds == known.kinds;
        if changes.last().is_some_and(is_same) {
            return;
        }
        if changes.len() >= MAX_CHANGES {
            changes.remove(0);
        }
        changes.push(known);
    }

    /// The version of a kind that a worker ran at a time, or else the version of its program.
    pub(crate) fn at(&self, worker: &str, kind: &str, at: Time) -> Option<String> {
        let rows = self.rows();
        let known = rows.get(worker)?.iter().rev().find(|known| known.since <= at)?;
        known.kinds.get(kind).or(known.program.as_ref()).cloned()
    }
}

fn shortened(version: &str) -> String {
    version.get(..version.floor_char_boundary(MAX_VERSION)).unwrap_or_default().to_owned()
}

#[cfg(test)]
pub(crate) mod tests {
    use crore_core::Span;
    use crore_wire::units::Moment;

    use super::*;

    pub(crate) fn at(seconds: u64) -> Time {
        Time::ZERO.after(Span::from_secs(seconds))
    }

    pub(crate) fn stream(since: u64, program: &str, kinds: &[(&str, &str)]) -> WorkerStream {
        let text = |text: &str| text.to_owned();
        WorkerStream {
            incarnation: text("i"),
            version: (!program.is_empty()).then(|| text(program)),
            queues: vec![text("q")],
            kinds: kinds.iter().map(|(kind, _)| text(kind)).collect(),
            versions: kinds.iter().map(|(kind, version)| (text(kind), text(version))).collect(),
            slots: 1,
            running: 0,
            quiet: false,
            stopping: false,
            since: Moment(at(since)),
            heard: Moment(at(since)),
        }
    }

    #[test]
    fn the_version_of_a_run_is_that_of_its_time() {
        let versions = WorkerVersionLog::default();
        versions.record("w", &stream(10, "1.0", &[]));
        versions.record("w", &stream(15, "1.0", &[]));
        versions.record("w", &stream(20, "2.0", &[("mail", "2.1")]));
        for (time, kind, expected) in [
            (9, "mail", None),
            (10, "mail", Some("1.0")),
            (19, "mail", Some("1.0")),
            (20, "mail", Some("2.1")),
            (99, "sms", Some("2.0")),
        ] {
            assert_eq!(versions.at("w", kind, at(time)).as_deref(), expected, "{time} {kind}");
        }
        assert_eq!(versions.at("other", "mail", at(99)), None);
    }

    #[test]
    fn memory_is_bounded() {
        let versions = WorkerVersionLog::default();
        for n in 0..MAX_WORKERS as u64 + 10 {
            versions.record(&format!("w{n}"), &stream(n, "1", &[]));
        }
        for n in 0..20 {
            versions.record("w5000", &stream(10_000 + n, &n.to_string(), &[]));
        }
        assert!(versions.rows().len() <= MAX_WORKERS);
        assert_eq!(versions.rows().get("w5000").map(Vec::len), Some(MAX_CHANGES));
        assert_eq!(versions.at("w0", "k", at(99)), None, "the oldest makes room");
        let long = "9".repeat(1000);
        versions.record("long", &stream(1, &long, &[]));
        assert_eq!(versions.at("long", "k", at(1)).map(|version| version.len()), Some(MAX_VERSION));
    }
}
