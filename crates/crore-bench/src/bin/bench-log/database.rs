//! An embedded database at the same work, with the same promises: one writer thread commits all
//! requests that wait in one transaction, pushes and finishes are answered after it, and claims are
//! noted by the next one. The order of jobs is kept in memory, as the store does it; a claim reads
//! the job from the database.

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
use crore_bench::driver::{Ran, Until, drive, drivers, wait};

/// What is written.
pub(crate) enum Write {
    Put(u64, Arc<[u8]>),
    /// The job is claimed under this delivery.
    Claim(u64, u64),
    Remove(u64),
}

/// A database of jobs by their numbers.
pub(crate) trait JobTable: Send {
    /// Another connection to the same database.
    fn connect(&self) -> Box<dyn JobTable>;

    /// Writes all of this in one transaction that is durable when it returns.
    fn commit(&mut self, asks: &[Write]);

    fn read(&self, id: u64) -> Vec<u8>;

    fn count(&self) -> u64;
}

pub(crate) struct Database {
    name: &'static str,
    body: Arc<[u8]>,
    last: AtomicU64,
    ready: Mutex<VecDeque<u64>>,
    asks: Option<Sender<Request>>,
    writer: Option<JoinHandle<()>>,
    readers: Vec<Mutex<Box<dyn JobTable>>>,
}

struct Request {
    ask: Write,
    answer: Option<Arc<Answer>>,
}

#[derive(Default)]
struct Answer(Mutex<(bool, Option<Waker>)>);

struct Wait(Arc<Answer>);

impl Future for Wait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut answer = self.0.0.lock().unwrap();
        if answer.0 {
            return Poll::Ready(());
        }
        answer.1 = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Answer {
    fn give(&self) {
        let waker = {
            let mut answer = self.0.lock().unwrap();
            answer.0 = true;
            answer.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

fn write_all(mut engine: Box<dyn JobTable>, requests: &Receiver<Request>) {
    while let Ok(first) = requests.recv() {
        let waiting = std::iter::once(first).chain(requests.try_iter());
        let (asks, answers): (Vec<_>, Vec<_>) =
            waiting.map(|request| (request.ask, request.answer)).unzip();
        engine.commit(&asks);
        answers.iter().flatten().for_each(|answer| answer.give());
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
        let (asks, requests) = mpsc::channel();
        let writer = Some(thread::spawn(move || write_all(engine, &requests)));
        let body = vec![7; job_bytes].into();
        let (last, ready, asks) = (0.into(), Mutex::default(), Some(asks));
        Self { name, body, last, ready, asks, writer, readers }
    }

    fn ask(&self, ask: Write, answer: Option<Arc<Answer>>) {
        self.asks.as_ref().unwrap().send(Request { ask, answer }).unwrap();
    }

    /// Asks for all of these, and waits for the last.
    async fn waited(&self, asks: impl Iterator<Item = Write>) {
        let answer = Arc::new(Answer::default());
        let mut asks = asks.peekable();
        while let Some(ask) = asks.next() {
            let last = asks.peek().is_none();
            self.ask(ask, last.then(|| Arc::clone(&answer)));
        }
        Wait(answer).await;
    }

    async fn pushed(&self, n: usize) {
        let first = self.last.fetch_add(n as u64, Ordering::Relaxed) + 1;
        let ids = first..first + n as u64;
        self.waited(ids.clone().map(|id| Write::Put(id, Arc::clone(&self.body)))).await;
        self.ready.lock().unwrap().extend(ids);
    }

    async fn claim_and_finish(&self, driver: usize) {
        let id = self.ready.lock().unwrap().pop_front().expect("every claim finds a job");
        self.ask(Write::Claim(id, id), None);
        let body = self.readers[driver].lock().unwrap().read(id);
        assert_eq!(body.len(), self.body.len(), "the job is as it was pushed");
        self.waited(std::iter::once(Write::Remove(id))).await;
    }
}

impl Contender for Database {
    fn name(&self) -> &'static str {
        self.name
    }

    fn push(&self, until: Until, in_flight: usize, batch: usize) -> Ran {
        drive(until, in_flight, move |turn| async move {
            while let Some(begun_at) = turn.begin() {
                self.pushed(batch).await;
                turn.answered(begun_at);
                turn.done(batch);
            }
        })
    }

    fn cycle(&self, until: Until, in_flight: usize) -> Ran {
        drive(until, in_flight, move |turn| async move {
            while let Some(begun_at) = turn.begin() {
                self.pushed(1).await;
                turn.answered(begun_at);
                self.claim_and_finish(turn.driver).await;
                turn.done(1);
            }
        })
    }

    fn count(&self) -> u64 {
        self.readers[0].lock().unwrap().count()
    }

    fn drain(&self) {
        let ids: Vec<u64> = self.ready.lock().unwrap().drain(..).collect();
        for ids in ids.chunks(10_000) {
            wait(self.waited(ids.iter().map(|id| Write::Remove(*id))));
        }
        assert_eq!(self.count(), 0, "nothing is left");
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.asks = None;
        if let Some(writer) = self.writer.take() {
            writer.join().unwrap();
        }
    }
}
