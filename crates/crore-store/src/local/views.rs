//! Views: get, list, counts, notes, stats.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Bound;
use std::sync::Arc;

use crore_core::{IndexKey, Job, JobId, Name, Span, State, Time};

use super::lanes::QueueRow;
use super::records::JobRecords;
use super::sorted_run::RunSlot;
use super::{LocalIndex, SeriesSnapshot};
use crate::Error;
use crate::bug::planted;
use crate::jobs::JobSelector;
use crate::views::{
    Cursor, HeldBack, JobCount, JobNotes, JobStatsQuery, ListPage, ListQuery, Note, PausedKey,
    RequiredVersion, ShareCount, StatStep,
};

/// A merge of sorted iterators: the next item of each, smallest first.
type ListMerge<'a> = BinaryHeap<Reverse<(ListPosition, usize)>>;

/// A position in a list; the smaller one comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ListPosition {
    Ascending(i32, RunSlot),
    Descending(Reverse<RunSlot>),
}

impl<R: JobRecords> LocalIndex<R> {
    pub(crate) fn get(&self, which: &[JobSelector], now: Time) -> Result<Vec<Option<Job>>, Error> {
        let found = |which: &JobSelector| match which {
            JobSelector::Id(id) => self.visible(*id, now),
            JobSelector::Client(client) => {
                self.keys.client(client).map_or(Ok(None), |id| self.visible(id, now))
            }
        };
        let one = |which| {
            let mut job = found(which)?;
            job.iter_mut().for_each(|job| self.events.attach(job));
            Ok(job)
        };
        which.iter().map(one).collect()
    }

    pub(crate) fn holders(&self, keys: &[Arc<str>], now: Time) -> Vec<Option<JobId>> {
        keys.iter().map(|key| self.keys.holder(key, now)).collect()
    }

    /// A job without its result if the result has expired.
    fn visible(&self, id: JobId, now: Time) -> Result<Option<Job>, Error> {
        Ok(self.load(id)?.map(|mut record| {
            let early = Span::from_millis(if planted!("bug-35") { 10_000 } else { 0 });
            record.job.live.result.take_if(|kept| kept.until <= now.after(early));
            record.job
        }))
    }

    pub(crate) fn list(&self, query: &ListQuery, now: Time) -> Result<ListPage, Error> {
        let mut runs: Vec<Box<dyn Iterator<Item = ListPosition> + '_>> = Vec::new();
        if let Some(key) = query.key {
            for partition in self.partitions_of(query) {
                runs.push(self.keyed_run(partition, key, query));
            }
        } else if query.state == State::Running {
            self.running_of(query, &mut runs);
        } else {
            for partition in self.partitions_of(query) {
                self.runs_of(partition, query, &mut runs);
            }
        }
        let mut merge: ListMerge<'_> = BinaryHeap::new();
        for (nth, run) in runs.iter_mut().enumerate() {
            merge.extend(run.next().map(|position| Reverse((position, nth))));
        }
        let mut positions = Vec::new();
        while positions.len() < query.n
            && let Some(Reverse((position, nth))) = merge.pop()
        {
            positions.push(position);
            let next = runs.get_mut(nth).and_then(Iterator::next);
            merge.extend(next.map(|position| Reverse((position, nth))));
        }
        let next = if merge.is_empty() { None } else { positions.last().map(ListPosition::cursor) };
        let jobs = positions.iter().map(|position| self.visible(position.cursor().id, now));
        let jobs = jobs.filter_map(Result::transpose).collect::<Result<_, _>>()?;
        Ok(ListPage { jobs, next })
    }

    fn partitions_of(&self, query: &ListQuery) -> Vec<u32> {
        let partitions = self.queues_of(query).into_iter().flat_map(|queue| {
            let partitions = self.lanes.queues.at(queue).all_partitions();
            let all = query.kind.is_none();
            partitions.filter(move |(kind, _)| all || Some(*kind) == query.kind.as_ref())
        });
        partitions.map(|(_, partition)| partition).collect()
    }

