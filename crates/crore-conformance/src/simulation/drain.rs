//! The end of a run: heals all faults, runs every job to its end, reopens the store and dumps its contents.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crore_core::machine::{JobEvent, Outcome, Report};
use crore_core::version::{KindVersions, Version};
use crore_core::{Clock, Span, State};
use crore_store::Error;
use crore_store::jobs::{Claim, QueueOrder};
use crore_store::registry::{Define, RegistryTable};
use crore_store::views::ListQuery;
use crore_testkit::history::op::{self, AdminAction};
use crore_testkit::history::response::{RecordedDelivery, RecordedReport};
use crore_testkit::history::{NodeObservation, RecordedOp, RecordedResponse};

use super::config::Generation;
use super::contents::StoreContents;
use super::context::{CallerLink, name};
use super::event_loop::{CallerId, SimEventLoop};
use super::faults::COMPACT_TURNS;
use super::process::{NODE, ProcessEnd};
use super::pusher::{self, recorded_push};
use super::settle::{SettleResult, settle};
use super::{admin, events, upkeep};

/// After this many rounds of an hour each, no job may be left.
const MAX_ROUNDS: usize = 60;

impl SimEventLoop<'_> {
    /// Heals, drains, reopens and dumps.
    pub(super) fn finish(&mut self) {
        self.heal();
        self.complete_in_flight();
        // A call may have been refused before the disk had space, and receive that response only now.
        self.context().is_healed = true;
        if self.node.is_none() {
            return;
        }
        self.drain();
        self.check_wake_up();
        if self.context().gave_up {
            self.context().violation("the store gave up on a healthy disk".to_owned());
        }
        self.delete_ended();
        self.commit_all();
        let Some(before) = self.read_store() else { return };
        if self.subject.survives_crash() {
            let how = self.lossless_end();
            self.end(how);
            self.open();
            self.compare(&before);
            // Ids must continue where they were, even if the log dropped the records.
            if let Some(link) = self.link(CallerId::Drain) {
                self.run("a last push", pusher::push_one(link.clone()));
                self.run("the last work", run_ready_jobs(link));
            }
        }
        if let Some(contents) = self.read_store() {
            self.context().recorder.node(NODE, NodeObservation::Dump(contents.dump()));
        }
    }

    fn heal(&mut self) {
        self.context().still_until = 0;
        self.free_disk();
        self.disk.heal();
        // A store that only ran out of space continues, and must notice that there is space again.
        if self.broken || self.context().gave_up {
            self.end(ProcessEnd::Kill);
        }
        self.context().config.faults = super::fault_odds::FaultOdds::default();
        if self.node.is_none() {
            self.open();
        }
        // A store notices free space by trying: its keeper does so each second.
        self.compact(COMPACT_TURNS);
    }

    /// Completes all operations in flight.
    fn complete_in_flight(&mut self) {
        for _ in 0..1000 {
            if self.in_flight.is_empty() {
                return;
            }
            if !self.commit() && !self.is_any_woken() {
                self.time_out_waiters();
            }
            self.poll_all();
        }
        let n = self.in_flight.len();
        self.context().violation(format!("{n} operations never completed"));
    }

    pub(super) fn run(&mut self, what: &str, task: impl Future<Output = ()> + 'static) {
        if !self.complete(Box::pin(task)) {
            self.context().violation(format!("never completed: {what}"));
        }
    }

    fn drain(&mut self) {
        let Some(link) = self.link(CallerId::Drain) else { return };
        self.run("lifting restrictions", lift_restrictions(link.clone()));
        self.run("a push after healing", pusher::push_one(link.clone()));
        for _ in 0..MAX_ROUNDS {
            let round = link.clone();
            self.run("a round", run_ready_jobs(round));
            self.compact(50);
            self.run("cancelling", cancel(link.clone()));
            if self.is_empty() {
                return;
            }
            self.context().advance(Span::from_secs(3600));
        }
        let contents = self.read_store().unwrap_or_default();
        let left = contents.jobs.into_values().filter(|job| !job.live.state.has_ended());
        let left: Vec<_> = left.map(|job| (job.id, job.live.state)).collect();
        self.context().violation(format!("after {MAX_ROUNDS} rounds jobs are left: {left:?}"));
    }

    /// In some runs all ended jobs are deleted and the log drops them: a store without jobs must still know
    /// which ids were used.
    fn delete_ended(&mut self) {
        let is_first = self.context().config.generation == Generation::First;
        if is_first || !self.context().rng.one_in(4) {
            return;
        }
        let Some(link) = self.link(CallerId::Drain) else { return };
        self.run("deleting", delete_all(link));
        for _ in 0..COMPACT_TURNS {
            self.commit_all();
            if !self.compact_once() {
                return;
            }
        }
    }

    fn is_empty(&mut self) -> bool {
        let Some(link) = self.link(CallerId::Drain) else { return true };
        let empty = Rc::new(Cell::new(false));
        let into = Rc::clone(&empty);
        self.run("counting", async move {
            match link.store.counts(None).await {
                Ok(counts) => into.set(counts.iter().all(|count| count.state.has_ended())),
                Err(error) => link.store_failed(&error),
            }
        });
        empty.get()
    }

    /// Reads the whole store, and records inconsistencies.
    pub(super) fn read_store(&mut self) -> Option<StoreContents> {
        let link = self.link(CallerId::Drain)?;
        let slot = Rc::new(RefCell::new(None));
        let into = Rc::clone(&slot);
        let done = self.complete(Box::pin(async move {
            let read = StoreContents::read(&*link.store).await;
            *into.borrow_mut() = Some(read);
        }));
        match slot.take() {
            Some(Ok(contents)) => {
                contents.faults.iter().for_each(|fault| self.context().violation(fault.clone()));
                Some(contents)
            }
            // An engine writes when it is opened, which fails on a full disk.
            Some(Err(Error::Poisoned)) if self.failed && self.subject.has_engine() => {
                self.context().gave_up = true;
                None
            }
            Some(Err(error)) => {
                self.context().violation(format!("cannot read the store: {error:?}"));
                None
            }
            None => {
                self.context().violation(format!("reading the store did not complete ({done})"));
                None
            }
        }
    }

    /// Checks the consistency of the store after it was opened.
    pub(super) fn check_contents(&mut self) {
        if let Some(contents) = self.read_store() {
            let mut context = self.context();
            context.knowledge.now = contents.now;
            context.trace_line(
                "store",
                format_args!("has {:?} at {:?}", contents.counts, contents.now),
            );
        }
    }
}

