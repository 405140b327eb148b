//! What the runs have reached: a generator that never gets somewhere proves nothing about it.

use std::collections::BTreeMap;
use std::fmt;

use crore_core::State;

/// What callers do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Deed {
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
    Rescue,
    Note,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the fields of `Faults` say it")]
pub enum Fault {
    Nothing,
    Kill,
    PowerCut,
    CutInside,
    KillUnheard,
    SyncError,
    WriteError,
    Full,
    ClockBack,
    ClockForward,
    WorkerCrash,
    WorkerStall,
    DoubleReport,
    Silence,
    LostAnswer,
    TornSectors,
    ClockStill,
    LateAnswer,
    SyncOnce,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::Nothing,
        Self::Kill,
        Self::PowerCut,
        Self::CutInside,
        Self::KillUnheard,
        Self::SyncError,
        Self::WriteError,
        Self::Full,
        Self::ClockBack,
        Self::ClockForward,
        Self::WorkerCrash,
        Self::WorkerStall,
        Self::DoubleReport,
        Self::Silence,
        Self::LostAnswer,
        Self::TornSectors,
        Self::ClockStill,
        Self::LateAnswer,
        Self::SyncOnce,
    ];
}

/// What has to happen now and then in many runs, since these are the moments in which stores go
/// wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sometimes {
    /// The power went after a write and before its sync.
    CutBetweenWriteAndSync,
    /// The process died after a sync, before anybody was told.
    KilledBetweenSyncAndAnswer,
    /// The power went while the store opened.
    CutWhileOpening,
    /// A lease lapsed, and was taken away, before its holder's report arrived.
    LapsedBeforeItsReport,
    /// A report arrived after the end of its lease, and counted, since nobody had taken it away.
    ReportedAfterItsLease,
    /// A push with a unique key was cut off by a crash, and made again.
    KeyPushedAgainAfterCrash,
    /// A push whose answer was lost turned out to have happened.
    LostPushHappened,
    /// A push whose answer was lost turned out not to have happened.
    LostPushVanished,
    /// The disk was full when the keeper wanted to move records.
    FullWhileTidying,
    /// A push was refused because the disk was full.
    PushRefusedForSpace,
    /// A report arrived after its job was cancelled, or asked to stop.
    ReportedAfterCancel,
    /// A write was decided anew, because another came between.
    DecidedAnew,
    /// A claim was forgotten by a crash, and its job handed out again.
    ForgottenClaim,
    /// The store gave up after an error of its disk.
    GaveUp,
    /// A file of the log was used again.
    FileUsedAgain,
    /// A store was the same before a crash and after it.
    ComparedOpenedAnew,
}

impl Sometimes {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::CutBetweenWriteAndSync,
        Self::KilledBetweenSyncAndAnswer,
        Self::CutWhileOpening,
        Self::LapsedBeforeItsReport,
        Self::ReportedAfterItsLease,
        Self::KeyPushedAgainAfterCrash,
        Self::LostPushHappened,
        Self::LostPushVanished,
        Self::FullWhileTidying,
        Self::PushRefusedForSpace,
        Self::ReportedAfterCancel,
        Self::DecidedAnew,
        Self::ForgottenClaim,
        Self::GaveUp,
        Self::FileUsedAgain,
        Self::ComparedOpenedAnew,
    ];
}

/// What was reached, over one run or many.
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    cells: BTreeMap<(Deed, Option<State>, Fault), u64>,
    sometimes: BTreeMap<Sometimes, u64>,
    /// Runs.
    pub runs: u64,
    /// Steps of all runs.
    pub steps: u64,
    /// Events in all histories.
    pub events: u64,
    /// Faults.
    pub faults: u64,
    /// Simulated time, in milliseconds.
    pub millis: u64,
}

impl Coverage {
    /// Something was done to a job in this state, soon after this fault.
    pub fn hit(&mut self, deed: Deed, state: Option<State>, fault: Fault) {
        *self.cells.entry((deed, state, fault)).or_default() += 1;
    }

