//! The lifecycle of the store's process: open, drive, end.

use std::sync::Arc;

use crore_testkit::history::{NodeObservation, RecordedFault};

use super::coverage::RareSituation;
use super::event_loop::SimEventLoop;
use super::watched_disk::WatchedDisk;

/// The name of the node in the history.
pub(super) const NODE: &str = "n1";

/// Maximum failures to open in a row: each time the power is cut again, or the disk heals.
const MAX_OPENINGS: usize = 20;

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessEnd {
    /// Killed; written data survives.
    Kill,
    /// Power cut; unsynced data may be lost.
    PowerCut,
    /// Power cut that tears many of the unsynced sectors.
    Torn,
}

impl SimEventLoop<'_> {
    pub(super) fn commit(&mut self) -> bool {
        let Some(node) = &self.node else { return false };
        let turns = self.context().rng.choose([0, 0, 0, 1, 5]);
        if turns > 0 {
            self.disk_conditions.schedule_keeper(Arc::clone(&node.loops), turns);
        }
        let result = node.loops.commit_once();
        self.disk_conditions.cancel_keeper();
        if self.disk_conditions.take_ended() {
            self.context().gave_up = true;
        }
        self.context().loop_turned("commit", &result);
        self.note_disk_full();
        result.unwrap_or(false)
    }

    pub(super) fn compact_once(&mut self) -> bool {
        let Some(node) = &self.node else { return false };
        let result = node.loops.keep_once();
        self.context().loop_turned("keep", &result);
        if self.note_disk_full() {
            self.context().cover_situation(RareSituation::FullDuringCompaction);
        }
        if self.disk_conditions.take_reused() {
            self.context().cover_situation(RareSituation::FileReused);
        }
        result.unwrap_or(false)
    }

    /// Runs keeper turns, until there is nothing to do.
    pub(super) fn compact(&mut self, turns: usize) {
        for _ in 0..turns {
            if !self.compact_once() {
                return;
            }
        }
    }

    /// Notes whether the disk was full. The history does not record it: compaction makes space on a full
    /// disk, and the store may acknowledge writes again.
    fn note_disk_full(&mut self) -> bool {
        let was_full = self.disk_conditions.take_full();
        self.failed |= was_full;
        was_full
    }

    /// Ends the process, and drops all operations in flight.
    pub(super) fn end(&mut self, how: ProcessEnd) {
        let seed = self.context().rng.next_u64();
        let (disk, fault) = match how {
            ProcessEnd::Kill => (self.disk.kill(), RecordedFault::Crash),
            ProcessEnd::PowerCut => (self.disk.crash(seed), RecordedFault::PowerCut),
            ProcessEnd::Torn => (self.disk.tear(seed), RecordedFault::PowerCut),
        };
        {
            let mut context = self.context();
            context.trace_line("store", format_args!("ends: {how:?}"));
            context.recorder.fault(NODE, fault);
            context.gave_up = false;
            let keys = std::mem::take(&mut context.knowledge.keys_in_flight);
            context.knowledge.interrupted_keys.extend(keys);
        }
        self.disk = disk;
        self.node = None;
        self.failed = false;
        self.broken = false;
        self.linger_until = 0;
        // Their callers receive no response.
        self.in_flight.clear();
    }

    /// Opens the store from the disk, repeatedly if the power is cut in the meantime.
    pub(super) fn open(&mut self) {
        for _ in 0..MAX_OPENINGS {
            let cut = self.plan_power_cut();
            let clock = Arc::new(self.context().clock.clone());
            let config = self.context().config.clone();
            let disk = Arc::new(WatchedDisk::new(&self.disk, &self.disk_conditions));
            let opened = self.subject.open(disk, clock, &config);
            self.note_disk_full();
            let died = cut.is_some_and(|at| self.disk.calls() >= at);
            self.disk.crash_at(u64::MAX);
            match opened {
                Ok(node) if !died => {
                    self.node = Some(node);
                    let mut context = self.context();
                    context.recorder.node(NODE, NodeObservation::Opened);
                    context.trace_line("store", format_args!("opened"));
                    drop(context);
                    return self.check_contents();
                }
                _ if died => {
                    self.context().cover_situation(RareSituation::CutWhileOpening);
                    self.end(ProcessEnd::PowerCut);
                }
                Err(error) if self.full_until.is_some() => {
                    self.context().trace_line("store", format_args!("does not open: {error}"));
                    self.free_disk();
                }
                Ok(_) => {}
                Err(error) => {
                    let message = error.to_string();
                    let mut context = self.context();
                    context.violation(format!("the store does not open: {error:?}"));
                    context.recorder.node(NODE, NodeObservation::Refused { message });
                    return;
                }
            }
        }
    }

    /// Draws whether the power is cut while the store opens, and at which call.
    fn plan_power_cut(&self) -> Option<u64> {
        let mut context = self.context();
        let odds = context.config.faults.cut_during_work;
        if odds == 0 || !context.rng.one_in(4) {
            return None;
        }
        let at = self.disk.calls() + context.rng.between(1, 12);
        self.disk.crash_at(at);
        Some(at)
    }
}
