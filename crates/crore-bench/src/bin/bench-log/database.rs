//! An embedded database that does the same work as the store with the same durability. One writer thread commits all
//! waiting requests in one transaction; pushes and finishes wait for their commit, claims do not. The order of jobs is
//! kept in memory, as in the store; a claim reads the job from the database.

use std::collections::VecDeque;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};

use crate::redb::Redb;
use crate::sqlite::Sqlite;
use crore_bench::contender::Contender;
use crore_bench::driver::{RunFigures, Until, drive, drivers, wait};

/// A write.
pub(crate) enum TableWrite {
    Put(u64, Arc<[u8]>),
    /// The job is claimed under this delivery.
    Claim(u64, u64),
    Remove(u64),
}

/// A database of jobs by id.
pub(crate) trait JobTable: Send {
    /// Another connection to the same database.
    fn connect(&self) -> Box<dyn JobTable>;

    /// Applies all writes in one transaction, which is durable on return.
    fn commit(&mut self, writes: &[TableWrite]);

    fn read(&self, id: u64) -> Vec<u8>;

    fn count(&self) -> u64;
}

pub(crate) struct Database {
    name: &'static str,
    body: Arc<[u8]>,
    last: AtomicU64,
    ready: Mutex<VecDeque<u64>>,
    requests: Option<Sender<CommitRequest>>,
    writer: Option<JoinHandle<()>>,
    readers: Vec<Mutex<Box<dyn JobTable>>>,
}

struct CommitRequest {
    write: TableWrite,
    committed: Option<Arc<CommitSignal>>,
}

#[derive(Default)]
struct CommitSignal(Mutex<(bool, Option<Waker>)>);

struct CommitWait(Arc<CommitSignal>);

impl Future for CommitWait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut signal = self.0.0.lock().unwrap();
        if signal.0 {
            return Poll::Ready(());
        }
        signal.1 = Some(context.waker().clone());
        Poll::Pending
    }
}

impl CommitSignal {
    fn signal(&self) {
        let waker = {
            let mut state = self.0.lock().unwrap();
            state.0 = true;
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

fn write_all(mut engine: Box<dyn JobTable>, requests: &Receiver<CommitRequest>) {
    while let Ok(first) = requests.recv() {
        let waiting = std::iter::once(first).chain(requests.try_iter());
        let (writes, answers): (Vec<_>, Vec<_>) =
            waiting.map(|request| (request.write, request.committed)).unzip();
        engine.commit(&writes);
        answers.iter().flatten().for_each(|answer| answer.signal());
    }
}

impl Database {
    /// SQLite with a write-ahead log that is synced by every transaction.
    pub(crate) fn sqlite(dir: &Path, job_bytes: usize) -> Self {
        Self::start("SQLite", Box::new(Sqlite::open(dir)), job_bytes)
    }

    /// redb with its default durability: every transaction is synced.
    pub(crate) fn redb(dir: &Path, job_bytes: usize) -> Self {
        Self::start("redb", Box::new(Redb::open(dir)), job_bytes)
    }

    fn start(name: &'static str, engine: Box<dyn JobTable>, job_bytes: usize) -> Self {
        let readers = (0..drivers()).map(|_| Mutex::new(engine.connect())).collect();
        let (sender, requests) = mpsc::channel();
        let writer = Some(thread::spawn(move || write_all(engine, &requests)));
        let body = vec![7; job_bytes].into();
        let (last, ready, sender) = (0.into(), Mutex::default(), Some(sender));
        Self { name, body, last, ready, requests: sender, writer, readers }
    }

    fn submit(&self, write: TableWrite, committed: Option<Arc<CommitSignal>>) {
        self.requests.as_ref().unwrap().send(CommitRequest { write, committed }).unwrap();
    }

    /// Submits all writes, and waits for the last.
    async fn submit_and_wait(&self, writes: impl Iterator<Item = TableWrite>) {
        let answer = Arc::new(CommitSignal::default());
        let mut writes = writes.peekable();
        while let Some(write) = writes.next() {
            let last = writes.peek().is_none();
            self.submit(write, last.then(|| Arc::clone(&answer)));
        }
        CommitWait(answer).await;
    }

    async fn push_and_wait(&self, n: usize) {
        let first = self.last.fetch_add(n as u64, Ordering::Relaxed) + 1;
        let ids = first..first + n as u64;
        self.submit_and_wait(ids.clone().map(|id| TableWrite::Put(id, Arc::clone(&self.body))))
            .await;
        self.ready.lock().unwrap().extend(ids);
    }

    async fn claim_and_finish(&self, driver: usize) {
        let id = self.ready.lock().unwrap().pop_front().expect("every claim finds a job");
        self.submit(TableWrite::Claim(id, id), None);
        let body = self.readers[driver].lock().unwrap().read(id);
        assert_eq!(body.len(), self.body.len(), "the job is as it was pushed");
        self.submit_and_wait(std::iter::once(TableWrite::Remove(id))).await;
    }
}

impl Contender for Database {
    fn name(&self) -> &'static str {
        self.name
    }

    fn push(&self, until: Until, in_flight: usize, batch: usize) -> RunFigures {
        drive(until, in_flight, move |state| async move {
            while let Some(begun_at) = state.begin() {
                self.push_and_wait(batch).await;
                state.record_latency(begun_at);
                state.count_jobs(batch);
            }
        })
    }

    fn cycle(&self, until: Until, in_flight: usize) -> RunFigures {
        drive(until, in_flight, move |state| async move {
            while let Some(begun_at) = state.begin() {
                self.push_and_wait(1).await;
                state.record_latency(begun_at);
                self.claim_and_finish(state.driver).await;
                state.count_jobs(1);
            }
        })
    }

    fn count(&self) -> u64 {
        self.readers[0].lock().unwrap().count()
    }

    fn drain(&self) {
        let ids: Vec<u64> = self.ready.lock().unwrap().drain(..).collect();
        for ids in ids.chunks(10_000) {
            wait(self.submit_and_wait(ids.iter().map(|id| TableWrite::Remove(*id))));
        }
        assert_eq!(self.count(), 0, "nothing is left");
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(writer) = self.writer.take() {
            writer.join().unwrap();
        }
    }
}
