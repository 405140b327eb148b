//! Many jobs that are due at the same instant, handed out and finished while another queue goes on: how long
//! the others wait.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crore::block_on;
use crore::core::job::When;
use crore::core::machine::Outcome;
use crore::core::{Clock, NewJob, Span};
use crore::finish::Finish;
use crore::store::SystemClock;

use crate::engine::{DrivenEngine, ask};
use crate::measurement::{Bench, Times};
use crore_bench::driver::{Until, drive};
use crore_bench::embedded;
use crore_bench::interleave::short;
use crore_bench::report::Row;

const MILLIS: f64 = 50.0;
const LATE: f64 = 0.999;
const BATCH: u64 = 1000;
/// Those who take the jobs that are due, and how many at a time.
const TAKERS: usize = 4;
const AT_ONCE: usize = 100;
const QUIET: Duration = Duration::from_secs(2);
/// How long before they are due those who take them come.
const EARLY: Duration = Duration::from_millis(200);

pub(crate) fn measure(bench: &mut Bench) {
    let through = DrivenEngine::open(&bench.work_dir.fresh("due"));
    let (jobs, due_at) = (bench.scale.due, Instant::now() + bench.scale.ahead);
    fill(&through, jobs, bench.scale.ahead);
    bench.work_dir.progress(&format!("pushed {}", short(jobs)));
    let quiet_until = Instant::now() + QUIET;
    let quiet = others(&through, || Instant::now() < quiet_until);
    let left = due_at.checked_duration_since(Instant::now() + EARLY);
    thread::sleep(left.expect("the jobs are pushed before they are due; the machine is too busy"));
    let meanwhile = hand_out(&through, jobs);
    let took = due_at.elapsed().as_secs_f64();
    assert_eq!(block_on(through.engine.jobs().counts(None)).unwrap(), [], "nothing is left");
    through.close();
    let name = format!("{} due at once: others, p99.9", short(jobs));
    bench.report.rows.push(Row::allowed(name, (meanwhile.within(LATE) / 1e3, "ms"), MILLIS));
    for (what, times) in [("quiet", &quiet), ("meanwhile", &meanwhile)] {
        let [p50, p99, p999, most] = [0.5, 0.99, LATE, 1.0].map(|share| times.within(share) / 1e3);
        bench.report.notes.push(format!(
            "another queue's push to fetch, {what}: p50 {p50:.2}, p99 {p99:.2}, p99.9 {p999:.2}, \
             longest {most:.2} ms of {}",
            times.len()
        ));
    }
    let rate = jobs as f64 / took;
    let note = format!("{} due at once: finished in {took:.1} s, {rate:.0}/s", short(jobs));
    bench.report.notes.push(note);
}

/// Pushes so many that are due together.
fn fill(through: &DrivenEngine, jobs: u64, ahead: Duration) {
    let at = SystemClock.now().after(ahead.into());
    let job = &NewJob { due: When::At(at), ..embedded::job("due") };
    drive(Until::Begun(jobs / BATCH), 4, |turn| async move {
        while turn.begin().is_some() {
            through.pushed(vec![job.clone(); BATCH as usize]).await;
        }
    });
}

/// Hands all of them out, and gives how long the others waited meanwhile.
fn hand_out(through: &DrivenEngine, jobs: u64) -> Times {
    let (taken, is_over) = (&AtomicU64::new(0), &AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(move || {
            drive(Until::Begun(TAKERS as u64), TAKERS, |_| async move {
                while taken.load(Ordering::Relaxed) < jobs {
                    let n = through.fetch_and_finish(ask("due", AT_ONCE, Span::from_secs(1))).await;
                    taken.fetch_add(n as u64, Ordering::Relaxed);
                }
            });
            is_over.store(true, Ordering::Relaxed);
        });
        others(through, || !is_over.load(Ordering::Relaxed))
    })
}

/// Round trips through another queue, one after the other: from the push until the job is there.
fn others(through: &DrivenEngine, mut go_on: impl FnMut() -> bool) -> Times {
    let mut times = Times::default();
    while go_on() {
        let start = Instant::now();
        block_on(through.pushed(vec![embedded::job("other")]));
        let ask = ask("other", 1, Span::from_secs(60));
        let job = block_on(through.engine.fetch(ask)).unwrap().remove(0);
        times.add(start.elapsed());
        block_on(through.engine.finish(Finish::of(&job, Outcome::Done { result: None }))).unwrap();
    }
    times
}
