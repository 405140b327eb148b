//! What every part of the benchmark shares: how much is done, where, and what was found out.

use std::path::Path;
use std::time::Duration;

use crate::bare::Bare;
use crate::contender::Contender;
use crate::drive::{Ran, Until};
use crate::machine;
use crate::peer::Peer;
use crate::place::Place;
use crate::subject::{ON_DISK, PAYLOAD_BYTES, Subject};
use crate::table::Report;
pub(crate) use crate::turns::{SLICES, settle, short, take_turns};

/// How much is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// Alternated runs.
    pub(crate) runs: usize,
    /// How long a timed run takes.
    pub(crate) span: Duration,
    pub(crate) backlogs: [u64; 2],
    pub(crate) reopens: [u64; 2],
    pub(crate) churned: u64,
}

impl Scale {
    pub(crate) const FULL: Self = Self {
        runs: 5,
        span: Duration::from_secs(3),
        backlogs: [100_000, 1_000_000],
        reopens: [1_000_000, 10_000_000],
        churned: 5_000_000,
    };
    pub(crate) const QUICK: Self = Self {
        runs: 3,
        span: Duration::from_millis(200),
        backlogs: [5_000, 50_000],
        reopens: [50_000, 500_000],
        churned: 300_000,
    };
}

/// How many bytes the log writes for an append, on average: frames, and claims between them, are
/// included.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AppendBytes {
    /// A pushed job.
    pub(crate) push: f64,
    /// One of the two appends of a cycle.
    pub(crate) cycle: f64,
}

impl AppendBytes {
    /// Read off the files of a small store; a guess while there are none.
    fn of_store(dir: &Path) -> Self {
        const JOBS: u64 = 20_000;
        if !ON_DISK {
            let push = (PAYLOAD_BYTES + 90) as f64;
            return Self { push, cycle: push };
        }
        let store = Subject::open(dir);
        let none = machine::written(dir);
        store.push(Until::Begun(JOBS), 64, 1);
        let pushed = machine::written(dir);
        store.cycle(Until::Begun(JOBS), 64);
        let cycled = machine::written(dir);
        store.close();
        let each = |bytes: u64, appends: u64| bytes as f64 / appends as f64;
        let bytes =
            Self { push: each(pushed - none, JOBS), cycle: each(cycled - pushed, 2 * JOBS) };
        assert!(bytes.push > PAYLOAD_BYTES as f64, "a job holds its payload: {bytes:?}");
        bytes
    }
}

#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) place: Place,
    pub(crate) scale: Scale,
    pub(crate) append_bytes: AppendBytes,
    pub(crate) bare: Bare,
    pub(crate) report: Report,
}

impl Bench {
    /// Works in a directory of its own below this one, and removes it at the end.
    pub(crate) fn new(below: &Path, scale: Scale) -> Self {
        let place = Place::new(below, "log");
        let append_bytes = AppendBytes::of_store(&place.fresh("bytes"));
        let bare = Bare::prepare(place.dir());
        let report = Report { facts: machine::facts(place.dir()), ..Report::default() };
        Self { place, scale, append_bytes, bare, report }
    }

    pub(crate) fn peers(&self) -> [Peer; 2] {
        let job_bytes = self.append_bytes.push as usize;
        let (sqlite, redb) = (self.place.fresh("sqlite"), self.place.fresh("redb"));
        [Peer::sqlite(&sqlite, job_bytes), Peer::redb(&redb, job_bytes)]
    }

    /// Notes the latencies and the processor time of a run.
    pub(crate) fn note(&mut self, what: &str, ran: &Ran) {
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| ran.within(share));
        let cpu = ran.cpu_micros_a_job();
        self.report.notes.push(format!(
            "{what}: push answered in p50 {p50:.2}, p99 {p99:.2}, p99.9 {p999:.2} ms; \
             {cpu:.2} µs of processor time a job, callers included (last run)"
        ));
    }
}
