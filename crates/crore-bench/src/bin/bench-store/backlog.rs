//! Claims and promotions with a large backlog, compared with the same in an empty store.

use std::sync::Arc;
use std::time::Duration;

use crore_bench::report::{Goal, ReportRow, RunValues};
use crore_core::job::{DueTime, StartDeadline};
use crore_core::limit::{Limit, LimitKey};
use crore_core::{NewJob, Span};
use crore_store::registry::{Define, RegistryValue};
use crore_store::{Jobs, Memory, Registry, SystemClock, Upkeep};

use crate::StoreBenchScale;
use crate::calls::{BATCH, VerbTimes, claim_of, fair_job, finish_all, job, name, now, push, timed};

const CLAIMED: usize = 200_000;
const PROMOTED: usize = 100_000;

/// Cost of a claim with this backlog.
pub(crate) fn claim_row(
    name: &'static str,
    scale: StoreBenchScale,
    backlog: BacklogKind,
) -> ReportRow {
    let kinds = match backlog {
        BacklogKind::Lanes { behind: false } => kinds(scale.of(LANES)),
        _ => vec![job("q", "k")],
    };
    let empty = || claims(BacklogKind::Empty, scale, &kinds);
    cost_row(name, (scale.runs, scale.of(CLAIMED)), &|| claims(backlog, scale, &kinds), &empty)
}

/// Cost of a claim from a queue with a million fair keys, compared with one key.
pub(crate) fn fair_row(name: &'static str, scale: StoreBenchScale) -> ReportRow {
    let many = || fair_claims(scale.of(1_000_000) as u64, scale);
    let one = || fair_claims(1, scale);
    cost_row_against(name, (scale.runs, scale.of(CLAIMED)), &many, ("one key", &one))
}

/// Seconds for claiming `CLAIMED` of a million jobs with so many keys.
fn fair_claims(keys: u64, scale: StoreBenchScale) -> f64 {
    let store = Memory::new(Arc::new(SystemClock));
    let jobs = scale.of(1_000_000) as u64;
    for start in (0..jobs).step_by(1000) {
        push(&store, (start..start + 1000).map(|nth| fair_job(nth % keys)).collect());
    }
    let mut times = VerbTimes::default();
    for _ in 0..scale.of(CLAIMED) / BATCH {
        let jobs = timed(&mut times.claim, || now(store.claim(claim_of("q")))).jobs;
        assert_eq!(jobs.len(), BATCH, "every claim was served");
        finish_all(&store, vec![jobs], &mut times.finish);
    }
    times.claim.as_secs_f64()
}

/// The slowest claim of a job behind ten thousand jobs whose deadline is over.
pub(crate) fn expired_row(name: &'static str, scale: StoreBenchScale) -> ReportRow {
    let slowest = (0..scale.runs).map(|_| expired_claim(scale)).max().unwrap_or_default();
    ReportRow::with_bound(name, (slowest.as_secs_f64() * 1e3, "ms"), EXPIRED_CLAIM_MS)
}

/// Milliseconds that a claim may take that finds ten thousand expired jobs.
const EXPIRED_CLAIM_MS: f64 = 50.0;

fn expired_claim(scale: StoreBenchScale) -> Duration {
    let store = Memory::new(Arc::new(SystemClock));
    let deadline = Some(StartDeadline::Within(Span::from_millis(1)));
    let expiring = NewJob { deadline, ..job("q", "k") };
    push(&store, vec![expiring; scale.of(10_000)]);
    let behind = job("q", "k");
    push(&store, vec![behind; BATCH]);
    std::thread::sleep(Duration::from_millis(5));
    let (mut slowest, mut claimed) = (Duration::ZERO, 0);
    while claimed == 0 {
        let mut took = Duration::ZERO;
        claimed = timed(&mut took, || now(store.claim(claim_of("q")))).jobs.len();
        slowest = slowest.max(took);
    }
    assert_eq!(claimed, BATCH, "the jobs behind the expired ones");
    slowest
}

/// Cost of a promotion with a million jobs that are not due.
pub(crate) fn promote_row(name: &'static str, scale: StoreBenchScale) -> ReportRow {
    let many = || promotions(scale.of(1_000_000), scale);
    cost_row(name, (scale.runs, scale.of(PROMOTED)), &many, &|| promotions(0, scale))
}

/// Alternating runs of a subject and its baseline, in nanoseconds per job.
fn cost_row(
    name: &'static str,
    (runs, jobs): (usize, usize),
    ours: &dyn Fn() -> f64,
    bare: &dyn Fn() -> f64,
) -> ReportRow {
    cost_row_against(name, (runs, jobs), ours, ("the same in an empty store", bare))
}

