//! The ready jobs of one lane.

use std::collections::BTreeMap;

use super::super::sorted_run::{RunSlot, SortedRun};

/// The ready jobs of a lane by priority. Nearly all lanes have one priority at a time, which is
/// stored inline.
#[derive(Debug, Default)]
pub(crate) struct ReadyJobs {
    /// Priority of `run`; meaningless while the run is empty.
    priority: i32,
    run: SortedRun,
    #[expect(clippy::box_collection, reason = "most lanes have none, and there are many lanes")]
    others: Option<Box<BTreeMap<i32, SortedRun>>>,
}

impl ReadyJobs {
    pub(super) fn insert(&mut self, priority: i32, slot: RunSlot) {
        if self.run.len() == 0 && self.others.is_none() {
            self.priority = priority;
        }
        self.run_mut(priority).insert(slot);
    }

    pub(super) fn remove(&mut self, priority: i32, slot: RunSlot) {
        let run = self.run_mut(priority);
        run.remove(slot);
        if run.len() == 0
            && let Some(others) = &mut self.others
        {
            others.remove(&priority);
            if others.is_empty() {
                self.others = None;
            }
        }
    }

    fn run_mut(&mut self, priority: i32) -> &mut SortedRun {
        if priority == self.priority {
            &mut self.run
        } else {
            self.others.get_or_insert_default().entry(priority).or_default()
        }
    }

    pub(super) fn first(&self) -> Option<(i32, RunSlot)> {
        let one = self.run.first().map(|slot| (self.priority, slot));
        let Some(others) = &self.others else { return one };
        let other = others.iter().next();
        let other = other.and_then(|(priority, run)| Some((*priority, run.first()?)));
        one.into_iter().chain(other).min()
    }

    pub(super) fn len(&self) -> usize {
        self.runs().map(|(_, run)| run.len()).sum()
    }

    pub(crate) fn runs(&self) -> impl Iterator<Item = (i32, &SortedRun)> {
        let others = self.others.iter().flat_map(|others| others.iter());
        let others = others.map(|(priority, run)| (*priority, run));
        std::iter::once((self.priority, &self.run)).chain(others)
    }
}
