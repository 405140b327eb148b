//! A store wrapper that records what the engine does on its own: definitions, ticks of schedules, and the calls of
//! a program. Depending on the injected bug it falsifies some answers.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crore::store::events::{Events, Released, SendResult};
use crore::store::jobs::{
    Applied, Claim, Claimed, JobSelector, Jobs, Pushed, PushedBatch, Renew, Renewed, StoreWrite,
};
use crore::store::registry::{Define, Defined, Registry, RegistryEntry, RegistryTable};
use crore::store::upkeep::{Lapses, Lead, Promoted, Pruned, Upkeep};
use crore::store::views::{
    JobCount, JobNotes, JobStatsQuery, JobStatsRow, ListPage, ListQuery, Note, StatStep, Views,
};
use crore::store::{Committed, Error, Store, StoreFuture, StoreId, WakeHook};
use crore_conformance::simulation::recorded_content;
use crore_core::group::Group;
use crore_core::{
    Batch, Encoding, EventCaps, GroupId, Job, JobId, KeptEvent, Name, NewEvent, NewJob, Payload,
    Span, Time,
};
use crore_testkit::history::op::{self, DueTime, RecordedItem};
use crore_testkit::history::{self, PayloadHash, PendingCall, RecordedOp, Recorder, response};

use super::InjectedBug;
use super::deadlines::{Deadlines, FollowUpCall};
use super::event_checker::EventChecker;
use super::interference::Interference;
use super::program_recorder::{self, ProgramRecorder};

/// The engine's name in the history.
const ENGINE: &str = "engine";

/// Records calls and forwards them to the store.
#[derive(Debug)]
pub(super) struct RecordingStore {
    pub(super) store: Arc<dyn Store>,
    pub(super) recorder: Arc<Recorder>,
    /// The number of jobs pushed by ticks, in this process and those before.
    pub(super) ticked: Arc<AtomicU64>,
    pub(super) deadlines: Arc<Deadlines>,
    pub(super) interference: Arc<Interference>,
    pub(super) event_checker: Arc<EventChecker>,
    pub(super) program_recorder: Arc<ProgramRecorder>,
    /// The jobs that this engine has read.
    pub(super) read_jobs: Mutex<HashSet<JobId>>,
    pub(super) bug: InjectedBug,
}

impl RecordingStore {
    /// Counts a call of the engine until it is answered.
    fn counted<'a, T: 'a>(
        &'a self,
        call: impl Future<Output = Result<T, Error>> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(self.deadlines.count(call))
    }

    /// Delays the answer to a read or a claim sometimes. Answers to writes are not delayed: the checker treats a
    /// change that others have seen as answered.
    async fn delayed<T>(&self, call: StoreFuture<'_, T>) -> Result<T, Error> {
        let answer = call.await;
        self.interference.delay().await;
        answer
    }

    /// Records jobs that the engine reads, since callers may not know of them.
    fn record_read<'a>(&self, jobs: impl Iterator<Item = &'a Job>) {
        let mut known = self.read_jobs.lock().expect("no panic");
        let new = jobs.filter(|job| known.insert(job.id));
        let new: Vec<_> = new.map(|job| (job.id, PayloadHash::of(&job.spec.payload))).collect();
        if !new.is_empty() {
            let call = self.recorder.invoke(ENGINE, RecordedOp::List);
            self.recorder.ok(call, None, history::RecordedResponse::Listed(new));
        }
    }

    /// Records the start of a write. The jobs of a tick get distinct payloads.
    fn begin(&self, write: &mut StoreWrite) -> Option<RecordedWrite> {
        match write {
            StoreWrite::Tick { schedule, cursor, push, .. } => {
                Some(RecordedWrite::Tick(self.begin_tick(schedule, *cursor, push)))
            }
            StoreWrite::Job(change) => {
                self.program_recorder.write_started(change).map(RecordedWrite::Program)
            }
            StoreWrite::Seal(_) | StoreWrite::ResumeKeys { .. } => None,
        }
    }

    fn begin_tick(&self, schedule: &Name, cursor: Time, push: &mut [NewJob]) -> PendingCall {
        let mut items = Vec::new();
        let mut fire = Vec::new();
        for job in push {
            let n = self.ticked.fetch_add(1, Ordering::Relaxed);
            job.spec.payload = Payload::new(Encoding::Bytes, format!("tick {n}").into_bytes());
            items.push(RecordedItem::of(n, job));
            fire.push(match job.due {
                DueTime::At(tick) => tick,
                other => panic!("a tick is an instant, not {other:?}"),
            });
        }
        let schedule = schedule.clone();
        self.recorder.invoke(ENGINE, RecordedOp::Tick { schedule, cursor, fire, items })
    }

    fn end(&self, call: Option<RecordedWrite>, applied: &Applied) {
        match call {
            None => {}
            Some(RecordedWrite::Program(call)) => self.program_recorder.written(call, applied),
            Some(RecordedWrite::Tick(call)) => {
                let ticked = match applied {
                    Applied::Yes(pushed) => {
                        Some(pushed.iter().copied().map(history_pushed).collect())
                    }
                    Applied::Stale => None,
                };
                self.recorder.ok(call, None, history::RecordedResponse::Ticked(ticked));
            }
        }
    }
}

