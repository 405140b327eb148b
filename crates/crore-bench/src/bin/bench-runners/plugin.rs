//! What a plugin that does nothing costs: a job of it, from its push to its end on the disk, less a job of a worker
//! that does nothing either. They take turns, one job at a time, and both are pushed and waited for in the same way. The
//! worker's stream is a connection to the server, and that of the server's own runners stays within its process.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crore_client::{Error, Worker};
use serde_json::json;
use tokio::runtime::Builder;

use crate::client::{Crore, job};
use crore_bench::report::{Goal, Row, Runs};
use crore_bench::server::Server;
use crore_bench::server::measurement::{Bench, within};
use crore_bench::work_dir::WorkDir;

/// What a job may cost more, in microseconds.
const MORE: f64 = 100.0;

/// The kind of the plugin's jobs and that of the worker's; the queue of each has its name.
const PLUGIN: &str = "noop";
const WORKER: &str = "work";

/// Jobs of each side that are not counted: whoever is to run has to be there.
const FIRST: usize = 5;

pub(crate) fn measure(bench: &mut Bench) {
    let dir = build(&bench.work_dir);
    let set = format!("runners.plugins={}", dir.display());
    let channel = format!("{PLUGIN}=1");
    let more = ["--allow-runner", "plugin", "--set", &set, "--channel", &channel];
    let server = Server::crore_with(&bench.work_dir, &more);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(take_turns(bench, &server));
}

/// Compiles the plugin; gives the directory in which it is, which is nobody's but ours.
fn build(place: &WorkDir) -> PathBuf {
    let dir = place.fresh("plugins");
    DirBuilder::new().mode(0o700).create(&dir).unwrap();
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O2", "-I"]).arg(crate_dir.join("../../sdks/plugin")).arg("-o");
    cc.arg(dir.join("noop.so")).arg(crate_dir.join("src/bin/bench-runners/noop.c"));
    assert!(cc.status().expect("`cc` is there").success());
    dir
}

async fn take_turns(bench: &mut Bench, server: &Server) {
    let crore = Crore::connect(server).await;
    let settings = json!({ "plugin": "noop" });
    let handler =
        json!({ "runner": "plugin", "settings": settings, "queue": PLUGIN, "pooled": true });
    crore.set(PLUGIN, &handler).await;
    let worker = Worker::new(&crore.client).slots(1).handle(WORKER, async |_| Ok::<_, Error>(()));
    let stop = worker.stopper();
    let worker = tokio::spawn(worker.run());

    for kind in [[PLUGIN, WORKER]; FIRST].concat() {
        one(&crore, kind).await;
    }
    let mut more = Runs::default();
    for run in 1..=bench.scale.runs {
        let (mut plugin, mut idle) = (Vec::new(), Vec::new());
        for _ in 0..bench.scale.pickups / 5 {
            plugin.push(one(&crore, PLUGIN).await);
            idle.push(one(&crore, WORKER).await);
        }
        let [of_plugin, of_worker] = [&plugin, &idle].map(|times| within(times, 0.5));
        more.0.push(of_plugin - of_worker);
        let said = format!(
            "plugin {run}: p50 {of_plugin:.0} µs; a worker that does nothing {of_worker:.0} µs"
        );
        bench.work_dir.progress(&said);
        bench.report.notes.push(said);
    }
    stop.stop();
    worker.await.unwrap().unwrap();
    let allowed = Runs(vec![MORE; more.0.len()]);
    bench.report.rows.push(Row::beside(
        ("a plugin's job beside a worker's, one at a time", "µs more"),
        &more,
        ("what is allowed", &allowed),
        Goal::AtMost(1.0),
    ));
}

/// Pushes a job and waits until it has ended.
async fn one(crore: &Crore, kind: &str) -> Duration {
    let start = Instant::now();
    let id = crore.client.push(job(kind, kind)).await.unwrap();
    crore.ended(id).await;
    start.elapsed()
}
