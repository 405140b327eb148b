//! Many workers that poll empty queues: their cost for the server.

use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::{Instant, sleep, sleep_until};

use crate::client::{BareConnection, post};
use crore_bench::report::ReportRow;
use crore_bench::server::BenchServer;
use crore_bench::server::measurement::ServerBench;

const MEGABYTES: f64 = 200.0;
const OBSERVED_FOR: Duration = Duration::from_secs(5);

pub(crate) fn measure(bench: &mut ServerBench) {
    let crore = BenchServer::crore(&bench.work_dir);
    let before = crore.resident();
    let workers = bench.scale.workers;
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (bytes, cpu) = runtime.block_on(async {
        let fetch = post("/v1/fetch", r#"{"queues":["work"],"wait":"60s","worker":"bench"}"#);
        let mut waiting = Vec::with_capacity(workers);
        for _ in 0..workers {
            let mut connection = BareConnection::open(crore.address).await;
            connection.send(&fetch).await;
            waiting.push(connection);
        }
        // Gives the last one time to start waiting.
        sleep(OBSERVED_FOR / 2).await;
        let (bytes, cpu) = (crore.resident(), crore.cpu_seconds());
        sleep_until(Instant::now() + OBSERVED_FOR).await;
        (bytes, crore.cpu_seconds() - cpu)
    });
    let name = format!("{workers} workers that wait");
    let megabytes = bytes as f64 / 1e6;
    bench.report.rows.push(ReportRow::with_bound(
        format!("{name}: memory of the server"),
        (megabytes, "MB"),
        MEGABYTES,
    ));
    let each = bytes.saturating_sub(before) as f64 / workers as f64;
    bench.report.notes.push(format!(
        "{name}: {each:.0} bytes each, {:.1} MB before them; {cpu:.2} s of processor time in {} s",
        before as f64 / 1e6,
        OBSERVED_FOR.as_secs()
    ));
}