/// The jobs whose changes are unconfirmed until these writes are answered.
fn changed(writes: &[StoreWrite]) -> FollowUpCall {
    let ids = writes.iter().filter_map(|write| match write {
        StoreWrite::Job(change) => Some(change.id),
        _ => None,
    });
    FollowUpCall::Changes(ids.collect())
}

/// A recorded write.
enum RecordedWrite {
    Tick(PendingCall),
    Program(program_recorder::ProgramCall),
}

pub(super) const fn history_pushed(pushed: Pushed) -> response::RecordedPush {
    match pushed {
        Pushed::New(id) => response::RecordedPush::New(id),
        Pushed::Duplicate(id) => response::RecordedPush::Duplicate(id),
        Pushed::Broken(_) | Pushed::Sealed(_) | Pushed::BrokenBy(_) => {
            response::RecordedPush::Broken
        }
    }
}

impl Jobs for RecordingStore {
    fn push(&self, batch: Batch) -> StoreFuture<'_, Committed<PushedBatch>> {
        self.counted(async move {
            let pushes = self.store.push(batch).await?;
            self.event_checker.stored(&pushes.get().jobs, self.bug);
            Ok(pushes)
        })
    }

    fn claim(&self, ask: Claim) -> StoreFuture<'_, Claimed> {
        self.counted(async move {
            let call = self.program_recorder.claim_started(&ask);
            let asked = self.deadlines.start_call(FollowUpCall::Claim);
            let claimed = self.delayed(self.store.claim(ask)).await?;
            asked.answered();
            self.program_recorder.claimed(call, &claimed);
            self.event_checker.started(&claimed.jobs, self.bug);
            Ok(claimed)
        })
    }

    fn renew(&self, leases: Vec<Renew>) -> StoreFuture<'_, Vec<Renewed>> {
        if self.bug != InjectedBug::IgnoredRenewals {
            return self.counted(self.store.renew(leases));
        }
        self.counted(async move {
            let jobs = self.store.get(leases.iter().map(|lease| lease.id.into()).collect()).await?;
            let renewed = leases.iter().zip(jobs).map(|(lease, job)| match job {
                Some(job) if job.live.delivery == lease.delivery => {
                    Renewed::Until { until: job.live.lease_until, stop: job.live.stop }
                }
                _ => Renewed::Stale,
            });
            Ok(renewed.collect())
        })
    }

    fn apply(&self, mut writes: Vec<StoreWrite>) -> StoreFuture<'_, Committed<Vec<Applied>>> {
        self.counted(async move {
            let calls: Vec<_> = writes.iter_mut().map(|write| self.begin(write)).collect();
            let asked = self.deadlines.start_call(changed(&writes));
            self.interference.make_stale(&mut writes);
            let applied = self.store.apply(writes.clone()).await?;
            asked.answered();
            for (write, one) in writes.iter().zip(applied.get()) {
                self.event_checker.written(write, one, self.bug);
            }
            calls.into_iter().zip(applied.get()).for_each(|(call, one)| self.end(call, one));
            Ok(applied)
        })
    }

    fn get(&self, which: Vec<JobSelector>) -> StoreFuture<'_, Vec<Option<Job>>> {
        self.counted(async move {
            let mut jobs = self.delayed(self.store.get(which.clone())).await?;
            if self.bug == InjectedBug::ForgottenReports {
                jobs.iter_mut().flatten().for_each(|job| job.live.history.clear());
            }
            self.record_read(jobs.iter().flatten());
            for (which, job) in which.iter().zip(&jobs) {
                if let JobSelector::Id(id) = which {
                    self.event_checker.job_read(*id, job.as_ref());
                    self.deadlines.job_read(*id);
                }
            }
            Ok(jobs)
        })
    }

    fn holders(&self, keys: Vec<Arc<str>>) -> StoreFuture<'_, Vec<Option<JobId>>> {
        self.counted(self.store.holders(keys))
    }
}

