//! Frequency of each fault.

use super::config::half;
use super::coverage::SimFault;
use super::rng::SimRng;

/// Frequency of each fault, in a thousand steps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FaultOdds {
    /// The process is killed: written data survives.
    pub kill: u32,
    /// Power cut: unsynced data may be lost or torn.
    pub power_cut: u32,
    /// Power cut during a commit or a keeper turn.
    pub cut_during_work: u32,
    /// The process is killed after a sync, before any response.
    pub kill_before_response: u32,
    /// A sync fails.
    pub sync_error: u32,
    /// A write fails.
    pub write_error: u32,
    /// The disk is full for a while.
    pub full: u32,
    /// The clock jumps back an hour.
    pub clock_back: u32,
    /// The clock jumps forward a day.
    pub clock_forward: u32,
    /// A worker loses all jobs that it holds.
    pub worker_crash: u32,
    /// A worker stalls for a while, then continues unaware.
    pub worker_stall: u32,
    /// A report is sent a second time.
    pub double_report: u32,
    /// A worker never reports one of its jobs.
    pub silence: u32,
    /// A caller leaves before its response, and its operation is dropped.
    pub lost_response: u32,
    /// Power cut during a commit or a keeper turn, which tears many sectors of one sync window.
    pub torn_sectors: u32,
    /// The clock stands still for a while.
    pub clock_still: u32,
    /// A caller leaves, and its response arrives later.
    pub late_response: u32,
    /// A sync fails and the next one succeeds, while callers keep using the store.
    pub sync_once: u32,
}

impl FaultOdds {
    /// Each fault is off in about half of the runs; one run in eight has none at all.
    pub(super) fn draw(rng: &mut SimRng) -> Self {
        if rng.one_in(8) {
            return Self::default();
        }
        let mut often =
            |most: u32| if half(rng) { rng.between(1, u64::from(most)) as u32 } else { 0 };
        Self {
            kill: often(15),
            power_cut: often(15),
            cut_during_work: often(20),
            kill_before_response: often(10),
            sync_error: often(8),
            write_error: often(8),
            full: often(60),
            clock_back: often(8),
            clock_forward: often(5),
            worker_crash: often(20),
            worker_stall: often(30),
            double_report: often(30),
            silence: often(20),
            lost_response: often(30),
            ..Self::default()
        }
    }

    /// Draws the faults that runs of `Generation::First` do not have.
    pub(super) fn draw_second_generation(&mut self, rng: &mut SimRng) {
        let mut often =
            |most: u32| if half(rng) { rng.between(1, u64::from(most)) as u32 } else { 0 };
        if *self == Self::default() {
            return;
        }
        self.torn_sectors = often(15);
        self.clock_still = often(8);
        self.late_response = often(30);
        self.sync_once = often(8);
    }

    /// The frequency of each fault, in drawing order. Faults that workers draw themselves are not included.
    pub const fn odds(&self) -> [(SimFault, u32); 17] {
        [
            (SimFault::Kill, self.kill),
            (SimFault::PowerCut, self.power_cut),
            (SimFault::CutDuringWork, self.cut_during_work),
            (SimFault::KillBeforeResponse, self.kill_before_response),
            (SimFault::SyncError, self.sync_error),
            (SimFault::WriteError, self.write_error),
            (SimFault::Full, self.full),
            (SimFault::ClockBack, self.clock_back),
            (SimFault::ClockForward, self.clock_forward),
            (SimFault::WorkerCrash, self.worker_crash),
            (SimFault::WorkerStall, self.worker_stall),
            (SimFault::Silence, self.silence),
            (SimFault::LostResponse, self.lost_response),
            (SimFault::TornSectors, self.torn_sectors),
            (SimFault::ClockStill, self.clock_still),
            (SimFault::LateResponse, self.late_response),
            (SimFault::SyncOnce, self.sync_once),
        ]
    }

    /// The same without one fault.
    pub fn without(mut self, fault: SimFault) -> Self {
        let odds = match fault {
            SimFault::Nothing => return self,
            SimFault::Kill => &mut self.kill,
            SimFault::PowerCut => &mut self.power_cut,
            SimFault::CutDuringWork => &mut self.cut_during_work,
            SimFault::KillBeforeResponse => &mut self.kill_before_response,
            SimFault::SyncError => &mut self.sync_error,
            SimFault::WriteError => &mut self.write_error,
            SimFault::Full => &mut self.full,
            SimFault::ClockBack => &mut self.clock_back,
            SimFault::ClockForward => &mut self.clock_forward,
            SimFault::WorkerCrash => &mut self.worker_crash,
            SimFault::WorkerStall => &mut self.worker_stall,
            SimFault::DoubleReport => &mut self.double_report,
            SimFault::Silence => &mut self.silence,
            SimFault::LostResponse => &mut self.lost_response,
            SimFault::TornSectors => &mut self.torn_sectors,
            SimFault::ClockStill => &mut self.clock_still,
            SimFault::LateResponse => &mut self.late_response,
            SimFault::SyncOnce => &mut self.sync_once,
        };
        *odds = 0;
        self
    }

    /// The same without faults that lose written but unsynced data.
    pub(super) fn without_power_cuts(self) -> Self {
        Self {
            power_cut: 0,
            cut_during_work: 0,
            sync_error: 0,
            torn_sectors: 0,
            sync_once: 0,
            ..self
        }
    }

    /// The same without faults that a store without durability cannot survive.
    pub fn without_crashes(self) -> Self {
        Self {
            kill: 0,
            power_cut: 0,
            cut_during_work: 0,
            kill_before_response: 0,
            sync_error: 0,
            write_error: 0,
            full: 0,
            torn_sectors: 0,
            sync_once: 0,
            ..self
        }
    }
}
