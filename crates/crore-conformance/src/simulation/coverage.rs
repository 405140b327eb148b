//! Coverage of the runs: a generator that never reaches a situation proves nothing about it.

use std::collections::BTreeMap;
use std::fmt;

use crore_core::State;

/// An action of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it")]
pub enum CallerAction {
    Push,
    Claim,
    Renew,
    Report,
    Cancel,
    Retry,
    Delete,
    Edit,
    Take,
    Get,
    Define,
    Tick,
    ExpireLeases,
    Note,
}

/// An injected fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the fields of `FaultOdds` say it")]
pub enum SimFault {
    Nothing,
    Kill,
    PowerCut,
    CutDuringWork,
    KillBeforeResponse,
    SyncError,
    WriteError,
    Full,
    ClockBack,
    ClockForward,
    WorkerCrash,
    WorkerStall,
    DoubleReport,
    Silence,
    LostResponse,
    TornSectors,
    ClockStill,
    LateResponse,
    SyncOnce,
}

impl SimFault {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::Nothing,
        Self::Kill,
        Self::PowerCut,
        Self::CutDuringWork,
        Self::KillBeforeResponse,
        Self::SyncError,
        Self::WriteError,
        Self::Full,
        Self::ClockBack,
        Self::ClockForward,
        Self::WorkerCrash,
        Self::WorkerStall,
        Self::DoubleReport,
        Self::Silence,
        Self::LostResponse,
        Self::TornSectors,
        Self::ClockStill,
        Self::LateResponse,
        Self::SyncOnce,
    ];
}

/// Situations that must occur in some of many runs, since these are where stores fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RareSituation {
    /// The power was cut after a write and before its sync.
    CutBetweenWriteAndSync,
    /// The process died after a sync, before any response.
    KilledBetweenSyncAndResponse,
    /// The power was cut while the store opened.
    CutWhileOpening,
    /// A lease lapsed and was taken away before its holder's report arrived.
    LapsedBeforeItsReport,
    /// A report arrived after the end of its lease and counted, since the lease had not been taken away.
    ReportedAfterItsLease,
    /// A push with a unique key was interrupted by a crash and repeated.
    KeyPushedAgainAfterCrash,
    /// A push without a response turned out to have happened.
    LostPushHappened,
    /// A push without a response turned out not to have happened.
    LostPushVanished,
    /// The disk was full when the keeper had to move records.
    FullDuringCompaction,
    /// A push was refused because the disk was full.
    PushRefusedForSpace,
    /// A report arrived after its job was cancelled, or asked to stop.
    ReportedAfterCancel,
    /// A write was decided again, because a concurrent write came first.
    DecidedAgain,
    /// A claim was lost in a crash, and its job delivered again.
    ForgottenClaim,
    /// The store gave up after a disk error.
    GaveUp,
    /// A file of the log was reused.
    FileReused,
    /// The contents of a store were compared before and after a crash.
    ComparedAfterReopen,
}

impl RareSituation {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::CutBetweenWriteAndSync,
        Self::KilledBetweenSyncAndResponse,
        Self::CutWhileOpening,
        Self::LapsedBeforeItsReport,
        Self::ReportedAfterItsLease,
        Self::KeyPushedAgainAfterCrash,
        Self::LostPushHappened,
        Self::LostPushVanished,
        Self::FullDuringCompaction,
        Self::PushRefusedForSpace,
        Self::ReportedAfterCancel,
        Self::DecidedAgain,
        Self::ForgottenClaim,
        Self::GaveUp,
        Self::FileReused,
        Self::ComparedAfterReopen,
    ];
}

/// The coverage of one run or of many.
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    cells: BTreeMap<(CallerAction, Option<State>, SimFault), u64>,
    situations: BTreeMap<RareSituation, u64>,
    /// Number of runs.
    pub runs: u64,
    /// Steps of all runs.
    pub steps: u64,
    /// Events in all histories.
    pub events: u64,
    /// Number of faults.
    pub faults: u64,
    /// Simulated time, in milliseconds.
    pub millis: u64,
}

impl Coverage {
    /// Records an action on a job in this state, soon after this fault.
    pub fn hit(&mut self, action: CallerAction, state: Option<State>, fault: SimFault) {
        *self.cells.entry((action, state, fault)).or_default() += 1;
    }

    /// Records a situation.
    pub fn reached(&mut self, situation: RareSituation) {
        *self.situations.entry(situation).or_default() += 1;
    }

