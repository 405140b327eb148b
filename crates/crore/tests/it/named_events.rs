//! Events: jobs that wait for one are released in slices, once, with its payload, and time out otherwise.

use std::sync::Arc;

use crore::actions::{ActionResult, JobAction};
use crore::core::event::{DEFAULT_KEEP, OnEventTimeout};
use crore::core::job::EndReason;
use crore::core::{
    AwaitedEvent, Caps, Clock, Code, EventWait, Job, JobId, Name, NewEvent, NewJob, Payload, Span,
    Spec, State,
};
use crore::events::ListenerItem;
use crore::explain::Reason;
use crore::fetch::Fetch;
use crore::resources::EventReceipt;
use crore::store::Memory;
use crore::{Engine, Error, Options, block_on};
use crore_testkit::FakeClock;

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a valid name")
}

fn waiting(timeout: Option<u64>, on_timeout: OnEventTimeout) -> NewJob {
    let mut spec = Spec::new(name("q"), name("k"), Payload::json("{}"));
    let timeout = timeout.map(Span::from_secs);
    spec.wait_for = Some(Box::new(AwaitedEvent { name: name("paid"), timeout, on_timeout }));
    spec.into()
}

struct EventScene {
    clock: FakeClock,
    store: Arc<Memory>,
    engine: Engine,
}

impl EventScene {
    fn new(caps: Caps) -> Self {
        let clock = FakeClock::default();
        let store = Arc::new(Memory::new(Arc::new(clock.clone())));
        let mut scene = Self { engine: Engine::memory(), clock, store };
        scene.restart(caps);
        scene
    }

    fn restart(&mut self, caps: Caps) {
        let mut options = Options::default();
        options.caps = caps;
        let clock = Arc::new(self.clock.clone());
        let engine = Engine::without_thread(self.store.clone(), clock, options);
        self.engine = block_on(engine).expect("an engine");
    }

    fn upkeep(&self) {
        while self.engine.upkeep().due_at() <= Clock::now(&self.clock) {
            block_on(self.engine.upkeep().run_once()).expect("upkeep runs");
        }
    }

    /// Advances the clock, and runs upkeep only if it is planned by then.
    fn advance(&self, seconds: u64) {
        self.clock.advance(Span::from_secs(seconds));
        self.upkeep();
    }

    fn push(&self, jobs: Vec<NewJob>) -> Vec<JobId> {
        let pushed = block_on(self.engine.push_all(jobs.into())).expect("pushed");
        pushed.jobs.iter().map(|one| one.id().expect("stored")).collect()
    }

    fn send(&self, payload: &Payload) -> Result<EventReceipt, Error> {
        let (name, payload) = (name("paid"), payload.clone());
        block_on(self.engine.events().send(NewEvent { name, payload, keep: DEFAULT_KEEP }))
    }

    fn fetch(&self, n: usize) -> Vec<Job> {
        let fetch = Fetch { n, ..Fetch::new(name("q"), name("w")) };
        block_on(self.engine.fetch(fetch)).expect("fetched")
    }

    fn job(&self, id: JobId) -> Job {
        block_on(self.engine.get(id)).expect("read").expect("it exists")
    }
}

fn payload_of(job: &Job) -> Option<&Payload> {
    job.live.event.as_deref().and_then(EventWait::received)?.payload.as_ref()
}

/// Pushes many jobs, sends their event, and returns the ids and the jobs that were released.
fn release_many(payload: &Payload) -> (Vec<JobId>, Vec<Job>) {
    let scene = EventScene::new(Caps::default());
    let ids = scene.push(vec![waiting(None, OnEventTimeout::Cancel); 950]);
    scene.upkeep();
    assert_eq!(scene.fetch(10), []);
    assert_eq!(scene.send(payload).expect("sent").waiting, 950);
    scene.upkeep();
    let mut jobs = Vec::new();
    while let more = scene.fetch(1000)
        && !more.is_empty()
    {
        jobs.extend(more);
    }
    (ids, jobs)
}

#[test]
#[cfg(feature = "bug-drill")]
fn a_release_that_ends_after_a_slice_is_found() {
    crore::store::bug::arm("bug-31");
    let (ids, jobs) = release_many(&Payload::json("1"));
    crore::store::bug::arm("");
    assert!(jobs.len() < ids.len(), "bug-31 is not detected");
}

#[test]
fn a_sent_event_releases_more_jobs_than_a_slice_has() {
    let payload = Payload::json("{\"amount\":120}");
    let (ids, jobs) = release_many(&payload);
    assert_eq!(jobs.iter().map(|job| job.id).collect::<Vec<_>>(), ids, "each once");
    assert!(jobs.iter().all(|job| payload_of(job) == Some(&payload)));
}

