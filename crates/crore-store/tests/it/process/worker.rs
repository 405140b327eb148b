//! A worker thread of a child: chooses a random operation, reports it, performs it and reports
//! the answer.

use std::sync::atomic::Ordering;

use crore_core::machine::{
    Change, JobEvent, NextRecord, NextState, Outcome, RetryDirective, decide,
};
use crore_core::version::KindVersions;
use crore_core::{Job, NewJob, Span, State};
use crore_store::jobs::{Applied, Claim, Pushed, QueueOrder, Renew, StoreWrite};
use crore_store::views::ListQuery;
use crore_store::{Error, Jobs, StoreFuture, Upkeep, Views};
use crore_testkit::SeededRng;

use super::child::ChildState;
use super::draft::{DraftKind, QUEUES, Tag, name};
use super::message::{ChildMessage, WriteTarget};
use super::wait::wait;

/// The store has failed; the worker stops.
#[derive(Debug)]
pub(crate) struct StoreFailed;

pub(crate) struct ChildWorker<'a> {
    shared: &'a ChildState,
    dice: SeededRng,
    single: Tag,
    member: Tag,
}

impl<'a> ChildWorker<'a> {
    pub(crate) fn new(shared: &'a ChildState, n: u32) -> Self {
        let round = shared.task.round;
        let dice = SeededRng(shared.task.seed ^ u64::from(n) << 56);
        let (single, member) =
            (Tag::first(round, n, DraftKind::Alone), Tag::first(round, n, DraftKind::Member));
        Self { shared, dice, single, member }
    }

    pub(crate) fn step(&mut self) -> Result<(), StoreFailed> {
        let pushes = self.shared.jobs.load(Ordering::Relaxed) < self.shared.task.max_jobs as i64;
        match self.dice.below(100) {
            0..30 if pushes => self.push(1),
            30..60 if pushes => {
                let n = 2 + self.dice.below(12);
                self.push(n)
            }
            0..80 => self.claim(),
            80..90 => self.run_upkeep(),
            _ => self.delete(),
        }
    }

    /// Waits for an answer; an error ends the worker, except for a full disk.
    fn answer_or_stop<T>(&self, answer: StoreFuture<'_, T>) -> Result<Option<T>, StoreFailed> {
        match wait(answer) {
            Ok(message) => Ok(Some(message)),
            Err(Error::Full { .. }) => Ok(None),
            Err(error) => {
                ChildMessage::GaveUp(format!("{error:?}")).send();
                Err(StoreFailed)
            }
        }
    }

    fn push(&mut self, n: u64) -> Result<(), StoreFailed> {
        let next = if n == 1 { &mut self.single } else { &mut self.member };
        let first = *next;
        *next = first.plus(n);
        let jobs: Vec<NewJob> = (0..n).map(|i| first.plus(i).draft()).collect();
        ChildMessage::Push(first, n).send();
        let Some(pushed) = self.answer_or_stop(self.shared.store.push(jobs.into()))? else {
            ChildMessage::Refused(first).send();
            return Ok(());
        };
        let mut ids = Vec::new();
        for pushed in &pushed.get().jobs {
            let is_new = matches!(pushed, Pushed::New(_));
            ids.extend(pushed.id().map(|id| (id.0, is_new)));
            self.shared.jobs.fetch_add(i64::from(is_new), Ordering::Relaxed);
        }
        ChildMessage::Pushed(first, ids).send();
        Ok(())
    }

    fn claim(&mut self) -> Result<(), StoreFailed> {
        let mut queues = QUEUES.map(name).to_vec();
        queues.truncate(1 + self.dice.below(3) as usize);
        let n = 1 + self.dice.below(6) as usize;
        let ask = Claim {
            queues,
            kinds: None,
            versions: KindVersions::default(),
            n,
            order: QueueOrder::Merged,
            worker: name("hand"),
        };
        let Some(claimed) = self.answer_or_stop(self.shared.store.claim(ask))? else {
            return Ok(());
        };
        for job in &claimed.jobs {
            let live = &job.live;
            ChildMessage::Grant(tag(job), job.id.0, live.delivery.0, live.attempt).send();
            if claimed.now < live.due {
                let early = format!("{:?} is due at {:?}", job.id, live.due);
                ChildMessage::Broken(format!("{early}, and was handed out at {:?}", claimed.now))
                    .send();
            }
        }
        if self.dice.percent(10) {
            let lease = |job: &Job| Renew { id: job.id, delivery: job.live.delivery, span: None };
            let leases = claimed.jobs.iter().map(lease).collect();
            self.answer_or_stop(self.shared.store.renew(leases))?;
        }
        let reports: Vec<_> = claimed.jobs.iter().filter_map(|job| self.report(job)).collect();
        self.write(&reports)
    }

