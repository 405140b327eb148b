//! A steady load on the built server, put on by `crore bench`.

use std::process::{Command, Stdio};
use std::time::Duration;

use crore_bench::args::build_dir;
use crore_bench::server::BenchServer;
use crore_bench::work_dir::WorkDir;
use serde_json::Value;

/// A rate of pushes.
#[derive(Debug)]
pub(crate) struct SteadyLoad {
    pub(crate) name: &'static str,
    rate: u32,
    batch: u32,
}

pub(crate) const LOADS: [SteadyLoad; 3] = [
    SteadyLoad { name: "1000/s, one by one", rate: 1000, batch: 1 },
    SteadyLoad { name: "5000/s, one by one", rate: 5000, batch: 1 },
    SteadyLoad { name: "70000/s, batches of 50", rate: 70_000, batch: 50 },
];

/// Retention of done jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retention {
    Default,
    Discard,
}

impl Retention {
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Self::Default => "",
            Self::Discard => ", discarded",
        }
    }
}

/// Latencies of pushes, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TailLatency {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p99_9: f64,
    pub(crate) max: f64,
    pub(crate) jobs_per_second: f64,
    /// Processor time of the server for a job.
    pub(crate) server_cpu_us: f64,
}

impl SteadyLoad {
    /// Runs the load against a fresh server.
    pub(crate) fn run(
        &self,
        work_dir: &WorkDir,
        retention: Retention,
        span: Duration,
    ) -> TailLatency {
        let server = BenchServer::crore(work_dir);
        let mut bench = Command::new(build_dir().join("crore"));
        bench.args(["bench", "-o", "json", "--server"]).arg(format!("http://{}", server.address));
        bench.args(["--rate", &self.rate.to_string(), "--batch", &self.batch.to_string()]);
        bench.args(["--duration", &format!("{}ms", span.as_millis())]);
        if retention == Retention::Discard {
            bench.arg("--discard");
        }
        let output = bench.stderr(Stdio::null()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "`crore bench` failed: {text}");
        let report: Value = serde_json::from_str(&text).unwrap();
        let push = &report["latency_us"]["push"];
        let figure = |value: &Value| value.as_f64().unwrap();
        TailLatency {
            p50: figure(&push["p50"]),
            p99: figure(&push["p99"]),
            p99_9: figure(&push["p99_9"]),
            max: figure(&push["max"]),
            jobs_per_second: figure(&report["finished_per_second"]),
            server_cpu_us: figure(&report["server"]["cpu_us_per_job"]),
        }
    }
}