impl Events for RecordingStore {
    fn send(&self, event: NewEvent, caps: EventCaps) -> StoreFuture<'_, Committed<SendResult>> {
        self.counted(self.store.send(event, caps))
    }

    fn release(&self, n: usize) -> StoreFuture<'_, Released> {
        self.counted(self.store.release(n))
    }

    fn event(&self, name: Name) -> StoreFuture<'_, Option<KeptEvent>> {
        self.counted(self.store.event(name))
    }

    fn events(&self, after: Option<Name>, n: usize) -> StoreFuture<'_, Vec<KeptEvent>> {
        self.counted(self.store.events(after, n))
    }

    fn remove_event(&self, name: Name) -> StoreFuture<'_, Committed<bool>> {
        self.counted(self.store.remove_event(name))
    }
}

impl Upkeep for RecordingStore {
    fn promote(&self, n: usize) -> StoreFuture<'_, Promoted> {
        self.counted(self.store.promote(n))
    }

    fn lapsed(&self, n: usize) -> StoreFuture<'_, Lapses> {
        self.counted(async move {
            let lapses = self.delayed(self.store.lapsed(n)).await?;
            self.deadlines.leases_read();
            self.record_read(lapses.lapsed.iter().chain(&lapses.broken));
            Ok(lapses)
        })
    }

    fn prune(&self, n: usize) -> StoreFuture<'_, Pruned> {
        self.counted(self.store.prune(n))
    }

    fn lead(&self, duty: Name, node: u64, span: Span) -> StoreFuture<'_, Lead> {
        self.counted(self.store.lead(duty, node, span))
    }
}

impl Views for RecordingStore {
    fn note(&self, notes: Vec<Note>) -> StoreFuture<'_, usize> {
        self.counted(self.store.note(notes))
    }

    fn notes(&self, id: JobId) -> StoreFuture<'_, JobNotes> {
        self.counted(self.delayed(self.store.notes(id)))
    }

    fn list(&self, query: ListQuery) -> StoreFuture<'_, ListPage> {
        self.counted(async move {
            let page = self.delayed(self.store.list(query)).await?;
            self.record_read(page.jobs.iter());
            Ok(page)
        })
    }

    fn has_index(&self) -> bool {
        self.store.has_index()
    }

    fn counts(&self, queue: Option<Name>) -> StoreFuture<'_, Vec<JobCount>> {
        self.counted(self.delayed(self.store.counts(queue)))
    }

    fn stats(&self, series: Name, step: StatStep) -> StoreFuture<'_, Vec<(Time, u64)>> {
        self.counted(self.delayed(self.store.stats(series, step)))
    }

    fn job_stats(&self, query: JobStatsQuery) -> StoreFuture<'_, Vec<JobStatsRow>> {
        self.counted(self.delayed(self.store.job_stats(query)))
    }
}

impl Registry for RecordingStore {
    fn define(&self, definitions: Vec<Define>) -> StoreFuture<'_, Committed<Vec<Defined>>> {
        let entry = |define: &Define| op::RecordedDefinition {
            name: define.name.clone(),
            to: recorded_content(define),
            expires_after: define.expires_after,
        };
        self.counted(async move {
            let entries = definitions.iter().map(entry).collect();
            let call = self.recorder.invoke(ENGINE, RecordedOp::Define { entries });
            let defined = self.store.define(definitions).await?;
            let written = defined.get().iter().map(|one| matches!(one, Defined::Yes(_))).collect();
            self.recorder.ok(call, None, history::RecordedResponse::Defined(written));
            Ok(defined)
        })
    }

    fn entries(
        &self,
        table: RegistryTable,
        after: Option<Name>,
        n: usize,
    ) -> StoreFuture<'_, Vec<RegistryEntry>> {
        self.counted(self.delayed(self.store.entries(table, after, n)))
    }

    fn group(&self, id: GroupId) -> StoreFuture<'_, Option<Group>> {
        self.counted(self.delayed(self.store.group(id)))
    }
}

impl Store for RecordingStore {
    fn store_id(&self) -> StoreId {
        self.store.store_id()
    }

    fn add_wake_hook(&self, hook: WakeHook) {
        if self.bug != InjectedBug::NoWakeUps {
            self.store.add_wake_hook(hook);
        }
    }
}
