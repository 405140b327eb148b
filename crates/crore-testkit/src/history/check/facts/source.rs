//! Sources: every item that somebody asked to push, and the job that came of it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crore_core::{JobId, Name, Time};

use super::call::{Call, Moment, Took};
use crate::history::answer::{Pushed, Reported};
use crate::history::op::{Item, Outcome};
use crate::history::{Answer, Hash, Op};

/// By what a job was to come into being.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin<'h> {
    /// A push.
    Push,
    /// A report: the n-th follow-up of this job.
    Child(JobId, u32),
    /// A tick of a schedule.
    Tick(&'h Name, Option<Time>),
}

/// What its caller knows of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is this job.
    New(JobId),
    /// It is not stored, because its key belongs to this job.
    Duplicate(JobId),
    /// It is not stored.
    Refused,
    /// Nobody knows.
    Unknown,
}

/// One item that somebody asked to push.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'h> {
    /// The call, by its place.
    pub(crate) call: usize,
    pub(crate) item: &'h Item,
    pub(crate) origin: Origin<'h>,
    pub(crate) fate: Fate,
    pub(crate) p: &'h Arc<str>,
    pub(crate) begun: Moment,
    /// When the call was answered, if it was.
    pub(crate) answered: Option<Moment>,
    /// The job that it became: told, or recognised by its payload.
    pub(crate) id: Option<JobId>,
}

/// The sources of a history, and where to find them.
#[derive(Debug, Default)]
pub(crate) struct Sources<'h> {
    pub(crate) all: Vec<Source<'h>>,
    pub(crate) by_id: BTreeMap<JobId, usize>,
    by_payload: HashMap<Hash, Vec<usize>>,
    /// Numbers that were given to two items.
    pub(crate) twice: Vec<(JobId, usize, usize)>,
}

impl<'h> Sources<'h> {
    /// Notes the items of a call, if it has any.
    pub(crate) fn note(&mut self, place: usize, call: &Call<'h>) {
        match call.op {
            Op::Push { items, .. } => {
                let answers = match call.answer() {
                    Some((Answer::Pushed { items, .. }, _)) => Some(items.as_slice()),
                    _ => None,
                };
                self.add((place, call), items, answers, |_| Origin::Push);
            }
            Op::Tick { schedule, fire, items, .. } => {
                let answers = match call.answer() {
                    Some((Answer::Ticked(ticked), _)) => ticked.as_deref(),
                    _ => None,
                };
                let origin = |n: usize| Origin::Tick(schedule, fire.get(n).copied());
                self.add((place, call), items, answers, origin);
            }
            Op::Report { id, outcome, on_done, on_dead, .. } => {
                let answers = match call.answer() {
                    Some((Answer::Reported(Reported::Accepted(items)), _)) => Some(items),
                    _ => None,
                };
                let items = match outcome {
                    Outcome::Done { .. } => on_done,
                    Outcome::Failed { .. } => on_dead,
                    Outcome::Snooze(_) | Outcome::Cancel | Outcome::Interrupted => return,
                };
                let origin = |n: usize| Origin::Child(*id, u32::try_from(n).unwrap_or(u32::MAX));
                self.add((place, call), items, answers.map(Vec::as_slice), origin);
            }
            Op::Fetch { .. }
            | Op::Renew { .. }
            | Op::Admin { .. }
            | Op::Notice { .. }
            | Op::TakeResult { .. }
            | Op::Get { .. }
            | Op::Define { .. }
            | Op::List
            | Op::Counts => {}
        }
    }

    fn add(
        &mut self,
        (place, call): (usize, &Call<'h>),
        items: &'h [Item],
        answers: Option<&'h [Pushed]>,
        origin: impl Fn(usize) -> Origin<'h>,
    ) {
        for (n, item) in items.iter().enumerate() {
            let fate = match (call.took(), answers.map(|answers| answers.get(n))) {
                (_, Some(Some(Pushed::New(id)))) => Fate::New(*id),
                (_, Some(Some(Pushed::Duplicate(id)))) => Fate::Duplicate(*id),
                (_, Some(Some(Pushed::Broken))) | (Took::No, _) => Fate::Refused,
                (Took::Yes | Took::Perhaps, _) => Fate::Unknown,
            };
            let at = self.all.len();
            let id = if let Fate::New(id) = fate { Some(id) } else { None };
            if let Some(id) = id
                && let Some(first) = self.by_id.insert(id, at)
            {
                self.twice.push((id, first, at));
            }
            self.by_payload.entry(item.payload).or_default().push(at);
            let answered = call.answer().map(|(_, at)| at);
            let (p, begun, origin) = (call.p, call.begun, origin(n));
            self.all.push(Source { call: place, item, origin, fate, p, begun, answered, id });
        }
    }

    /// Finds the source of a job that nobody was told of, by its payload: one whose fate is unknown
    /// and that is not taken yet.
    pub(crate) fn recognise(&mut self, id: JobId, payload: Hash) -> Option<usize> {
        let candidates = self.by_payload.get(&payload)?;
        let free = |at: &usize| self.all[*at].id.is_none() && self.all[*at].fate == Fate::Unknown;
        let found = candidates.iter().copied().find(free)?;
        self.all[found].id = Some(id);
        self.by_id.insert(id, found);
        Some(found)
    }

    /// Every source with this payload.
    pub(crate) fn with_payload(&self, payload: Hash) -> impl Iterator<Item = &Source<'h>> {
        self.by_payload.get(&payload).into_iter().flatten().map(|at| &self.all[*at])
    }

    /// The source of a job.
    pub(crate) fn of(&self, id: JobId) -> Option<&Source<'h>> {
        self.by_id.get(&id).map(|at| &self.all[*at])
    }
}
