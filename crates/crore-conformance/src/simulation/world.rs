//! The event loop: one thread, a clock and a disk in its hand, and every step drawn from the seed.

use std::cell::{Cell, RefCell, RefMut};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crore_core::{Clock, Span};

use super::config::Config;
use super::coverage::Sometimes;
use super::life::End;
use super::scene::{Link, Purpose, Scene};
use super::subject::{Running, Subject};
use super::watch::Told;
use super::{admin, pusher, upkeep, worker};
use crate::sim_disk::SimDisk;

/// After so many turns without a commit and without a wake-up, nothing will move any more.
const IDLE_TURNS: u32 = 10;
/// A day of ticks, each of which pushes a job that is fetched and reported, takes a few thousand turns.
const MOST_TURNS: u32 = 1_000_000;

pub(super) type Task = Pin<Box<dyn Future<Output = ()>>>;

/// A run in progress.
#[derive(Debug)]
pub(super) struct World<'a> {
    pub(super) scene: Rc<RefCell<Scene>>,
    pub(super) subject: &'a mut dyn Subject,
    pub(super) disk: SimDisk,
    pub(super) node: Option<Running>,
    pub(super) under_way: Vec<UnderWay>,
    /// The disk is full until this step.
    pub(super) full_until: Option<u32>,
    /// A store that has given up is left to its callers until this step.
    pub(super) lingers_until: u32,
    /// Whether the disk has failed the open store or had no room for it, so that it may give up.
    pub(super) failed: bool,
    /// Whether the disk has failed the open store with an error, so that it has to give up.
    pub(super) broken: bool,
    /// What the store was told by its disk.
    pub(super) told: Arc<Told>,
}

/// An operation that has begun.
pub(super) struct UnderWay {
    caller: Caller,
    task: Task,
    woken: Arc<Woken>,
    /// Set when the caller leaves and the operation goes on.
    gone: Rc<Cell<bool>>,
}

/// Whether a task was woken since it was last let go on. One that was not is left alone: whoever
/// forgets to wake it is found out.
#[derive(Debug)]
pub(super) struct Woken(AtomicBool);

impl Woken {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicBool::new(true)))
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for UnderWay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnderWay").field("caller", &self.caller).finish_non_exhaustive()
    }
}

/// Who acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    Pusher(u32),
    Worker(u32),
    Admin(u32),
    Keeper(u32),
    /// The one that empties the store in the end.
    Drain,
}

impl Caller {
    fn name(self) -> String {
        match self {
            Self::Pusher(n) => format!("p{n}"),
            Self::Worker(n) => format!("w{n}"),
            Self::Admin(n) => format!("a{n}"),
            Self::Keeper(n) => format!("k{n}"),
            Self::Drain => "drain".to_owned(),
        }
    }
}

impl<'a> World<'a> {
    pub(super) fn new(config: Config, subject: &'a mut dyn Subject) -> Self {
        let disk = SimDisk::new(config.seed);
        let mut scene = Scene::new(config);
        scene.has_front = subject.has_front();
        if scene.has_front && scene.config.jobs.limits {
            scene.limits = admin::lasting_limits();
        }
        subject.write_into(&scene.recorder);
        let scene = Rc::new(RefCell::new(scene));
        let (node, under_way, told) = (None, Vec::new(), Arc::default());
        Self {
            scene,
            subject,
            disk,
            node,
            under_way,
            full_until: None,
            lingers_until: 0,
            failed: false,
            broken: false,
            told,
        }
    }

