//! `cargo xtask bench store --json FILE`: the memory store beside a `BTreeMap` and a `VecDeque` that
//! make the same moves without any checks, and what claims and promotions cost when much waits.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![expect(clippy::unwrap_used, reason = "a benchmark that fails stops")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crore_core::job::{Retain, When};
use crore_core::limit::{Limit, LimitKey};
use crore_core::machine::{Event, Outcome, decide};
use crore_core::{Delivery, Encoding, Job, JobId, Live, Name, NewJob, Payload, Span, Spec, Time};
use crore_store::jobs::{Claim, Order, Write};
use crore_store::registry::{Define, Value};
use crore_store::{Answer, Jobs, Memory, Registry, SystemClock, Upkeep};

const RUNS: usize = 5;
const BATCH: usize = 100;
const CYCLES: usize = 1_000_000;

/// The answer of a store that never makes one wait.
fn now<T>(mut answer: Answer<'_, T>) -> T {
    match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result.unwrap(),
        Poll::Pending => unreachable!("the memory store answers at once"),
    }
}

fn name(text: &str) -> Name {
    Name::new("name", text).unwrap()
}

fn job(queue: &str, kind: &str) -> NewJob {
    let payload = Payload::new(Encoding::Bytes, vec![7; 250]);
    let mut spec = Spec::new(name(queue), name(kind), payload);
    spec.retain = Retain::Nothing;
    spec.into()
}

fn claim_of(queue: &str) -> Claim {
    let queues = vec![name(queue)];
    Claim { queues, kinds: None, n: BATCH, order: Order::Merged, worker: name("bench") }
}

/// How long pushing, claiming and finishing took.
#[derive(Debug, Clone, Copy, Default)]
struct Took {
    push: Duration,
    claim: Duration,
    finish: Duration,
}

impl Took {
    fn all(self) -> Duration {
        self.push + self.claim + self.finish
    }
}

fn timed<T>(took: &mut Duration, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    *took += start.elapsed();
    result
}

fn push(store: &Memory, batch: Vec<NewJob>) {
    let n = batch.len();
    let pushed = now(store.push(batch.into()));
    assert_eq!(pushed.get().jobs.len(), n, "every job has an answer");
}

fn claim_all(store: &Memory, ask: &Claim, took: &mut Duration) -> Vec<Vec<Job>> {
    let mut claimed = Vec::new();
    loop {
        let ask = ask.clone();
        let jobs = timed(took, || now(store.claim(ask))).jobs;
        if jobs.is_empty() {
            return claimed;
        }
        claimed.push(jobs);
    }
}

fn finish_all(store: &Memory, claimed: Vec<Vec<Job>>, took: &mut Duration) {
    for jobs in claimed {
        timed(took, || {
            let done = |job: &Job| {
                let report = Outcome::Done { result: None }.into();
                let event = Event::Finished { delivery: Some(job.live.delivery), report };
                Write::Job(decide(job, &event, 0).unwrap())
            };
            let applied = now(store.apply(jobs.iter().map(done).collect()));
            assert_eq!(applied.get().len(), jobs.len());
        });
    }
}

/// All of one verb, then all of the next: the store holds a million jobs in between.
fn through_the_store() -> Took {
    let store = Memory::new(Arc::new(SystemClock));
    let mut took = Took::default();
    let pattern = job("q", "k");
    for _ in 0..CYCLES / BATCH {
        let batch = vec![pattern.clone(); BATCH];
        timed(&mut took.push, || push(&store, batch));
    }
    let claimed = claim_all(&store, &claim_of("q"), &mut took.claim);
    finish_all(&store, claimed, &mut took.finish);
    took
}

/// The same moves without checks: records in a map, order in a deque, leases in a map.
fn bare_moves() -> Took {
    let mut records = BTreeMap::new();
    let mut order = VecDeque::new();
    let mut leases = BTreeMap::new();
    let mut took = Took::default();
    let (pattern, worker, mut last) = (job("q", "k"), name("bench"), 0u64);
    for _ in 0..CYCLES / BATCH {
        let batch = vec![pattern.clone(); BATCH];
        timed(&mut took.push, || {
            for new in batch {
                last += 1;
                let live = Live::pushed(Time::ZERO, Time::ZERO, 0);
                records.insert(last, Job { id: JobId(last), spec: Arc::new(new.spec), live });
                order.push_back(last);
            }
        });
    }
    let mut claimed = Vec::new();
    while !order.is_empty() {
        let jobs: Vec<Job> = timed(&mut took.claim, || {
            let ids = order.drain(..BATCH);
            let claim = ids.map(|id| {
                let job = records.get_mut(&id).unwrap();
                job.live.claim(Delivery(id), Time::ZERO, job.spec.lease, &worker);
                leases.insert((job.live.lease_until, id), ());
                job.clone()
            });
            claim.collect()
        });
        claimed.push(jobs);
    }
    for jobs in claimed {
        timed(&mut took.finish, || {
            for job in &jobs {
                leases.remove(&(job.live.lease_until, job.id.0));
                records.remove(&job.id.0);
            }
        });
    }
    took
}