    /// It happened.
    pub fn happened(&mut self, what: Sometimes) {
        *self.sometimes.entry(what).or_default() += 1;
    }

    /// Adds another's.
    pub fn add(&mut self, other: &Self) {
        for (cell, n) in &other.cells {
            *self.cells.entry(*cell).or_default() += n;
        }
        for (what, n) in &other.sometimes {
            *self.sometimes.entry(*what).or_default() += n;
        }
        self.runs += other.runs;
        self.steps += other.steps;
        self.events += other.events;
        self.faults += other.faults;
        self.millis += other.millis;
    }

    /// What never happened of these.
    pub fn never(&self, of: &[Sometimes]) -> Vec<Sometimes> {
        of.iter().copied().filter(|what| !self.sometimes.contains_key(what)).collect()
    }

    /// How many cells of (deed, state, fault) were hit, and how many could have been: every fault,
    /// for each deed and state that ever met.
    pub fn cells(&self) -> (usize, usize) {
        (self.cells.len(), self.rows().len() * Fault::ALL.len())
    }

    /// Each deed and state that ever met.
    fn rows(&self) -> Vec<(Deed, Option<State>)> {
        let mut met: Vec<_> = self.cells.keys().map(|(deed, state, _)| (*deed, *state)).collect();
        met.dedup();
        met
    }

    /// A table of (deed and state) by fault, with a dot where nothing was ever reached, and those cells
    /// by name.
    pub fn table(&self) -> String {
        let mut text = format!("{:<19}", "");
        for fault in Fault::ALL {
            text += &format!(" {:>7.7}", format!("{fault:?}"));
        }
        let mut missing = Vec::new();
        for (deed, state) in self.rows() {
            let row = row_name(deed, state);
            text += &format!("\n{row:<19}");
            for fault in Fault::ALL {
                let n = self.cells.get(&(deed, state, fault));
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

    /// The cells that were reached, by name.
    pub fn named_cells(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        self.cells.iter().map(|((deed, state, fault), n)| {
            (format!("{} × {fault:?}", row_name(*deed, *state)), *n)
        })
    }

    /// How often each of the moments was met.
    pub fn moments(&self) -> impl Iterator<Item = (Sometimes, u64)> + '_ {
        Sometimes::ALL
            .into_iter()
            .map(|what| (what, self.sometimes.get(&what).copied().unwrap_or_default()))
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
        writeln!(f, "{hit} of {all} cells (deed × state of its job × fault)")?;
        self.moments().try_for_each(|(what, n)| writeln!(f, "{n:>9}  {what:?}"))
    }
}

fn row_name(deed: Deed, state: Option<State>) -> String {
    state.map_or_else(|| format!("{deed:?} -"), |state| format!("{deed:?} {state:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_counted_against_all_faults_of_what_ever_met() {
        let mut coverage = Coverage::default();
        coverage.hit(Deed::Push, None, Fault::Nothing);
        coverage.hit(Deed::Push, None, Fault::Kill);
        coverage.hit(Deed::Report, Some(State::Running), Fault::Kill);
        assert_eq!(coverage.cells(), (3, 2 * Fault::ALL.len()));
        let mut sum = Coverage::default();
        sum.add(&coverage);
        sum.add(&coverage);
        assert_eq!(sum.cells(), coverage.cells());
    }

    #[test]
    fn the_table_names_what_was_never_reached() {
        let mut coverage = Coverage::default();
        coverage.hit(Deed::Report, Some(State::Running), Fault::Kill);
        let table = coverage.table();
        assert!(table.contains("1 of 19 cells reached"), "{table}");
        assert!(table.contains("Report Running × SyncOnce"), "{table}");
        assert!(!table.contains("Report Running × Kill,"), "{table}");
    }

    #[test]
    fn what_never_happened_is_named() {
        let mut coverage = Coverage::default();
        coverage.happened(Sometimes::GaveUp);
        let never = coverage.never(&[Sometimes::GaveUp, Sometimes::FileUsedAgain]);
        assert_eq!(never, [Sometimes::FileUsedAgain]);
    }
}
