//! What all callers of a run share: the clock, chance, the history, and what they have heard.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crore_core::limit::{Limit, LimitKey, keys_for};
use crore_core::{Delivery, GroupId, Job, JobId, Name, Span, Spec, State, Time};
use crore_store::jobs::Pushed;
use crore_store::{Error, Store};
use crore_testkit::FakeClock;
use crore_testkit::history::{Answer, Fault as Injected, Op, Pending, Recorder};

use super::config::{Config, Generation};
use super::coverage::{Coverage, Deed, Fault, Sometimes};
use super::dice::Dice;
use super::front::{Front, Sleeper};
use super::life::NODE;
use super::subject::{Loops, Running};
use super::trace::Trace;

/// After so many steps a fault does not count as the one during which something happened.
const FRESH: u32 = 20;

/// The purposes that numbers are drawn for. Each has numbers of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Fault = 1,
    Act = 2,
    End = 3,
}

/// What all callers of a run share.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) config: Config,
    pub(super) dice: Dice,
    pub(super) clock: FakeClock,
    pub(super) recorder: Arc<Recorder>,
    pub(super) trace: Trace,
    pub(super) coverage: Coverage,
    pub(super) known: Known,
    /// Whether callers speak to a front.
    pub(super) has_front: bool,
    /// The limits that a front always has.
    pub(super) limits: Vec<(Name, Limit)>,
    /// What must not be, found while running.
    pub(super) wrongs: Vec<String>,
    /// Whether the store has said that it gave up.
    pub(super) gave_up: bool,
    pub(super) step: u32,
    /// The clock stands still until this step.
    pub(super) still_until: u32,
    /// Whether all faults are over, and the store has had time to notice.
    pub(super) is_healed: bool,
    /// How many things were numbered: payloads, for one.
    pub(super) seq: u64,
    /// Time as the recorder sees it: without the jumps of the clock, which it is told of.
    elapsed: Arc<AtomicU64>,
    fault: (Fault, u32),
}

/// What callers have heard.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Every job that was spoken of, in order.
    pub(super) jobs: Vec<JobId>,
    /// Every number that a new job was answered with: none comes twice.
    made: BTreeSet<JobId>,
    /// Groups that are still open.
    pub(super) groups: Vec<GroupId>,
    /// What each worker holds.
    pub(super) hands: Vec<Hand>,
    /// The newest delivery that was heard of each job, and whether anything durable followed.
    pub(super) deliveries: BTreeMap<JobId, Delivery>,
    /// Unique keys whose push was cut off by a crash.
    pub(super) cut_keys: BTreeSet<Arc<str>>,
    /// Who waits at a front until he is woken.
    pub(super) asleep: BTreeMap<u64, Sleeper>,
    /// Unique keys of pushes that are under way.
    pub(super) keys_under_way: Vec<Arc<str>>,
    /// The latest time that the store has told, or that the clock had shown before it jumped.
    pub(super) now: Time,
}

/// What one worker holds.
#[derive(Debug, Default)]
pub(super) struct Hand {
    /// What it runs.
    pub(super) held: Vec<Job>,
    /// What it has reported, and may report again by mistake.
    pub(super) spoken: Vec<Job>,
    /// It does nothing before this, in elapsed milliseconds.
    pub(super) stalled_until: u64,
}

impl Scene {
    pub(super) fn new(config: Config) -> Self {
        let elapsed = Arc::new(AtomicU64::new(0));
        let millis = Arc::clone(&elapsed);
        let recorder = Recorder::new(move || millis.load(Ordering::Relaxed) * 1_000_000);
        let mut known = Known::default();
        known.hands.resize_with(config.callers.workers as usize, Hand::default);
        Self {
            dice: Dice::new(config.seed),
            config,
            clock: FakeClock::default(),
            recorder: Arc::new(recorder),
            trace: Trace::default(),
            coverage: Coverage::default(),
            known,
            has_front: false,
            limits: Vec::new(),
            wrongs: Vec::new(),
            gave_up: false,
            step: 0,
            still_until: 0,
            is_healed: false,
            seq: 0,
            elapsed,
            fault: (Fault::Nothing, 0),
        }
    }