/// Removes everything that holds jobs back: limits, pauses, open groups, and schedules that push more.
async fn lift_restrictions(link: CallerLink) {
    for (table, name) in [
        (RegistryTable::Limits, name("l0")),
        (RegistryTable::Limits, name("l1")),
        (RegistryTable::Schedules, name("s0")),
        (RegistryTable::Schedules, name("s1")),
    ] {
        admin::define(&link, Define::remove(table, name)).await;
    }
    let queues = link.context().queues();
    for queue in queues {
        admin::define(&link, Define::remove(RegistryTable::Queues, queue)).await;
    }
    let groups = link.context().knowledge.groups.clone();
    for group in groups {
        if let Err(error) = link.seal(group).await {
            link.store_failed(&error);
        }
    }
}

/// Runs the upkeep that is due: promotes jobs, and ends deliveries whose lease has expired.
async fn run_due_upkeep(link: &CallerLink) {
    let Some(engine) = &link.engine else {
        let upkeep = async {
            events::release(link, 1000).await?;
            upkeep::promote(link, 1000).await?;
            upkeep::expire_leases(link, 1000).await
        };
        return upkeep.await.unwrap_or_else(|error| link.store_failed(&error));
    };
    // An engine knows by itself what upkeep is due, and when.
    for _ in 0..1000 {
        if engine.upkeep_at() > link.context().clock.now() {
            return;
        }
        upkeep::turn(link.clone()).await;
    }
    link.context().violation("upkeep is always due".to_owned());
}

/// Runs every job that can run, to success.
pub(super) async fn run_ready_jobs(link: CallerLink) {
    run_due_upkeep(&link).await;
    loop {
        let queues = link.context().queues();
        let (order, n) = (QueueOrder::Merged, 20);
        // Satisfies every requirement of `pusher`.
        let newest = Version::new([2, 0, 0])
            .map(|newest| link.context().kinds().into_iter().map(|kind| (kind, newest)).collect());
        let versions: KindVersions = newest.unwrap_or_default();
        let request = Claim {
            queues: queues.clone(),
            kinds: None,
            versions: versions.clone(),
            n,
            order,
            worker: name("drain"),
        };
        let call = link.call(RecordedOp::Fetch { queues, kinds: None, versions, n, strict: false });
        let (now, jobs) = match link.fetch(request, Span::ZERO).await {
            Ok(fetched) => fetched,
            Err(error) => return call.failed(&error),
        };
        call.ok(now, RecordedResponse::Fetched(jobs.iter().map(RecordedDelivery::of).collect()));
        jobs.iter().for_each(|job| events::check_event(&mut link.context(), job));
        if jobs.is_empty() {
            return;
        }
        for job in jobs {
            let (id, delivery) = (job.id, Some(job.live.delivery));
            let outcome = op::RecordedOutcome::Done { result: None };
            let (on_done, on_dead) = (Vec::new(), Vec::new());
            let call = link.call(RecordedOp::Report { id, delivery, outcome, on_done, on_dead });
            let report = Report::from(Outcome::Done { result: None });
            match settle(&link, id, Some(job), &JobEvent::Finished { delivery, report }).await {
                Ok(verdict) => drop(call.ok(None, RecordedResponse::Reported(reported(verdict)))),
                Err(error) => call.failed(&error),
            }
        }
    }
}

fn reported(verdict: SettleResult) -> RecordedReport {
    match verdict {
        SettleResult::Applied { pushed, .. } => {
            RecordedReport::Accepted(pushed.into_iter().map(recorded_push).collect())
        }
        SettleResult::Refused(_) => RecordedReport::Stale,
        SettleResult::Unknown => RecordedReport::Unknown,
    }
}

/// Deletes every ended job.
async fn delete_all(link: CallerLink) {
    for state in State::ALL.into_iter().filter(|state| state.has_ended()) {
        let query =
            ListQuery { state, queue: None, kind: None, key: None, after: None, n: usize::MAX };
        match link.store.list(query).await {
            Ok(page) => {
                for job in page.jobs {
                    admin::change(&link, job.id, AdminAction::Delete).await;
                }
            }
            Err(error) => return link.store_failed(&error),
        }
    }
}

/// If only waiting jobs are left, they depend on dead jobs, which an operator could retry at any time:
/// cancels them.
async fn cancel(link: CallerLink) {
    let counts = link.store.counts(None).await.unwrap_or_default();
    if counts.iter().any(|count| !count.state.has_ended() && count.state != State::Waiting) {
        return;
    }
    let (state, n) = (State::Waiting, usize::MAX);
    let query = ListQuery { state, queue: None, kind: None, key: None, after: None, n };
    match link.store.list(query).await {
        Ok(page) => {
            for job in page.jobs {
                events::check_not_owed(&mut link.context(), &job);
                admin::change(&link, job.id, AdminAction::Cancel).await;
            }
        }
        Err(error) => link.store_failed(&error),
    }
}
