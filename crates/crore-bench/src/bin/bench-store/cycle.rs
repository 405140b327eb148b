//! A million jobs pushed, claimed and finished, by the memory store and by bare collections.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crore_bench::report::{Goal, ReportRow, RunValues};
use crore_core::{Delivery, Job, JobId, Live, Time};
use crore_store::{Memory, SystemClock};

use crate::StoreBenchScale;
use crate::calls::{BATCH, VerbTimes, claim_all, claim_of, finish_all, job, name, push, timed};

type TimedVerb = (&'static str, fn(&VerbTimes) -> Duration);

const VERBS: [TimedVerb; 4] = [
    ("push", |took| took.push),
    ("claim", |took| took.claim),
    ("finish", |took| took.finish),
    ("push, claim and finish", |took| took.all()),
];

/// One row for each verb, and one for all.
pub(crate) fn measure(scale: StoreBenchScale) -> Vec<ReportRow> {
    let jobs = scale.of(1_000_000);
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..scale.runs {
        bare.push(bare_moves(jobs));
        ours.push(through_the_store(jobs));
    }
    let rates = |runs: &[VerbTimes], of: fn(&VerbTimes) -> Duration| {
        RunValues(runs.iter().map(|took| jobs as f64 / of(took).as_secs_f64()).collect())
    };
    let row = |(name, of): TimedVerb| {
        let baseline = rates(&bare, of);
        let baseline = ("BTreeMap + VecDeque", &baseline);
        ReportRow::compared((name, "jobs/s"), &rates(&ours, of), baseline, Goal::AtLeast(0.3))
    };
    VERBS.into_iter().map(row).collect()
}

/// All pushes, then all claims, then all finishes: the store holds every job in between.
fn through_the_store(jobs: usize) -> VerbTimes {
    let store = Memory::new(Arc::new(SystemClock));
    let mut took = VerbTimes::default();
    let pattern = job("q", "k");
    for _ in 0..jobs / BATCH {
        let batch = vec![pattern.clone(); BATCH];
        timed(&mut took.push, || push(&store, batch));
    }
    let claimed = claim_all(&store, &claim_of("q"), &mut took.claim);
    finish_all(&store, claimed, &mut took.finish);
    took
}

/// The same moves without checks: records in a map, order in a deque, leases in a map.
fn bare_moves(jobs: usize) -> VerbTimes {
    let mut records = BTreeMap::new();
    let mut order = VecDeque::new();
    let mut leases = BTreeMap::new();
    let mut took = VerbTimes::default();
    let (pattern, worker, mut last) = (job("q", "k"), name("bench"), 0u64);
    for _ in 0..jobs / BATCH {
        let batch = vec![pattern.clone(); BATCH];
        timed(&mut took.push, || {
            for new in batch {
                last += 1;
                let live = Live::pushed(Time::ZERO, Time::ZERO, 0);
                records.insert(last, Job { id: JobId(last), spec: Arc::new(new.spec), live });
                order.push_back(last);
            }
        });
    }
    let mut claimed = Vec::new();
    while !order.is_empty() {
        let jobs: Vec<Job> = timed(&mut took.claim, || {
            let ids = order.drain(..BATCH);
            let claim = ids.map(|id| {
                let job = records.get_mut(&id).unwrap();
                job.live.claim(Delivery(id), Time::ZERO, job.spec.lease, &worker);
                leases.insert((job.live.lease_until, id), ());
                job.clone()
            });
            claim.collect()
        });
        claimed.push(jobs);
    }
    for jobs in claimed {
        timed(&mut took.finish, || {
            for job in &jobs {
                leases.remove(&(job.live.lease_until, job.id.0));
                records.remove(&job.id.0);
            }
        });
    }
    took
}
