//! Changes jobs by read, decide and guarded write. A stale write is decided again from the current record.

use std::collections::HashSet;

use crore_core::machine::{
    Change, Effect, EventWaitChange, JobEvent, NextRecord, NextState, Refusal, Settled,
};
use crore_core::{Job, State, Time};
use crore_store::jobs::{Applied, JobSelector, Pushed, StoreWrite};

use crate::bug::planted;
use crate::drop_guard::DropGuard;
use crate::engine::EngineInner;
use crate::error::Error;
use crate::events::{EngineEvent, EventType};
use crate::observer::ObservedChange;
use crate::push::{PushResult, push_result};
use crate::results::EndedJob;
use crate::upkeep::{DueTimes, Duty, RETRY_AFTER};

/// Attempts per job before a change that keeps losing the race is refused as stale.
const MAX_TRIES: usize = 8;

/// Result of a change.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ChangeResult {
    /// Written. The state of the job afterwards (`None`: removed), and its follow-ups.
    Applied { state: Option<State>, pushed: Vec<PushResult> },
    /// Not applied, for this reason. The state of the job, if it is known.
    Refused(Refusal, Option<State>),
    /// The job does not exist.
    NotFound,
}

/// A decision that is about to be written.
struct PendingChange {
    index: usize,
    job: Job,
    change: Change,
}

impl EngineInner {
    /// Decides on events of jobs and writes the decisions in one call, with one result for each. Several events of
    /// one job are applied in order.
    pub(crate) async fn change(
        &self,
        mut requests: Vec<(JobSelector, JobEvent)>,
        decide: impl Fn(&Job, &JobEvent, u64) -> Result<Change, Refusal>,
    ) -> Result<Vec<ChangeResult>, Error> {
        if let Some(decided) = self.change_one(&mut requests, &decide).await? {
            return Ok(vec![decided]);
        }
        let mut results: Vec<Option<ChangeResult>> = vec![None; requests.len()];
        let mut jobs = self.running.take_all(requests.iter().map(|(which, _)| which));
        let mut is_cached: Vec<bool> = jobs.iter().map(Option::is_some).collect();
        for _ in 0..MAX_TRIES {
            self.load_uncached(&requests, &results, &mut jobs).await?;
            let (mut pending, mut decided) = (Vec::with_capacity(requests.len()), HashSet::new());
            for (index, (_, event)) in requests.iter().enumerate() {
                if results[index].is_some() {
                    continue;
                }
                let Some(job) = jobs[index].take() else {
                    results[index] = Some(ChangeResult::NotFound);
                    continue;
                };
                // A second event of the same job is decided after the first is written.
                if decided.contains(&job.id) {
                    continue;
                }
                let random = self.random_bits();
                match decide(&job, event, random) {
                    Ok(change) => {
                        let again = |event: &JobEvent| decide(&job, event, random);
                        let change = self.with_handler_follow_ups(&job, event, change, again);
                        decided.insert(job.id);
                        pending.push(PendingChange { index, job, change });
                    }
                    // The cached job may be outdated: forget it and read it from the store.
                    Err(_) if std::mem::take(&mut is_cached[index]) => self.running.forget(job.id),
                    Err(refusal) => {
                        let refused = ChangeResult::Refused(refusal, Some(job.live.state));
                        results[index] = Some(refused);
                    }
                }
            }
            self.write(pending, &mut results).await?;
            if results.iter().all(Option::is_some) {
                break;
            }
            if planted!("bug-25") {
                requests.iter_mut().for_each(|(_, event)| drop_follow_ups(event));
            }
        }
        let stale = ChangeResult::Refused(Refusal::Stale, None);
        Ok(results.into_iter().map(|result| result.unwrap_or(stale.clone())).collect())
    }

