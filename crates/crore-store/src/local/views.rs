//! Views: get, list, counts, notes, stats.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crore_core::{Job, JobId, Name, Span, State, Time};

use super::Local;
use super::records::Records;
use super::run::Slot;
use crate::Error;
use crate::bug::planted;
use crate::jobs::Which;
use crate::views::{Count, Cursor, JobNotes, Note, Page, Query, Step};

/// A merge of sorted iterators: the next of each, best first.
type Merge<'a> = BinaryHeap<Reverse<(Place, usize)>>;

/// A place in a list, such that smaller comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Up(i32, Slot),
    Down(Reverse<Slot>),
}

impl<R: Records> Local<R> {
    pub(crate) fn get(&self, which: &[Which], now: Time) -> Result<Vec<Option<Job>>, Error> {
        let one = |which: &Which| match which {
            Which::Id(id) => self.visible(*id, now),
            Which::Client(client) => {
                self.keys.client(client).map_or(Ok(None), |id| self.visible(id, now))
            }
        };
        which.iter().map(one).collect()
    }

    pub(crate) fn holders(&self, keys: &[Arc<str>], now: Time) -> Vec<Option<JobId>> {
        keys.iter().map(|key| self.keys.holder(key, now)).collect()
    }

    /// A job as it may be seen now.
    fn visible(&self, id: JobId, now: Time) -> Result<Option<Job>, Error> {
        Ok(self.load(id)?.map(|mut record| {
            let early = Span::from_millis(if planted!("bug-35") { 10_000 } else { 0 });
            record.job.live.result.take_if(|kept| kept.until <= now.after(early));
            record.job
        }))
    }

    pub(crate) fn list(&self, query: &Query, now: Time) -> Result<Page, Error> {
        let mut runs: Vec<Box<dyn Iterator<Item = Place> + '_>> = Vec::new();
        if query.state == State::Running {
            self.running_of(query, &mut runs);
        } else {
            for desk in self.desks_of(query) {
                self.runs_of(desk, query, &mut runs);
            }
        }
        let mut merge: Merge<'_> = BinaryHeap::new();
        for (nth, run) in runs.iter_mut().enumerate() {
            merge.extend(run.next().map(|place| Reverse((place, nth))));
        }
        let mut places = Vec::new();
        while places.len() < query.n
            && let Some(Reverse((place, nth))) = merge.pop()
        {
            places.push(place);
            let next = runs.get_mut(nth).and_then(Iterator::next);
            merge.extend(next.map(|place| Reverse((place, nth))));
        }
        let next = if merge.is_empty() { None } else { places.last().map(Place::cursor) };
        let jobs = places.iter().map(|place| self.visible(place.cursor().id, now));
        let jobs = jobs.filter_map(Result::transpose).collect::<Result<_, _>>()?;
        Ok(Page { jobs, next })
    }

    fn desks_of(&self, query: &Query) -> Vec<u32> {
        let desks = self.queues_of(query).into_iter().flat_map(|queue| {
            let desks = &self.lanes.queues.at(queue).desks;
            let all = query.kind.is_none();
            desks.iter().filter(move |(kind, _)| all || Some(*kind) == query.kind.as_ref())
        });
        desks.map(|(_, desk)| *desk).collect()
    }

    /// The runs of a desk in which the state's jobs stand, from the query's cursor on.
    fn runs_of<'a>(
        &'a self,
        desk: u32,
        query: &Query,
        runs: &mut Vec<Box<dyn Iterator<Item = Place> + 'a>>,
    ) {
        let desk = self.lanes.desks.at(desk);
        let after = query.after;
        let slot = after.map(|cursor| Slot { at: cursor.at, id: cursor.id });
        let Some(run) = desk.run(query.state) else {
            for lane in &desk.lanes {
                for (priority, run) in self.lanes.lanes.at(*lane).ready.runs() {
                    let from = match after {
                        Some(cursor) if cursor.priority > priority => continue,
                        Some(cursor) if cursor.priority == priority => slot,
                        _ => None,
                    };
                    let places = run.iter_after(from).map(move |slot| Place::Up(priority, slot));
                    runs.push(Box::new(places));
                }
            }
            return;
        };
        if query.state.has_ended() {
            runs.push(Box::new(run.iter_before(slot).map(|s| Place::Down(Reverse(s)))));
        } else {
            runs.push(Box::new(run.iter_after(slot).map(|s| Place::Up(0, s))));
        }
    }

    /// The running jobs of each queue that is asked for. There are only as many as workers hold, so
    /// their kind is looked up one by one.
    fn running_of<'a>(
        &'a self,
        query: &'a Query,
        runs: &mut Vec<Box<dyn Iterator<Item = Place> + 'a>>,
    ) {
        let slot = query.after.map(|cursor| Slot { at: cursor.at, id: cursor.id });
        let of_kind = move |id: JobId| {
            let Some(kind) = &query.kind else { return true };
            self.load(id).is_ok_and(|record| record.is_some_and(|r| r.job.spec.kind == *kind))
        };
        for queue in self.queues_of(query) {
            let running = self.lanes.queues.at(queue).running.iter_after(slot);
            let places = running.filter(move |slot| of_kind(slot.id)).map(|s| Place::Up(0, s));
            runs.push(Box::new(places));
        }
    }

    fn queues_of(&self, query: &Query) -> Vec<u32> {
        match &query.queue {
            Some(name) => self.lanes.queue(name).into_iter().collect(),
            None => self.lanes.queues.iter().map(|(no, _)| no).collect(),
        }
    }

    pub(crate) fn counts(&self, queue: Option<&Name>) -> Vec<Count> {
        let mut counts = Vec::new();
        let all = self.lanes.queues.iter().map(|(_, row)| row);
        for row in all.filter(|row| queue.is_none_or(|name| row.name == *name)) {
            for (kind, desk) in &row.desks {
                let desk = self.lanes.desks.at(*desk);
                counts.extend(State::ALL.iter().filter_map(|state| {
                    let n = desk.count(*state) as u64;
                    let (queue, kind) = (row.name.clone(), kind.clone());
                    (n > 0).then_some(Count { queue, kind, state: *state, n })
                }));
            }
        }
        counts.sort();
        counts
    }

    pub(crate) fn note(&mut self, notes: &[Note], now: Time) -> Result<usize, Error> {
        let mut kept = 0;
        for note in notes {
            match note {
                Note::Stat { series, n } => self.notes.stat(series, *n, now),
                Note::Progress { id, delivery, .. } | Note::Line { id, delivery, .. } => {
                    let holds = |job: &Job| {
                        job.live.state == State::Running && job.live.delivery == *delivery
                    };
                    if !self.load(*id)?.is_some_and(|record| holds(&record.job)) {
                        continue;
                    }
                    match note {
                        Note::Progress { percent, text, .. } => {
                            self.notes.progress(*id, now, *percent, text);
                        }
                        Note::Line { text, .. } => self.notes.line(*id, now, text),
                        Note::Stat { .. } => {}
                    }
                }
            }
            kept += 1;
        }
        Ok(kept)
    }

    pub(crate) fn notes(&self, id: JobId) -> JobNotes {
        self.notes.of(id)
    }

    pub(crate) fn stats(&self, series: &Name, step: Step, now: Time) -> Vec<(Time, u64)> {
        self.notes.stats(series, step, now)
    }
}

impl Place {
    const fn cursor(&self) -> Cursor {
        match self {
            Self::Up(priority, slot) => Cursor { priority: *priority, at: slot.at, id: slot.id },
            Self::Down(Reverse(slot)) => Cursor { priority: 0, at: slot.at, id: slot.id },
        }
    }
}
