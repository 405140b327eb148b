//! State shared by all callers of a run: the clock, randomness, the history, and what callers have learned.

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
use crore_testkit::history::{PendingCall, RecordedFault, RecordedOp, RecordedResponse, Recorder};

use super::config::{Generation, SimConfig};
use super::coverage::{CallerAction, Coverage, RareSituation, SimFault};
use super::engine::{EngineWaiter, SimulatedEngine};
use super::events::KnownEvent;
use super::process::NODE;
use super::rng::SimRng;
use super::subject::{OpenStore, StoreLoops};
use super::trace::Trace;

/// After this many steps, a fault no longer counts as recent in the coverage.
const RECENT_FAULT_STEPS: u32 = 20;

/// The purposes for which random numbers are drawn. Each has its own stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Fault = 1,
    Act = 2,
    End = 3,
}

/// State shared by all callers of a run.
#[derive(Debug)]
pub(super) struct SimContext {
    pub(super) config: SimConfig,
    pub(super) rng: SimRng,
    pub(super) clock: FakeClock,
    pub(super) recorder: Arc<Recorder>,
    pub(super) trace: Trace,
    pub(super) coverage: Coverage,
    pub(super) knowledge: KnownToCallers,
    /// Whether callers use an engine.
    pub(super) has_engine: bool,
    /// The limits that an engine always has.
    pub(super) limits: Vec<(Name, Limit)>,
    /// Violations found while running.
    pub(super) violations: Vec<String>,
    /// Whether the store has reported that it gave up.
    pub(super) gave_up: bool,
    pub(super) step: u32,
    /// The clock stands still until this step.
    pub(super) still_until: u32,
    /// Whether all faults are healed and the store has had time to notice.
    pub(super) is_healed: bool,
    /// Sequence number of payloads and other numbered things.
    pub(super) seq: u64,
    /// Time as the recorder sees it: without clock jumps, which are recorded as faults.
    elapsed: Arc<AtomicU64>,
    fault: (SimFault, u32),
}

/// Everything that callers have learned from responses.
#[derive(Debug, Default)]
pub(super) struct KnownToCallers {
    /// Every job that a response named, sorted.
    pub(super) jobs: Vec<JobId>,
    /// Every id of a new job: none may appear twice.
    new_ids: BTreeSet<JobId>,
    /// Groups that are still open.
    pub(super) groups: Vec<GroupId>,
    /// Events that were sent or may have been.
    pub(super) events: Vec<KnownEvent>,
    /// The state of each worker.
    pub(super) workers: Vec<WorkerState>,
    /// The newest delivery seen of each job.
    pub(super) deliveries: BTreeMap<JobId, Delivery>,
    /// Unique keys whose push was interrupted by a crash.
    pub(super) interrupted_keys: BTreeSet<Arc<str>>,
    /// Callers that wait at an engine.
    pub(super) waiters: BTreeMap<u64, EngineWaiter>,
    /// Unique keys of pushes in flight.
    pub(super) keys_in_flight: Vec<Arc<str>>,
    /// The latest time that the store returned, or that the clock showed before it jumped.
    pub(super) now: Time,
}

/// The state of one worker.
#[derive(Debug, Default)]
pub(super) struct WorkerState {
    /// Jobs that it runs.
    pub(super) held: Vec<Job>,
    /// Jobs that it has reported, and may report again by mistake.
    pub(super) reported: Vec<Job>,
    /// The worker does nothing before this time, in elapsed milliseconds.
    pub(super) stalled_until: u64,
}

impl SimContext {
    pub(super) fn new(config: SimConfig) -> Self {
        let elapsed = Arc::new(AtomicU64::new(0));
        let millis = Arc::clone(&elapsed);
        let recorder = Recorder::new(move || millis.load(Ordering::Relaxed) * 1_000_000);
        let mut knowledge = KnownToCallers::default();
        knowledge.workers.resize_with(config.callers.workers as usize, WorkerState::default);
        Self {
            rng: SimRng::new(config.seed),
            config,
            clock: FakeClock::default(),
            recorder: Arc::new(recorder),
            trace: Trace::default(),
            coverage: Coverage::default(),
            knowledge,
            has_engine: false,
            limits: Vec::new(),
            violations: Vec::new(),
            gave_up: false,
            step: 0,
            still_until: 0,
            is_healed: false,
            seq: 0,
            elapsed,
            fault: (SimFault::Nothing, 0),
        }
    }

