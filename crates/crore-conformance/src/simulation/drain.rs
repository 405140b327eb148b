//! The end of a run: the faults are healed, every job comes to its end, the store is opened once
//! more, and all that is in it is written down.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crore_core::machine::{Event, Outcome, Report};
use crore_core::{Clock, Span, State};
use crore_store::Error;
use crore_store::jobs::{Claim, Order};
use crore_store::registry::{Define, Table};
use crore_store::views::Query;
use crore_testkit::history::answer::{Granted, Reported};
use crore_testkit::history::op::{self, Want};
use crore_testkit::history::{Answer, Node, Op};

use super::config::Generation;
use super::faults::TIDY;
use super::life::{End, NODE};
use super::pusher::{self, told};
use super::scene::{Link, name};
use super::settle::{Verdict, settle};
use super::whole::Whole;
use super::world::{Caller, World};
use super::{admin, upkeep};

/// After so many rounds of an hour each nothing may be left to do.
const ROUNDS: usize = 60;

impl World<'_> {
    /// Heals, empties, opens anew and writes down.
    pub(super) fn finish(&mut self) {
        self.heal();
        self.settle_all();
        // A call may have been refused before the disk had room, and its caller may hear of that only now.
        self.scene().is_healed = true;
        if self.node.is_none() {
            return;
        }
        self.drain();
        self.wake_somebody();
        if self.scene().gave_up {
            self.scene().wrong("the store gave up, and its disk was well".to_owned());
        }
        self.sweep_out();
        self.commit_all();
        let Some(before) = self.look() else { return };
        if self.subject.survives() {
            let how = self.some_end();
            self.end(how);
            self.open();
            self.compare(&before);
            // Numbers go on where they were, whatever the log has forgotten.
            if let Some(link) = self.link(Caller::Drain) {
                self.run("a last push", pusher::push_one(link.clone()));
                self.run("the last work", work_off(link));
            }
        }
        if let Some(whole) = self.look() {
            self.scene().recorder.node(NODE, Node::Dump(whole.dump()));
        }
    }

    fn heal(&mut self) {
        self.scene().still_until = 0;
        self.free();
        self.disk.heal();
        // A store that only had no room goes on, and has to learn that there is some again.
        if self.broken || self.scene().gave_up {
            self.end(End::Kill);
        }
        self.scene().config.faults = super::odds::Faults::default();
        if self.node.is_none() {
            self.open();
        }
        // There is room again, which a store learns by trying: its keeper does so each second.
        self.keep_on(TIDY);
    }

    /// What is under way comes to its end.
    fn settle_all(&mut self) {
        for _ in 0..1000 {
            if self.under_way.is_empty() {
                return;
            }
            if !self.commit() && !self.is_anybody_woken() {
                self.let_sleepers_end();
            }
            self.poll_all();
        }
        let n = self.under_way.len();
        self.scene().wrong(format!("{n} operations never came to an end"));
    }

    pub(super) fn run(&mut self, what: &str, task: impl Future<Output = ()> + 'static) {
        if !self.complete(Box::pin(task)) {
            self.scene().wrong(format!("never came to an end: {what}"));
        }
    }

    fn drain(&mut self) {
        let Some(link) = self.link(Caller::Drain) else { return };
        self.run("opening up", open_up(link.clone()));
        self.run("a push when all is well", pusher::push_one(link.clone()));
        for _ in 0..ROUNDS {
            let round = link.clone();
            self.run("a round", work_off(round));
            self.keep_on(50);
            self.run("cancelling", cancel(link.clone()));
            if self.is_empty() {
                return;
            }
            self.scene().advance(Span::from_secs(3600));
        }
        let whole = self.look().unwrap_or_default();
        let left = whole.jobs.into_values().filter(|job| !job.live.state.has_ended());
        let left: Vec<_> = left.map(|job| (job.id, job.live.state)).collect();
        self.scene().wrong(format!("after {ROUNDS} rounds there is something left: {left:?}"));
    }

    /// In some runs everything that has ended is deleted and the log forgets it: a store without any job
    /// still knows which numbers were given out.
    fn sweep_out(&mut self) {
        let is_first = self.scene().config.generation == Generation::First;
        if is_first || !self.scene().dice.one_in(4) {
            return;
        }
        let Some(link) = self.link(Caller::Drain) else { return };
        self.run("deleting", delete_all(link));
        for _ in 0..TIDY {
            self.commit_all();
            if !self.keep() {
                return;
            }
        }
    }

    fn is_empty(&mut self) -> bool {
        let Some(link) = self.link(Caller::Drain) else { return true };
        let empty = Rc::new(Cell::new(false));
        let into = Rc::clone(&empty);
        self.run("counting", async move {
            match link.store.counts(None).await {
                Ok(counts) => into.set(counts.iter().all(|count| count.state.has_ended())),
                Err(error) => link.could_not(&error),
            }
        });
        empty.get()
    }

    /// Reads the whole store, and says what does not fit together.
    pub(super) fn look(&mut self) -> Option<Whole> {
        let link = self.link(Caller::Drain)?;
        let slot = Rc::new(RefCell::new(None));
        let into = Rc::clone(&slot);
        let done = self.complete(Box::pin(async move {
            let read = Whole::read(&*link.store).await;
            *into.borrow_mut() = Some(read);
        }));
        match slot.take() {
            Some(Ok(whole)) => {
                whole.faults.iter().for_each(|fault| self.scene().wrong(fault.clone()));
                Some(whole)
            }
            // A front writes when it is opened, and cannot on a disk without room.
            Some(Err(Error::Poisoned)) if self.failed && self.subject.has_front() => {
                self.scene().gave_up = true;
                None
            }
            Some(Err(error)) => {
                self.scene().wrong(format!("cannot be read: {error:?}"));
                None
            }
            None => {
                self.scene().wrong(format!("cannot be read to its end ({done})"));
                None
            }
        }
    }

    /// After an opening everything must fit together.
    pub(super) fn look_over(&mut self) {
        if let Some(whole) = self.look() {
            let mut scene = self.scene();
            scene.known.now = whole.now;
            scene.say("store", format_args!("has {:?} at {:?}", whole.counts, whole.now));
        }
    }
}

