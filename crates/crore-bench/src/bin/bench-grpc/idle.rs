//! Many idle workers, each with a connection and a stream of its own.

use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::{Instant, sleep, sleep_until};

use crate::client::start_worker;
use crore_bench::report::ReportRow;
use crore_bench::server::BenchServer;
use crore_bench::server::measurement::ServerBench;

const MEGABYTES: f64 = 150.0;
/// Maximum processor time of the server, in percent of one core.
const MAX_CORE_PERCENT: f64 = 2.0;
const OBSERVED_FOR: Duration = Duration::from_secs(10);

pub(crate) fn measure(bench: &mut ServerBench) {
    let crore = BenchServer::crore(&bench.work_dir);
    let before = crore.resident();
    let n = bench.scale.workers;
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (bytes, cpu) = runtime.block_on(async {
        let mut workers = Vec::with_capacity(n);
        for nth in 0..n {
            workers.push(start_worker(crore.address, &format!("worker {nth}")).await);
        }
        // Gives the last one time to start waiting.
        sleep(OBSERVED_FOR / 5).await;
        let (bytes, cpu) = (crore.resident(), crore.cpu_seconds());
        sleep_until(Instant::now() + OBSERVED_FOR).await;
        (bytes, crore.cpu_seconds() - cpu)
    });
    let name = format!("{n} idle workers");
    bench.report.rows.extend([
        ReportRow::with_bound(
            format!("{name}: memory of the server"),
            (bytes as f64 / 1e6, "MB"),
            MEGABYTES,
        ),
        ReportRow::with_bound(
            format!("{name}: share of a core"),
            (cpu / OBSERVED_FOR.as_secs_f64() * 100.0, "%"),
            MAX_CORE_PERCENT,
        ),
    ]);
    let each = bytes.saturating_sub(before) as f64 / n as f64;
    let before = before as f64 / 1e6;
    bench.report.notes.push(format!("{name}: {each:.0} bytes each, {before:.1} MB before them"));
}
