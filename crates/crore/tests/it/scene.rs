//! An engine without a thread on a clock in the test's hand, and few words to drive it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crore::act::{Act, Acted};
use crore::core::machine::Outcome;
use crore::core::{Batch, Clock, Code, Job, JobId, Name, NewJob, Payload, Span, Spec, State, Time};
use crore::fetch::Fetch;
use crore::finish::{Finish, Finished};
use crore::push::Taken;
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

/// More rounds of upkeep than anything here needs: an engine that wants more runs in a circle.
const ROUNDS: usize = 5000;

pub(crate) struct Scene {
    pub(crate) engine: Engine,
    pub(crate) clock: FakeClock,
    pub(crate) store: Arc<dyn Store>,
    _dir: Option<TempDir>,
}

/// The same must hold on both stores that the engine brings along.
pub(crate) fn on_both(body: impl Fn(&Scene)) {
    body(&Scene::memory());
    body(&Scene::embedded());
}

impl Scene {
    pub(crate) fn memory() -> Self {
        let clock = FakeClock::default();
        let store = Arc::new(Memory::new(Arc::new(clock.clone())));
        Self::over(store, clock, None)
    }

    pub(crate) fn embedded() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let clock = FakeClock::default();
        let options = embedded::Options { segment_bytes: 1 << 20, ..embedded::Options::default() };
        let store = Embedded::open(dir.path(), Arc::new(clock.clone()), options).expect("opened");
        Self::over(Arc::new(store), clock, Some(dir))
    }

    pub(crate) fn over(store: Arc<dyn Store>, clock: FakeClock, dir: Option<TempDir>) -> Self {
        let mut options = Options::default();
        options.seed = Some(1);
        let engine =
            block_on(Engine::without_thread(Arc::clone(&store), Arc::new(clock.clone()), options))
                .expect("an engine");
        let scene = Self { engine, clock, store, _dir: dir };
        scene.settle();
        scene
    }

    /// The same store under an engine that was made anew, as after a restart.
    pub(crate) fn restarted(&self) -> Self {
        Self::over(Arc::clone(&self.store), self.clock.clone(), None)
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Does upkeep until nothing is due any more.
    pub(crate) fn settle(&self) {
        for _ in 0..ROUNDS {
            if self.engine.upkeep().due_at() > self.now() {
                return;
            }
            block_on(self.engine.upkeep().run_once()).expect("upkeep");
        }
        panic!("upkeep has something to do again and again");
    }

    /// Lets time pass, and upkeep do what is due by then.
    pub(crate) fn pass(&self, span: Span) {
        self.clock.advance(span);
        self.settle();
    }

    pub(crate) fn push(&self, job: impl Into<NewJob>) -> JobId {
        match self.push_all(vec![job.into()]).pop() {
            Some(Taken::New(id)) => id,
            other => panic!("not new: {other:?}"),
        }
    }

    pub(crate) fn push_all(&self, batch: impl Into<Batch>) -> Vec<Taken> {
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

    pub(crate) fn finish(&self, job: &Job, outcome: Outcome) -> Finished {
        block_on(self.engine.finish(Finish::of(job, outcome))).expect("reported")
    }

    pub(crate) fn done(&self, job: &Job) {
        let finished = self.finish(job, Outcome::Done { result: None });
        assert!(matches!(finished, Finished::Yes { .. }), "{finished:?}");
    }

    pub(crate) fn act(&self, id: JobId, act: &Act) -> Acted {
        block_on(self.engine.jobs().act(id.into(), act)).expect("acted")
    }

    pub(crate) fn get(&self, id: JobId) -> Job {
        block_on(self.engine.get(id)).expect("no error").expect("it is there")
    }

    pub(crate) fn state(&self, id: JobId) -> State {
        self.get(id).live.state
    }
}

pub(crate) fn name(text: &str) -> Name {
    Name::new("name", text).expect("a good name")
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

/// One job of a queue, if there is one now.
pub(crate) fn ask(queue: &str) -> Fetch {
    Fetch::new(name(queue), name("w"))
}

/// One job of a queue, within an hour.
pub(crate) fn wait_for(queue: &str) -> Fetch {
    Fetch { wait: HOUR, ..ask(queue) }
}

/// A future in the test's hand, which counts how often it is woken.
pub(crate) struct Task<'a, T> {
    future: Pin<Box<dyn Future<Output = T> + 'a>>,
    count: Arc<Count>,
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl<'a, T> Task<'a, T> {
    pub(crate) fn new(future: impl Future<Output = T> + 'a) -> Self {
        Self { future: Box::pin(future), count: Arc::default() }
    }

    /// A future that was polled once, and waits.
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

    /// What it gives, if it was woken and has come to its end.
    pub(crate) fn poll_if_woken(&mut self) -> Option<T> {
        (self.count.0.swap(0, Ordering::SeqCst) > 0).then(|| self.poll()).flatten()
    }
}

/// The code of whatever an engine call gives.
pub(crate) fn code<T>(future: impl Future<Output = Result<T, Error>>) -> Option<Code> {
    block_on(future).err().map(|error| error.code())
}