    /// Adds the coverage of another.
    pub fn add(&mut self, other: &Self) {
        for (cell, n) in &other.cells {
            *self.cells.entry(*cell).or_default() += n;
        }
        for (what, n) in &other.situations {
            *self.situations.entry(*what).or_default() += n;
        }
        self.runs += other.runs;
        self.steps += other.steps;
        self.events += other.events;
        self.faults += other.faults;
        self.millis += other.millis;
    }

    /// The situations among `of` that never occurred.
    pub fn missing(&self, of: &[RareSituation]) -> Vec<RareSituation> {
        of.iter().copied().filter(|what| !self.situations.contains_key(what)).collect()
    }

    /// The number of cells (action, state, fault) that were reached, and of those that are possible: every
    /// fault, for each combination of action and state that ever occurred.
    pub fn cells(&self) -> (usize, usize) {
        (self.cells.len(), self.rows().len() * SimFault::ALL.len())
    }

    /// Each combination of action and state that ever occurred.
    fn rows(&self) -> Vec<(CallerAction, Option<State>)> {
        let mut rows: Vec<_> =
            self.cells.keys().map(|(action, state, _)| (*action, *state)).collect();
        rows.dedup();
        rows
    }

    /// A table of (action and state) by fault, with a dot for unreached cells, followed by their names.
    pub fn table(&self) -> String {
        let mut text = format!("{:<19}", "");
        for fault in SimFault::ALL {
            text += &format!(" {:>7.7}", format!("{fault:?}"));
        }
        let mut missing = Vec::new();
        for (action, state) in self.rows() {
            let row = row_name(action, state);
            text += &format!("\n{row:<19}");
            for fault in SimFault::ALL {
                let n = self.cells.get(&(action, state, fault));
                text += &n.map_or_else(|| format!(" {:>7}", "."), |n| format!(" {n:>7}"));
                if n.is_none() {
                    missing.push(format!("{row} × {fault:?}"));
                }
            }
        }
        let (hit, all) = self.cells();
        text += &format!("\n{hit} of {all} cells reached; never reached: ");
        text + &if missing.is_empty() { "none".to_owned() } else { missing.join(", ") }
    }

    /// The reached cells, by name.
    pub fn named_cells(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        self.cells.iter().map(|((action, state, fault), n)| {
            (format!("{} × {fault:?}", row_name(*action, *state)), *n)
        })
    }

    /// How often each situation occurred.
    pub fn situations(&self) -> impl Iterator<Item = (RareSituation, u64)> + '_ {
        RareSituation::ALL
            .into_iter()
            .map(|what| (what, self.situations.get(&what).copied().unwrap_or_default()))
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = self.millis / 3_600_000;
        let Self { runs, steps, events, faults, .. } = self;
        writeln!(
            f,
            "{runs} runs, {steps} steps, {events} events, {faults} faults, {hours} simulated hours"
        )?;
        let (hit, all) = self.cells();
        writeln!(f, "{hit} of {all} cells (action × state of its job × fault)")?;
        self.situations().try_for_each(|(what, n)| writeln!(f, "{n:>9}  {what:?}"))
    }
}

fn row_name(action: CallerAction, state: Option<State>) -> String {
    state.map_or_else(|| format!("{action:?} -"), |state| format!("{action:?} {state:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_counted_against_all_faults_of_each_reached_row() {
        let mut coverage = Coverage::default();
        coverage.hit(CallerAction::Push, None, SimFault::Nothing);
        coverage.hit(CallerAction::Push, None, SimFault::Kill);
        coverage.hit(CallerAction::Report, Some(State::Running), SimFault::Kill);
        assert_eq!(coverage.cells(), (3, 2 * SimFault::ALL.len()));
        let mut sum = Coverage::default();
        sum.add(&coverage);
        sum.add(&coverage);
        assert_eq!(sum.cells(), coverage.cells());
    }

    #[test]
    fn the_table_lists_unreached_cells() {
        let mut coverage = Coverage::default();
        coverage.hit(CallerAction::Report, Some(State::Running), SimFault::Kill);
        let table = coverage.table();
        assert!(table.contains("1 of 19 cells reached"), "{table}");
        assert!(table.contains("Report Running × SyncOnce"), "{table}");
        assert!(!table.contains("Report Running × Kill,"), "{table}");
    }

    #[test]
    fn missing_situations_are_listed() {
        let mut coverage = Coverage::default();
        coverage.reached(RareSituation::GaveUp);
        let never = coverage.missing(&[RareSituation::GaveUp, RareSituation::FileReused]);
        assert_eq!(never, [RareSituation::FileReused]);
    }
}
