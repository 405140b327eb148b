//! Test fixture: an engine without a thread, on a simulated clock, with short helper methods.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crore::actions::{ActionResult, JobAction};
use crore::core::machine::Outcome;
use crore::core::{Batch, Clock, Code, Job, JobId, Name, NewJob, Payload, Span, Spec, State, Time};
use crore::fetch::Fetch;
use crore::finish::{Finish, FinishResult};
use crore::push::PushResult;
use crore::store::embedded::{self, Embedded};
use crore::store::{Memory, Store};
use crore::{Engine, Error, Options, block_on};
use crore_testkit::FakeClock;
use tempfile::TempDir;

pub(crate) const SECOND: Span = Span::from_secs(1);
pub(crate) const MINUTE: Span = Span::from_secs(60);
pub(crate) const HOUR: Span = Span::from_secs(3600);
pub(crate) const DAY: Span = Span::from_secs(24 * 3600);
pub(crate) const LEASE: Span = Span::from_secs(30);

/// More rounds of upkeep than any test needs: an engine that exceeds it loops.
const MAX_UPKEEP_ROUNDS: usize = 5000;

pub(crate) struct TestEngine {
    pub(crate) engine: Engine,
    pub(crate) clock: FakeClock,
    pub(crate) store: Arc<dyn Store>,
    _dir: Option<TempDir>,
}

/// Runs a test on both stores, memory and embedded.
pub(crate) fn on_both(body: impl Fn(&TestEngine)) {
    body(&TestEngine::memory());
    body(&TestEngine::embedded());
}

impl TestEngine {
    pub(crate) fn memory() -> Self {
        let clock = FakeClock::default();
        let store = Arc::new(Memory::new(Arc::new(clock.clone())));
        Self::on_store(store, clock, None)
    }

    pub(crate) fn embedded() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let clock = FakeClock::default();
        let options = embedded::Options { segment_bytes: 1 << 20, ..embedded::Options::default() };
        let store = Embedded::open(dir.path(), Arc::new(clock.clone()), options).expect("opened");
        Self::on_store(Arc::new(store), clock, Some(dir))
    }

    pub(crate) fn on_store(store: Arc<dyn Store>, clock: FakeClock, dir: Option<TempDir>) -> Self {
        let mut options = Options::default();
        options.seed = Some(1);
        let engine =
            block_on(Engine::without_thread(Arc::clone(&store), Arc::new(clock.clone()), options))
                .expect("an engine");
        let scene = Self { engine, clock, store, _dir: dir };
        scene.settle();
        scene
    }

    /// A new engine on the same store, as after a restart.
    pub(crate) fn restarted(&self) -> Self {
        Self::on_store(Arc::clone(&self.store), self.clock.clone(), None)
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Runs upkeep until nothing is due.
    pub(crate) fn settle(&self) {
        for _ in 0..MAX_UPKEEP_ROUNDS {
            if self.engine.upkeep().due_at() > self.now() {
                return;
            }
            block_on(self.engine.upkeep().run_once()).expect("upkeep");
        }
        panic!("upkeep never becomes idle");
    }

    /// Advances the clock and runs upkeep.
    pub(crate) fn pass(&self, span: Span) {
        self.clock.advance(span);
        self.settle();
    }

    pub(crate) fn push(&self, job: impl Into<NewJob>) -> JobId {
        match self.push_all(vec![job.into()]).pop() {
            Some(PushResult::New(id)) => id,
            other => panic!("not new: {other:?}"),
        }
    }

    pub(crate) fn push_all(&self, batch: impl Into<Batch>) -> Vec<PushResult> {
        block_on(self.engine.push_all(batch.into())).expect("pushed").jobs
    }

    pub(crate) fn try_fetch(&self, queue: &str) -> Option<Job> {
        self.fetch_n(queue, 1).pop()
    }

    pub(crate) fn fetch_n(&self, queue: &str, n: usize) -> Vec<Job> {
        block_on(self.engine.fetch(Fetch { n, ..ask(queue) })).expect("fetched")
    }

    pub(crate) fn fetch(&self, queue: &str) -> Job {
        self.try_fetch(queue).expect("a job")
    }

    pub(crate) fn finish(&self, job: &Job, outcome: Outcome) -> FinishResult {
        block_on(self.engine.finish(Finish::of(job, outcome))).expect("reported")
    }

    pub(crate) fn done(&self, job: &Job) {
        let finished = self.finish(job, Outcome::Done { result: None });
        assert!(matches!(finished, FinishResult::Accepted { .. }), "{finished:?}");
    }

    pub(crate) fn act(&self, id: JobId, act: &JobAction) -> ActionResult {
        block_on(self.engine.jobs().act(id.into(), act)).expect("acted")
    }

    pub(crate) fn get(&self, id: JobId) -> Job {
        block_on(self.engine.get(id)).expect("no error").expect("it exists")
    }

    pub(crate) fn state(&self, id: JobId) -> State {
        self.get(id).live.state
    }
}

pub(crate) fn name(text: &str) -> Name {
    Name::new("name", text).expect("a valid name")
}

/// A plain job.
pub(crate) fn job(queue: &str) -> NewJob {
    spec(queue).into()
}

pub(crate) fn spec(queue: &str) -> Spec {
    Spec::new(name(queue), name("work"), Payload::json("{}"))
}

pub(crate) fn jobs(queue: &str, n: usize) -> Vec<NewJob> {
    vec![job(queue); n]
}

/// A fetch of one job, without waiting.
pub(crate) fn ask(queue: &str) -> Fetch {
    Fetch::new(name(queue), name("w"))
}

/// A fetch of one job that waits up to an hour.
pub(crate) fn wait_for(queue: &str) -> Fetch {
    Fetch { wait: HOUR, ..ask(queue) }
}

/// A future that the test polls, and that counts its wake-ups.
pub(crate) struct Task<'a, T> {
    future: Pin<Box<dyn Future<Output = T> + 'a>>,
    count: Arc<TaskWakes>,
}

#[derive(Default)]
struct TaskWakes(AtomicUsize);

impl Wake for TaskWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl<'a, T> Task<'a, T> {
    pub(crate) fn new(future: impl Future<Output = T> + 'a) -> Self {
        Self { future: Box::pin(future), count: Arc::default() }
    }

    /// A future that was polled once and is pending.
    pub(crate) fn waiting(future: impl Future<Output = T> + 'a) -> Self {
        let mut task = Self::new(future);
        assert!(task.poll().is_none(), "it does not wait");
        task
    }

    pub(crate) fn poll(&mut self) -> Option<T> {
        let waker = Waker::from(Arc::clone(&self.count));
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(given) => Some(given),
            Poll::Pending => None,
        }
    }

    pub(crate) fn wakes(&self) -> usize {
        self.count.0.load(Ordering::SeqCst)
    }

    /// Polls it if it was woken; returns its output if it is ready.
    pub(crate) fn poll_if_woken(&mut self) -> Option<T> {
        (self.count.0.swap(0, Ordering::SeqCst) > 0).then(|| self.poll()).flatten()
    }
}

/// The error code of an engine call.
pub(crate) fn code<T>(future: impl Future<Output = Result<T, Error>>) -> Option<Code> {
    block_on(future).err().map(|error| error.code())
}
