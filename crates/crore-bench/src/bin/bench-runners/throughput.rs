//! Throughput with and without the server, in turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crore_bench::report::{Goal, ReportRow, RunValues};
use crore_bench::server::measurement::ServerBench;

/// Measures both sides in turns with `n` calls per run, and adds them to the report.
pub(crate) async fn compare_rates(
    bench: &mut ServerBench,
    (name, n, goal): (&str, usize, Goal),
    crore: impl AsyncFn() -> Duration,
    (baseline, bare): (&str, impl AsyncFn() -> Duration),
) {
    let mut rates = [RunValues::default(), RunValues::default()];
    for run in 1..=bench.scale.runs {
        let spans = [bare().await, crore().await];
        let figures = spans.map(|span| n as f64 / span.as_secs_f64());
        for (rates, figure) in rates.iter_mut().zip(figures) {
            rates.0.push(figure);
        }
        let [bare, crore] = figures;
        bench
            .work_dir
            .progress(&format!("{name}, run {run}, jobs/s: {crore:.0}, without crore {bare:.0}"));
    }
    let [bare, crore] = &rates;
    bench.report.rows.push(ReportRow::compared((name, "jobs/s"), crore, (baseline, bare), goal));
}

/// Runs `n` calls, `parallel` at a time; returns the duration.
pub(crate) async fn repeat<R>(
    (n, parallel): (usize, usize),
    one: impl Fn() -> R + Clone + Send + 'static,
) -> Duration
where
    R: Future<Output = ()> + Send,
{
    let (begun, start) = (Arc::new(AtomicUsize::new(0)), Instant::now());
    let mut tasks = JoinSet::new();
    for _ in 0..parallel {
        let (begun, one) = (Arc::clone(&begun), one.clone());
        tasks.spawn(async move {
            while begun.fetch_add(1, Ordering::Relaxed) < n {
                one().await;
            }
        });
    }
    tasks.join_all().await;
    start.elapsed()
}
