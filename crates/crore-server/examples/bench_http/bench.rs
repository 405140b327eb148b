//! What every part shares: how much is done, where, and what was found out.

use std::path::Path;
use std::time::Duration;

use crate::machine;
use crate::place::Place;
use crate::table::Report;

/// The length of every payload.
pub(crate) const PAYLOAD_BYTES: usize = 250;

/// How much is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// Alternated runs.
    pub(crate) runs: usize,
    /// How long each side has in a run.
    pub(crate) span: Duration,
    /// How often a waiting worker gets a job.
    pub(crate) pickups: usize,
    /// Workers that wait.
    pub(crate) workers: usize,
}

impl Scale {
    pub(crate) const FULL: Self =
        Self { runs: 5, span: Duration::from_secs(3), pickups: 2000, workers: 10_000 };
    pub(crate) const QUICK: Self =
        Self { runs: 3, span: Duration::from_millis(300), pickups: 100, workers: 500 };
}

#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) place: Place,
    pub(crate) scale: Scale,
    pub(crate) report: Report,
}

impl Bench {
    /// Works in a directory of its own below this one, and removes it at the end.
    pub(crate) fn new(below: &Path, scale: Scale, name: &str) -> Self {
        let place = Place::new(below, name);
        let mut report = Report { facts: machine::facts(place.dir()), ..Report::default() };
        report.facts.extend([
            "durability: synced before the answer".to_owned(),
            format!("jobs: {PAYLOAD_BYTES}-byte payloads; clients on the same machine"),
            format!("runs: {}, alternated; medians", scale.runs),
        ]);
        Self { place, scale, report }
    }
}

/// The time within which this share of all was over, in microseconds.
pub(crate) fn within(times: &[Duration], share: f64) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let place = (sorted.len() as f64 * share) as usize;
    sorted.get(place.min(sorted.len().saturating_sub(1))).map_or(0.0, |t| t.as_secs_f64() * 1e6)
}
