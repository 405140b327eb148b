//! Jobs that are runs of a program that does next to nothing, beside a loop that spawns the same program.

use std::process::Stdio;

use serde_json::json;
use tokio::process::Command;
use tokio::runtime::Builder;

use crate::client::Crore;
use crate::throughput::{beside, repeat};
use crore_bench::report::Goal;
use crore_bench::server::Server;
use crore_bench::server::measurement::Bench;

const PARALLEL: usize = 8;
const QUEUE: &str = "default";

struct Case {
    kind: &'static str,
    program: &'static str,
    args: &'static [&'static str],
    goal: Goal,
}

const CASES: [Case; 2] = [
    Case { kind: "true", program: "/bin/true", args: &[], goal: Goal::AtLeast(0.8) },
    Case { kind: "echo", program: "/bin/echo", args: &["hello"], goal: Goal::None },
];

pub(crate) fn measure(bench: &mut Bench) {
    let channel = format!("{QUEUE}={PARALLEL}");
    let server =
        Server::crore_with(&bench.work_dir, &["--allow-runner", "command", "--channel", &channel]);
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let crore = Crore::connect(&server).await;
        for case in CASES {
            case.measure(bench, &crore).await;
        }
    });
}

impl Case {
    async fn measure(&self, bench: &mut Bench, crore: &Crore) {
        let n = bench.scale.pickups;
        let settings = json!({ "program": self.program, "args": self.args, "payload": "none" });
        crore.set(self.kind, &json!({ "runner": "command", "settings": settings })).await;
        let name = format!("command {}, {PARALLEL} at a time", self.program);
        let (program, args) = (self.program, self.args);
        beside(
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

/// Runs it once and reads what it prints.
async fn spawn(program: &str, args: &[&str]) {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let output = command.spawn().unwrap().wait_with_output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
}
