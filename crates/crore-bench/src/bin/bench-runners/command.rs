//! Jobs that run a trivial program, compared with a loop that spawns the same program.

use std::process::Stdio;

use serde_json::json;
use tokio::process::Command;
use tokio::runtime::Builder;

use crate::client::RunnersClient;
use crate::throughput::{compare_rates, repeat};
use crore_bench::report::Goal;
use crore_bench::server::BenchServer;
use crore_bench::server::measurement::ServerBench;

const PARALLEL: usize = 8;
const QUEUE: &str = "default";

struct CommandCase {
    kind: &'static str,
    program: &'static str,
    args: &'static [&'static str],
    goal: Goal,
}

const CASES: [CommandCase; 2] = [
    CommandCase { kind: "true", program: "/bin/true", args: &[], goal: Goal::AtLeast(0.8) },
    CommandCase { kind: "echo", program: "/bin/echo", args: &["hello"], goal: Goal::None },
];

pub(crate) fn measure(bench: &mut ServerBench) {
    let channel = format!("{QUEUE}={PARALLEL}");
    let server = BenchServer::crore_with(
        &bench.work_dir,
        &["--allow-runner", "command", "--channel", &channel],
    );
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let crore = RunnersClient::connect(&server).await;
        for case in CASES {
            case.measure(bench, &crore).await;
        }
    });
}

impl CommandCase {
    async fn measure(&self, bench: &mut ServerBench, crore: &RunnersClient) {
        let n = bench.scale.pickups;
        let settings = json!({ "program": self.program, "args": self.args, "payload": "none" });
        crore.set_handler(self.kind, &json!({ "runner": "command", "settings": settings })).await;
        let name = format!("command {}, {PARALLEL} at a time", self.program);
        let (program, args) = (self.program, self.args);
        compare_rates(
            bench,
            (&name, n, self.goal),
            async || crore.run_all(self.kind, QUEUE, n).await,
            ("spawned in a loop", async || {
                repeat((n, PARALLEL), move || spawn(program, args)).await
            }),
        )
        .await;
    }
}

/// Runs it once and reads its output.
async fn spawn(program: &str, args: &[&str]) {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let output = command.spawn().unwrap().wait_with_output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
}
