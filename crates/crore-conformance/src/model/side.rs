//! One of the two stores: gives it operations in its own numbers, and answers in normal form.

use crore_core::push::NewGroup;
use crore_core::{Batch, Clock, JobId, Span, Time};
use crore_store::jobs::{Claim, Order, Renew, Which};
use crore_store::registry::{self, Define, Defined};
use crore_store::{Error, Jobs, Registry, Store, Upkeep, Views};
use crore_testkit::FakeClock;

use super::known::Known;
use super::normal::Said;
use super::op::{Back, Definition, Guard, Op, Open, Plan, Word};
use super::shrink::Tally;
use super::words;

/// The parts of a store; the last two only where it is a whole one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) jobs: &'a dyn Jobs,
    pub(super) registry: &'a dyn Registry,
    pub(super) rest: Option<(&'a dyn Upkeep, &'a dyn Views)>,
}

/// All of a store.
pub(super) fn whole<S: Store>(store: &S) -> Parts<'_> {
    Parts { jobs: store, registry: store, rest: Some((store, store)) }
}

/// A store, and what was seen of it.
#[derive(Debug)]
pub(super) struct Side<'a> {
    pub(super) parts: Parts<'a>,
    pub(super) clock: &'a FakeClock,
    pub(super) known: Known,
}

impl<'a> Side<'a> {
    pub(super) fn new(parts: Parts<'a>, clock: &'a FakeClock) -> Self {
        Self { parts, clock, known: Known::default() }
    }

    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Gives the store an operation. An error other than `Invalid` is never an answer here.
    pub(super) async fn run(&mut self, op: &Op) -> Result<Said, Error> {
        match self.answer(op).await {
            Err(Error::Invalid(invalid)) => Ok(Said::Invalid(invalid.code)),
            answer => answer,
        }
    }

    async fn answer(&mut self, op: &Op) -> Result<Said, Error> {
        match op {
            Op::Push { groups, jobs } => self.push(groups, jobs).await,
            Op::Claim { queues, kinds, n, order, worker } => {
                self.claim(queues, kinds.as_deref(), (*n, *order, *worker)).await
            }
            Op::Renew(leases) => self.renew(leases).await,
            Op::Apply(acts) => self.apply(acts).await,
            Op::Define(definitions) => self.define(definitions).await,
            Op::Advance(_) => Ok(Said::Nothing),
            Op::Look => self.look().await,
            Op::Holders => self.holders().await,
            Op::Upkeep(upkeep) => match self.parts.rest {
                Some((store, _)) => self.upkeep(store, upkeep).await,
                None => Ok(Said::Nothing),
            },
            Op::View(view) => match self.parts.rest {
                Some((_, store)) => self.view(store, view).await,
                None => Ok(Said::Nothing),
            },
        }
    }

    async fn push(&mut self, groups: &[Open], jobs: &[Plan]) -> Result<Said, Error> {
        let batch = Batch {
            groups: groups.iter().map(|open| NewGroup { open: *open == Open::Yes }).collect(),
            jobs: self.known.new_jobs(jobs, groups.len()),
        };
        let pushes = self.parts.jobs.push(batch).await?.into_inner();
        Ok(self.known.pushes(pushes))
    }

    async fn claim(
        &mut self,
        queues: &[Word],
        kinds: Option<&[Word]>,
        (n, order, worker): (usize, Order, Word),
    ) -> Result<Said, Error> {
        let ask = Claim {
            queues: queues.iter().copied().map(words::queue).collect(),
            kinds: kinds.map(|kinds| kinds.iter().copied().map(words::kind).collect()),
            n,
            order,
            worker: words::worker(worker),
        };
        let claimed = self.parts.jobs.claim(ask).await?;
        Ok(self.known.claimed(claimed))
    }

    async fn renew(&mut self, leases: &[(Back, Option<Span>)]) -> Result<Said, Error> {
        let lease = |(back, span): &(Back, Option<Span>)| {
            let delivery = self.known.deliveries.pick(*back)?;
            Some(Renew { id: *self.known.holders.get(&delivery)?, delivery, span: *span })
        };
        let leases: Vec<_> = leases.iter().filter_map(lease).collect();
        Ok(Said::Renewed(self.parts.jobs.renew(leases).await?))
    }

    async fn define(&mut self, definitions: &[Definition]) -> Result<Said, Error> {
        let defines: Vec<_> = definitions.iter().map(|one| self.definition(one)).collect();
        let said = self.parts.registry.define(defines).await?.into_inner();
        let normal = |(one, defined): (&Definition, Defined)| {
            let name = words::entry(one.table, one.name);
            self.known.defined(one.table, &name, (one.value.is_some(), defined))
        };
        Ok(Said::Defined(definitions.iter().zip(said).map(normal).collect()))
    }

    fn definition(&self, definition: &Definition) -> Define {
        let Definition { table, name, value, guard, expires_after } = *definition;
        let name = words::entry(table, name);
        let guard = match guard {
            Guard::Any => registry::Guard::Any,
            Guard::Absent => registry::Guard::Absent,
            Guard::At(back) => self
                .known
                .revision(table, &name, back)
                .map_or(registry::Guard::Any, registry::Guard::At),
        };
        let to = match value {
            Some(n) => registry::Definition::Set(words::value(table, n)),
            None => registry::Definition::Remove(table),
        };
        Define { name, to, guard, expires_after }
    }

    /// Reads every job on purpose, which later decisions may be based on.
    async fn look(&mut self) -> Result<Said, Error> {
        let jobs = self.parts.jobs.get(Which::all(&self.ids())).await?;
        for job in jobs.iter().flatten() {
            self.known.saw(job);
        }
        let now = self.now();
        Ok(Said::Jobs(jobs.into_iter().flatten().map(|job| self.known.job(job, now)).collect()))
    }

    async fn holders(&mut self) -> Result<Said, Error> {
        let keys = (0..words::KEYS).map(words::unique_key).collect();
        let holders = self.parts.jobs.holders(keys).await?;
        let normal = |id: Option<JobId>| id.map(|id| self.known.job_id(id));
        Ok(Said::Holders(holders.into_iter().map(normal).collect()))
    }

    /// How much was seen so far.
    pub(super) fn tally(&self) -> Tally {
        let Known { jobs, groups, deliveries, .. } = &self.known;
        let (jobs, groups) = (jobs.all().len(), groups.all().len());
        Tally { jobs, groups, deliveries: deliveries.all().len() }
    }

    pub(super) fn ids(&self) -> Vec<JobId> {
        self.known.jobs.all().to_vec()
    }
}