/// What lies in a store before claims are measured.
#[derive(Debug, Clone, Copy)]
enum Filled {
    Empty,
    /// A million jobs behind one limit that lets none through, in the same queue.
    Blocked,
    /// Ten thousand lanes in the same queue, a hundred jobs each; perhaps behind what is claimed.
    Lanes {
        behind: bool,
    },
    /// Ten million jobs pending in the same queue.
    Pending,
}

fn filled(filled: Filled) -> Memory {
    let store = Memory::new(Arc::new(SystemClock));
    let fill = |n: usize, job: &dyn Fn(usize) -> NewJob| {
        for start in (0..n).step_by(1000) {
            let batch: Vec<NewJob> = (start..start + 1000).map(job).collect();
            push(&store, batch);
        }
    };
    match filled {
        Filled::Empty => {}
        Filled::Blocked => {
            let limit = Limit::parse("concurrency 0").unwrap();
            let defined = now(store.define(vec![Define::set(name("none"), Value::Limit(limit))]));
            assert_eq!(defined.get().len(), 1);
            let mut held = job("q", "held");
            held.spec.priority = -1;
            held.spec.limits = vec![LimitKey { limit: name("none"), value: None }];
            fill(1_000_000, &|_| held.clone());
        }
        Filled::Lanes { behind } => {
            let mut kinds = kinds(LANES);
            kinds.iter_mut().for_each(|job| job.spec.priority = i32::from(behind));
            fill(1_000_000, &|n| kinds[n % kinds.len()].clone());
        }
        Filled::Pending => {
            let pattern = job("q", "k");
            fill(10_000_000, &|_| pattern.clone());
        }
    }
    store
}

const LANES: usize = 10_000;

/// A job of each of `n` kinds.
fn kinds(n: usize) -> Vec<NewJob> {
    (0..n).map(|n| job("q", &format!("kind-{n}"))).collect()
}

/// Seconds for claims of 200,000 jobs in all, of these kinds in turn, pushed and finished in between.
fn claims(filling: Filled, kinds: &[NewJob]) -> f64 {
    let store = filled(filling);
    let (mut kinds, ask, mut took) = (kinds.iter().cycle(), claim_of("q"), Took::default());
    for _ in 0..2_000 {
        push(&store, kinds.by_ref().take(BATCH).cloned().collect());
        let ask = ask.clone();
        let jobs = timed(&mut took.claim, || now(store.claim(ask))).jobs;
        assert_eq!(jobs.len(), BATCH, "every claim was served");
        finish_all(&store, vec![jobs], &mut took.finish);
    }
    took.claim.as_secs_f64()
}

/// Seconds for promoting 100,000 due jobs in slices, with `waiting` that are not due.
fn promotions(waiting: usize) -> f64 {
    let store = Memory::new(Arc::new(SystemClock));
    let later =
        |n: usize| NewJob { due: When::After(Span::from_secs(3600 + n as u64)), ..job("q", "k") };
    for start in (0..waiting).step_by(1000) {
        push(&store, (start..start + 1000).map(later).collect());
    }
    let soon = NewJob { due: When::After(Span::from_millis(1)), ..job("q", "k") };
    for _ in 0..100 {
        push(&store, vec![soon.clone(); 1000]);
    }
    std::thread::sleep(Duration::from_millis(5));
    let (mut took, mut count) = (Duration::ZERO, 0);
    while count < 100_000 {
        count += timed(&mut took, || now(store.promote(1000))).count;
    }
    took.as_secs_f64()
}

