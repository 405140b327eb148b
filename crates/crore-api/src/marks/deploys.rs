//! Versions of workers that have connected, by kind or queue.

use std::collections::BTreeMap;

use crore_core::Span;
use crore_wire::api::workers::WorkerStream;

/// After this time a kind that was never seen is a deploy; before, its workers reconnect after a start of the server.
const SETTLE: Span = Span::from_secs(60);
/// Maximum number of kinds and queues, of their versions, and the length of a version in bytes.
const MAX_NAMES: usize = 2000;
const MAX_VERSIONS: usize = 16;
const MAX_VERSION: usize = 64;

/// The versions of each kind; of a worker that names none, those of its kinds or queues by its program.
#[derive(Debug, Default)]
pub(super) struct SeenVersions(BTreeMap<String, Vec<String>>);

impl SeenVersions {
    /// Adds the versions of a worker, and returns the new ones with the names that they are new for.
    pub(super) fn add(
        &mut self,
        after: Span,
        stream: &WorkerStream,
    ) -> BTreeMap<String, Vec<String>> {
        let mut deployed: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, version) in versions(stream) {
            let end = version.floor_char_boundary(MAX_VERSION);
            let version = version.get(..end).unwrap_or_default();
            if !self.0.contains_key(name) && self.0.len() >= MAX_NAMES {
                continue;
            }
            let known = self.0.entry(name.to_owned()).or_default();
            if known.iter().any(|one| one == version) {
                continue;
            }
            let is_first = known.is_empty();
            if known.len() >= MAX_VERSIONS {
                known.remove(0);
            }
            known.push(version.to_owned());
            if !is_first || after >= SETTLE {
                deployed.entry(version.to_owned()).or_default().push(name.to_owned());
            }
        }
        deployed
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

fn versions(stream: &WorkerStream) -> Vec<(&str, &str)> {
    if !stream.versions.is_empty() {
        let kinds = stream.versions.iter();
        return kinds.map(|(kind, version)| (kind.as_str(), version.as_str())).collect();
    }
    let Some(version) = &stream.version else { return Vec::new() };
    let names = if stream.kinds.is_empty() { &stream.queues } else { &stream.kinds };
    names.iter().map(|name| (name.as_str(), version.as_str())).collect()
}
