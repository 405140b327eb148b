//! The latency of one queue while many jobs of another, all due at the same instant, are fetched and finished.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crore::block_on;
use crore::core::job::DueTime;
use crore::core::machine::Outcome;
use crore::core::{Clock, NewJob, Span};
use crore::finish::Finish;
use crore::store::SystemClock;

use crate::engine::{DrivenEngine, fetch_from};
use crate::measurement::{EngineBench, Latencies};
use crore_bench::driver::{Until, drive};
use crore_bench::embedded;
use crore_bench::interleave::short;
use crore_bench::report::ReportRow;

const MILLIS: f64 = 50.0;
const P999: f64 = 0.999;
const BATCH: u64 = 1000;
/// Number of fetchers of the due jobs, and the size of a fetch.
const FETCHERS: usize = 4;
const JOBS_PER_FETCH: usize = 100;
const QUIET: Duration = Duration::from_secs(2);
/// How long before the due time the fetchers start.
const EARLY: Duration = Duration::from_millis(200);

pub(crate) fn measure(bench: &mut EngineBench) {
    let through = DrivenEngine::open(&bench.work_dir.fresh("due"));
    let (jobs, due_at) = (bench.scale.due, Instant::now() + bench.scale.ahead);
    push_due_jobs(&through, jobs, bench.scale.ahead);
    bench.work_dir.progress(&format!("pushed {}", short(jobs)));
    let quiet_until = Instant::now() + QUIET;
    let quiet = other_queue_latencies(&through, || Instant::now() < quiet_until);
    let left = due_at.checked_duration_since(Instant::now() + EARLY);
    thread::sleep(left.expect("the jobs are pushed before they are due; the machine is too busy"));
    let meanwhile = fetch_due_jobs(&through, jobs);
    let took = due_at.elapsed().as_secs_f64();
    assert_eq!(block_on(through.engine.jobs().counts(None)).unwrap(), [], "nothing is left");
    through.close();
    let name = format!("{} due at once: others, p99.9", short(jobs));
    bench.report.rows.push(ReportRow::with_bound(
        name,
        (meanwhile.quantile_micros(P999) / 1e3, "ms"),
        MILLIS,
    ));
    for (what, times) in [("quiet", &quiet), ("meanwhile", &meanwhile)] {
        let [p50, p99, p999, max] =
            [0.5, 0.99, P999, 1.0].map(|share| times.quantile_micros(share) / 1e3);
        bench.report.notes.push(format!(
            "another queue's push to fetch, {what}: p50 {p50:.2}, p99 {p99:.2}, p99.9 {p999:.2}, \
             longest {max:.2} ms of {}",
            times.len()
        ));
    }
    let rate = jobs as f64 / took;
    let note = format!("{} due at once: finished in {took:.1} s, {rate:.0}/s", short(jobs));
    bench.report.notes.push(note);
}

/// Pushes jobs that are due at the same time.
fn push_due_jobs(through: &DrivenEngine, jobs: u64, ahead: Duration) {
    let at = SystemClock.now().after(ahead.into());
    let job = &NewJob { due: DueTime::At(at), ..embedded::job("due") };
    drive(Until::Begun(jobs / BATCH), 4, |state| async move {
        while state.begin().is_some() {
            through.push_jobs(vec![job.clone(); BATCH as usize]).await;
        }
    });
}

/// Fetches and finishes all of them, and returns the latencies of the other queue meanwhile.
fn fetch_due_jobs(through: &DrivenEngine, jobs: u64) -> Latencies {
    let (taken, is_over) = (&AtomicU64::new(0), &AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(move || {
            drive(Until::Begun(FETCHERS as u64), FETCHERS, |_| async move {
                while taken.load(Ordering::Relaxed) < jobs {
                    let n = through
                        .fetch_and_finish(fetch_from("due", JOBS_PER_FETCH, Span::from_secs(1)))
                        .await;
                    taken.fetch_add(n as u64, Ordering::Relaxed);
                }
            });
            is_over.store(true, Ordering::Relaxed);
        });
        other_queue_latencies(through, || !is_over.load(Ordering::Relaxed))
    })
}

/// Sequential round trips through another queue, from the push until the job is fetched.
pub(crate) fn other_queue_latencies(
    through: &DrivenEngine,
    mut go_on: impl FnMut() -> bool,
) -> Latencies {
    let mut times = Latencies::default();
    while go_on() {
        let start = Instant::now();
        block_on(through.push_jobs(vec![embedded::job("other")]));
        let request = fetch_from("other", 1, Span::from_secs(60));
        let job = block_on(through.engine.fetch(request)).unwrap().remove(0);
        times.add(start.elapsed());
        block_on(through.engine.finish(Finish::of(&job, Outcome::Done { result: None }))).unwrap();
    }
    times
}
