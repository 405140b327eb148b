//! What goes wrong, and when.

use crore_core::{Clock, Span};
use crore_testkit::history::Fault as Injected;

use super::config::{Durability, Generation};
use super::coverage::{Fault, Sometimes};
use super::life::{End, NODE};
use super::whole::Whole;
use super::world::World;
use crate::sim_disk::{Call, Failure, Fault as DiskFault, Then};

/// How many differences are named; where there are more, they have one cause.
const DIFFERENCES: usize = 4;
/// So many turns and there is nothing left to tidy up, mostly.
pub(super) const TIDY: usize = 40;
/// How many faults the first generation draws.
const FIRST_ODDS: usize = 13;
const HOUR: Span = Span::from_secs(3600);

impl World<'_> {
    /// Draws whether something goes wrong in this step, and lets it.
    pub(super) fn meet_fault(&mut self) {
        let step = self.scene().step;
        if self.full_until.is_some_and(|until| until <= step) {
            self.free();
        }
        if self.full_until.is_some() && self.scene().dice.one_in(6) && self.is_cut_when_full() {
            self.scene().fault(Fault::PowerCut);
            self.keep_on(TIDY);
            return self.end(End::PowerCut);
        }
        let Some(fault) = self.draw_fault() else { return };
        self.scene().fault(fault);
        match fault {
            Fault::Kill => self.crash(End::Kill),
            Fault::PowerCut => self.crash(End::PowerCut),
            Fault::CutInside => self.cut_inside(End::PowerCut),
            Fault::TornSectors => self.cut_inside(End::Torn),
            Fault::KillUnheard => self.kill_unheard(),
            Fault::SyncError | Fault::WriteError => {
                let call = if fault == Fault::SyncError { Call::Sync } else { Call::Write };
                let then = self.scene().dice.choose([Then::Once, Then::FromThenOn]);
                self.fail(call, then);
            }
            Fault::SyncOnce => self.fail_once(),
            Fault::Full => self.fill(),
            Fault::ClockBack | Fault::ClockForward => self.jump(fault),
            Fault::ClockStill => self.stop_clock(),
            Fault::LostAnswer => drop(self.lose_answer()),
            Fault::LateAnswer => self.leave(),
            Fault::WorkerCrash | Fault::WorkerStall | Fault::Silence => self.hurt_worker(fault),
            Fault::DoubleReport | Fault::Nothing => {}
        }
    }

    /// A store that makes room on a full disk is where files are given up in haste.
    fn is_cut_when_full(&self) -> bool {
        let mut scene = self.scene();
        scene.config.faults.power_cut > 0 && scene.dice.one_in(4)
    }

    fn draw_fault(&self) -> Option<Fault> {
        let mut scene = self.scene();
        let is_first = scene.config.generation == Generation::First;
        let odds = scene.config.faults.odds();
        let odds = odds.get(..if is_first { FIRST_ODDS } else { odds.len() }).unwrap_or_default();
        odds.iter().find(|(_, odds)| scene.dice.in_thousand(*odds)).map(|(fault, _)| *fault)
    }

    /// The power goes at some call to the disk during a commit, or while the keeper tidies up.
    fn cut_inside(&mut self, how: End) {
        if self.node.is_none() {
            return;
        }
        let (ahead, turns) = {
            let mut scene = self.scene();
            // Files change hands while the keeper tidies up, and that is when a cut hurts.
            let turns = match scene.config.generation {
                Generation::First => scene.dice.choose([0, 0, 1, TIDY]),
                Generation::Second => scene.dice.choose([0, 1, TIDY, TIDY]),
            };
            (scene.dice.from(1, 5 + 2 * turns as u64), turns)
        };
        let (writes, syncs) = (self.disk.count(Call::Write), self.disk.count(Call::Sync));
        let at = self.disk.calls() + ahead;
        self.disk.crash_at(at);
        self.keep_on(turns);
        self.commit();
        if self.disk.calls() < at {
            self.disk.crash_at(u64::MAX);
            return self.poll_all();
        }
        let wrote = self.disk.count(Call::Write).saturating_sub(writes);
        if wrote > 0 && self.disk.count(Call::Sync) - syncs <= 1 {
            self.scene().happened(Sometimes::CutBetweenWriteAndSync);
        }
        self.end(how);
    }

    /// The process dies after a sync, before anybody is told.
    fn kill_unheard(&mut self) {
        if self.commit() && !self.under_way.is_empty() {
            self.scene().happened(Sometimes::KilledBetweenSyncAndAnswer);
        }
        let how = self.some_end();
        self.end(how);
    }

    /// How a process may end so that nothing is lost that was answered.
    pub(super) fn some_end(&self) -> End {
        let mut scene = self.scene();
        match scene.config.store.durability {
            Durability::Always => scene.dice.choose([End::Kill, End::PowerCut]),
            Durability::Interval | Durability::None => End::Kill,
        }
    }

    /// The process ends; sometimes in a quiet moment, when everything is durable. Then the store has
    /// to be the same when it is opened anew.
    fn crash(&mut self, how: End) {
        let (quiet, turns) = {
            let mut scene = self.scene();
            let turns = match scene.config.generation {
                Generation::First => scene.dice.choose([0, 0, TIDY]),
                Generation::Second => scene.dice.choose([0, TIDY]),
            };
            (scene.dice.one_in(3), turns)
        };
        self.keep_on(turns);
        if !quiet || self.node.is_none() || !self.commit_all() {
            return self.end(how);
        }
        let Some(before) = self.look() else { return };
        self.end(how);
        self.open();
        if self.node.is_some() {
            self.compare(&before);
        }
    }

    /// Makes durable whatever was written, if the disk lets it.
    pub(super) fn commit_all(&mut self) -> bool {
        (0..100).take_while(|_| self.commit()).for_each(drop);
        !self.failed && !self.scene().gave_up
    }

    /// The store is as it was.
    pub(super) fn compare(&mut self, before: &Whole) {
        let Some(after) = self.look() else { return };
        for difference in
            before.differences(&after, self.subject.has_front()).into_iter().take(DIFFERENCES)
        {
            self.scene().wrong(format!("opened anew: {difference}"));
        }
        self.scene().happened(Sometimes::ComparedOpenedAnew);
    }

    /// The next call of this kind fails. From then on the store must not say yes to any write, until
    /// it is opened anew.
    fn fail(&mut self, kind: Call, then: Then) {
        let before = self.disk.count(kind);
        let error = Failure::Eio;
        self.disk.fail(DiskFault::AfterCalls { n: 0, kind, error, then });
        self.commit();
        let turns = self.scene().dice.choose([0, 0, 1]);
        self.keep_on(turns);
        if self.disk.count(kind) > before {
            self.scene().recorder.fault(NODE, Injected::SyncError);
            self.failed = true;
            self.broken = true;
        } else {
            self.disk.heal();
        }
        self.poll_all();
    }

    /// The next sync fails, the ones after it succeed, and callers go on for a while as if nothing had
    /// been.
    fn fail_once(&mut self) {
        self.fail(Call::Sync, Then::Once);
        if self.broken {
            let mut scene = self.scene();
            let until = scene.step + scene.dice.from(2, 15) as u32;
            drop(scene);
            self.lingers_until = until;
        }
    }

    /// The clock stands still for a while.
    fn stop_clock(&self) {
        let mut scene = self.scene();
        scene.still_until = scene.step + scene.dice.from(2, 40) as u32;
    }

    /// There is little room left, for a while.
    fn fill(&mut self) {
        let used: u64 = self.disk.image().values().map(|bytes| bytes.len() as u64).sum();
        let mut scene = self.scene();
        let spare = scene.dice.choose([0, 0, 100, 5000]);
        let until = scene.step + scene.dice.from(2, 30) as u32;
        drop(scene);
        self.disk.capacity(used + spare);
        self.full_until = Some(until);
        if self.scene().dice.one_in(2) {
            self.keep_on(TIDY);
            if self.is_cut_when_full() {
                self.end(End::PowerCut);
            }
        }
    }

    /// There is room again.
    pub(super) fn free(&mut self) {
        self.disk.capacity(u64::MAX);
        self.full_until = None;
    }

    fn jump(&self, fault: Fault) {
        let mut scene = self.scene();
        let now = scene.clock.now();
        scene.hear(now);
        let (to, hours) = match fault {
            Fault::ClockBack => (now.before(HOUR), -1),
            _ => (now.after(HOUR.times(24)), 24),
        };
        scene.clock.set(to);
        scene.recorder.fault(NODE, Injected::ClockJump { by: hours * 3_600_000 });
    }

    fn hurt_worker(&self, fault: Fault) {
        let mut scene = self.scene();
        let workers = scene.known.hands.len();
        let worker = scene.dice.place(workers);
        let elapsed = scene.elapsed();
        let lease = scene.config.jobs.lease.as_millis();
        let stall = scene.dice.from(1, 2 * lease);
        let place = scene.dice.roll();
        let Some(hand) = scene.known.hands.get_mut(worker) else { return };
        match fault {
            Fault::WorkerStall => hand.stalled_until = elapsed + stall,
            Fault::Silence if !hand.held.is_empty() => {
                hand.held.swap_remove((place % hand.held.len() as u64) as usize);
            }
            _ => hand.held.clear(),
        }
    }
}