#[test]
fn a_release_continues_after_a_restart() {
    let mut scene = EventScene::new(Caps::default());
    let ids = scene.push(vec![waiting(None, OnEventTimeout::Cancel); 3]);
    scene.send(&Payload::json("1")).expect("sent");
    scene.restart(Caps::default());
    scene.upkeep();
    assert_eq!(scene.fetch(9).iter().map(|job| job.id).collect::<Vec<_>>(), ids);
}

#[test]
fn a_job_pushed_after_the_event_runs_at_once() {
    let scene = EventScene::new(Caps::default());
    scene.send(&Payload::json("1")).expect("sent");
    scene.push(vec![waiting(None, OnEventTimeout::Cancel)]);
    assert_eq!(payload_of(&scene.fetch(1)[0]), Some(&Payload::json("1")));
}

#[test]
fn a_wait_times_out_in_time() {
    let scene = EventScene::new(Caps::default());
    let then = [OnEventTimeout::Run, OnEventTimeout::Cancel, OnEventTimeout::Dead];
    let ids = scene.push(then.map(|then| waiting(Some(60), then)).to_vec());
    scene.advance(59);
    assert!(ids.iter().all(|id| scene.job(*id).live.state == State::Waiting));
    scene.advance(1);
    let states: Vec<State> = ids.iter().map(|id| scene.job(*id).live.state).collect();
    assert_eq!(states, [State::Ready, State::Cancelled, State::Dead]);
    assert_eq!(scene.job(ids[1]).live.why, Some(EndReason::EventTimedOut));
    let retried = block_on(scene.engine.jobs().act(ids[2].into(), &JobAction::Retry));
    assert_eq!(retried.expect("answered"), ActionResult::Applied(Some(State::Ready)));
    assert_eq!(scene.fetch(9).len(), 2, "a retry does not wait again");
}

#[test]
fn a_retried_wait_times_out_again() {
    let scene = EventScene::new(Caps::default());
    let id = scene.push(vec![waiting(Some(60), OnEventTimeout::Cancel)])[0];
    scene.upkeep();
    for action in [JobAction::Cancel, JobAction::Retry] {
        let done = block_on(scene.engine.jobs().act(id.into(), &action));
        assert!(matches!(done.expect("answered"), ActionResult::Applied(_)), "{action:?}");
        scene.advance(3600);
        scene.advance(3600);
    }
    let live = scene.job(id).live;
    assert_eq!((live.state, live.why), (State::Cancelled, Some(EndReason::EventTimedOut)));
}

#[test]
fn an_event_that_is_too_large_is_refused_with_its_field() {
    let caps = Caps { events: 1, ..Caps::default() };
    let scene = EventScene::new(caps);
    let bytes = |n: usize| Payload::new(crore::core::Encoding::Bytes, vec![7; n]);
    let refused = scene.send(&bytes((1 << 20) + 1)).expect_err("too large");
    let Error::Invalid(invalid) = refused else { panic!("{refused}") };
    assert_eq!((invalid.code, invalid.field.as_str()), (Code::PayloadTooLarge, "payload"));
    assert_eq!(block_on(scene.engine.events().get(name("paid"))).expect("read"), None);
    scene.send(&bytes(1 << 20)).expect("one of 1 MiB that no job waits for");
    let (payload, keep) = (bytes(1), DEFAULT_KEEP);
    let other = NewEvent { name: name("other"), payload, keep };
    let refused = block_on(scene.engine.events().send(other)).expect_err("too many");
    let Error::Invalid(invalid) = refused else { panic!("{refused}") };
    assert_eq!((invalid.code, invalid.field.as_str()), (Code::TooMany, "event"));
    assert!(block_on(scene.engine.events().remove(name("paid"))).expect("removed"));
}

#[test]
fn listeners_and_explanations_name_the_event() {
    let scene = EventScene::new(Caps::default());
    let id = scene.push(vec![waiting(Some(60), OnEventTimeout::Run)])[0];
    let why = block_on(scene.engine.explain(id)).expect("explained").expect("it exists");
    let [Reason::WaitsForEvent { awaited, until }] = &why.reasons[..] else { panic!("{why:?}") };
    assert_eq!((&awaited.name, until.is_some()), (&name("paid"), true));
    let mut listener = scene.engine.listen();
    scene.send(&Payload::json("1")).expect("sent");
    let Some(ListenerItem::Sent(sent)) = listener.try_next() else { panic!("it is published") };
    assert_eq!(sent.name, name("paid"));
}
