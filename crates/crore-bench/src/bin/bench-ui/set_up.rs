//! The content of the store: jobs in many queues, dead jobs, definitions, and connected workers.

use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;

use crore_bench::server::bare_worker::BareWorker;
use crore_bench::server::measurement::PAYLOAD_BYTES;
use crore_client::{Client, Job};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

const BATCH: usize = 1000;
/// Batches in flight.
const IN_FLIGHT: usize = 4;
/// Dead jobs, with different errors.
const DEAD: usize = 5000;
const ERRORS: usize = 50;
/// Limits and schedules.
const DEFINITIONS: usize = 20;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Every tenth queue has jobs for tomorrow only: workers that wait there get none.
const LATER: usize = 10;

/// The name of a queue.
pub(crate) fn queue(n: usize) -> String {
    format!("queue-{n:05}")
}

/// Pushes jobs and definitions.
#[derive(Debug)]
pub(crate) struct SampleData {
    runtime: Runtime,
    address: SocketAddr,
    queues: usize,
    pushed: usize,
    /// The first job that was pushed to a queue of its own, a group, and a group of errors.
    pub(crate) job: u64,
    pub(crate) group: String,
    pub(crate) error: String,
}

impl SampleData {
    pub(crate) fn new(address: SocketAddr, queues: usize) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (job, group, error) = (u64::MAX, String::new(), String::new());
        Self { runtime, address, queues, pushed: 0, job, group, error }
    }

    /// Pushes jobs until `total` were pushed, in turn to all queues.
    pub(crate) fn push(&mut self, total: usize) {
        let (from, queues) = (self.pushed, self.queues);
        let address = format!("http://{}", self.address);
        self.runtime.block_on(async {
            let client = Client::connect(address).await.unwrap();
            let mut under_way = JoinSet::new();
            for start in (from..total).step_by(BATCH) {
                let jobs: Vec<Job> =
                    (start..total.min(start + BATCH)).map(|n| job(n, queues)).collect();
                let client = client.clone();
                under_way.spawn(async move { client.push_all(jobs).await.unwrap()[0].0 });
                if under_way.len() == IN_FLIGHT {
                    self.job = self.job.min(under_way.join_next().await.unwrap().unwrap());
                }
            }
            let rest = under_way.join_all().await;
            self.job = rest.into_iter().fold(self.job, u64::min);
        });
        self.pushed = total;
    }

    /// Limits, schedules, a group, and dead jobs.
    pub(crate) fn define(&mut self) {
        for n in 0..DEFINITIONS {
            let limit = format!("where kind = \"limited-{n}\" rate 100/1m");
            self.call("PUT", &format!("limits/limit-{n}"), &json!({ "limit": limit }));
            let schedule =
                json!({ "timing": "every 6h", "job": { "kind": format!("report-{n}") } });
            self.call("PUT", &format!("schedules/schedule-{n}"), &schedule);
        }
        let member = json!({ "kind": "part", "queue": "parts", "group": { "new": 0 } });
        let batch = json!({ "groups": [{}], "jobs": vec![member; 20] });
        let pushed = self.call("POST", "jobs", &batch);
        self.group = pushed["groups"][0].as_str().expect("a group").to_owned();
        self.fail_jobs();
        let errors = self.call("GET", "errors", &Value::Null);
        self.error = errors["groups"][0]["fingerprint"].as_str().expect("a group").to_owned();
    }

    fn fail_jobs(&self) {
        let job = json!({ "kind": "import", "queue": "imports", "payload": { "rows": 3 },
            "retry": { "max_attempts": 1 } });
        for turn in 0..DEAD / BATCH {
            self.call("POST", "jobs", &json!({ "jobs": vec![&job; BATCH] }));
            let fetch = json!({ "queues": ["imports"], "n": BATCH, "worker": "importer" });
            let fetched = self.call("POST", "fetch", &fetch);
            let jobs = fetched["jobs"].as_array().expect("a list").iter().enumerate();
            let failed = |(n, job): (usize, &Value)| {
                // Digits are not part of a fingerprint.
                let word: String = (turn * BATCH + n).rem_euclid(ERRORS).to_string();
                let word: String = word.bytes().map(|digit| char::from(digit + 49)).collect();
                json!({ "id": job["id"], "delivery": job["delivery"], "outcome": "failed",
                    "error": format!("no answer from host {word} after 3000 ms") })
            };
            let reports: Vec<Value> = jobs.map(failed).collect();
            self.call("POST", "finish", &json!({ "jobs": reports }));
        }
    }

    /// A call of the HTTP API.
    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let url = format!("http://{}/v1/{path}", self.address);
        self.runtime.block_on(async {
            let method = method.parse().unwrap();
            let mut request = reqwest::Client::new().request(method, url);
            if !body.is_null() {
                request = request.header("content-type", "application/json").body(body.to_string());
            }
            let response = request.send().await.unwrap();
            let (status, text) = (response.status(), response.text().await.unwrap());
            assert!(status.is_success(), "{path}: {status} {text}");
            serde_json::from_str(&text).unwrap_or(Value::Null)
        })
    }
}

fn job(n: usize, queues: usize) -> Job {
    let number = n % queues;
    let text = "x".repeat(PAYLOAD_BYTES - 50);
    let payload = json!({ "n": n, "customer": n % 1000, "text": text });
    let kind = format!("kind-{}", number % 50);
    let job = Job::new(kind).queue(queue(number)).json(&payload).unwrap();
    let job = if number % LATER == LATER - 1 { job.delay(DAY) } else { job };
    // An indexed value of one job in a hundred.
    if n.is_multiple_of(100) { job.label("order", n.to_string()) } else { job }
}

/// Workers that wait, in a thread that answers the server's pings.
#[derive(Debug)]
pub(crate) struct WaitingWorkers {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl WaitingWorkers {
    /// Connects workers, each to one of the queues with jobs for tomorrow only.
    pub(crate) fn start(address: SocketAddr, n: usize, queues: usize) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut workers = JoinSet::new();
                for nth in 0..n {
                    let of = queue((nth * LATER + LATER - 1) % queues);
                    let name = format!("worker-{nth:04}");
                    let mut worker = BareWorker::start(address, &name, vec![of], 10).await;
                    workers.spawn(async move {
                        loop {
                            worker.receive().await;
                        }
                    });
                }
                ready.send(()).unwrap();
                // An error means that the benchmark has failed.
                let _ = stopped.await;
            });
        });
        is_ready.recv().unwrap();
        Self { stop, thread }
    }

    pub(crate) fn stop(self) {
        self.stop.send(()).unwrap();
        self.thread.join().unwrap();
    }
}