    pub(super) fn scene(&self) -> RefMut<'_, Scene> {
        self.scene.borrow_mut()
    }

    /// One step, of this number.
    pub(super) fn step(&mut self, step: u32) {
        {
            let mut scene = self.scene();
            scene.step = step;
            scene.draws_for(Purpose::Fault);
            let pace = scene.config.store.pace.as_millis();
            let on = scene.dice.from(0, pace / 10);
            scene.advance(Span::from_millis(on));
        }
        if self.scene().gave_up && step >= self.lingers_until {
            self.scene().happened(Sometimes::GaveUp);
            if !self.failed {
                self.scene().wrong("the store gave up, and its disk was well".to_owned());
            }
            self.end(End::Kill);
        }
        self.meet_fault();
        self.scene().draws_for(Purpose::Act);
        if self.node.is_none() {
            self.open();
        }
        self.act();
    }

    /// Somebody does something.
    fn act(&mut self) {
        let (draw, weights) = {
            let mut scene = self.scene();
            let weights = weights(&scene.config);
            let all = weights.iter().map(|(_, weight)| u64::from(*weight)).sum();
            (scene.dice.below(all), weights)
        };
        let mut left = draw;
        for (act, weight) in weights {
            match left.checked_sub(u64::from(weight)) {
                Some(rest) => left = rest,
                None => return self.do_it(act),
            }
        }
    }

    fn do_it(&mut self, act: Act) {
        match act {
            Act::Call(caller) => self.begin(caller),
            Act::Resume => {
                let place = self.scene().dice.place(self.under_way.len());
                self.poll(place);
            }
            Act::Commit => {
                self.commit();
                self.poll_all();
            }
            Act::Keep => {
                let turns = self.scene().dice.choose([1, 1, 3, 30]);
                self.keep_on(turns);
            }
            Act::Wait => {
                let mut scene = self.scene();
                let pace = scene.config.store.pace.as_millis();
                let on = scene.dice.from(0, pace);
                scene.advance(Span::from_millis(on));
            }
        }
    }

    /// A caller begins an operation, if it has not too many under way.
    fn begin(&mut self, caller: Caller) {
        let depth = self.scene().config.callers.depth as usize;
        if matches!(caller, Caller::Pusher(_)) && self.is_calm() {
            return;
        }
        if matches!(caller, Caller::Keeper(_)) && self.is_kept_up() {
            return;
        }
        let busy = self.under_way.iter().filter(|other| other.caller == caller).count();
        if busy >= depth {
            return;
        }
        let Some(link) = self.link(caller) else { return };
        let gone = link.gone();
        let task: Option<Task> = match caller {
            Caller::Pusher(_) => Some(Box::pin(pusher::push(link))),
            Caller::Admin(_) => Some(Box::pin(admin::act(link))),
            Caller::Keeper(_) => Some(Box::pin(upkeep::turn(link))),
            Caller::Worker(n) => self.work(link, n as usize),
            Caller::Drain => None,
        };
        if let Some(task) = task {
            self.set_out(caller, task, gone);
        }
    }

    /// A task begins.
    pub(super) fn set_out(&mut self, caller: Caller, task: Task, gone: Rc<Cell<bool>>) {
        self.under_way.push(UnderWay { caller, task, woken: Woken::new(), gone });
        self.poll(self.under_way.len() - 1);
    }

    /// Whether any task has something to do.
    pub(super) fn is_anybody_woken(&self) -> bool {
        self.under_way.iter().any(|one| one.woken.is_set())
    }

    /// A front keeps things up by itself, once at a time, when it has something to do.
    fn is_kept_up(&self) -> bool {
        let Some(front) = self.node.as_ref().and_then(|node| node.front.as_ref()) else {
            return false;
        };
        front.upkeep_at() > self.scene().clock.now()
            || self.under_way.iter().any(|one| matches!(one.caller, Caller::Keeper(_)))
    }

    /// Whether nobody pushes at the moment.
    fn is_calm(&self) -> bool {
        let scene = self.scene();
        let percent = scene.step * 100 / scene.config.steps;
        percent >= scene.config.callers.rush && percent < 90
    }

    pub(super) fn link(&self, caller: Caller) -> Option<Link> {
        Some(Link::new(&self.scene, self.node.as_ref()?, &caller.name()))
    }

    /// What a worker does next.
    fn work(&self, link: Link, worker: usize) -> Option<Task> {
        let mut scene = self.scene();
        let elapsed = scene.elapsed();
        let notes = scene.config.hands.notes;
        let double = scene.config.faults.double_report;
        let has_programs = scene.has_front && scene.config.hands.programs;
        let Scene { dice, known, .. } = &mut *scene;
        let hand = known.hands.get_mut(worker)?;
        if hand.stalled_until > elapsed {
            return None;
        }
        if dice.in_thousand(double)
            && let Some(job) = dice.pick(&hand.spoken)
        {
            scene.fault(super::coverage::Fault::DoubleReport);
            return Some(Box::pin(worker::report(link, job)));
        }
        if has_programs && dice.one_in(6) {
            drop(scene);
            return Some(Box::pin(worker::run(link)));
        }
        let place = dice.place(hand.held.len());
        match dice.below(10) {
            0..4 if !hand.held.is_empty() => {
                let job = hand.held.swap_remove(place);
                hand.spoken.push(job.clone());
                Some(Box::pin(worker::report(link, job)))
            }
            4 if !hand.held.is_empty() => Some(Box::pin(worker::renew(link, hand.held.clone()))),
            5 if notes => {
                let job = dice.pick(&hand.held)?;
                Some(Box::pin(worker::note(link, job)))
            }
            _ => Some(Box::pin(worker::fetch(link, worker))),
        }
    }

    /// Lets an operation go on, and forgets it when it is over.
    fn poll(&mut self, place: usize) {
        let Some(under_way) = self.under_way.get_mut(place) else { return };
        if is_over(&mut under_way.task, &under_way.woken) {
            drop(self.under_way.remove(place));
        }
    }

    /// Lets every operation go on.
    pub(super) fn poll_all(&mut self) {
        self.under_way.retain_mut(|one| !is_over(&mut one.task, &one.woken));
    }

    /// Does an operation to its end, whatever commits that takes. `false` if it has none: nothing was
    /// committed and nobody woke it for some turns, or it took more turns than any honest one.
    pub(super) fn complete(&mut self, mut task: Task) -> bool {
        let woken = Woken::new();
        let mut idle = 0;
        for _ in 0..MOST_TURNS {
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

    /// An answer is lost: its caller will never hear it.
    pub(super) fn lose_answer(&mut self) -> bool {
        let place = self.scene().dice.place(self.under_way.len());
        if self.under_way.is_empty() {
            return false;
        }
        drop(self.under_way.remove(place));
        true
    }
}

impl World<'_> {
    /// A caller leaves. Its operation goes on, and the answer arrives when nobody is there to hear it.
    /// Not a caller of upkeep: nobody waits for those.
    pub(super) fn leave(&self) {
        let callers = self.under_way.iter().filter(|one| !matches!(one.caller, Caller::Keeper(_)));
        let callers: Vec<_> = callers.map(|one| Rc::clone(&one.gone)).collect();
        if let Some(gone) = self.scene().dice.pick(&callers) {
            gone.set(true);
        }
    }
}