    /// Time passes. A clock that stands still is, for the checker, one that is put back as fast.
    pub(super) fn advance(&mut self, span: Span) {
        self.elapsed.fetch_add(span.as_millis(), Ordering::Relaxed);
        if self.step >= self.still_until {
            self.clock.advance(span);
        } else if span > Span::ZERO {
            let by = -i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
            self.recorder.fault(NODE, Injected::ClockJump { by });
        }
    }

    /// From now on numbers are drawn for this. In the first generation all have the same ones.
    pub(super) fn draws_for(&mut self, purpose: Purpose) {
        if self.config.generation != Generation::First {
            self.dice = Dice::of_step(self.config.seed, self.step, purpose as u64);
        }
    }

    /// Milliseconds since the run began.
    pub(super) fn elapsed(&self) -> u64 {
        self.elapsed.load(Ordering::Relaxed)
    }

    /// Something goes wrong now.
    pub(super) fn fault(&mut self, fault: Fault) {
        self.fault = (fault, self.step);
        self.coverage.faults += 1;
        self.say("fault", format_args!("{fault:?}"));
    }

    /// Something was done to a job in this state.
    pub(super) fn did(&mut self, deed: Deed, state: Option<State>) {
        let (fault, since) = self.fault;
        let fresh = self.step.saturating_sub(since) < FRESH;
        self.coverage.hit(deed, state, if fresh { fault } else { Fault::Nothing });
    }

    pub(super) fn happened(&mut self, what: Sometimes) {
        self.coverage.happened(what);
    }

    /// A loop of the store has made a turn. An error of one ends the store.
    pub(super) fn turned(&mut self, which: &str, did: &Result<bool, Error>) {
        self.say("store", format_args!("{which}: {did:?}"));
        self.gave_up |= did.is_err();
    }

    /// Something must not be.
    pub(super) fn wrong(&mut self, what: String) {
        self.trace.line(format_args!("WRONG: {what}"));
        self.wrongs.push(what);
    }

    /// A line of the trace.
    pub(super) fn say(&mut self, who: &str, what: std::fmt::Arguments<'_>) {
        let at = self.elapsed();
        self.trace.line(format_args!("{:>4} {at:>9} {who}: {what}", self.step));
    }

    /// The next number that nobody had before.
    pub(super) fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    pub(super) fn queue(&mut self) -> Name {
        let n = self.dice.below(self.config.jobs.queues);
        name(&format!("q{n}"))
    }

    pub(super) fn queues(&self) -> Vec<Name> {
        (0..self.config.jobs.queues).map(|n| name(&format!("q{n}"))).collect()
    }

    pub(super) fn kind(&mut self) -> Name {
        let n = self.dice.below(self.config.jobs.kinds);
        name(&format!("k{n}"))
    }

    /// A job that was spoken of, mostly a newer one.
    pub(super) fn some_job(&mut self) -> Option<JobId> {
        let n = self.known.jobs.len();
        let reach = if self.dice.one_in(4) { n } else { n.min(12) };
        let back = self.dice.place(reach);
        self.known.jobs.get(n.checked_sub(1 + back)?).copied()
    }

    /// What a job counts against. A front works it out by itself from limits that are always there,
    /// whatever their numbers.
    pub(super) fn limits_of(&self, spec: &Spec) -> Vec<LimitKey> {
        let limits = self.limits.iter().map(|(name, limit)| (name, limit));
        keys_for(limits, spec.queue.as_str(), spec.kind.as_str(), &spec.payload)
    }

    /// The store has told its time.
    pub(super) fn hear(&mut self, now: Time) {
        self.known.now = self.known.now.max(now);
    }

    /// A push was answered.
    pub(super) fn pushed(&mut self, pushed: Pushed) {
        if let Pushed::New(id) = pushed
            && !self.known.made.insert(id)
        {
            self.wrong(format!("{id:?} was given out twice"));
        }
        pushed.id().into_iter().for_each(|id| self.heard_of(id));
    }

    pub(super) fn heard_of(&mut self, id: JobId) {
        if let Err(place) = self.known.jobs.binary_search(&id) {
            self.known.jobs.insert(place, id);
        }
    }
}

/// A name that is one.
pub(super) fn name(text: &str) -> Name {
    Name::new("name", text).expect("a good name")
}

/// A caller's way to the store, as long as it is up.
#[derive(Debug, Clone)]
pub(super) struct Link {
    scene: Rc<RefCell<Scene>>,
    pub(super) store: Arc<dyn Store>,
    pub(super) front: Option<Arc<dyn Front>>,
    pub(super) who: Arc<str>,
    loops: Arc<dyn Loops>,
    /// Whether the caller has left, though what it asked for goes on.
    gone: Rc<Cell<bool>>,
}

