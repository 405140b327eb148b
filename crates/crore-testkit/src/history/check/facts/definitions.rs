//! Definitions over time: what may have been defined when.

use std::collections::BTreeMap;

use crore_core::{Name, Span};

use super::call::{Call, Moment, Took};
use crate::history::op::{Meaning, Queue};
use crate::history::{Answer, Op};

/// One definition of a name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Defined<'h> {
    pub(crate) to: &'h Meaning,
    pub(crate) begun: Moment,
    pub(crate) ended: Option<Moment>,
    pub(crate) took: Took,
    pub(crate) expires_after: Option<Span>,
}

/// Which names stand for the same sort of thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Table {
    Limits,
    Queues,
    Schedules,
}

/// All definitions that may have been made, in the order of their beginnings.
#[derive(Debug, Default)]
pub(crate) struct Definitions<'h> {
    all: BTreeMap<(Table, Name), Vec<Defined<'h>>>,
}

impl<'h> Definitions<'h> {
    pub(crate) fn note(&mut self, call: &Call<'h>) {
        let Op::Define { entries } = call.op else { return };
        for (n, entry) in entries.iter().enumerate() {
            let took = match call.answer() {
                Some((Answer::Defined(written), _)) => match written.get(n) {
                    Some(true) => Took::Yes,
                    _ => Took::No,
                },
                _ => call.took(),
            };
            let table = match entry.to {
                Meaning::Limit { .. } | Meaning::NoLimit => Table::Limits,
                Meaning::Queue(_) | Meaning::NoQueue => Table::Queues,
                Meaning::Schedule { .. } | Meaning::NoSchedule => Table::Schedules,
                Meaning::Other => continue,
            };
            if took != Took::No {
                let (to, expires_after) = (&entry.to, entry.expires_after);
                let (begun, ended) = (call.begun, call.ended());
                let defined = Defined { to, begun, ended, took, expires_after };
                self.all.entry((table, entry.name.clone())).or_default().push(defined);
            }
        }
    }

    /// Every definition of a name that may have been made.
    pub(crate) fn of(&self, table: Table, name: &Name) -> &[Defined<'h>] {
        self.all.get(&(table, name.clone())).map_or(&[], Vec::as_slice)
    }

    /// The shortest that a queue may have been told to keep its ended jobs at any time.
    pub(crate) fn retention(&self, queue: &Name) -> Queue {
        let mut least = Queue::default();
        for defined in self.of(Table::Queues, queue) {
            let Meaning::Queue(settings) = defined.to else { continue };
            least.keep_done = least.keep_done.min(settings.keep_done);
            least.max_done = least.max_done.min(settings.max_done);
            least.keep_dead = least.keep_dead.min(settings.keep_dead);
            least.max_dead = least.max_dead.min(settings.max_dead);
        }
        least
    }

    /// The definitions of a name that may have been in force at some time between two moments; none
    /// among them: nothing may have been defined.
    pub(crate) fn in_force(
        &self,
        table: Table,
        name: &Name,
        from: Moment,
        to: Moment,
    ) -> Vec<Option<(usize, Defined<'h>)>> {
        let all = self.of(table, name);
        let overwritten = |first: &Defined<'h>| {
            first.took == Took::Yes
                && first.ended.is_some_and(|ended| {
                    all.iter().any(|later| {
                        later.took == Took::Yes
                            && ended.is_before(&later.begun)
                            && later.ended.is_some_and(|ended| ended.is_before(&from))
                    })
                })
        };
        let mut found: Vec<_> = all
            .iter()
            .enumerate()
            .filter(|(_, defined)| defined.begun.is_before(&to) && !overwritten(defined))
            .map(|(n, defined)| Some((n, *defined)))
            .collect();
        let sure = all.iter().any(|defined| {
            defined.took == Took::Yes
                && defined.expires_after.is_none()
                && defined.ended.is_some_and(|ended| ended.is_before(&from))
        });
        let expires = found.iter().flatten().any(|(_, defined)| defined.expires_after.is_some());
        if !sure || expires {
            found.push(None);
        }
        found
    }
}