fn is_over(task: &mut Task, woken: &Arc<Woken>) -> bool {
    if !woken.0.swap(false, Ordering::Relaxed) {
        return false;
    }
    let waker = Waker::from(Arc::clone(woken));
    let mut context = Context::from_waker(&waker);
    matches!(task.as_mut().poll(&mut context), Poll::Ready(()))
}

/// What a step may be.
#[derive(Debug, Clone, Copy)]
enum Act {
    Call(Caller),
    Resume,
    Commit,
    Keep,
    Wait,
}

fn weights(config: &Config) -> Vec<(Act, u32)> {
    let callers = &config.callers;
    let pushers = (0..callers.pushers).map(Caller::Pusher);
    let workers = (0..callers.workers).map(Caller::Worker);
    let admins = (0..callers.admins).map(Caller::Admin);
    let keepers = (0..callers.keepers).map(Caller::Keeper);
    let calls = pushers.chain(workers).chain(admins).chain(keepers);
    let mut weights: Vec<(Act, u32)> = calls.map(|caller| (Act::Call(caller), 10)).collect();
    weights.extend([
        (Act::Resume, 15),
        (Act::Commit, config.store.commit_weight),
        (Act::Keep, config.store.keep_weight),
        (Act::Wait, 10),
    ]);
    weights
}