/// Resident memory of this process, in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Bytes of index for each of 10 million waiting jobs.
fn index_bytes() -> f64 {
    const JOBS: u64 = 10_000_000;
    let pattern = job("q", "k");
    let before = resident();
    let index = crore_store::measure::index_of(JOBS, &pattern).unwrap();
    let bytes = resident() - before;
    drop(index);
    bytes as f64 / JOBS as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

struct Row {
    name: &'static str,
    value: f64,
    unit: &'static str,
    baseline: &'static str,
    baseline_value: f64,
    goal: f64,
    /// Whether the ratio is to be at least the goal, or at most.
    at_least: bool,
}

impl Row {
    fn json(&self) -> serde_json::Value {
        let ratio = self.value / self.baseline_value;
        let ok = if self.at_least { ratio >= self.goal } else { ratio <= self.goal };
        let sign = if self.at_least { ">=" } else { "<=" };
        println!(
            "{:<34} {:>12.1} {:<7} {:<28} {:>12.1}  ratio {ratio:>5.2}  goal {sign} {:<4} {}",
            self.name,
            self.value,
            self.unit,
            self.baseline,
            self.baseline_value,
            self.goal,
            if ok { "ok" } else { "MISSED" }
        );
        serde_json::json!({
            "name": self.name, "value": self.value, "unit": self.unit, "baseline": self.baseline,
            "baseline_value": self.baseline_value, "ratio": ratio,
            "goal": format!("{sign} {}", self.goal), "ok": ok,
        })
    }
}

fn cycle_rows() -> Vec<Row> {
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        bare.push(bare_moves());
        ours.push(through_the_store());
    }
    let rate = |runs: &[Took], of: fn(&Took) -> Duration| {
        CYCLES as f64 / median(runs.iter().map(|took| of(took).as_secs_f64()).collect())
    };
    type Verb = (&'static str, fn(&Took) -> Duration);
    let verbs: [Verb; 4] = [
        ("push", |t| t.push),
        ("claim", |t| t.claim),
        ("finish", |t| t.finish),
        ("push, claim and finish", |t| t.all()),
    ];
    let row = |(name, of): Verb| Row {
        name,
        value: rate(&ours, of),
        unit: "jobs/s",
        baseline: "BTreeMap + VecDeque",
        baseline_value: rate(&bare, of),
        goal: 0.3,
        at_least: true,
    };
    verbs.into_iter().map(row).collect()
}

/// Alternated runs of a measured thing and of its baseline, in nanoseconds a job.
fn cost_row(name: &'static str, jobs: f64, ours: &dyn Fn() -> f64, bare: &dyn Fn() -> f64) -> Row {
    let (mut value, mut baseline) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        baseline.push(bare() * 1e9 / jobs);
        value.push(ours() * 1e9 / jobs);
    }
    Row {
        name,
        value: median(value),
        unit: "ns/job",
        baseline: "the same in an empty store",
        baseline_value: median(baseline),
        goal: 1.5,
        at_least: false,
    }
}

/// What the command line asks for.
#[derive(Default)]
struct Args {
    json: Option<String>,
    only: Option<String>,
}

fn args() -> Args {
    let mut args = Args::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--json" => args.json = words.next(),
            "--only" => args.only = words.next(),
            _ => panic!("usage: bench_store [--json FILE] [--only PART-OF-A-NAME]"),
        }
    }
    args
}

fn main() {
    let args = args();
    let wanted = |name: &str| args.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let mut rows = Vec::new();
    // First, while the process is small.
    if wanted("index of a waiting job") {
        rows.push(Row {
            name: "index of a waiting job",
            value: index_bytes(),
            unit: "bytes",
            baseline: "what is allowed",
            baseline_value: 40.0,
            goal: 1.0,
            at_least: false,
        });
    }
    if wanted("push, claim and finish") {
        rows.extend(cycle_rows());
    }
    let (one, many) = ([job("q", "k")], kinds(LANES));
    for (name, filling, kinds) in [
        ("claim, 1M blocked behind a limit", Filled::Blocked, &one[..]),
        ("claim, 10k lanes behind", Filled::Lanes { behind: true }, &one),
        ("claim, 10k lanes in turn", Filled::Lanes { behind: false }, &many),
        ("claim, 10M pending", Filled::Pending, &one),
    ] {
        if wanted(name) {
            let empty = || claims(Filled::Empty, kinds);
            rows.push(cost_row(name, 200_000.0, &|| claims(filling, kinds), &empty));
        }
    }
    if wanted("promote, 1M not due") {
        let none = || promotions(0);
        rows.push(cost_row("promote, 1M not due", 100_000.0, &|| promotions(1_000_000), &none));
    }
    let json: Vec<_> = rows.iter().map(Row::json).collect();
    if let Some(file) = args.json {
        std::fs::write(file, serde_json::to_string_pretty(&json).unwrap() + "\n").unwrap();
    }
}
