//! The child process: opens a store and works on it with several threads until it is killed or its
//! parent is gone.

use std::io::{self, BufRead};
use std::path::PathBuf;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::thread;

use crore_store::embedded::{DurabilityMode, Embedded, Options};
use crore_store::{SystemClock, Views};

use super::message::ChildMessage;
use super::wait::wait;
use super::worker::ChildWorker;

/// Number of worker threads.
const WORKERS: u32 = 6;

/// The task of a child, sent as one line on its standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChildTask {
    /// Unique among the children of one store.
    pub(crate) round: u32,
    pub(crate) seed: u64,
    pub(crate) segment_bytes: u64,
    /// Number of jobs from which on nothing more is pushed.
    pub(crate) max_jobs: u64,
    /// Whether acknowledged changes are synced, as they should be.
    pub(crate) is_durable: bool,
    pub(crate) dir: PathBuf,
}

impl ChildTask {
    pub(crate) fn line(&self) -> String {
        let Self { round, seed, segment_bytes, max_jobs: enough, is_durable, dir } = self;
        let is_durable = u8::from(*is_durable);
        format!("{round} {seed} {segment_bytes} {enough} {is_durable} {}\n", dir.display())
    }

    fn read(line: &str) -> Option<Self> {
        let mut words = line.trim_end_matches('\n').splitn(6, ' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        Some(Self {
            round: number().and_then(|n| u32::try_from(n).ok())?,
            seed: number()?,
            segment_bytes: number()?,
            max_jobs: number()?,
            is_durable: number()? == 1,
            dir: words.next()?.into(),
        })
    }

    pub(crate) fn options(&self) -> Options {
        let durability =
            if self.is_durable { DurabilityMode::Always } else { DurabilityMode::None };
        Options { durability, segment_bytes: self.segment_bytes, ..Options::default() }
    }
}

/// State that the worker threads share.
#[derive(Debug)]
pub(crate) struct ChildState {
    pub(crate) store: Embedded,
    pub(crate) task: ChildTask,
    /// Approximate number of jobs.
    pub(crate) jobs: AtomicI64,
    pub(crate) writes: AtomicU64,
}

/// Runs the task from standard input; returns if there is none.
pub(crate) fn run_child() {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    let Some(task) = read.ok().and_then(|_| ChildTask::read(&line)) else { return };
    // A test runner may have printed the beginning of a line.
    println!();
    thread::spawn(end_with_parent);
    match Embedded::open(&task.dir, Arc::new(SystemClock), task.options()) {
        Ok(store) => work(store, task),
        Err(error) => ChildMessage::GaveUp(format!("not opened: {error:?}")).send(),
    }
}

/// Exits when standard input closes: the kernel closes it however the parent ends.
fn end_with_parent() {
    let mut line = String::new();
    while io::stdin().lock().read_line(&mut line).is_ok_and(|n| n > 0) {}
    exit(1);
}

fn work(store: Embedded, task: ChildTask) {
    let counts = wait(store.counts(None)).map(|counts| counts.iter().map(|count| count.n).sum());
    let there: u64 = counts.unwrap_or_default();
    let (jobs, writes) = (AtomicI64::new(there as i64), AtomicU64::new(0));
    let shared = ChildState { store, task, jobs, writes };
    ChildMessage::Ready.send();
    thread::scope(|scope| {
        for n in 0..WORKERS {
            let mut worker = ChildWorker::new(&shared, n);
            scope.spawn(move || while worker.step().is_ok() {});
        }
    });
}
