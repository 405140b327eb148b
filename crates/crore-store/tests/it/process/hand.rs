//! One hand of a child: it draws what to do, says it, does it, and says what it was told.

use std::sync::atomic::Ordering;

use crore_core::machine::{Again, Change, Event, Next, NextState, Outcome, decide};
use crore_core::{Job, NewJob, Span, State};
use crore_store::jobs::{Applied, Claim, Order, Pushed, Renew, Write};
use crore_store::views::Query;
use crore_store::{Answer, Error, Jobs, Upkeep, Views};
use crore_testkit::Dice;

use super::child::Shared;
use super::draft::{QUEUES, Sort, Tag, name};
use super::said::{Said, To};
use super::wait::wait;

/// The store has given up, and so does the hand.
#[derive(Debug)]
pub(crate) struct Over;

pub(crate) struct Hand<'a> {
    shared: &'a Shared,
    dice: Dice,
    single: Tag,
    member: Tag,
}

impl<'a> Hand<'a> {
    pub(crate) fn new(shared: &'a Shared, n: u32) -> Self {
        let round = shared.task.round;
        let dice = Dice(shared.task.seed ^ u64::from(n) << 56);
        let (single, member) =
            (Tag::first(round, n, Sort::Alone), Tag::first(round, n, Sort::Member));
        Self { shared, dice, single, member }
    }

    pub(crate) fn step(&mut self) -> Result<(), Over> {
        let pushes = self.shared.jobs.load(Ordering::Relaxed) < self.shared.task.enough as i64;
        match self.dice.below(100) {
            0..30 if pushes => self.push(1),
            30..60 if pushes => {
                let n = 2 + self.dice.below(12);
                self.push(n)
            }
            0..80 => self.claim(),
            80..90 => self.keep_up(),
            _ => self.delete(),
        }
    }

    /// An answer, or the end. What there is no room for is no end.
    fn told<T>(&self, answer: Answer<'_, T>) -> Result<Option<T>, Over> {
        match wait(answer) {
            Ok(told) => Ok(Some(told)),
            Err(Error::Full { .. }) => Ok(None),
            Err(error) => {
                Said::Over(format!("{error:?}")).say();
                Err(Over)
            }
        }
    }

    fn push(&mut self, n: u64) -> Result<(), Over> {
        let next = if n == 1 { &mut self.single } else { &mut self.member };
        let first = *next;
        *next = first.plus(n);
        let jobs: Vec<NewJob> = (0..n).map(|i| first.plus(i).draft()).collect();
        Said::Push(first, n).say();
        let Some(pushed) = self.told(self.shared.store.push(jobs.into()))? else {
            Said::Refused(first).say();
            return Ok(());
        };
        let mut ids = Vec::new();
        for pushed in &pushed.get().jobs {
            let is_new = matches!(pushed, Pushed::New(_));
            ids.extend(pushed.id().map(|id| (id.0, is_new)));
            self.shared.jobs.fetch_add(i64::from(is_new), Ordering::Relaxed);
        }
        Said::Pushed(first, ids).say();
        Ok(())
    }

    fn claim(&mut self) -> Result<(), Over> {
        let mut queues = QUEUES.map(name).to_vec();
        queues.truncate(1 + self.dice.below(3) as usize);
        let n = 1 + self.dice.below(6) as usize;
        let ask = Claim { queues, kinds: None, n, order: Order::Merged, worker: name("hand") };
        let Some(claimed) = self.told(self.shared.store.claim(ask))? else { return Ok(()) };
        for job in &claimed.jobs {
            let live = &job.live;
            Said::Grant(tag(job), job.id.0, live.delivery.0, live.attempt).say();
            if claimed.now < live.due {
                let early = format!("{:?} is due at {:?}", job.id, live.due);
                Said::Broken(format!("{early}, and was handed out at {:?}", claimed.now)).say();
            }
        }
        if self.dice.percent(10) {
            let lease = |job: &Job| Renew { id: job.id, delivery: job.live.delivery, span: None };
            let leases = claimed.jobs.iter().map(lease).collect();
            self.told(self.shared.store.renew(leases))?;
        }
        let reports: Vec<_> = claimed.jobs.iter().filter_map(|job| self.report(job)).collect();
        self.write(&reports)
    }

