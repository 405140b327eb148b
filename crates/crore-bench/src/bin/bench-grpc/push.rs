//! Single pushes, many in flight on one connection, compared with the same calls to a bare tonic server.

use std::time::{Duration, Instant};

use crore_wire::grpc::v1::jobs_client::JobsClient;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::client::push_one;
use crore_bench::report::{Goal, ReportRow, RunValues};
use crore_bench::server::BenchServer;
use crore_bench::server::bare_worker::connect;
use crore_bench::server::measurement::{ServerBench, quantile_micros};

const IN_FLIGHT: usize = 64;

/// Turns per run, short enough that all sides see the same disk speed.
const SLICES: u32 = 3;

pub(crate) fn measure(bench: &mut ServerBench) {
    let servers = [BenchServer::bare(), BenchServer::crore(&bench.work_dir)];
    let mut rates = [RunValues::default(), RunValues::default()];
    let mut notes = Vec::new();
    for run in 1..=bench.scale.runs {
        let (mut calls, mut cpu) = ([const { Vec::new() }; 2], [0.0; 2]);
        for _ in 0..SLICES {
            for ((server, calls), cpu) in servers.iter().zip(&mut calls).zip(&mut cpu) {
                let before = server.cpu_seconds();
                calls.extend(drive(server, bench.scale.span / SLICES));
                *cpu += server.cpu_seconds() - before;
            }
        }
        let seconds = bench.scale.span.as_secs_f64();
        let figures = calls.each_ref().map(|calls| calls.len() as f64 / seconds);
        rates.iter_mut().zip(figures).for_each(|(rate, figure)| rate.0.push(figure));
        bench.work_dir.progress(&format!("run {run}, calls/s: {figures:.0?}"));
        notes = ["bare", "crore"]
            .iter()
            .zip(calls.iter().zip(cpu))
            .map(|(name, (calls, cpu))| {
                let [p50, p99] = [0.5, 0.99].map(|share| quantile_micros(calls, share));
                let cpu = cpu * 1e6 / calls.len() as f64;
                format!("single pushes, {name}: p50 {p50:.0}, p99 {p99:.0} µs; server's processor time {cpu:.1} µs")
            })
            .collect();
    }
    let [bare, crore] = &rates;
    bench.report.rows.push(ReportRow::compared(
        ("single pushes, 64 in flight, one connection", "calls/s"),
        crore,
        ("a bare tonic server", bare),
        Goal::AtLeast(0.5),
    ));
    bench.report.notes.extend(notes);
}

/// The latency of each call.
fn drive(server: &BenchServer, span: Duration) -> Vec<Duration> {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let channel = connect(server.address).await;
        let until = Instant::now() + span;
        let mut callers = JoinSet::new();
        for _ in 0..IN_FLIGHT {
            let mut jobs = JobsClient::new(channel.clone());
            callers.spawn(async move {
                let mut times = Vec::new();
                loop {
                    let start = Instant::now();
                    if start >= until {
                        return times;
                    }
                    push_one(&mut jobs).await;
                    times.push(start.elapsed());
                }
            });
        }
        callers.join_all().await.concat()
    })
}