    /// Adds the runs of a partition for the queried state, from the cursor on.
    fn runs_of<'a>(
        &'a self,
        partition: u32,
        query: &ListQuery,
        runs: &mut Vec<Box<dyn Iterator<Item = ListPosition> + 'a>>,
    ) {
        let partition = self.lanes.partitions.at(partition);
        let after = query.after;
        let slot = after.map(|cursor| RunSlot { at: cursor.at, id: cursor.id });
        let Some(run) = partition.run(query.state) else {
            for lane in &partition.lanes {
                for (priority, run) in self.lanes.lanes.at(*lane).ready.runs() {
                    let from = match after {
                        Some(cursor) if cursor.priority > priority => continue,
                        Some(cursor) if cursor.priority == priority => slot,
                        _ => None,
                    };
                    let positions = run
                        .iter_after(from)
                        .map(move |slot| ListPosition::Ascending(priority, slot));
                    runs.push(Box::new(positions));
                }
            }
            let from = after.zip(slot).map(|(cursor, slot)| (cursor.priority, slot));
            let from = from.map_or(Bound::Unbounded, Bound::Excluded);
            let hidden = partition.hidden.range((from, Bound::Unbounded));
            runs.push(Box::new(hidden.map(|(priority, s)| ListPosition::Ascending(*priority, *s))));
            return;
        };
        if query.state.has_ended() {
            runs.push(Box::new(
                run.iter_before(slot).map(|s| ListPosition::Descending(Reverse(s))),
            ));
        } else {
            runs.push(Box::new(run.iter_after(slot).map(|s| ListPosition::Ascending(0, s))));
        }
    }

    /// The jobs of a partition under a key, from the cursor on.
    fn keyed_run<'a>(
        &'a self,
        partition: u32,
        key: IndexKey,
        query: &ListQuery,
    ) -> Box<dyn Iterator<Item = ListPosition> + 'a> {
        let slot = |cursor: Cursor| RunSlot { at: cursor.at, id: cursor.id };
        let after = query.after.map(|cursor| (cursor.priority, slot(cursor)));
        let has_ended = query.state.has_ended();
        let found = self.lanes.partitions.at(partition).keys.list(key, query.state, after);
        Box::new(found.map(move |(priority, slot)| match has_ended {
            true => ListPosition::Descending(Reverse(slot)),
            false => ListPosition::Ascending(priority, slot),
        }))
    }

    /// Adds the running jobs of each queried queue. There are only as many as workers hold, so
    /// their kinds are looked up one by one.
    fn running_of<'a>(
        &'a self,
        query: &'a ListQuery,
        runs: &mut Vec<Box<dyn Iterator<Item = ListPosition> + 'a>>,
    ) {
        let slot = query.after.map(|cursor| RunSlot { at: cursor.at, id: cursor.id });
        let of_kind = move |id: JobId| {
            let Some(kind) = &query.kind else { return true };
            self.load(id).is_ok_and(|record| record.is_some_and(|r| r.job.spec.kind == *kind))
        };
        for queue in self.queues_of(query) {
            let running = self.lanes.queues.at(queue).running.iter_after(slot);
            let positions =
                running.filter(move |slot| of_kind(slot.id)).map(|s| ListPosition::Ascending(0, s));
            runs.push(Box::new(positions));
        }
    }

    fn queues_of(&self, query: &ListQuery) -> Vec<u32> {
        match &query.queue {
            Some(name) => self.lanes.queue(name).into_iter().collect(),
            None => self.lanes.queues.iter().map(|(number, _)| number).collect(),
        }
    }

    pub(crate) fn counts(&self, queue: Option<&Name>) -> Vec<JobCount> {
        let mut counts: Vec<JobCount> = Vec::new();
        for row in self.queue_rows(queue) {
            let mut of_kinds: BTreeMap<(&Name, State), u64> = BTreeMap::new();
            for (kind, partition) in row.all_partitions() {
                let partition = self.lanes.partitions.at(partition);
                for state in State::ALL {
                    *of_kinds.entry((kind, state)).or_default() += partition.count(state) as u64;
                }
            }
            let counted = of_kinds.into_iter().filter(|(_, n)| *n > 0);
            counts.extend(counted.map(|((kind, state), n)| JobCount {
                queue: row.name.clone(),
                kind: kind.clone(),
                state,
                n,
            }));
        }
        counts.sort();
        counts
    }

    pub(crate) fn paused_keys(&self, limit: Option<&Name>, n: usize, now: Time) -> Vec<PausedKey> {
        let mut paused = self.lanes.permits.paused(limit, now);
        paused.truncate(n);
        paused
    }

    pub(crate) fn held_back(&self, queue: Option<&Name>, n: usize, now: Time) -> Vec<HeldBack> {
        self.lanes.held_back(queue, n, now)
    }

    pub(crate) fn oldest_ready(&self, queues: &[Name]) -> Vec<Option<Time>> {
        queues.iter().map(|queue| self.lanes.oldest_ready(queue)).collect()
    }

    pub(crate) fn largest_shares(&self, queue: &Name, n: usize) -> Result<Vec<ShareCount>, Error> {
        let mut shares = Vec::new();
        for (first, weight, ready) in self.lanes.largest_shares(queue, n) {
            // A share has only the hash of its key; each of its jobs has the key.
            let key = self.load(first)?.and_then(|record| record.job.spec.fair.clone());
            shares.extend(key.map(|key| ShareCount { key, weight, ready }));
        }
        Ok(shares)
    }

    pub(crate) fn required_versions(&self, queue: Option<&Name>) -> Vec<RequiredVersion> {
        let mut counts = Vec::new();
        for row in self.queue_rows(queue) {
            for (kind, all) in &row.versioned {
                counts.extend(all.iter().filter_map(|(version, partition)| {
                    let n = self.lanes.partitions.at(*partition).count(State::Ready) as u64;
                    let (queue, kind) = (row.name.clone(), kind.clone());
                    (n > 0).then_some(RequiredVersion { queue, kind, version: *version, n })
                }));
            }
        }
        counts.sort();
        counts
    }

    fn queue_rows(&self, queue: Option<&Name>) -> impl Iterator<Item = &QueueRow> {
        let all = self.lanes.queues.iter().map(|(_, row)| row);
        all.filter(move |row| queue.is_none_or(|name| row.name == *name))
    }

    pub(crate) fn note(&mut self, notes: &[Note], now: Time) -> Result<usize, Error> {
        let mut kept = 0;
        for note in notes {
            match note {
                Note::Stat { series, n } => self.notes.stat(series, *n, now),
                Note::Jobs { series, stats } => self.series.note(series.as_ref(), stats, now),
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
                        Note::Stat { .. } | Note::Jobs { .. } => {}
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

    pub(crate) fn stats(&self, series: &Name, step: StatStep, now: Time) -> Vec<(Time, u64)> {
        self.notes.stats(series, step, now)
    }

    pub(crate) fn job_stats(&self, query: &JobStatsQuery, now: Time) -> SeriesSnapshot {
        self.series.select(query, now)
    }
}

impl ListPosition {
    const fn cursor(&self) -> Cursor {
        match self {
            Self::Ascending(priority, slot) => {
                Cursor { priority: *priority, at: slot.at, id: slot.id }
            }
            Self::Descending(Reverse(slot)) => Cursor { priority: 0, at: slot.at, id: slot.id },
        }
    }
}
