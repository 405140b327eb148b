//! The child: a process that opens a store, works on it with several hands, and ends when it is
//! killed or when its parent is gone.

use std::io::{self, BufRead};
use std::path::PathBuf;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::thread;

use crore_store::embedded::{Durability, Embedded, Options};
use crore_store::{SystemClock, Views};

use super::hand::Hand;
use super::said::Said;
use super::wait::wait;

/// How many work at once.
const HANDS: u32 = 6;

/// What a child is told to do, as one line on its standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Task {
    /// No two children of one store have the same.
    pub(crate) round: u32,
    pub(crate) seed: u64,
    pub(crate) segment_bytes: u64,
    /// From so many jobs on nobody pushes.
    pub(crate) enough: u64,
    /// Whether what is answered is on the disk, as it should be.
    pub(crate) is_durable: bool,
    pub(crate) dir: PathBuf,
}

impl Task {
    pub(crate) fn line(&self) -> String {
        let Self { round, seed, segment_bytes, enough, is_durable, dir } = self;
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
            enough: number()?,
            is_durable: number()? == 1,
            dir: words.next()?.into(),
        })
    }

    pub(crate) fn options(&self) -> Options {
        let durability = if self.is_durable { Durability::Always } else { Durability::None };
        Options { durability, segment_bytes: self.segment_bytes, ..Options::default() }
    }
}

/// What the hands share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Embedded,
    pub(crate) task: Task,
    /// About how many jobs there are.
    pub(crate) jobs: AtomicI64,
    pub(crate) writes: AtomicU64,
}

/// Does what the parent says on standard input; nothing, if there is no parent.
pub(crate) fn run_child() {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    let Some(task) = read.ok().and_then(|_| Task::read(&line)) else { return };
    // A test runner may have begun a line of its own.
    println!();
    thread::spawn(end_with_parent);
    match Embedded::open(&task.dir, Arc::new(SystemClock), task.options()) {
        Ok(store) => work(store, task),
        Err(error) => Said::Over(format!("not opened: {error:?}")).say(),
    }
}

/// The parent holds the other end, and the kernel closes it however the parent ends.
fn end_with_parent() {
    let mut line = String::new();
    while io::stdin().lock().read_line(&mut line).is_ok_and(|n| n > 0) {}
    exit(1);
}

fn work(store: Embedded, task: Task) {
    let counts = wait(store.counts(None)).map(|counts| counts.iter().map(|count| count.n).sum());
    let there: u64 = counts.unwrap_or_default();
    let (jobs, writes) = (AtomicI64::new(there as i64), AtomicU64::new(0));
    let shared = Shared { store, task, jobs, writes };
    Said::Ready.say();
    thread::scope(|scope| {
        for n in 0..HANDS {
            let mut hand = Hand::new(&shared, n);
            scope.spawn(move || while hand.step().is_ok() {});
        }
    });
}
