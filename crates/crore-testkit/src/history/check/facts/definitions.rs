//! Definitions over time.

use std::collections::BTreeMap;

use crore_core::{Name, Span};

use super::call::{EffectCertainty, HistoryMoment, RecordedCall};
use crate::history::op::{DefinitionContent, RecordedQueueSettings};
use crate::history::{RecordedOp, RecordedResponse};

/// One definition of a name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DefinitionVersion<'h> {
    pub(crate) to: &'h DefinitionContent,
    pub(crate) begun: HistoryMoment,
    pub(crate) ended: Option<HistoryMoment>,
    pub(crate) took: EffectCertainty,
    pub(crate) expires_after: Option<Span>,
}

/// Namespace of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DefinitionTable {
    Limits,
    Queues,
    Schedules,
}

/// All definitions that may have been made, sorted by beginning.
#[derive(Debug, Default)]
pub(crate) struct DefinitionHistory<'h> {
    all: BTreeMap<(DefinitionTable, Name), Vec<DefinitionVersion<'h>>>,
}

impl<'h> DefinitionHistory<'h> {
    pub(crate) fn note(&mut self, call: &RecordedCall<'h>) {
        let RecordedOp::Define { entries } = call.op else { return };
        for (n, entry) in entries.iter().enumerate() {
            let took = match call.response() {
                Some((RecordedResponse::Defined(written), _)) => match written.get(n) {
                    Some(true) => EffectCertainty::Yes,
                    _ => EffectCertainty::No,
                },
                _ => call.had_effect(),
            };
            let table = match entry.to {
                DefinitionContent::Limit { .. } | DefinitionContent::NoLimit => {
                    DefinitionTable::Limits
                }
                DefinitionContent::Queue(_) | DefinitionContent::NoQueue => DefinitionTable::Queues,
                DefinitionContent::Schedule { .. } | DefinitionContent::NoSchedule => {
                    DefinitionTable::Schedules
                }
                DefinitionContent::Other => continue,
            };
            if took != EffectCertainty::No {
                let (to, expires_after) = (&entry.to, entry.expires_after);
                let (begun, ended) = (call.begun, call.ended());
                let defined = DefinitionVersion { to, begun, ended, took, expires_after };
                self.all.entry((table, entry.name.clone())).or_default().push(defined);
            }
        }
    }

    /// Every definition of a name that may have been made.
    pub(crate) fn of(&self, table: DefinitionTable, name: &Name) -> &[DefinitionVersion<'h>] {
        self.all.get(&(table, name.clone())).map_or(&[], Vec::as_slice)
    }

    /// The shortest retention that may have been in force for a queue at any time.
    pub(crate) fn retention(&self, queue: &Name) -> RecordedQueueSettings {
        let mut least = RecordedQueueSettings::default();
        for defined in self.of(DefinitionTable::Queues, queue) {
            let DefinitionContent::Queue(settings) = defined.to else { continue };
            least.keep_done = least.keep_done.min(settings.keep_done);
            least.max_done = least.max_done.min(settings.max_done);
            least.keep_dead = least.keep_dead.min(settings.keep_dead);
            least.max_dead = least.max_dead.min(settings.max_dead);
        }
        least
    }

    /// The definitions of a name that may have been in force at some time between two moments. A `None`
    /// entry: possibly no definition.
    pub(crate) fn in_force(
        &self,
        table: DefinitionTable,
        name: &Name,
        from: HistoryMoment,
        to: HistoryMoment,
    ) -> Vec<Option<(usize, DefinitionVersion<'h>)>> {
        let all = self.of(table, name);
        let overwritten = |first: &DefinitionVersion<'h>| {
            first.took == EffectCertainty::Yes
                && first.ended.is_some_and(|ended| {
                    all.iter().any(|later| {
                        later.took == EffectCertainty::Yes
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
            defined.took == EffectCertainty::Yes
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
