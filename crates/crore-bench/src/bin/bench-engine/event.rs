//! The latency of one queue while an event releases many jobs of another.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crore::block_on;
use crore::core::event::DEFAULT_KEEP;
use crore::core::{AwaitedEvent, NewEvent, Payload, Span, State};

use crate::due::other_queue_latencies;
use crate::engine::{DrivenEngine, fetch_from};
use crate::measurement::{EngineBench, Latencies};
use crore_bench::driver::{Until, drive};
use crore_bench::embedded;
use crore_bench::interleave::short;
use crore_bench::report::ReportRow;

const MILLIS: f64 = 50.0;
const P999: f64 = 0.999;
const BATCH: u64 = 1000;
const NAME: &str = "go";
/// Interval at which the end of the release is looked for.
const LOOK: Duration = Duration::from_millis(20);

pub(crate) fn measure(bench: &mut EngineBench) {
    let through = DrivenEngine::open(&bench.work_dir.fresh("event"));
    let jobs = bench.scale.waiting;
    push_waiting_jobs(&through, jobs);
    let begun_at = Instant::now();
    let meanwhile = release(&through, jobs);
    let took = begun_at.elapsed().as_secs_f64();
    let fetch = fetch_from("held", 1000, Span::ZERO);
    let mut taken = 0;
    while let n = block_on(through.fetch_and_finish(fetch.clone()))
        && n > 0
    {
        taken += n as u64;
    }
    assert_eq!(taken, jobs, "every job is released once");
    through.close();
    let name = format!("{} released by one event: others, p99.9", short(jobs));
    let value = (meanwhile.quantile_micros(P999) / 1e3, "ms");
    bench.report.rows.push(ReportRow::with_bound(name, value, MILLIS));
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| meanwhile.quantile_micros(share) / 1e3);
    bench.report.notes.push(format!(
        "{} released by one event in {took:.1} s; another queue's push to fetch meanwhile: p50 {p50:.2}, p99 {p99:.2}, \
         longest {max:.2} ms of {}",
        short(jobs),
        meanwhile.len()
    ));
}

fn push_waiting_jobs(through: &DrivenEngine, jobs: u64) {
    let mut job = embedded::job("held");
    let (name, timeout, on_timeout) = (embedded::name(NAME), None, <_>::default());
    job.spec.wait_for = Some(Box::new(AwaitedEvent { name, timeout, on_timeout }));
    let job = &job;
    drive(Until::Begun(jobs / BATCH), 4, |state| async move {
        while state.begin().is_some() {
            through.push_jobs(vec![job.clone(); BATCH as usize]).await;
        }
    });
}

/// Sends the event, and returns the latencies of the other queue until all jobs are released.
fn release(through: &DrivenEngine, jobs: u64) -> Latencies {
    let is_over = &AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(move || {
            let (name, payload) = (embedded::name(NAME), Payload::json("{}"));
            let event = NewEvent { name, payload, keep: DEFAULT_KEEP };
            let sent = block_on(through.engine.events().send(event)).unwrap();
            assert_eq!(sent.waiting as u64, jobs);
            while waiting(through) > 0 {
                thread::sleep(LOOK);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        other_queue_latencies(through, || !is_over.load(Ordering::Relaxed))
    })
}

fn waiting(through: &DrivenEngine) -> u64 {
    let counts = block_on(through.engine.jobs().counts(Some(embedded::name("held")))).unwrap();
    counts.iter().filter(|count| count.state == State::Waiting).map(|count| count.n).sum()
}
