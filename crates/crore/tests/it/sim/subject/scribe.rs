//! A store that passes everything on, and writes down what the engine does by itself: what it defines,
//! which ticks of schedules it accounts for, and what it does for a program. Some of them tell a lie.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crore::store::jobs::{
    Applied, Claim, Claimed, Jobs, Pushed, Pushes, Renew, Renewed, Which, Write,
};
use crore::store::registry::{Define, Defined, Entry, Registry, Table};
use crore::store::upkeep::{Lapses, Lead, Promoted, Pruned, Upkeep};
use crore::store::views::{Count, JobNotes, Note, Page, Query, Step, Views};
use crore::store::{Answer, Committed, Error, Store, WakeHook};
use crore_conformance::simulation::meaning;
use crore_core::group::Group;
use crore_core::{Batch, Encoding, GroupId, Job, JobId, Name, NewJob, Payload, Span, Time};
use crore_testkit::history::op::{self, Item, When};
use crore_testkit::history::{self, Hash, Op, Pending, Recorder, answer};

use super::Lie;
use super::deadlines::{Asked, Deadlines};
use super::desk::{self, Desk};
use super::ear::Ear;
use super::interference::Interference;

/// Who the engine is, in the history.
const WHO: &str = "engine";

/// Passes everything on.
#[derive(Debug)]
pub(super) struct Scribe {
    pub(super) store: Arc<dyn Store>,
    pub(super) recorder: Arc<Recorder>,
    /// How many jobs came of ticks, in this process and those before.
    pub(super) ticked: Arc<AtomicU64>,
    pub(super) deadlines: Arc<Deadlines>,
    pub(super) interference: Arc<Interference>,
    pub(super) ear: Arc<Ear>,
    pub(super) desk: Arc<Desk>,
    /// The jobs that this engine has met.
    pub(super) known: Mutex<HashSet<JobId>>,
    pub(super) lie: Lie,
}

impl Scribe {
    /// A call of the engine.
    fn counted<'a, T: 'a>(
        &'a self,
        call: impl Future<Output = Result<T, Error>> + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(self.deadlines.count(call))
    }

    /// An answer of the store to a look or a claim, perhaps late. Those to writes are not: the history's
    /// checker takes a change that others have seen for one that is answered.
    async fn late<T>(&self, call: Answer<'_, T>) -> Result<T, Error> {
        let answer = call.await;
        self.interference.delay().await;
        answer
    }

    /// The engine meets jobs, of which perhaps no caller has heard.
    fn met<'a>(&self, jobs: impl Iterator<Item = &'a Job>) {
        let mut known = self.known.lock().expect("no panic");
        let new = jobs.filter(|job| known.insert(job.id));
        let new: Vec<_> = new.map(|job| (job.id, Hash::of(&job.spec.payload))).collect();
        if !new.is_empty() {
            let call = self.recorder.invoke(WHO, Op::List);
            self.recorder.ok(call, None, history::Answer::Listed(new));
        }
    }

    /// Writes down what begins. The jobs of a tick get payloads by which they can be told apart.
    fn begin(&self, write: &mut Write) -> Option<Begun> {
        match write {
            Write::Tick { schedule, cursor, push, .. } => {
                Some(Begun::Tick(self.begin_tick(schedule, *cursor, push)))
            }
            Write::Job(change) => self.desk.writes(change).map(Begun::Program),
            Write::Seal(_) => None,
        }
    }

    fn begin_tick(&self, schedule: &Name, cursor: Time, push: &mut [NewJob]) -> Pending {
        let mut items = Vec::new();
        let mut fire = Vec::new();
        for job in push {
            let n = self.ticked.fetch_add(1, Ordering::Relaxed);
            job.spec.payload = Payload::new(Encoding::Bytes, format!("tick {n}").into_bytes());
            items.push(Item::of(n, job));
            fire.push(match job.due {
                When::At(tick) => tick,
                other => panic!("a tick is an instant, not {other:?}"),
            });
        }
        let schedule = schedule.clone();
        self.recorder.invoke(WHO, Op::Tick { schedule, cursor, fire, items })
    }

    fn end(&self, call: Option<Begun>, applied: &Applied) {
        match call {
            None => {}
            Some(Begun::Program(call)) => self.desk.written(call, applied),
            Some(Begun::Tick(call)) => {
                let ticked = match applied {
                    Applied::Yes(pushed) => Some(pushed.iter().copied().map(told).collect()),
                    Applied::Stale => None,
                };
                self.recorder.ok(call, None, history::Answer::Ticked(ticked));
            }
        }
    }
}

/// The jobs that are in doubt until these writes are answered.
fn changed(writes: &[Write]) -> Asked {
    let ids = writes.iter().filter_map(|write| match write {
        Write::Job(change) => Some(change.id),
        _ => None,
    });
    Asked::Changes(ids.collect())
}

/// A write that was written down.
enum Begun {
    Tick(Pending),
    Program(desk::Call),
}

pub(super) const fn told(pushed: Pushed) -> answer::Pushed {
    match pushed {
        Pushed::New(id) => answer::Pushed::New(id),
        Pushed::Duplicate(id) => answer::Pushed::Duplicate(id),
        Pushed::Broken(_) | Pushed::BrokenBy(_) => answer::Pushed::Broken,
    }
}

