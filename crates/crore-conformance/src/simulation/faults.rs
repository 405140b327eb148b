//! Fault injection.

use crore_core::{Clock, Span};
use crore_testkit::history::RecordedFault;

use super::config::{Generation, StoreDurability};
use super::contents::StoreContents;
use super::coverage::{RareSituation, SimFault};
use super::event_loop::SimEventLoop;
use super::process::{NODE, ProcessEnd};
use crate::sim_disk::{DiskCall, DiskError, DiskFault, Recurrence};

/// Maximum differences that are reported; further ones have the same cause.
const DIFFERENCES: usize = 4;
/// Keeper turns after which, mostly, nothing is left to compact.
pub(super) const COMPACT_TURNS: usize = 40;
/// Number of faults that the first generation draws.
const FIRST_ODDS: usize = 13;
const HOUR: Span = Span::from_secs(3600);

impl SimEventLoop<'_> {
    /// Draws a fault for this step, and injects it.
    pub(super) fn inject_fault(&mut self) {
        let step = self.context().step;
        if self.full_until.is_some_and(|until| until <= step) {
            self.free_disk();
        }
        if self.full_until.is_some() && self.context().rng.one_in(6) && self.is_cut_when_full() {
            self.context().fault(SimFault::PowerCut);
            self.compact(COMPACT_TURNS);
            return self.end(ProcessEnd::PowerCut);
        }
        let Some(fault) = self.draw_fault() else { return };
        self.context().fault(fault);
        match fault {
            SimFault::Kill => self.crash(ProcessEnd::Kill),
            SimFault::PowerCut => self.crash(ProcessEnd::PowerCut),
            SimFault::CutDuringWork => self.cut_during_work(ProcessEnd::PowerCut),
            SimFault::TornSectors => self.cut_during_work(ProcessEnd::Torn),
            SimFault::KillBeforeResponse => self.kill_before_response(),
            SimFault::SyncError | SimFault::WriteError => {
                let call =
                    if fault == SimFault::SyncError { DiskCall::Sync } else { DiskCall::Write };
                let then = self.context().rng.choose([Recurrence::Once, Recurrence::FromThenOn]);
                self.fail(call, then);
            }
            SimFault::SyncOnce => self.fail_once(),
            SimFault::Full => self.fill_disk(),
            SimFault::ClockBack | SimFault::ClockForward => self.jump_clock(fault),
            SimFault::ClockStill => self.stop_clock(),
            SimFault::LostResponse => drop(self.drop_operation()),
            SimFault::LateResponse => self.detach_caller(),
            SimFault::WorkerCrash | SimFault::WorkerStall | SimFault::Silence => {
                self.disturb_worker(fault);
            }
            SimFault::DoubleReport | SimFault::Nothing => {}
        }
    }

    /// A store that makes space on a full disk gives up files early, which is a good moment for a power cut.
    fn is_cut_when_full(&self) -> bool {
        let mut context = self.context();
        context.config.faults.power_cut > 0 && context.rng.one_in(4)
    }

    fn draw_fault(&self) -> Option<SimFault> {
        let mut context = self.context();
        let is_first = context.config.generation == Generation::First;
        let odds = context.config.faults.odds();
        let odds = odds.get(..if is_first { FIRST_ODDS } else { odds.len() }).unwrap_or_default();
        odds.iter().find(|(_, odds)| context.rng.in_thousand(*odds)).map(|(fault, _)| *fault)
    }

    /// Cuts the power at some disk call during a commit or a keeper turn.
    fn cut_during_work(&mut self, how: ProcessEnd) {
        if self.node.is_none() {
            return;
        }
        let (ahead, turns) = {
            let mut context = self.context();
            // Files are reused during keeper turns, which is when a cut does the most damage.
            let turns = match context.config.generation {
                Generation::First => context.rng.choose([0, 0, 1, COMPACT_TURNS]),
                _ => context.rng.choose([0, 1, COMPACT_TURNS, COMPACT_TURNS]),
            };
            (context.rng.between(1, 5 + 2 * turns as u64), turns)
        };
        let (writes, syncs) = (self.disk.count(DiskCall::Write), self.disk.count(DiskCall::Sync));
        let at = self.disk.calls() + ahead;
        self.disk.crash_at(at);
        self.compact(turns);
        self.commit();
        if self.disk.calls() < at {
            self.disk.crash_at(u64::MAX);
            return self.poll_all();
        }
        let wrote = self.disk.count(DiskCall::Write).saturating_sub(writes);
        if wrote > 0 && self.disk.count(DiskCall::Sync) - syncs <= 1 {
            self.context().cover_situation(RareSituation::CutBetweenWriteAndSync);
        }
        self.end(how);
    }

    /// The process dies after a sync, before any response.
    fn kill_before_response(&mut self) {
        if self.commit() && !self.in_flight.is_empty() {
            self.context().cover_situation(RareSituation::KilledBetweenSyncAndResponse);
        }
        let how = self.lossless_end();
        self.end(how);
    }

    /// A way to end the process that loses no acknowledged write.
    pub(super) fn lossless_end(&self) -> ProcessEnd {
        let mut context = self.context();
        match context.config.store.durability {
            StoreDurability::Always => context.rng.choose([ProcessEnd::Kill, ProcessEnd::PowerCut]),
            StoreDurability::Interval | StoreDurability::None => ProcessEnd::Kill,
        }
    }

    /// Ends the process; sometimes when everything is durable. The store must then have the same contents
    /// after reopening.
    fn crash(&mut self, how: ProcessEnd) {
        let (quiet, turns) = {
            let mut context = self.context();
            let turns = match context.config.generation {
                Generation::First => context.rng.choose([0, 0, COMPACT_TURNS]),
                _ => context.rng.choose([0, COMPACT_TURNS]),
            };
            (context.rng.one_in(3), turns)
        };
        self.compact(turns);
        if !quiet || self.node.is_none() || !self.commit_all() {
            return self.end(how);
        }
        let Some(before) = self.read_store() else { return };
        self.end(how);
        self.open();
        if self.node.is_some() {
            self.compare(&before);
        }
    }

    /// Makes all writes durable, if the disk permits.
    pub(super) fn commit_all(&mut self) -> bool {
        (0..100).take_while(|_| self.commit()).for_each(drop);
        !self.failed && !self.context().gave_up
    }

    /// Checks that the contents of the store are unchanged.
    pub(super) fn compare(&mut self, before: &StoreContents) {
        let Some(after) = self.read_store() else { return };
        for difference in
            before.differences(&after, self.subject.has_engine()).into_iter().take(DIFFERENCES)
        {
            self.context().violation(format!("after reopening: {difference}"));
        }
        self.context().cover_situation(RareSituation::ComparedAfterReopen);
    }

    /// The next call of this kind fails. From then on the store must not acknowledge any write until it is
    /// reopened.
    fn fail(&mut self, kind: DiskCall, then: Recurrence) {
        let before = self.disk.count(kind);
        let error = DiskError::Eio;
        self.disk.fail(DiskFault::AfterCalls { n: 0, kind, error, then });
        self.commit();
        let turns = self.context().rng.choose([0, 0, 1]);
        self.compact(turns);
        if self.disk.count(kind) > before {
            self.context().recorder.fault(NODE, RecordedFault::SyncError);
            self.failed = true;
            self.broken = true;
        } else {
            self.disk.heal();
        }
        self.poll_all();
    }

    /// The next sync fails, later ones succeed, and callers continue for a while.
    fn fail_once(&mut self) {
        self.fail(DiskCall::Sync, Recurrence::Once);
        if self.broken {
            let mut context = self.context();
            let until = context.step + context.rng.between(2, 15) as u32;
            drop(context);
            self.linger_until = until;
        }
    }

    /// Stops the clock for a while.
    fn stop_clock(&self) {
        let mut context = self.context();
        context.still_until = context.step + context.rng.between(2, 40) as u32;
    }

    /// Leaves little space on the disk for a while.
    fn fill_disk(&mut self) {
        let used: u64 = self.disk.image().values().map(|bytes| bytes.len() as u64).sum();
        let mut context = self.context();
        let spare = context.rng.choose([0, 0, 100, 5000]);
        let until = context.step + context.rng.between(2, 30) as u32;
        drop(context);
        self.disk.capacity(used + spare);
        self.full_until = Some(until);
        if self.context().rng.one_in(2) {
            self.compact(COMPACT_TURNS);
            if self.is_cut_when_full() {
                self.end(ProcessEnd::PowerCut);
            }
        }
    }

    /// The disk has space again.
    pub(super) fn free_disk(&mut self) {
        self.disk.capacity(u64::MAX);
        self.full_until = None;
    }

    fn jump_clock(&self, fault: SimFault) {
        let mut context = self.context();
        let now = context.clock.now();
        context.observe_time(now);
        let (to, hours) = match fault {
            SimFault::ClockBack => (now.before(HOUR), -1),
            _ => (now.after(HOUR.times(24)), 24),
        };
        context.clock.set(to);
        context.recorder.fault(NODE, RecordedFault::ClockJump { by: hours * 3_600_000 });
    }

    fn disturb_worker(&self, fault: SimFault) {
        let mut context = self.context();
        let workers = context.knowledge.workers.len();
        let worker = context.rng.index(workers);
        let elapsed = context.elapsed();
        let lease = context.config.jobs.lease.as_millis();
        let stall = context.rng.between(1, 2 * lease);
        let index = context.rng.next_u64();
        let Some(state) = context.knowledge.workers.get_mut(worker) else { return };
        match fault {
            SimFault::WorkerStall => state.stalled_until = elapsed + stall,
            SimFault::Silence if !state.held.is_empty() => {
                state.held.swap_remove((index % state.held.len() as u64) as usize);
            }
            _ => state.held.clear(),
        }
    }
}