    /// Advances time. The checker sees a clock that stands still as one that jumps back at the same rate.
    pub(super) fn advance(&mut self, span: Span) {
        self.elapsed.fetch_add(span.as_millis(), Ordering::Relaxed);
        if self.step >= self.still_until {
            self.clock.advance(span);
        } else if span > Span::ZERO {
            let by = -i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
            self.recorder.fault(NODE, RecordedFault::ClockJump { by });
        }
    }

    /// Switches to the random numbers of this purpose. In the first generation all purposes share one stream.
    pub(super) fn switch_stream(&mut self, purpose: Purpose) {
        if self.config.generation != Generation::First {
            self.rng = SimRng::of_step(self.config.seed, self.step, purpose as u64);
        }
    }

    /// Milliseconds since the run began.
    pub(super) fn elapsed(&self) -> u64 {
        self.elapsed.load(Ordering::Relaxed)
    }

    /// Records an injected fault.
    pub(super) fn fault(&mut self, fault: SimFault) {
        self.fault = (fault, self.step);
        self.coverage.faults += 1;
        self.trace_line("fault", format_args!("{fault:?}"));
    }

    /// Records in the coverage that an action met a job in this state.
    pub(super) fn cover(&mut self, action: CallerAction, state: Option<State>) {
        let (fault, since) = self.fault;
        let is_recent = self.step.saturating_sub(since) < RECENT_FAULT_STEPS;
        self.coverage.hit(action, state, if is_recent { fault } else { SimFault::Nothing });
    }

    pub(super) fn cover_situation(&mut self, situation: RareSituation) {
        self.coverage.reached(situation);
    }

    /// Records a turn of a store loop. An error of a loop ends the store.
    pub(super) fn loop_turned(&mut self, loop_name: &str, result: &Result<bool, Error>) {
        self.trace_line("store", format_args!("{loop_name}: {result:?}"));
        self.gave_up |= result.is_err();
    }

    /// Records a violation.
    pub(super) fn violation(&mut self, what: String) {
        self.trace.line(format_args!("WRONG: {what}"));
        self.violations.push(what);
    }

    /// Adds a line to the trace.
    pub(super) fn trace_line(&mut self, who: &str, what: std::fmt::Arguments<'_>) {
        let at = self.elapsed();
        self.trace.line(format_args!("{:>4} {at:>9} {who}: {what}", self.step));
    }

    /// The next unused sequence number.
    pub(super) fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    pub(super) fn queue(&mut self) -> Name {
        let n = self.rng.below(self.config.jobs.queues);
        name(&format!("q{n}"))
    }

    pub(super) fn queues(&self) -> Vec<Name> {
        (0..self.config.jobs.queues).map(|n| name(&format!("q{n}"))).collect()
    }

    pub(super) fn kinds(&self) -> Vec<Name> {
        (0..self.config.jobs.kinds).map(|n| name(&format!("k{n}"))).collect()
    }

    pub(super) fn kind(&mut self) -> Name {
        let n = self.rng.below(self.config.jobs.kinds);
        name(&format!("k{n}"))
    }

    /// A known job, mostly a recent one.
    pub(super) fn some_job(&mut self) -> Option<JobId> {
        let n = self.knowledge.jobs.len();
        let reach = if self.rng.one_in(4) { n } else { n.min(12) };
        let back = self.rng.index(reach);
        self.knowledge.jobs.get(n.checked_sub(1 + back)?).copied()
    }

    /// The limit keys of a job. An engine computes them itself from limits that always exist, whatever their
    /// values.
    pub(super) fn limits_of(&self, spec: &Spec) -> Vec<LimitKey> {
        let limits = self.limits.iter().map(|(name, limit)| (name, limit));
        keys_for(limits, spec.queue.as_str(), spec.kind.as_str(), &spec.payload)
    }

    /// The store returned its time.
    pub(super) fn observe_time(&mut self, now: Time) {
        self.knowledge.now = self.knowledge.now.max(now);
    }

    /// A push was acknowledged.
    pub(super) fn pushed(&mut self, pushed: Pushed) {
        if let Pushed::New(id) = pushed
            && !self.knowledge.new_ids.insert(id)
        {
            self.violation(format!("{id:?} was given out twice"));
        }
        pushed.id().into_iter().for_each(|id| self.learn_job(id));
    }

    pub(super) fn learn_job(&mut self, id: JobId) {
        if let Err(index) = self.knowledge.jobs.binary_search(&id) {
            self.knowledge.jobs.insert(index, id);
        }
    }
}

/// A valid name.
pub(super) fn name(text: &str) -> Name {
    Name::new("name", text).expect("a valid name")
}

