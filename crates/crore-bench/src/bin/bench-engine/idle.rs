//! Many fetchers that wait on empty queues: their memory, and a check that they use no CPU time.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crore::core::Span;

use crate::engine::{DrivenEngine, fetch_from};
use crate::measurement::EngineBench;
use crore_bench::driver::{Until, drive};
use crore_bench::interleave::short;
use crore_bench::machine;
use crore_bench::report::ReportRow;

const MEGABYTES: f64 = 200.0;
const MILLIS: f64 = 10.0;
const OBSERVED_FOR: Duration = Duration::from_secs(2);
const WAIT: Span = Span::from_secs(3600);

pub(crate) fn measure(bench: &mut EngineBench) {
    let through = DrivenEngine::open(&bench.work_dir.fresh("idle"));
    let (engine, scale) = (&through.engine, bench.scale);
    let begun = AtomicUsize::new(0);
    let before = machine::resident();
    let (bytes, millis) = thread::scope(|scope| {
        let begun = &begun;
        scope.spawn(move || {
            drive(Until::Begun(scale.fetchers as u64), scale.fetchers, |turn| async move {
                if turn.begin().is_some() {
                    let queue = begun.fetch_add(1, Ordering::Relaxed) % scale.queues;
                    let jobs =
                        engine.fetch(fetch_from(&format!("queue-{queue}"), 1, WAIT)).await.unwrap();
                    assert!(jobs.is_empty(), "nothing was pushed");
                }
            })
        });
        while engine.deliveries().waiting() < scale.fetchers {
            thread::sleep(Duration::from_millis(10));
        }
        // Gives the last one time to start waiting.
        thread::sleep(OBSERVED_FOR / 2);
        let bytes = machine::resident().saturating_sub(before);
        let start = thread_cpu_time();
        thread::sleep(OBSERVED_FOR);
        let millis = (thread_cpu_time() - start).as_secs_f64() * 1e3;
        engine.stop().unwrap();
        (bytes, millis)
    });
    let [fetchers, queues] = [scale.fetchers, scale.queues].map(|n| short(n as u64));
    let who = format!("{fetchers} fetchers, {queues} queues");
    let megabytes = bytes as f64 / 1e6;
    bench.report.rows.extend([
        ReportRow::with_bound(format!("{who}: memory"), (megabytes, "MB"), MEGABYTES),
        ReportRow::with_bound(format!("{who}: 2 s idle"), (millis, "ms of CPU"), MILLIS),
    ]);
    let each = bytes as f64 / scale.fetchers as f64;
    bench.report.notes.push(format!("a waiting fetch: {each:.0} bytes, its future included"));
}

/// Processor time of all current threads of this process, in nanoseconds.
fn thread_cpu_time() -> Duration {
    let nanos = |task: fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("schedstat")).unwrap();
        stat.split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    Duration::from_nanos(fs::read_dir("/proc/self/task").unwrap().flatten().map(nanos).sum())
}