    /// What becomes of a job that was handed over; nothing, if it is to lapse.
    fn report(&mut self, job: &Job) -> Option<(Tag, Change)> {
        let outcome = match self.dice.below(100) {
            0..5 => return None,
            5..20 => Outcome::Failed { error: "no".into(), detail: None, again: Again::ByPolicy },
            20..25 => Outcome::Snooze(Span::from_millis(self.dice.below(30))),
            25..28 => Outcome::Interrupted,
            28..30 => Outcome::Cancel,
            _ => Outcome::Done { result: Some(tag(job).result()) },
        };
        let event = Event::Finished { delivery: Some(job.live.delivery), report: outcome.into() };
        Some((tag(job), decide(job, &event, self.dice.roll()).ok()?))
    }

    /// Writes changes, together or one by one.
    fn write(&mut self, changes: &[(Tag, Change)]) -> Result<(), Over> {
        let together = if self.dice.percent(50) { changes.len().max(1) } else { 1 };
        for some in changes.chunks(together) {
            let n = some.len() as u64;
            let first = self.shared.writes.fetch_add(n, Ordering::Relaxed);
            for (no, (tag, change)) in (first..).zip(some) {
                Said::Write(no, *tag, change.seen.delivery.0, leads_to(change)).say();
            }
            let writes = some.iter().map(|(_, change)| Write::Job(change.clone())).collect();
            let Some(applied) = self.told(self.shared.store.apply(writes))? else { continue };
            for ((no, applied), (_, change)) in (first..).zip(applied.get()).zip(some) {
                let applied = matches!(applied, Applied::Yes(_));
                let gone = applied && leads_to(change) == To::Gone;
                self.shared.jobs.fetch_sub(i64::from(gone), Ordering::Relaxed);
                Said::Wrote(no, applied).say();
            }
        }
        Ok(())
    }

    fn keep_up(&mut self) -> Result<(), Over> {
        self.told(self.shared.store.promote(50))?;
        let Some(lapses) = self.told(self.shared.store.lapsed(20))? else { return Ok(()) };
        let decided = lapses.lapsed.iter().filter_map(|job| {
            let change = decide(job, &Event::Lapsed(job.live.delivery), self.dice.roll()).ok();
            change.map(|change| (tag(job), change))
        });
        let decided: Vec<_> = decided.collect();
        self.write(&decided)?;
        self.told(self.shared.store.prune(50)).map(drop)
    }

    /// Deletes a few jobs that have ended, and now and then one that waits.
    fn delete(&mut self) -> Result<(), Over> {
        let states = [State::Done, State::Done, State::Dead, State::Cancelled, State::Ready];
        let state = states[self.dice.below(5) as usize];
        let n = if state == State::Ready { 1 } else { 8 };
        let query = Query { state, queue: None, kind: None, after: None, n };
        let Some(page) = self.told(self.shared.store.list(query))? else { return Ok(()) };
        let deleted = page.jobs.iter().filter_map(|job| {
            Some((tag(job), decide(job, &Event::Delete, self.dice.roll()).ok()?))
        });
        let deleted: Vec<_> = deleted.collect();
        self.write(&deleted)
    }
}

fn tag(job: &Job) -> Tag {
    Tag::of(job).unwrap_or(Tag(0))
}

pub(crate) fn leads_to(change: &Change) -> To {
    match &change.next {
        Next::Gone => To::Gone,
        Next::Live(next) => match next.state {
            NextState::Pending | NextState::Running => To::Live,
            NextState::Done | NextState::Dead | NextState::Cancelled => To::Ended,
        },
    }
}
