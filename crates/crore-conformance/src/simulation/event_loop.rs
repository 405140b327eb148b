//! The event loop: one thread with a simulated clock and disk; every step is drawn from the seed.

use std::cell::{Cell, RefCell, RefMut};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crore_core::{Clock, Span};

use super::config::SimConfig;
use super::context::{CallerLink, Purpose, SimContext};
use super::coverage::RareSituation;
use super::process::ProcessEnd;
use super::subject::{OpenStore, SimulatedStore};
use super::watched_disk::DiskConditions;
use super::{admin, pusher, upkeep, worker};
use crate::sim_disk::SimDisk;

/// After this many turns without a commit and without a wake-up, nothing will make progress.
const IDLE_TURNS: u32 = 10;
/// A day of ticks takes a few thousand turns, if each tick pushes a job that is fetched and reported.
const MAX_TURNS: u32 = 1_000_000;

pub(super) type CallerTask = Pin<Box<dyn Future<Output = ()>>>;

/// A run in progress.
#[derive(Debug)]
pub(super) struct SimEventLoop<'a> {
    pub(super) context: Rc<RefCell<SimContext>>,
    pub(super) subject: &'a mut dyn SimulatedStore,
    pub(super) disk: SimDisk,
    pub(super) node: Option<OpenStore>,
    pub(super) in_flight: Vec<InFlightOp>,
    /// The disk is full until this step.
    pub(super) full_until: Option<u32>,
    /// A store that has given up stays open to its callers until this step.
    pub(super) linger_until: u32,
    /// Whether the disk returned an error or was full for the open store, so that the store may give up.
    pub(super) failed: bool,
    /// Whether the disk returned an error to the open store, so that the store must give up.
    pub(super) broken: bool,
    /// Conditions that the disk reported to the store.
    pub(super) disk_conditions: Arc<DiskConditions>,
}

/// An operation that has begun.
pub(super) struct InFlightOp {
    caller: CallerId,
    task: CallerTask,
    woken: Arc<WakeFlag>,
    /// Set when the caller leaves and the operation continues.
    gone: Rc<Cell<bool>>,
}

/// Whether a task was woken since it was last polled. A task that was not woken is not polled, which exposes
/// missed wake-ups.
#[derive(Debug)]
pub(super) struct WakeFlag(AtomicBool);

impl WakeFlag {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicBool::new(true)))
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for InFlightOp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InFlightOp").field("caller", &self.caller).finish_non_exhaustive()
    }
}

/// A caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallerId {
    Pusher(u32),
    Worker(u32),
    Admin(u32),
    Upkeep(u32),
    /// The caller that drains the store at the end.
    Drain,
}

impl CallerId {
    fn name(self) -> String {
        match self {
            Self::Pusher(n) => format!("p{n}"),
            Self::Worker(n) => format!("w{n}"),
            Self::Admin(n) => format!("a{n}"),
            Self::Upkeep(n) => format!("k{n}"),
            Self::Drain => "drain".to_owned(),
        }
    }
}

impl<'a> SimEventLoop<'a> {
    pub(super) fn new(config: SimConfig, subject: &'a mut dyn SimulatedStore) -> Self {
        let disk = SimDisk::new(config.seed);
        let mut context = SimContext::new(config);
        context.has_engine = subject.has_engine();
        if context.has_engine && context.config.jobs.limits {
            context.limits = admin::permanent_limits();
        }
        subject.record_to(&context.recorder);
        let context = Rc::new(RefCell::new(context));
        Self {
            context,
            subject,
            disk,
            node: None,
            in_flight: Vec::new(),
            full_until: None,
            linger_until: 0,
            failed: false,
            broken: false,
            disk_conditions: Arc::default(),
        }
    }

