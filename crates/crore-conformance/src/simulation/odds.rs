//! How often each kind of fault comes.

use super::config::half;
use super::coverage::Fault;
use super::dice::Dice;

/// How often each fault comes, in a thousand steps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Faults {
    /// The process is killed: what was written stays.
    pub kill: u32,
    /// The power goes: what was not synced may be lost, or torn.
    pub power_cut: u32,
    /// The power goes in the middle of a commit or of tidying up.
    pub cut_inside: u32,
    /// The process is killed after a sync, before anybody is told.
    pub kill_unheard: u32,
    /// A sync fails.
    pub sync_error: u32,
    /// A write fails.
    pub write_error: u32,
    /// The disk is full for a while.
    pub full: u32,
    /// The clock goes back an hour.
    pub clock_back: u32,
    /// The clock goes forward a day.
    pub clock_forward: u32,
    /// A worker forgets all that it holds.
    pub worker_crash: u32,
    /// A worker does nothing for a while, and goes on then as if nothing had been.
    pub worker_stall: u32,
    /// A report is made a second time.
    pub double_report: u32,
    /// A worker never reports what it holds.
    pub silence: u32,
    /// A caller leaves before its answer, and what it asked for is dropped.
    pub lost_answer: u32,
    /// The power goes in the middle of a commit or of tidying up, and many sectors of one sync window
    /// are torn.
    pub torn_sectors: u32,
    /// The clock stands still for a while.
    pub clock_still: u32,
    /// A caller leaves, and its answer arrives later.
    pub late_answer: u32,
    /// A sync fails and the next one succeeds, and the store is asked for more all the while.
    pub sync_once: u32,
}

impl Faults {
    /// Each is off in about half of the runs; a run in eight has none at all.
    pub(super) fn draw(dice: &mut Dice) -> Self {
        if dice.one_in(8) {
            return Self::default();
        }
        let mut often =
            |most: u32| if half(dice) { dice.from(1, u64::from(most)) as u32 } else { 0 };
        Self {
            kill: often(15),
            power_cut: often(15),
            cut_inside: often(20),
            kill_unheard: often(10),
            sync_error: often(8),
            write_error: often(8),
            full: often(60),
            clock_back: often(8),
            clock_forward: often(5),
            worker_crash: often(20),
            worker_stall: often(30),
            double_report: often(30),
            silence: often(20),
            lost_answer: often(30),
            ..Self::default()
        }
    }

    /// Draws the faults that the first generation did not have.
    pub(super) fn draw_later(&mut self, dice: &mut Dice) {
        let mut often =
            |most: u32| if half(dice) { dice.from(1, u64::from(most)) as u32 } else { 0 };
        if *self == Self::default() {
            return;
        }
        self.torn_sectors = often(15);
        self.clock_still = often(8);
        self.late_answer = often(30);
        self.sync_once = often(8);
    }

    /// How often each fault comes, in the order in which they are drawn. A fault that workers draw by
    /// themselves is not among them.
    pub const fn odds(&self) -> [(Fault, u32); 17] {
        [
            (Fault::Kill, self.kill),
            (Fault::PowerCut, self.power_cut),
            (Fault::CutInside, self.cut_inside),
            (Fault::KillUnheard, self.kill_unheard),
            (Fault::SyncError, self.sync_error),
            (Fault::WriteError, self.write_error),
            (Fault::Full, self.full),
            (Fault::ClockBack, self.clock_back),
            (Fault::ClockForward, self.clock_forward),
            (Fault::WorkerCrash, self.worker_crash),
            (Fault::WorkerStall, self.worker_stall),
            (Fault::Silence, self.silence),
            (Fault::LostAnswer, self.lost_answer),
            (Fault::TornSectors, self.torn_sectors),
            (Fault::ClockStill, self.clock_still),
            (Fault::LateAnswer, self.late_answer),
            (Fault::SyncOnce, self.sync_once),
        ]
    }

    /// The same without one of them.
    pub fn without(mut self, fault: Fault) -> Self {
        let odds = match fault {
            Fault::Nothing => return self,
            Fault::Kill => &mut self.kill,
            Fault::PowerCut => &mut self.power_cut,
            Fault::CutInside => &mut self.cut_inside,
            Fault::KillUnheard => &mut self.kill_unheard,
            Fault::SyncError => &mut self.sync_error,
            Fault::WriteError => &mut self.write_error,
            Fault::Full => &mut self.full,
            Fault::ClockBack => &mut self.clock_back,
            Fault::ClockForward => &mut self.clock_forward,
            Fault::WorkerCrash => &mut self.worker_crash,
            Fault::WorkerStall => &mut self.worker_stall,
            Fault::DoubleReport => &mut self.double_report,
            Fault::Silence => &mut self.silence,
            Fault::LostAnswer => &mut self.lost_answer,
            Fault::TornSectors => &mut self.torn_sectors,
            Fault::ClockStill => &mut self.clock_still,
            Fault::LateAnswer => &mut self.late_answer,
            Fault::SyncOnce => &mut self.sync_once,
        };
        *odds = 0;
        self
    }

    /// The same without what takes back what was written and not synced.
    pub(super) fn without_power_cuts(self) -> Self {
        Self { power_cut: 0, cut_inside: 0, sync_error: 0, torn_sectors: 0, sync_once: 0, ..self }
    }

    /// The same without what a store that forgets everything cannot survive.
    pub fn without_crashes(self) -> Self {
        Self {
            kill: 0,
            power_cut: 0,
            cut_inside: 0,
            kill_unheard: 0,
            sync_error: 0,
            write_error: 0,
            full: 0,
            torn_sectors: 0,
            sync_once: 0,
            ..self
        }
    }
}
