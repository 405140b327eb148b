//! The cost of a plugin that does nothing: a job of the plugin, from its push to its durable end, minus a job of a
//! worker that does nothing either. They take turns, one job at a time, pushed and awaited in the same way. The
//! worker's stream is a TCP connection; that of the server's own runners stays within its process.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crore_client::{Error, Worker};
use serde_json::json;
use tokio::runtime::Builder;

use crate::client::{RunnersClient, job};
use crore_bench::report::{Goal, ReportRow, RunValues};
use crore_bench::server::BenchServer;
use crore_bench::server::measurement::{ServerBench, quantile_micros};
use crore_bench::work_dir::WorkDir;

/// Maximum additional cost of a job, in microseconds.
const MAX_EXTRA_MICROS: f64 = 100.0;

/// The kinds of the plugin's and of the worker's jobs; the queue of each has the same name.
const PLUGIN: &str = "noop";
const WORKER: &str = "work";

/// Jobs of each side that are not counted, for warm-up.
const WARM_UP_JOBS: usize = 5;

pub(crate) fn measure(bench: &mut ServerBench) {
    let dir = build(&bench.work_dir);
    let set = format!("runners.plugins={}", dir.display());
    let channel = format!("{PLUGIN}=1");
    let more = ["--allow-runner", "plugin", "--set", &set, "--channel", &channel];
    let server = BenchServer::crore_with(&bench.work_dir, &more);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(take_turns(bench, &server));
}

/// Compiles the plugin; returns its directory, which only this user can write.
fn build(work_dir: &WorkDir) -> PathBuf {
    let dir = work_dir.fresh("plugins");
    DirBuilder::new().mode(0o700).create(&dir).unwrap();
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O2", "-I"]).arg(crate_dir.join("../../sdks/plugin")).arg("-o");
    cc.arg(dir.join("noop.so")).arg(crate_dir.join("src/bin/bench-runners/noop.c"));
    assert!(cc.status().expect("`cc` is there").success());
    dir
}

async fn take_turns(bench: &mut ServerBench, server: &BenchServer) {
    let crore = RunnersClient::connect(server).await;
    let settings = json!({ "plugin": "noop" });
    let handler =
        json!({ "runner": "plugin", "settings": settings, "queue": PLUGIN, "pooled": true });
    crore.set_handler(PLUGIN, &handler).await;
    let worker = Worker::new(&crore.client).slots(1).handle(WORKER, async |_| Ok::<_, Error>(()));
    let stop = worker.stopper();
    let worker = tokio::spawn(worker.run());

    for kind in [[PLUGIN, WORKER]; WARM_UP_JOBS].concat() {
        run_one(&crore, kind).await;
    }
    let mut extra = RunValues::default();
    for run in 1..=bench.scale.runs {
        let (mut plugin, mut idle) = (Vec::new(), Vec::new());
        for _ in 0..bench.scale.pickups / 5 {
            plugin.push(run_one(&crore, PLUGIN).await);
            idle.push(run_one(&crore, WORKER).await);
        }
        let [of_plugin, of_worker] = [&plugin, &idle].map(|times| quantile_micros(times, 0.5));
        extra.0.push(of_plugin - of_worker);
        let line = format!(
            "plugin {run}: p50 {of_plugin:.0} µs; a worker that does nothing {of_worker:.0} µs"
        );
        bench.work_dir.progress(&line);
        bench.report.notes.push(line);
    }
    stop.stop();
    worker.await.unwrap().unwrap();
    let allowed = RunValues(vec![MAX_EXTRA_MICROS; extra.0.len()]);
    bench.report.rows.push(ReportRow::compared(
        ("a plugin's job beside a worker's, one at a time", "µs more"),
        &extra,
        ("budget", &allowed),
        Goal::AtMost(1.0),
    ));
}

/// Pushes a job and waits until it has ended.
async fn run_one(crore: &RunnersClient, kind: &str) -> Duration {
    let start = Instant::now();
    let id = crore.client.push(job(kind, kind)).await.unwrap();
    crore.wait_until_done(id).await;
    start.elapsed()
}