fn cost_row_against(
    name: &'static str,
    (runs, jobs): (usize, usize),
    ours: &dyn Fn() -> f64,
    (baseline_name, bare): (&'static str, &dyn Fn() -> f64),
) -> ReportRow {
    let (mut value, mut baseline) = (RunValues::default(), RunValues::default());
    for _ in 0..runs {
        baseline.0.push(bare() * 1e9 / jobs as f64);
        value.0.push(ours() * 1e9 / jobs as f64);
    }
    let baseline = (baseline_name, &baseline);
    ReportRow::compared((name, "ns/job"), &value, baseline, Goal::AtMost(1.5))
}

/// The backlog of a store.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BacklogKind {
    Empty,
    /// A million jobs behind one limit that lets none through, in the same queue.
    Blocked,
    /// Ten thousand lanes in the same queue, a hundred jobs each; if `behind`, after the claimed jobs by priority.
    Lanes {
        behind: bool,
    },
    /// Ten million jobs pending in the same queue.
    Pending,
}

fn filled_store(filled: BacklogKind, scale: StoreBenchScale) -> Memory {
    let store = Memory::new(Arc::new(SystemClock));
    let fill = |n: usize, job: &dyn Fn(usize) -> NewJob| {
        for start in (0..n).step_by(1000) {
            let batch: Vec<NewJob> = (start..start + 1000).map(job).collect();
            push(&store, batch);
        }
    };
    match filled {
        BacklogKind::Empty => {}
        BacklogKind::Blocked => {
            let limit = Limit::parse("concurrency 0").unwrap();
            let defined =
                now(store.define(vec![Define::set(name("none"), RegistryValue::Limit(limit))]));
            assert_eq!(defined.get().len(), 1);
            let mut held = job("q", "held");
            held.spec.priority = -1;
            held.spec.limits = vec![LimitKey { limit: name("none"), value: None }];
            fill(scale.of(1_000_000), &|_| held.clone());
        }
        BacklogKind::Lanes { behind } => {
            let mut kinds = kinds(scale.of(LANES));
            kinds.iter_mut().for_each(|job| job.spec.priority = i32::from(behind));
            fill(scale.of(1_000_000), &|n| kinds[n % kinds.len()].clone());
        }
        BacklogKind::Pending => {
            let pattern = job("q", "k");
            fill(scale.of(10_000_000), &|_| pattern.clone());
        }
    }
    store
}

const LANES: usize = 10_000;

/// A job of each of `n` kinds.
fn kinds(n: usize) -> Vec<NewJob> {
    (0..n).map(|n| job("q", &format!("kind-{n}"))).collect()
}

/// Seconds for claiming `CLAIMED` jobs of these kinds in turn, pushed and finished in between.
fn claims(filling: BacklogKind, scale: StoreBenchScale, kinds: &[NewJob]) -> f64 {
    let store = filled_store(filling, scale);
    let (mut kinds, request, mut times) =
        (kinds.iter().cycle(), claim_of("q"), VerbTimes::default());
    for _ in 0..scale.of(CLAIMED) / BATCH {
        push(&store, kinds.by_ref().take(BATCH).cloned().collect());
        let request = request.clone();
        let jobs = timed(&mut times.claim, || now(store.claim(request))).jobs;
        assert_eq!(jobs.len(), BATCH, "every claim was served");
        finish_all(&store, vec![jobs], &mut times.finish);
    }
    times.claim.as_secs_f64()
}

/// Seconds for promoting `PROMOTED` due jobs in slices, with `waiting` that are not due.
fn promotions(waiting: usize, scale: StoreBenchScale) -> f64 {
    let store = Memory::new(Arc::new(SystemClock));
    let later = |n: usize| NewJob {
        due: DueTime::After(Span::from_secs(3600 + n as u64)),
        ..job("q", "k")
    };
    for start in (0..waiting).step_by(1000) {
        push(&store, (start..start + 1000).map(later).collect());
    }
    let soon = NewJob { due: DueTime::After(Span::from_millis(1)), ..job("q", "k") };
    for _ in 0..scale.of(PROMOTED) / 1000 {
        push(&store, vec![soon.clone(); 1000]);
    }
    std::thread::sleep(Duration::from_millis(5));
    let (mut took, mut count) = (Duration::ZERO, 0);
    while count < scale.of(PROMOTED) {
        count += timed(&mut took, || now(store.promote(1000))).count;
    }
    took.as_secs_f64()
}