impl Link {
    pub(super) fn new(scene: &Rc<RefCell<Scene>>, node: &Running, who: &str) -> Self {
        let Running { store, front, loops } = node.clone();
        let (scene, gone) = (Rc::clone(scene), Rc::default());
        Self { scene, store, front, who: who.into(), loops, gone }
    }

    /// By which the caller can be made to leave.
    pub(super) fn gone(&self) -> Rc<Cell<bool>> {
        Rc::clone(&self.gone)
    }

    /// Whether the caller has left, and hears no answer.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.get()
    }

    /// The state of a job at this moment, and whether it was asked to stop; for the coverage alone.
    pub(super) fn peek(&self, id: JobId) -> Option<(State, bool)> {
        self.loops.peek(id)
    }

    /// What all share; never to be held while waiting.
    pub(super) fn scene(&self) -> RefMut<'_, Scene> {
        self.scene.borrow_mut()
    }

    /// A call begins.
    pub(super) fn call(&self, op: Op) -> Call {
        let mut scene = self.scene();
        scene.say(&self.who, format_args!("{}", Short(&op)));
        let pending = scene.recorder.invoke(Arc::clone(&self.who), op);
        drop(scene);
        Call { link: self.clone(), pending: Some(pending) }
    }

    /// The store could not do something that is not in the history.
    pub(super) fn could_not(&self, error: &Error) {
        let mut scene = self.scene();
        scene.say(&self.who, format_args!("{error}"));
        match error {
            Error::Poisoned => scene.gave_up = true,
            Error::Invalid(_) => scene.wrong(format!("what is right was refused: {error}")),
            Error::Corrupt { .. } => scene.wrong(format!("damage on an honest disk: {error}")),
            Error::Full { .. } if scene.is_healed => {
                scene.wrong(format!("there is room again, and yet: {error}"));
            }
            _ => {}
        }
    }
}

/// A call that has begun. If it is dropped, its answer never came.
#[derive(Debug)]
pub(super) struct Call {
    link: Link,
    pending: Option<Pending>,
}

impl Call {
    /// It was answered. Says whether its caller was still there to hear it.
    pub(super) fn ok(mut self, now: Option<Time>, answer: Answer) -> bool {
        let Some(pending) = self.pending.take() else { return false };
        let mut scene = self.link.scene();
        if self.link.gone.get() {
            scene.say(&self.link.who, format_args!("-> (has left) {answer:?}"));
            scene.recorder.info(pending, "the caller has left");
            return false;
        }
        scene.say(&self.link.who, format_args!("-> {answer:?}"));
        scene.hear(now.unwrap_or_default());
        scene.recorder.ok(pending, now, answer);
        true
    }

    /// It was not: whether it took effect is open, unless the store was full or refused it.
    pub(super) fn failed(mut self, error: &Error) {
        self.link.could_not(error);
        let Some(pending) = self.pending.take() else { return };
        let recorder = Arc::clone(&self.link.scene().recorder);
        match error {
            Error::Full { .. } | Error::Invalid(_) => recorder.fail(pending, error.to_string()),
            _ => recorder.info(pending, error.to_string()),
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let Some(pending) = self.pending.take() else { return };
        let mut scene = self.link.scene();
        scene.say(&self.link.who, format_args!("-> nothing heard"));
        scene.recorder.info(pending, "nothing heard");
    }
}

/// A call in a few words.
struct Short<'a>(&'a Op);

impl std::fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Op::Push { groups, items } => {
                write!(f, "push, {groups} groups:")?;
                items.iter().try_for_each(|item| {
                    write!(f, " {}/{} p{} {:?}", item.queue, item.kind, item.priority, item.due)?;
                    item.unique.iter().try_for_each(|u| write!(f, " {}:{:?}", u.key, u.hold))?;
                    write!(f, " {:?};", item.payload)
                })
            }
            Op::Report { id, delivery, outcome, .. } => {
                write!(f, "report {id:?} {delivery:?} {outcome:?}")
            }
            Op::Tick { schedule, cursor, fire, .. } => {
                write!(f, "tick {schedule} to {cursor:?}: {}", fire.len())
            }
            other => write!(f, "{other:?}"),
        }
    }
}
