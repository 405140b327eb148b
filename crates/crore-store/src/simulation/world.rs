//! The event loop: one thread, a clock and a disk in its hand, and every step drawn from the seed.

use std::cell::{RefCell, RefMut};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crore_core::Span;
use crore_testkit::history::{Fault as Injected, Node};

use super::config::Config;
use super::coverage::Sometimes;
use super::scene::{Link, Scene};
use super::subject::{Running, Subject};
use super::watch::{Told, Watch};
use super::{admin, pusher, upkeep, worker};
use crate::embedded::disk::sim::SimDisk;

/// The node, as the history calls it.
pub(super) const NODE: &str = "n1";

/// How often a store may fail to open in a row: each time the power goes again, or the disk heals.
const OPENINGS: usize = 20;

type Task = Pin<Box<dyn Future<Output = ()>>>;

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
    /// Whether the disk has failed the open store, so that it may give up.
    pub(super) failed: bool,
    /// What the store was told by its disk.
    told: Arc<Told>,
}

/// An operation that has begun.
pub(super) struct UnderWay {
    caller: Caller,
    task: Task,
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

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It is killed; what it wrote stays.
    Kill,
    /// The power goes; what was not synced may be lost.
    PowerCut,
}

impl<'a> World<'a> {
    pub(super) fn new(config: Config, subject: &'a mut dyn Subject) -> Self {
        let disk = SimDisk::new(config.seed);
        let scene = Rc::new(RefCell::new(Scene::new(config)));
        let (node, under_way, told) = (None, Vec::new(), Arc::default());
        Self { scene, subject, disk, node, under_way, full_until: None, failed: false, told }
    }