    pub(super) fn context(&self) -> RefMut<'_, SimContext> {
        self.context.borrow_mut()
    }

    /// Performs one step.
    pub(super) fn step(&mut self, step: u32) {
        {
            let mut context = self.context();
            context.step = step;
            context.switch_stream(Purpose::Fault);
            let pace = context.config.store.pace.as_millis();
            let millis = context.rng.between(0, pace / 10);
            context.advance(Span::from_millis(millis));
        }
        if self.context().gave_up && step >= self.linger_until {
            self.context().cover_situation(RareSituation::GaveUp);
            if !self.failed {
                self.context().violation("the store gave up on a healthy disk".to_owned());
            }
            self.end(ProcessEnd::Kill);
        }
        self.inject_fault();
        self.context().switch_stream(Purpose::Act);
        if self.node.is_none() {
            self.open();
        }
        self.act();
    }

    /// Draws and performs an action.
    fn act(&mut self) {
        let (draw, weights) = {
            let mut context = self.context();
            let weights = weights(&context.config);
            let all = weights.iter().map(|(_, weight)| u64::from(*weight)).sum();
            (context.rng.below(all), weights)
        };
        let mut left = draw;
        for (act, weight) in weights {
            match left.checked_sub(u64::from(weight)) {
                Some(rest) => left = rest,
                None => return self.perform(act),
            }
        }
    }

    fn perform(&mut self, act: StepAction) {
        match act {
            StepAction::Call(caller) => self.begin(caller),
            StepAction::Resume => {
                let index = self.context().rng.index(self.in_flight.len());
                self.poll(index);
            }
            StepAction::Commit => {
                self.commit();
                self.poll_all();
            }
            StepAction::Compact => {
                let turns = self.context().rng.choose([1, 1, 3, 30]);
                self.compact(turns);
            }
            StepAction::Wait => {
                let mut context = self.context();
                let pace = context.config.store.pace.as_millis();
                let on = context.rng.between(0, pace);
                context.advance(Span::from_millis(on));
            }
        }
    }

    /// A caller begins an operation, unless it has too many in flight.
    fn begin(&mut self, caller: CallerId) {
        let depth = self.context().config.callers.depth as usize;
        if matches!(caller, CallerId::Pusher(_)) && self.is_push_paused() {
            return;
        }
        if matches!(caller, CallerId::Upkeep(_)) && self.is_upkeep_idle() {
            return;
        }
        let busy = self.in_flight.iter().filter(|other| other.caller == caller).count();
        if busy >= depth {
            return;
        }
        let Some(link) = self.link(caller) else { return };
        let gone = link.gone();
        let task: Option<CallerTask> = match caller {
            CallerId::Pusher(_) => Some(Box::pin(pusher::push(link))),
            CallerId::Admin(_) => Some(Box::pin(admin::act(link))),
            CallerId::Upkeep(_) => Some(Box::pin(upkeep::turn(link))),
            CallerId::Worker(n) => self.work(link, n as usize),
            CallerId::Drain => None,
        };
        if let Some(task) = task {
            self.spawn(caller, task, gone);
        }
    }

    /// Starts a task.
    pub(super) fn spawn(&mut self, caller: CallerId, task: CallerTask, gone: Rc<Cell<bool>>) {
        self.in_flight.push(InFlightOp { caller, task, woken: WakeFlag::new(), gone });
        self.poll(self.in_flight.len() - 1);
    }

    /// Whether any task was woken.
    pub(super) fn is_any_woken(&self) -> bool {
        self.in_flight.iter().any(|one| one.woken.is_set())
    }

    /// Whether an engine needs no upkeep now: it does its own upkeep when due, one turn at a time.
    fn is_upkeep_idle(&self) -> bool {
        let Some(engine) = self.node.as_ref().and_then(|node| node.engine.as_ref()) else {
            return false;
        };
        engine.upkeep_at() > self.context().clock.now()
            || self.in_flight.iter().any(|one| matches!(one.caller, CallerId::Upkeep(_)))
    }

    /// Whether pushing is paused at the moment.
    fn is_push_paused(&self) -> bool {
        let context = self.context();
        let percent = context.step * 100 / context.config.steps;
        percent >= context.config.callers.push_percent && percent < 90
    }

    pub(super) fn link(&self, caller: CallerId) -> Option<CallerLink> {
        Some(CallerLink::new(&self.context, self.node.as_ref()?, &caller.name()))
    }

    /// Draws the next operation of a worker.
    fn work(&self, link: CallerLink, worker: usize) -> Option<CallerTask> {
        let mut context = self.context();
        let elapsed = context.elapsed();
        let notes = context.config.admin.notes;
        let double = context.config.faults.double_report;
        let has_programs = context.has_engine && context.config.admin.programs;
        let SimContext { rng, knowledge, .. } = &mut *context;
        let state = knowledge.workers.get_mut(worker)?;
        if state.stalled_until > elapsed {
            return None;
        }
        if rng.in_thousand(double)
            && let Some(job) = rng.pick(&state.reported)
        {
            context.fault(super::coverage::SimFault::DoubleReport);
            return Some(Box::pin(worker::report(link, job)));
        }
        if has_programs && rng.one_in(6) {
            drop(context);
            return Some(Box::pin(worker::run(link)));
        }
        let index = rng.index(state.held.len());
        match rng.below(10) {
            0..4 if !state.held.is_empty() => {
                let job = state.held.swap_remove(index);
                state.reported.push(job.clone());
                Some(Box::pin(worker::report(link, job)))
            }
            4 if !state.held.is_empty() => Some(Box::pin(worker::renew(link, state.held.clone()))),
            5 if notes => {
                let job = rng.pick(&state.held)?;
                Some(Box::pin(worker::note(link, job)))
            }
            _ => Some(Box::pin(worker::fetch(link, worker))),
        }
    }

    /// Polls an operation, and removes it when it is complete.
    fn poll(&mut self, index: usize) {
        let Some(op) = self.in_flight.get_mut(index) else { return };
        if is_over(&mut op.task, &op.woken) {
            drop(self.in_flight.remove(index));
        }
    }

    /// Polls every operation.
    pub(super) fn poll_all(&mut self) {
        self.in_flight.retain_mut(|one| !is_over(&mut one.task, &one.woken));
    }

    /// Runs an operation to completion, with the commits it needs. `false` if it does not complete: nothing
    /// was committed and nothing woke it for some turns, or it took more turns than any correct operation.
    pub(super) fn complete(&mut self, mut task: CallerTask) -> bool {
        let woken = WakeFlag::new();
        let mut idle = 0;
        for _ in 0..MAX_TURNS {
            if is_over(&mut task, &woken) {
                return true;
            }
            idle = if self.commit() || woken.is_set() { 0 } else { idle + 1 };
            if idle == IDLE_TURNS {
                return false;
            }
        }
        false
    }

    /// Drops an operation: its caller receives no response.
    pub(super) fn drop_operation(&mut self) -> bool {
        let index = self.context().rng.index(self.in_flight.len());
        if self.in_flight.is_empty() {
            return false;
        }
        drop(self.in_flight.remove(index));
        true
    }
}