    /// The report on a claimed job; `None` lets its lease lapse.
    fn report(&mut self, job: &Job) -> Option<(Tag, Change)> {
        let outcome = match self.dice.below(100) {
            0..5 => return None,
            5..20 => Outcome::Failed {
                error: "no".into(),
                detail: None,
                again: RetryDirective::ByPolicy,
            },
            20..25 => Outcome::Snooze(Span::from_millis(self.dice.below(30))),
            25..28 => Outcome::Interrupted,
            28..30 => Outcome::Cancel,
            _ => Outcome::Done { result: Some(tag(job).result()) },
        };
        let event =
            JobEvent::Finished { delivery: Some(job.live.delivery), report: outcome.into() };
        Some((tag(job), decide(job, &event, self.dice.next_u64()).ok()?))
    }

    /// Writes changes in one batch or one by one.
    fn write(&mut self, changes: &[(Tag, Change)]) -> Result<(), StoreFailed> {
        let together = if self.dice.percent(50) { changes.len().max(1) } else { 1 };
        for some in changes.chunks(together) {
            let n = some.len() as u64;
            let first = self.shared.writes.fetch_add(n, Ordering::Relaxed);
            for (no, (tag, change)) in (first..).zip(some) {
                ChildMessage::Write(no, *tag, change.seen.delivery.0, write_target(change)).send();
            }
            let writes = some.iter().map(|(_, change)| StoreWrite::Job(change.clone())).collect();
            let Some(applied) = self.answer_or_stop(self.shared.store.apply(writes))? else {
                continue;
            };
            for ((no, applied), (_, change)) in (first..).zip(applied.get()).zip(some) {
                let applied = matches!(applied, Applied::Yes(_));
                let gone = applied && write_target(change) == WriteTarget::Gone;
                self.shared.jobs.fetch_sub(i64::from(gone), Ordering::Relaxed);
                ChildMessage::Wrote(no, applied).send();
            }
        }
        Ok(())
    }

    fn run_upkeep(&mut self) -> Result<(), StoreFailed> {
        self.answer_or_stop(self.shared.store.promote(50))?;
        let Some(lapses) = self.answer_or_stop(self.shared.store.lapsed(20))? else {
            return Ok(());
        };
        let decided = lapses.lapsed.iter().filter_map(|job| {
            let change =
                decide(job, &JobEvent::Lapsed(job.live.delivery), self.dice.next_u64()).ok();
            change.map(|change| (tag(job), change))
        });
        let decided: Vec<_> = decided.collect();
        self.write(&decided)?;
        self.answer_or_stop(self.shared.store.prune(50)).map(drop)
    }

    /// Deletes some ended jobs, and sometimes a ready one.
    fn delete(&mut self) -> Result<(), StoreFailed> {
        let states = [State::Done, State::Done, State::Dead, State::Cancelled, State::Ready];
        let state = states[self.dice.below(5) as usize];
        let n = if state == State::Ready { 1 } else { 8 };
        let query = ListQuery { state, queue: None, kind: None, key: None, after: None, n };
        let Some(page) = self.answer_or_stop(self.shared.store.list(query))? else { return Ok(()) };
        let deleted = page.jobs.iter().filter_map(|job| {
            Some((tag(job), decide(job, &JobEvent::Delete, self.dice.next_u64()).ok()?))
        });
        let deleted: Vec<_> = deleted.collect();
        self.write(&deleted)
    }
}

fn tag(job: &Job) -> Tag {
    Tag::of(job).unwrap_or(Tag(0))
}

pub(crate) fn write_target(change: &Change) -> WriteTarget {
    match &change.next {
        NextRecord::Gone => WriteTarget::Gone,
        NextRecord::Live(next) => match next.state {
            NextState::Pending | NextState::Running => WriteTarget::Live,
            NextState::Done | NextState::Dead | NextState::Cancelled => WriteTarget::Ended,
        },
    }
}