impl Jobs for Scribe {
    fn push(&self, batch: Batch) -> Answer<'_, Committed<Pushes>> {
        self.counted(async move {
            let pushes = self.store.push(batch).await?;
            self.ear.stored(&pushes.get().jobs, self.lie);
            Ok(pushes)
        })
    }

    fn claim(&self, ask: Claim) -> Answer<'_, Claimed> {
        self.counted(async move {
            let call = self.desk.claims(&ask);
            let asked = self.deadlines.asks(Asked::Claim);
            let claimed = self.late(self.store.claim(ask)).await?;
            asked.heard();
            self.desk.claimed(call, &claimed);
            self.ear.started(&claimed.jobs, self.lie);
            Ok(claimed)
        })
    }

    fn renew(&self, leases: Vec<Renew>) -> Answer<'_, Vec<Renewed>> {
        if self.lie != Lie::RenewalsAreIgnored {
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

    fn apply(&self, mut writes: Vec<Write>) -> Answer<'_, Committed<Vec<Applied>>> {
        self.counted(async move {
            let calls: Vec<_> = writes.iter_mut().map(|write| self.begin(write)).collect();
            let asked = self.deadlines.asks(changed(&writes));
            self.interference.outdate(&mut writes);
            let applied = self.store.apply(writes.clone()).await?;
            asked.heard();
            for (write, one) in writes.iter().zip(applied.get()) {
                self.ear.written(write, one, self.lie);
            }
            calls.into_iter().zip(applied.get()).for_each(|(call, one)| self.end(call, one));
            Ok(applied)
        })
    }

    fn get(&self, which: Vec<Which>) -> Answer<'_, Vec<Option<Job>>> {
        self.counted(async move {
            let jobs = self.late(self.store.get(which.clone())).await?;
            self.met(jobs.iter().flatten());
            for (which, job) in which.iter().zip(&jobs) {
                if let Which::Id(id) = which {
                    self.ear.looked(*id, job.as_ref());
                    self.deadlines.looked_at(*id);
                }
            }
            Ok(jobs)
        })
    }

    fn holders(&self, keys: Vec<Arc<str>>) -> Answer<'_, Vec<Option<JobId>>> {
        self.counted(self.store.holders(keys))
    }
}

impl Upkeep for Scribe {
    fn promote(&self, n: usize) -> Answer<'_, Promoted> {
        self.counted(self.store.promote(n))
    }

    fn lapsed(&self, n: usize) -> Answer<'_, Lapses> {
        self.counted(async move {
            let lapses = self.late(self.store.lapsed(n)).await?;
            self.deadlines.looked_at_leases();
            self.met(lapses.lapsed.iter().chain(&lapses.broken));
            Ok(lapses)
        })
    }

    fn prune(&self, n: usize) -> Answer<'_, Pruned> {
        self.counted(self.store.prune(n))
    }

    fn lead(&self, duty: Name, node: u64, span: Span) -> Answer<'_, Lead> {
        self.counted(self.store.lead(duty, node, span))
    }
}

impl Views for Scribe {
    fn note(&self, notes: Vec<Note>) -> Answer<'_, usize> {
        self.counted(self.store.note(notes))
    }

    fn notes(&self, id: JobId) -> Answer<'_, JobNotes> {
        self.counted(self.late(self.store.notes(id)))
    }

    fn list(&self, query: Query) -> Answer<'_, Page> {
        self.counted(async move {
            let page = self.late(self.store.list(query)).await?;
            self.met(page.jobs.iter());
            Ok(page)
        })
    }

    fn counts(&self, queue: Option<Name>) -> Answer<'_, Vec<Count>> {
        self.counted(self.late(self.store.counts(queue)))
    }

    fn stats(&self, series: Name, step: Step) -> Answer<'_, Vec<(Time, u64)>> {
        self.counted(self.late(self.store.stats(series, step)))
    }
}

impl Registry for Scribe {
    fn define(&self, definitions: Vec<Define>) -> Answer<'_, Committed<Vec<Defined>>> {
        let entry = |define: &Define| op::Entry {
            name: define.name.clone(),
            to: meaning(define),
            expires_after: define.expires_after,
        };
        self.counted(async move {
            let entries = definitions.iter().map(entry).collect();
            let call = self.recorder.invoke(WHO, Op::Define { entries });
            let defined = self.store.define(definitions).await?;
            let written = defined.get().iter().map(|one| matches!(one, Defined::Yes(_))).collect();
            self.recorder.ok(call, None, history::Answer::Defined(written));
            Ok(defined)
        })
    }

    fn entries(&self, table: Table, after: Option<Name>, n: usize) -> Answer<'_, Vec<Entry>> {
        self.counted(self.late(self.store.entries(table, after, n)))
    }

    fn group(&self, id: GroupId) -> Answer<'_, Option<Group>> {
        self.counted(self.late(self.store.group(id)))
    }
}

impl Store for Scribe {
    fn wakes(&self, hook: WakeHook) {
        if self.lie != Lie::NobodyIsWoken {
            self.store.wakes(hook);
        }
    }
}