impl SimEventLoop<'_> {
    /// A caller leaves. Its operation continues, and the response arrives when the caller is gone. Upkeep
    /// callers do not leave: nothing waits for their responses.
    pub(super) fn detach_caller(&self) {
        let callers =
            self.in_flight.iter().filter(|one| !matches!(one.caller, CallerId::Upkeep(_)));
        let callers: Vec<_> = callers.map(|one| Rc::clone(&one.gone)).collect();
        if let Some(gone) = self.context().rng.pick(&callers) {
            gone.set(true);
        }
    }
}

fn is_over(task: &mut CallerTask, woken: &Arc<WakeFlag>) -> bool {
    if !woken.0.swap(false, Ordering::Relaxed) {
        return false;
    }
    let waker = Waker::from(Arc::clone(woken));
    let mut context = Context::from_waker(&waker);
    matches!(task.as_mut().poll(&mut context), Poll::Ready(()))
}

/// The action of a step.
#[derive(Debug, Clone, Copy)]
enum StepAction {
    Call(CallerId),
    Resume,
    Commit,
    Compact,
    Wait,
}

fn weights(config: &SimConfig) -> Vec<(StepAction, u32)> {
    let callers = &config.callers;
    let pushers = (0..callers.pushers).map(CallerId::Pusher);
    let workers = (0..callers.workers).map(CallerId::Worker);
    let admins = (0..callers.admins).map(CallerId::Admin);
    let keepers = (0..callers.upkeepers).map(CallerId::Upkeep);
    let calls = pushers.chain(workers).chain(admins).chain(keepers);
    let mut weights: Vec<(StepAction, u32)> =
        calls.map(|caller| (StepAction::Call(caller), 10)).collect();
    weights.extend([
        (StepAction::Resume, 15),
        (StepAction::Commit, config.store.commit_weight),
        (StepAction::Compact, config.store.keep_weight),
        (StepAction::Wait, 10),
    ]);
    weights
}