    pub(super) fn scene(&self) -> RefMut<'_, Scene> {
        self.scene.borrow_mut()
    }

    /// One step.
    pub(super) fn step(&mut self) {
        {
            let mut scene = self.scene();
            scene.step += 1;
            let pace = scene.config.store.pace.as_millis();
            let on = scene.dice.from(0, pace / 10);
            scene.advance(Span::from_millis(on));
        }
        if self.scene().gave_up {
            self.scene().happened(Sometimes::GaveUp);
            if !self.failed {
                self.scene().wrong("the store gave up, and its disk was well".to_owned());
            }
            self.end(End::Kill);
        }
        self.meet_fault();
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

    pub(super) fn commit(&mut self) -> bool {
        let Some(node) = &self.node else { return false };
        let turns = self.scene().dice.choose([0, 0, 0, 1, 5]);
        if turns > 0 {
            self.told.come_between(Arc::clone(&node.loops), turns);
        }
        let did = node.loops.commit_once();
        self.told.stay_away();
        if self.told.take_ended() {
            self.scene().gave_up = true;
        }
        self.scene().turned("commit", &did);
        self.hear_of_room();
        did.unwrap_or(false)
    }

    pub(super) fn keep(&mut self) -> bool {
        let Some(node) = &self.node else { return false };
        let did = node.loops.keep_once();
        self.scene().turned("keep", &did);
        if self.hear_of_room() {
            self.scene().happened(Sometimes::FullWhileTidying);
        }
        if self.told.take_reused() {
            self.scene().happened(Sometimes::FileUsedAgain);
        }
        did.unwrap_or(false)
    }

    /// Tidies up for some turns, or until there is nothing to do.
    pub(super) fn keep_on(&mut self, turns: usize) {
        for _ in 0..turns {
            if !self.keep() {
                return;
            }
        }
    }

    /// Notes it if the store was told that there is no room. The history does not hear of it: a store
    /// that tidies up makes room on a full disk, and may say yes again.
    fn hear_of_room(&mut self) -> bool {
        let told = self.told.take_full();
        self.failed |= told;
        told
    }

    /// A caller begins an operation, if it has not too many under way.
    fn begin(&mut self, caller: Caller) {
        let depth = self.scene().config.callers.depth as usize;
        if matches!(caller, Caller::Pusher(_)) && self.is_calm() {
            return;
        }
        let busy = self.under_way.iter().filter(|other| other.caller == caller).count();
        if busy >= depth {
            return;
        }
        let Some(link) = self.link(caller) else { return };
        let task: Option<Task> = match caller {
            Caller::Pusher(_) => Some(Box::pin(pusher::push(link))),
            Caller::Admin(_) => Some(Box::pin(admin::act(link))),
            Caller::Keeper(_) => Some(Box::pin(upkeep::turn(link))),
            Caller::Worker(n) => self.work(link, n as usize),
            Caller::Drain => None,
        };
        if let Some(task) = task {
            self.under_way.push(UnderWay { caller, task });
            self.poll(self.under_way.len() - 1);
        }
    }

    /// Whether nobody pushes at the moment.
    fn is_calm(&self) -> bool {
        let scene = self.scene();
        let percent = scene.step * 100 / scene.config.steps;
        percent >= scene.config.callers.rush && percent < 90
    }

    pub(super) fn link(&self, caller: Caller) -> Option<Link> {
        let store = Arc::clone(&self.node.as_ref()?.store);
        Some(Link::new(&self.scene, store, &caller.name()))
    }

    /// What a worker does next.
    fn work(&self, link: Link, worker: usize) -> Option<Task> {
        let mut scene = self.scene();
        let elapsed = scene.elapsed();
        let notes = scene.config.hands.notes;
        let double = scene.config.faults.double_report;
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
        if is_over(&mut under_way.task) {
            drop(self.under_way.remove(place));
        }
    }

    /// Lets every operation go on.
    pub(super) fn poll_all(&mut self) {
        self.under_way.retain_mut(|under_way| !is_over(&mut under_way.task));
    }

    /// Does an operation to its end, whatever commits that takes. `false` if it has none.
    pub(super) fn complete(&mut self, mut task: Task) -> bool {
        for _ in 0..1000 {
            if is_over(&mut task) {
                return true;
            }
            self.commit();
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

    /// The process ends, and with it all that was under way.
    pub(super) fn end(&mut self, how: End) {
        let seed = self.scene().dice.roll();
        let (disk, fault) = match how {
            End::Kill => (self.disk.kill(), Injected::Crash),
            End::PowerCut => (self.disk.crash(seed), Injected::PowerCut),
        };
        {
            let mut scene = self.scene();
            scene.say("store", format_args!("ends: {how:?}"));
            scene.recorder.fault(NODE, fault);
            scene.gave_up = false;
            let keys = std::mem::take(&mut scene.known.keys_under_way);
            scene.known.cut_keys.extend(keys);
        }
        self.disk = disk;
        self.node = None;
        self.failed = false;
        // Nobody hears of these any more.
        self.under_way.clear();
    }

    /// Opens the store on what the disk has kept, again and again if the power goes meanwhile.
    pub(super) fn open(&mut self) {
        for _ in 0..OPENINGS {
            let cut = self.cut_ahead();
            let clock = Arc::new(self.scene().clock.clone());
            let config = self.scene().config.clone();
            let disk = Arc::new(Watch::new(&self.disk, &self.told));
            let opened = self.subject.open(disk, clock, &config);
            self.hear_of_room();
            let died = cut.is_some_and(|at| self.disk.calls() >= at);
            self.disk.crash_at(u64::MAX);
            match opened {
                Ok(node) if !died => {
                    self.node = Some(node);
                    let mut scene = self.scene();
                    scene.recorder.node(NODE, Node::Opened);
                    scene.say("store", format_args!("opened"));
                    drop(scene);
                    return self.look_over();
                }
                _ if died => {
                    self.scene().happened(Sometimes::CutWhileOpening);
                    self.end(End::PowerCut);
                }
                Err(error) if self.full_until.is_some() => {
                    self.scene().say("store", format_args!("does not open: {error}"));
                    self.free();
                }
                Ok(_) => {}
                Err(error) => {
                    let message = error.to_string();
                    let mut scene = self.scene();
                    scene.wrong(format!("the store does not open: {error:?}"));
                    scene.recorder.node(NODE, Node::Refused { message });
                    return;
                }
            }
        }
    }

    /// Whether the power is to go while the store opens, and at which call.
    fn cut_ahead(&self) -> Option<u64> {
        let mut scene = self.scene();
        let often = scene.config.faults.cut_inside;
        if often == 0 || !scene.dice.one_in(4) {
            return None;
        }
        let at = self.disk.calls() + scene.dice.from(1, 12);
        self.disk.crash_at(at);
        Some(at)
    }
}

fn is_over(task: &mut Task) -> bool {
    let mut context = Context::from_waker(Waker::noop());
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