/// Nothing holds jobs back any more: no limit, no pause, no open group, no schedule that brings more.
async fn open_up(link: Link) {
    for (table, name) in [
        (Table::Limits, name("l0")),
        (Table::Limits, name("l1")),
        (Table::Schedules, name("s0")),
        (Table::Schedules, name("s1")),
    ] {
        admin::define(&link, Define::remove(table, name)).await;
    }
    let queues = link.scene().queues();
    for queue in queues {
        admin::define(&link, Define::remove(Table::Queues, queue)).await;
    }
    let groups = link.scene().known.groups.clone();
    for group in groups {
        if let Err(error) = link.seal(group).await {
            link.could_not(&error);
        }
    }
}

/// What is due is made ready, and what has lapsed is taken back.
async fn keep_up(link: &Link) {
    let Some(front) = &link.front else {
        let upkeep = async {
            upkeep::promote(link, 1000).await?;
            upkeep::rescue(link, 1000).await
        };
        return upkeep.await.unwrap_or_else(|error| link.could_not(&error));
    };
    // It knows by itself what there is to do, and when.
    for _ in 0..1000 {
        if front.upkeep_at() > link.scene().clock.now() {
            return;
        }
        upkeep::turn(link.clone()).await;
    }
    link.scene().wrong("there is always something to keep up".to_owned());
}

/// Everything that can run runs, and is done.
pub(super) async fn work_off(link: Link) {
    keep_up(&link).await;
    loop {
        let queues = link.scene().queues();
        let (order, n) = (Order::Merged, 20);
        let ask = Claim { queues: queues.clone(), kinds: None, n, order, worker: name("drain") };
        let call = link.call(Op::Fetch { queues, kinds: None, n, strict: false });
        let (now, jobs) = match link.fetch(ask, Span::ZERO).await {
            Ok(fetched) => fetched,
            Err(error) => return call.failed(&error),
        };
        call.ok(now, Answer::Fetched(jobs.iter().map(Granted::of).collect()));
        if jobs.is_empty() {
            return;
        }
        for job in jobs {
            let (id, delivery) = (job.id, Some(job.live.delivery));
            let outcome = op::Outcome::Done { result: None };
            let (on_done, on_dead) = (Vec::new(), Vec::new());
            let call = link.call(Op::Report { id, delivery, outcome, on_done, on_dead });
            let report = Report::from(Outcome::Done { result: None });
            match settle(&link, id, Some(job), &Event::Finished { delivery, report }).await {
                Ok(verdict) => drop(call.ok(None, Answer::Reported(reported(verdict)))),
                Err(error) => call.failed(&error),
            }
        }
    }
}

fn reported(verdict: Verdict) -> Reported {
    match verdict {
        Verdict::Applied { pushed, .. } => {
            Reported::Accepted(pushed.into_iter().map(told).collect())
        }
        Verdict::Refused(_) => Reported::Stale,
        Verdict::Unknown => Reported::Unknown,
    }
}

/// Deletes everything that has ended.
async fn delete_all(link: Link) {
    for state in State::ALL.into_iter().filter(|state| state.has_ended()) {
        let query = Query { state, queue: None, kind: None, after: None, n: usize::MAX };
        match link.store.list(query).await {
            Ok(page) => {
                for job in page.jobs {
                    admin::change(&link, job.id, Want::Delete).await;
                }
            }
            Err(error) => return link.could_not(&error),
        }
    }
}

/// When nothing is left but jobs that wait, they wait for what is dead, and may be retried by hand for
/// ever: they are cancelled.
async fn cancel(link: Link) {
    let counts = link.store.counts(None).await.unwrap_or_default();
    if counts.iter().any(|count| !count.state.has_ended() && count.state != State::Waiting) {
        return;
    }
    let (state, n) = (State::Waiting, usize::MAX);
    let query = Query { state, queue: None, kind: None, after: None, n };
    match link.store.list(query).await {
        Ok(page) => {
            for job in page.jobs {
                admin::change(&link, job.id, Want::Cancel).await;
            }
        }
        Err(error) => link.could_not(&error),
    }
}
