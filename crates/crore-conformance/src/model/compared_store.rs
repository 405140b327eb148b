//! Adapter for one of the two stores: translates operations to its ids and normalizes its responses.

use crore_core::push::NewGroup;
use crore_core::{Batch, Clock, JobId, Span, Time};
use crore_store::jobs::{Claim, JobSelector, Renew};
use crore_store::registry::{self, Define, Defined};
use crore_store::{Error, Events, Jobs, Registry, Store, Upkeep, Views};
use crore_testkit::FakeClock;

use super::normalize::NormalResponse;
use super::observed::ObservedStore;
use super::op::{DefinitionOp, GroupOpenness, GuardOp, ModelOp, PlannedJob, StepsBack};
use super::samples;
use super::shrink::SeenCounts;

/// The traits of a store; the rest only of a whole one.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoreTraits<'a> {
    pub(super) jobs: &'a dyn Jobs,
    pub(super) registry: &'a dyn Registry,
    pub(super) rest: Option<WholeStore<'a>>,
}

/// The traits of a whole store only.
pub(super) type WholeStore<'a> = (&'a dyn Upkeep, &'a dyn Views, &'a dyn Events);

/// All traits of a store.
pub(super) fn whole<S: Store>(store: &S) -> StoreTraits<'_> {
    StoreTraits { jobs: store, registry: store, rest: Some((store, store, store)) }
}

/// A store, and everything observed of it.
#[derive(Debug)]
pub(super) struct ComparedStore<'a> {
    pub(super) traits: StoreTraits<'a>,
    pub(super) clock: &'a FakeClock,
    pub(super) observed: ObservedStore,
}

impl<'a> ComparedStore<'a> {
    pub(super) fn new(parts: StoreTraits<'a>, clock: &'a FakeClock) -> Self {
        Self { traits: parts, clock, observed: ObservedStore::default() }
    }

    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Applies an operation. Errors other than `Invalid` are returned as errors.
    pub(super) async fn run(&mut self, op: &ModelOp) -> Result<NormalResponse, Error> {
        match self.respond(op).await {
            Err(Error::Invalid(invalid)) => Ok(NormalResponse::Invalid(invalid.code)),
            answer => answer,
        }
    }

    async fn respond(&mut self, op: &ModelOp) -> Result<NormalResponse, Error> {
        match op {
            ModelOp::Push { groups, jobs } => self.push(groups, jobs).await,
            ModelOp::Claim { queues, kinds, versions, n, order, worker } => {
                let kinds = kinds.as_ref().map(|kinds| kinds.iter().copied());
                self.claim(Claim {
                    queues: queues.iter().copied().map(samples::queue).collect(),
                    kinds: kinds.map(|kinds| kinds.map(samples::kind).collect()),
                    versions: samples::kind_versions(versions),
                    n: *n,
                    order: *order,
                    worker: samples::worker(*worker),
                })
                .await
            }
            ModelOp::Renew(leases) => self.renew(leases).await,
            ModelOp::Apply(acts) => self.apply(acts).await,
            ModelOp::Define(definitions) => self.define(definitions).await,
            ModelOp::Advance(_) => Ok(NormalResponse::Nothing),
            ModelOp::Look => self.read_all().await,
            ModelOp::Holders => self.holders().await,
            ModelOp::Event(event) => match self.traits.rest {
                Some((.., store)) => self.event(store, event).await,
                None => Ok(NormalResponse::Nothing),
            },
            ModelOp::Upkeep(upkeep) => match self.traits.rest {
                Some((store, ..)) => self.upkeep(store, upkeep).await,
                None => Ok(NormalResponse::Nothing),
            },
            ModelOp::View(view) => match self.traits.rest {
                Some((_, store, _)) => self.view(store, view).await,
                None => Ok(NormalResponse::Nothing),
            },
        }
    }