/// A caller's connection to the store, while the store is open.
#[derive(Debug, Clone)]
pub(super) struct CallerLink {
    context: Rc<RefCell<SimContext>>,
    pub(super) store: Arc<dyn Store>,
    pub(super) engine: Option<Arc<dyn SimulatedEngine>>,
    pub(super) caller: Arc<str>,
    loops: Arc<dyn StoreLoops>,
    /// Whether the caller has left while its operation continues.
    gone: Rc<Cell<bool>>,
}

impl CallerLink {
    pub(super) fn new(context: &Rc<RefCell<SimContext>>, node: &OpenStore, who: &str) -> Self {
        let OpenStore { store, engine, loops } = node.clone();
        let (context, gone) = (Rc::clone(context), Rc::default());
        Self { context, store, engine, caller: who.into(), loops, gone }
    }

    /// A handle to make the caller leave.
    pub(super) fn gone(&self) -> Rc<Cell<bool>> {
        Rc::clone(&self.gone)
    }

    /// Whether the caller has left and receives no response.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.get()
    }

    /// The current state of a job, and whether it was asked to stop; for the coverage only.
    pub(super) fn peek(&self, id: JobId) -> Option<(State, bool)> {
        self.loops.peek(id)
    }

    /// The shared state; must not be held across an await.
    pub(super) fn context(&self) -> RefMut<'_, SimContext> {
        self.context.borrow_mut()
    }

    /// Begins a recorded call.
    pub(super) fn call(&self, op: RecordedOp) -> OpenCall {
        let mut context = self.context();
        context.trace_line(&self.caller, format_args!("{}", OpSummary(&op)));
        let pending = context.recorder.invoke(Arc::clone(&self.caller), op);
        drop(context);
        OpenCall { link: self.clone(), pending: Some(pending) }
    }

    /// The store failed an operation that is not in the history.
    pub(super) fn store_failed(&self, error: &Error) {
        let mut context = self.context();
        context.trace_line(&self.caller, format_args!("{error}"));
        match error {
            Error::Poisoned => context.gave_up = true,
            Error::Invalid(_) => context.violation(format!("a valid request was refused: {error}")),
            Error::Corrupt { .. } => {
                context.violation(format!("damage on a healthy disk: {error}"));
            }
            Error::Full { .. } if context.is_healed => {
                context.violation(format!("the disk has space again, but: {error}"));
            }
            _ => {}
        }
    }
}

/// A call that has begun. If dropped, it has no response.
#[derive(Debug)]
pub(super) struct OpenCall {
    link: CallerLink,
    pending: Option<PendingCall>,
}

impl OpenCall {
    /// Records the response. Returns whether the caller was still there to receive it.
    pub(super) fn ok(mut self, now: Option<Time>, response: RecordedResponse) -> bool {
        let Some(pending) = self.pending.take() else { return false };
        let mut context = self.link.context();
        if self.link.gone.get() {
            context.trace_line(&self.link.caller, format_args!("-> (has left) {response:?}"));
            context.recorder.info(pending, "the caller has left");
            return false;
        }
        context.trace_line(&self.link.caller, format_args!("-> {response:?}"));
        context.observe_time(now.unwrap_or_default());
        context.recorder.ok(pending, now, response);
        true
    }

    /// Records a failure: its effect is unknown, unless the store was full or refused the call.
    pub(super) fn failed(mut self, error: &Error) {
        self.link.store_failed(error);
        let Some(pending) = self.pending.take() else { return };
        let recorder = Arc::clone(&self.link.context().recorder);
        match error {
            Error::Full { .. } | Error::Invalid(_) => recorder.fail(pending, error.to_string()),
            _ => recorder.info(pending, error.to_string()),
        }
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let Some(pending) = self.pending.take() else { return };
        let mut context = self.link.context();
        context.trace_line(&self.link.caller, format_args!("-> no response"));
        context.recorder.info(pending, "no response");
    }
}

/// A call as a short line of the trace.
struct OpSummary<'a>(&'a RecordedOp);

impl std::fmt::Display for OpSummary<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            RecordedOp::Push { groups, items } => {
                write!(f, "push, {groups} groups:")?;
                items.iter().try_for_each(|item| {
                    write!(f, " {}/{} p{} {:?}", item.queue, item.kind, item.priority, item.due)?;
                    item.unique.iter().try_for_each(|u| write!(f, " {}:{:?}", u.key, u.hold))?;
                    write!(f, " {:?};", item.payload)
                })
            }
            RecordedOp::Report { id, delivery, outcome, .. } => {
                write!(f, "report {id:?} {delivery:?} {outcome:?}")
            }
            RecordedOp::Tick { schedule, cursor, fire, .. } => {
                write!(f, "tick {schedule} to {cursor:?}: {}", fire.len())
            }
            other => write!(f, "{other:?}"),
        }
    }
}
