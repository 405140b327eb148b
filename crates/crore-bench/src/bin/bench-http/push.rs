//! Pushes over keep-alive connections: one job per request, and a hundred.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::client::{BareConnection, post};
use crore_bench::report::{Goal, ReportRow, RunValues};
use crore_bench::server::BenchServer;
use crore_bench::server::measurement::{PAYLOAD_BYTES, ServerBench, quantile_micros};

const CONNECTIONS: usize = 64;
const BATCH: usize = 100;

/// Turns per run, short enough that all sides see the same disk speed.
const SLICES: u32 = 3;

/// The figures of some turns.
#[derive(Debug, Default)]
struct PushFigures {
    requests: u64,
    span: Duration,
    server_cpu: f64,
    times: Vec<Duration>,
}

impl PushFigures {
    fn rate(&self) -> f64 {
        self.requests as f64 / self.span.as_secs_f64()
    }

    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.span += other.span;
        self.server_cpu += other.server_cpu;
        self.times.extend(other.times);
    }

    fn note(&self, name: &str) -> String {
        let [p50, p99] = [0.5, 0.99].map(|share| quantile_micros(&self.times, share));
        let cpu = self.server_cpu * 1e6 / self.requests as f64;
        format!(
            "{name}: p50 {p50:.0}, p99 {p99:.0} µs; server's processor time {cpu:.1} µs a request"
        )
    }
}

pub(crate) fn measure(bench: &mut ServerBench) {
    let (crore, bare) = (BenchServer::crore(&bench.work_dir), BenchServer::bare());
    let (one, many) = (single(), batch());
    let sides = [("bare", &bare, &one), ("single", &crore, &one), ("batches", &crore, &many)];
    let mut rates = [RunValues::default(), RunValues::default(), RunValues::default()];
    let mut last = Vec::new();
    for run in 1..=bench.scale.runs {
        let mut ran = [PushFigures::default(), PushFigures::default(), PushFigures::default()];
        for _ in 0..SLICES {
            for ((_, server, request), ran) in sides.iter().zip(&mut ran) {
                ran.add(turn(server, request, bench.scale.span / SLICES));
            }
        }
        for (rate, ran) in rates.iter_mut().zip(&ran) {
            rate.0.push(ran.rate());
        }
        let figures = ran.each_ref().map(|ran| format!("{:.0}", ran.rate())).join(" ");
        bench.work_dir.progress(&format!("run {run}, requests/s: {figures}"));
        last = ran.into();
    }
    let [bare, one, many] = &rates;
    let jobs = many.scaled(BATCH as f64);
    bench.report.rows.extend([
        ReportRow::compared(
            ("single pushes, 64 connections", "requests/s"),
            one,
            ("a bare hyper server", bare),
            Goal::AtLeast(0.5),
        ),
        ReportRow::compared(
            ("batches of 100, 64 connections", "jobs/s"),
            &jobs,
            ("single pushes", one),
            Goal::AtLeast(10.0),
        ),
    ]);
    let notes = sides.iter().zip(&last).map(|((name, ..), ran)| ran.note(name));
    bench.report.notes.extend(notes);
}

fn turn(server: &BenchServer, request: &[u8], span: Duration) -> PushFigures {
    let (cpu, start) = (server.cpu_seconds(), Instant::now());
    let times = drive(server.address, request, start + span);
    let (requests, span) = (times.len() as u64, start.elapsed());
    PushFigures { requests, span, server_cpu: server.cpu_seconds() - cpu, times }
}

/// Sends requests on all connections at once, one after the other on each; returns their latencies.
fn drive(address: SocketAddr, request: &[u8], until: Instant) -> Vec<Duration> {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut clients = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let request = request.to_vec();
            clients.spawn(async move {
                let mut connection = BareConnection::open(address).await;
                let mut times = Vec::new();
                loop {
                    let start = Instant::now();
                    if start >= until {
                        return times;
                    }
                    connection.call(&request).await;
                    times.push(start.elapsed());
                }
            });
        }
        clients.join_all().await.concat()
    })
}

fn job() -> String {
    // A JSON string of this length, quotes included.
    let payload = "x".repeat(PAYLOAD_BYTES - 2);
    format!(r#"{{"queue":"work","kind":"work","payload":"{payload}"}}"#)
}

fn single() -> Vec<u8> {
    post("/v1/jobs", &job())
}

fn batch() -> Vec<u8> {
    post("/v1/jobs", &format!(r#"{{"jobs":[{}]}}"#, vec![job(); BATCH].join(",")))
}
