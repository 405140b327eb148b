//! Sources: every item that a caller asked to push, and the job it became.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crore_core::{JobId, Name, Time};

use super::call::{EffectCertainty, HistoryMoment, RecordedCall};
use crate::history::op::{RecordedItem, RecordedOutcome};
use crate::history::response::{RecordedPush, RecordedReport};
use crate::history::{PayloadHash, RecordedOp, RecordedResponse};

/// The operation that pushed an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PushOrigin<'h> {
    /// A push.
    Push,
    /// A report: the n-th follow-up of this job.
    Child(JobId, u32),
    /// The missed deadline of the job that the item at this index among all sources became.
    Expiry(usize),
    /// A tick of a schedule.
    Tick(&'h Name, Option<Time>),
}

/// The result of a push, as its caller knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PushFate {
    /// Stored as this job.
    New(JobId),
    /// Not stored, because its key belongs to this job.
    Duplicate(JobId),
    /// Not stored.
    Refused,
    Unknown,
}

/// One item that a caller asked to push.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PushSource<'h> {
    /// Index of the call.
    pub(crate) call: usize,
    pub(crate) item: &'h RecordedItem,
    pub(crate) origin: PushOrigin<'h>,
    pub(crate) fate: PushFate,
    pub(crate) p: &'h Arc<str>,
    pub(crate) begun: HistoryMoment,
    /// When the call was answered, if it was.
    pub(crate) answered: Option<HistoryMoment>,
    /// The job that it became, as acknowledged or as recognized by its payload.
    pub(crate) id: Option<JobId>,
}

/// All sources of a history, indexed.
#[derive(Debug, Default)]
pub(crate) struct PushSources<'h> {
    pub(crate) all: Vec<PushSource<'h>>,
    pub(crate) by_id: BTreeMap<JobId, usize>,
    by_payload: HashMap<PayloadHash, Vec<usize>>,
    /// Ids that were given to two items.
    pub(crate) duplicate_ids: Vec<(JobId, usize, usize)>,
}

impl<'h> PushSources<'h> {
    /// Records the items of a call, if it has any.
    pub(crate) fn note(&mut self, index: usize, call: &RecordedCall<'h>) {
        match call.op {
            RecordedOp::Push { items, .. } => {
                let answers = match call.response() {
                    Some((RecordedResponse::Pushed { items, .. }, _)) => Some(items.as_slice()),
                    _ => None,
                };
                self.add((index, call), items, answers, |_| PushOrigin::Push);
            }
            RecordedOp::Tick { schedule, fire, items, .. } => {
                let answers = match call.response() {
                    Some((RecordedResponse::Ticked(ticked), _)) => ticked.as_deref(),
                    _ => None,
                };
                let origin = |n: usize| PushOrigin::Tick(schedule, fire.get(n).copied());
                self.add((index, call), items, answers, origin);
            }
            RecordedOp::Report { id, outcome, on_done, on_dead, .. } => {
                let answers = match call.response() {
                    Some((RecordedResponse::Reported(RecordedReport::Accepted(items)), _)) => {
                        Some(items)
                    }
                    _ => None,
                };
                let items = match outcome {
                    RecordedOutcome::Done { .. } => on_done,
                    RecordedOutcome::Failed { .. } => on_dead,
                    RecordedOutcome::Snooze(_)
                    | RecordedOutcome::Cancel
                    | RecordedOutcome::Interrupted => return,
                };
                let origin =
                    |n: usize| PushOrigin::Child(*id, u32::try_from(n).unwrap_or(u32::MAX));
                self.add((index, call), items, answers.map(Vec::as_slice), origin);
            }
            RecordedOp::Fetch { .. }
            | RecordedOp::Renew { .. }
            | RecordedOp::Admin { .. }
            | RecordedOp::Notice { .. }
            | RecordedOp::TakeResult { .. }
            | RecordedOp::Get { .. }
            | RecordedOp::Define { .. }
            | RecordedOp::List
            | RecordedOp::Counts => {}
        }
    }

    fn add(
        &mut self,
        (index, call): (usize, &RecordedCall<'h>),
        items: &'h [RecordedItem],
        answers: Option<&'h [RecordedPush]>,
        origin: impl Fn(usize) -> PushOrigin<'h>,
    ) {
        for (n, item) in items.iter().enumerate() {
            let fate = match (call.had_effect(), answers.map(|answers| answers.get(n))) {
                (_, Some(Some(RecordedPush::New(id)))) => PushFate::New(*id),
                (_, Some(Some(RecordedPush::Duplicate(id)))) => PushFate::Duplicate(*id),
                (_, Some(Some(RecordedPush::Broken))) | (EffectCertainty::No, _) => {
                    PushFate::Refused
                }
                (EffectCertainty::Yes | EffectCertainty::Perhaps, _) => PushFate::Unknown,
            };
            let at = self.all.len();
            let id = if let PushFate::New(id) = fate { Some(id) } else { None };
            if let Some(id) = id
                && let Some(first) = self.by_id.insert(id, at)
            {
                self.duplicate_ids.push((id, first, at));
            }
            self.by_payload.entry(item.payload).or_default().push(at);
            let answered = call.response().map(|(_, at)| at);
            let (p, begun, origin) = (call.p, call.begun, origin(n));
            self.all.push(PushSource { call: index, item, origin, fate, p, begun, answered, id });
            self.add_expiry(at);
        }
    }

    /// Records the follow-up for the missed deadline of a source. No response names it.
    fn add_expiry(&mut self, parent: usize) {
        let source = self.all[parent];
        let Some(item) = source.item.on_expired.as_deref() else { return };
        let fate = match source.fate {
            PushFate::New(_) | PushFate::Unknown => PushFate::Unknown,
            PushFate::Duplicate(_) | PushFate::Refused => PushFate::Refused,
        };
        self.by_payload.entry(item.payload).or_default().push(self.all.len());
        let (origin, answered, id) = (PushOrigin::Expiry(parent), None, None);
        self.all.push(PushSource { item, origin, fate, answered, id, ..source });
    }

    /// Finds the source of a job whose id no response named, by its payload: a source with an unknown result
    /// and no job yet.
    pub(crate) fn recognise(&mut self, id: JobId, payload: PayloadHash) -> Option<usize> {
        let candidates = self.by_payload.get(&payload)?;
        let free =
            |at: &usize| self.all[*at].id.is_none() && self.all[*at].fate == PushFate::Unknown;
        let found = candidates.iter().copied().find(free)?;
        self.all[found].id = Some(id);
        self.by_id.insert(id, found);
        Some(found)
    }

    /// Every source with this payload.
    pub(crate) fn with_payload(
        &self,
        payload: PayloadHash,
    ) -> impl Iterator<Item = &PushSource<'h>> {
        self.by_payload.get(&payload).into_iter().flatten().map(|at| &self.all[*at])
    }

    /// The source of a job.
    pub(crate) fn of(&self, id: JobId) -> Option<&PushSource<'h>> {
        self.by_id.get(&id).map(|at| &self.all[*at])
    }
}