    /// Fast path of nearly every report: one job, cached, and the event applies. `None`: take the general path,
    /// which reads the store.
    async fn change_one(
        &self,
        requests: &mut [(JobSelector, JobEvent)],
        decide: impl Fn(&Job, &JobEvent, u64) -> Result<Change, Refusal>,
    ) -> Result<Option<ChangeResult>, Error> {
        let [(JobSelector::Id(id), event)] = requests else { return Ok(None) };
        let Some(job) = self.running.take(*id) else { return Ok(None) };
        let random = self.random_bits();
        let Ok(change) = decide(&job, event, random) else { return Ok(None) };
        let change =
            self.with_handler_follow_ups(&job, event, change, |event| decide(&job, event, random));
        let mut result = [None];
        self.write(vec![PendingChange { index: 0, job, change }], &mut result).await?;
        let [decided] = result;
        if planted!("bug-25") && decided.is_none() {
            drop_follow_ups(event);
        }
        Ok(decided)
    }

    /// Reads the jobs that are not cached.
    async fn load_uncached(
        &self,
        requests: &[(JobSelector, JobEvent)],
        results: &[Option<ChangeResult>],
        jobs: &mut [Option<Job>],
    ) -> Result<(), Error> {
        let missing: Vec<usize> =
            (0..requests.len()).filter(|n| results[*n].is_none() && jobs[*n].is_none()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let which = missing.iter().map(|n| requests[*n].0.clone()).collect();
        let found = self.store.get(which).await?;
        for (index, job) in missing.into_iter().zip(found) {
            jobs[index] = job;
        }
        Ok(())
    }

    async fn write(
        &self,
        mut pending: Vec<PendingChange>,
        results: &mut [Option<ChangeResult>],
    ) -> Result<(), Error> {
        if pending.is_empty() {
            return Ok(());
        }
        pending.iter_mut().for_each(|pending| self.propagate_trace(pending));
        let writes =
            pending.iter().map(|pending| StoreWrite::Job(pending.change.clone())).collect();
        let guard = DropGuard::new(|| {
            self.mark_unconfirmed(pending.iter().map(|pending| &pending.job), self.now());
        });
        let begun_at = self.now();
        if planted!("bug-22") {
            pending.iter().for_each(|pending| self.notify_early(pending));
        }
        let applied = self.writes.apply(writes).await;
        guard.disarm();
        // After an error, the store is asked again only after a delay.
        let applied = applied.inspect_err(|_| {
            self.mark_unconfirmed(
                pending.iter().map(|pending| &pending.job),
                self.now().after(RETRY_AFTER),
            );
        });
        let applied = applied?;
        let now = self.now();
        self.tally_changes(&pending, &applied, (begun_at, now));
        for (pending, applied) in pending.into_iter().zip(applied) {
            self.running.forget(pending.job.id);
            if let Applied::Yes(pushed) = applied {
                let state = pending.change.state_after(&pending.job, now);
                if state != Some(State::Running) {
                    self.running.remove_timeout(&pending.job);
                }
                self.publish_change(&pending, state, (begun_at, now));
                self.publish_follow_ups(&pending.change, &pushed, (begun_at, now));
                let pushed = pushed.into_iter().map(push_result).collect();
                results[pending.index] = Some(ChangeResult::Applied { state, pushed });
            }
        }
        Ok(())
    }

    /// Follow-ups without a trace context join the trace of their parent.
    fn propagate_trace(&self, pending: &mut PendingChange) {
        for effect in &mut pending.change.effects {
            let Effect::Push(jobs) = effect else { continue };
            let context = match self.observer.get() {
                Some(observer) => observer.trace_of(&pending.job).map(Into::into),
                None => pending.job.spec.trace.clone(),
            };
            for job in jobs.iter_mut().filter(|job| job.spec.trace.is_none()) {
                job.spec.trace.clone_from(&context);
            }
        }
    }

    /// Publishes a durable change: to upkeep, to callers that wait for the job, to the observer and to listeners.
    fn publish_change(
        &self,
        pending: &PendingChange,
        state: Option<State>,
        (begun_at, now): (Time, Time),
    ) {
        let PendingChange { job, change, .. } = pending;
        if state == Some(job.live.state) && is_unseen(job, change) {
            return;
        }
        self.plan_upkeep_for(job, change, state, (begun_at, now));
        let breaks = |effect: &Effect| match effect {
            Effect::Settle(settled) => *settled == Settled::Gone,
            Effect::Tally(tally) => tally.lost,
            _ => false,
        };
        if change.effects.iter().any(breaks) {
            self.plan_duty(Duty::ExpireLeases, now);
        }
        if change.effects.iter().any(|effect| matches!(effect, Effect::Settle(_))) {
            self.plan_promotion_of_released();
        }
        let has_ended = state.is_none_or(State::has_ended);
        if has_ended {
            self.plan_prune_soon(now);
            self.end_waiters.notify(job.id, || EndedJob::of(job, change, state));
        }
        if let Some(observer) = self.observer.get() {
            observer.changed(&ObservedChange::of(job, change, state, (begun_at, now)));
        }
        if self.events.has_listeners() {
            let what = match state {
                None => EventType::Removed,
                Some(State::Running) => EventType::AskedToStop,
                Some(state) => EventType::Became(state),
            };
            let (queue, kind) = (job.spec.queue.clone(), job.spec.kind.clone());
            self.events.publish(&[EngineEvent { id: job.id, queue, kind, what, at: now }]);
        }
    }

    /// `bug-22`: callers that wait for a job are notified of its end before the write.
    fn notify_early(&self, PendingChange { job, change, .. }: &PendingChange) {
        let state = change.state_after(job, self.now());
        if state.is_none_or(State::has_ended) {
            self.end_waiters.notify(job.id, || EndedJob::of(job, change, state));
        }
    }

    /// Plans upkeep for a job that waits now: its promotion, and new limit keys if the limits have changed. A job
    /// whose due time passes between the start of the write and its answer is planned too, since the store may have
    /// stored it as scheduled.
    fn plan_upkeep_for(
        &self,
        job: &Job,
        change: &Change,
        state: Option<State>,
        (begun_at, now): (Time, Time),
    ) {
        let NextRecord::Live(next) = &change.next else { return };
        if next.state != NextState::Pending {
            return;
        }
        if state == Some(State::Waiting) && next.event == EventWaitChange::Restart {
            self.plan_duty(Duty::ExpireLeases, now);
        }
        if next.due.resolve(begun_at, job.live.due) > begun_at {
            match state {
                Some(State::Waiting) => self.note_waiting_dependant(),
                _ => self.plan_duty(Duty::Promote, next.due.resolve(now, job.live.due)),
            }
        }
        let spec = next.spec.as_ref().unwrap_or(&job.spec);
        if !self.limits.has_keys(spec) {
            self.update_limit_keys(std::iter::once(job.id));
        }
    }

    fn publish_follow_ups(
        &self,
        change: &Change,
        pushed: &[Pushed],
        (begun_at, now): (Time, Time),
    ) {
        for effect in &change.effects {
            if let Effect::Push(jobs) = effect {
                self.plan_promotion(DueTimes::of(jobs, begun_at));
                let names = self.push_names(jobs);
                self.publish_pushed((now, now), pushed, &names);
            }
        }
    }

    /// Counts durable changes.
    fn tally_changes(&self, pending: &[PendingChange], applied: &[Applied], times: (Time, Time)) {
        self.tally(|table| {
            for (PendingChange { job, change, .. }, applied) in pending.iter().zip(applied) {
                if matches!(applied, Applied::Yes(_)) {
                    let state = change.state_after(job, times.1);
                    table.changed(&ObservedChange::of(job, change, state, times));
                }
            }
        });
    }
}

/// Whether a change that keeps the state of a job concerns nobody: the result of an ended job was taken, or only index keys
/// were set.
fn is_unseen(job: &Job, change: &Change) -> bool {
    let NextRecord::Live(next) = &change.next else { return false };
    match job.live.state {
        State::Done | State::Dead | State::Cancelled => true,
        State::Running => next.ended.is_none() && next.stop == job.live.stop,
        State::Waiting | State::Scheduled | State::Ready => false,
    }
}

/// `bug-25`: the first decision consumes the follow-ups of a report.
fn drop_follow_ups(event: &mut JobEvent) {
    if let JobEvent::Finished { report, .. } = event {
        report.on_done.clear();
        report.on_dead.clear();
    }
}