    async fn push(
        &mut self,
        groups: &[GroupOpenness],
        jobs: &[PlannedJob],
    ) -> Result<NormalResponse, Error> {
        let batch = Batch {
            groups: groups
                .iter()
                .map(|open| NewGroup { open: *open == GroupOpenness::Open, maker: None })
                .collect(),
            jobs: self.observed.new_jobs(jobs, groups.len()),
        };
        let pushes = self.traits.jobs.push(batch).await?.into_inner();
        Ok(self.observed.pushes(pushes))
    }

    async fn claim(&mut self, ask: Claim) -> Result<NormalResponse, Error> {
        let claimed = self.traits.jobs.claim(ask).await?;
        Ok(self.observed.claimed(claimed))
    }

    async fn renew(
        &mut self,
        leases: &[(StepsBack, Option<Span>)],
    ) -> Result<NormalResponse, Error> {
        let lease = |(back, span): &(StepsBack, Option<Span>)| {
            let delivery = self.observed.deliveries.pick(*back)?;
            Some(Renew { id: *self.observed.holders.get(&delivery)?, delivery, span: *span })
        };
        let leases: Vec<_> = leases.iter().filter_map(lease).collect();
        Ok(NormalResponse::Renewed(self.traits.jobs.renew(leases).await?))
    }

    async fn define(&mut self, definitions: &[DefinitionOp]) -> Result<NormalResponse, Error> {
        let defines: Vec<_> = definitions.iter().map(|one| self.definition(one)).collect();
        let responses = self.traits.registry.define(defines).await?.into_inner();
        let normal = |(one, defined): (&DefinitionOp, Defined)| {
            let name = samples::entry(one.table, one.name);
            self.observed.defined(one.table, &name, (one.value.is_some(), defined))
        };
        Ok(NormalResponse::Defined(definitions.iter().zip(responses).map(normal).collect()))
    }

    fn definition(&self, definition: &DefinitionOp) -> Define {
        let DefinitionOp { table, name, value, guard, expires_after, joint } = *definition;
        let name = samples::entry(table, name);
        let guard = match guard {
            GuardOp::Any => registry::DefineGuard::Any,
            GuardOp::Absent => registry::DefineGuard::Absent,
            GuardOp::At(back) => self
                .observed
                .revision(table, &name, back)
                .map_or(registry::DefineGuard::Any, registry::DefineGuard::At),
        };
        let to = match value {
            Some(n) => registry::DefineAction::Set(samples::value(table, n)),
            None => registry::DefineAction::Remove(table),
        };
        Define { name, action: to, guard, expires_after, joint }
    }

    /// Explicitly reads every job; later decisions may be based on these versions.
    async fn read_all(&mut self) -> Result<NormalResponse, Error> {
        let jobs = self.traits.jobs.get(JobSelector::all(&self.ids())).await?;
        for job in jobs.iter().flatten() {
            self.observed.remember(job);
        }
        let now = self.now();
        Ok(NormalResponse::Jobs(
            jobs.into_iter().flatten().map(|job| self.observed.job(job, now)).collect(),
        ))
    }

    async fn holders(&mut self) -> Result<NormalResponse, Error> {
        let keys = (0..samples::KEYS).map(samples::unique_key).collect();
        let holders = self.traits.jobs.holders(keys).await?;
        let normal = |id: Option<JobId>| id.map(|id| self.observed.job_id(id));
        Ok(NormalResponse::Holders(holders.into_iter().map(normal).collect()))
    }

    /// Counts of everything seen so far.
    pub(super) fn counts(&self) -> SeenCounts {
        let ObservedStore { jobs, groups, deliveries, .. } = &self.observed;
        let (jobs, groups) = (jobs.all().len(), groups.all().len());
        SeenCounts { jobs, groups, deliveries: deliveries.all().len() }
    }

    pub(super) fn ids(&self) -> Vec<JobId> {
        self.observed.jobs.all().to_vec()
    }
}
