//! Swarm testing: each case uses a random subset of the families of operations.

use proptest::bits;
use proptest::prelude::*;

use crore_store::registry::RegistryTable;

use super::op::{
    DecisionBasis, DefinitionOp, DependencyPick, JobEventOp, ModelOp, PlannedDue, PlannedJob,
    PlannedPolicy, ViewOp, WriteOp,
};

/// The part of a store that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModelReach {
    /// The path of a job and the registry.
    Jobs,
    /// The whole store.
    Whole,
    /// The whole store, which is reopened meanwhile.
    Reopened,
}

/// Features that a case may use besides pushes, claims, reports and the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpFamily {
    Unique,
    ClientIds,
    Groups,
    Dependencies,
    Limits,
    Later,
    Deadlines,
    Policies,
    FollowUps,
    StaleDecisions,
    Operators,
    Renewals,
    Settings,
    Definitions,
    Schedules,
    Upkeep,
    Views,
    Versions,
    Events,
    Fair,
    Index,
}

const FAMILIES: usize = OpFamily::Index as usize + 1;

/// The families of a case, one bit each. Shrinking removes families one at a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Swarm(u32);

impl Swarm {
    /// Each family with probability 1/2 or 3/4.
    pub(super) fn draw(reach: ModelReach) -> impl Strategy<Value = Self> {
        let half = || bits::u32::between(0, FAMILIES);
        (half(), half(), any::<bool>()).prop_map(move |(some, others, more)| {
            let whole = [
                OpFamily::Deadlines,
                OpFamily::Schedules,
                OpFamily::Upkeep,
                OpFamily::Views,
                OpFamily::Versions,
                OpFamily::Events,
                OpFamily::Fair,
                OpFamily::Index,
            ];
            let beyond = whole.iter().fold(0, |bits, family| bits | bit(*family));
            let swarm = if more { some | others } else { some };
            Self(match reach {
                ModelReach::Whole => swarm,
                ModelReach::Reopened => swarm & !bit(OpFamily::Fair),
                ModelReach::Jobs => swarm & !beyond,
            })
        })
    }

    const fn has(self, family: OpFamily) -> bool {
        self.0 & bit(family) != 0
    }

    /// Removes unused features from an operation; `None` if nothing is left of it.
    pub(super) fn restrict(self, mut op: ModelOp) -> Option<ModelOp> {
        let stays = match &mut op {
            ModelOp::Push { groups, jobs } => {
                if !self.has(OpFamily::Groups) {
                    groups.clear();
                }
                self.restrict_jobs(jobs);
                true
            }
            ModelOp::Apply(acts) => {
                acts.retain_mut(|act| self.restrict_write(act));
                !acts.is_empty()
            }
            ModelOp::Define(definitions) => {
                definitions.retain(|definition| self.has(family(definition)));
                !definitions.is_empty()
            }
            ModelOp::Renew(_) => self.has(OpFamily::Renewals),
            ModelOp::Event(_) => self.has(OpFamily::Events),
            ModelOp::Upkeep(_) => self.has(OpFamily::Upkeep),
            ModelOp::View(ViewOp::List { key: Some(_), .. }) => self.has(OpFamily::Index),
            ModelOp::View(_) => self.has(OpFamily::Views),
            ModelOp::Claim { versions, .. } => {
                versions.retain(|_| self.has(OpFamily::Versions));
                true
            }
            ModelOp::Advance(_) | ModelOp::Look => true,
            ModelOp::Holders => self.has(OpFamily::Unique),
        };
        stays.then_some(op)
    }

    fn restrict_write(self, act: &mut WriteOp) -> bool {
        match act {
            WriteOp::Seal(_) => self.has(OpFamily::Groups),
            WriteOp::Tick { push, basis, .. } => {
                self.restrict_jobs(push);
                self.restrict_basis(basis);
                self.has(OpFamily::Schedules)
            }
            WriteOp::Decide { basis, what, .. } => {
                self.restrict_basis(basis);
                self.restrict_event(what)
            }
        }
    }

    fn restrict_event(self, what: &mut JobEventOp) -> bool {
        match what {
            JobEventOp::Finish { then, .. } => {
                if !self.has(OpFamily::FollowUps) {
                    then.clear();
                }
                self.restrict_jobs(then);
                true
            }
            JobEventOp::Edit { limits, due, .. } => {
                *limits = limits.take().filter(|_| self.has(OpFamily::Limits));
                *due = due.filter(|_| self.has(OpFamily::Later));
                self.has(OpFamily::Operators)
            }
            JobEventOp::Index(_) => self.has(OpFamily::Index),
            JobEventOp::Cancel | JobEventOp::Retry | JobEventOp::Delete | JobEventOp::Prune => {
                self.has(OpFamily::Operators)
            }
            JobEventOp::Lapsed
            | JobEventOp::TimedOut
            | JobEventOp::HandedOver
            | JobEventOp::TakeResult => self.has(OpFamily::Policies),
        }
    }

    const fn restrict_basis(self, basis: &mut DecisionBasis) {
        if !self.has(OpFamily::StaleDecisions) {
            *basis = DecisionBasis::Fresh;
        }
    }

    fn restrict_jobs(self, plans: &mut [PlannedJob]) {
        for plan in plans {
            plan.unique = plan.unique.take().filter(|_| self.has(OpFamily::Unique));
            plan.client_id = plan.client_id.filter(|_| self.has(OpFamily::ClientIds));
            plan.group = plan.group.filter(|_| self.has(OpFamily::Groups));
            plan.event = plan.event.filter(|_| self.has(OpFamily::Events));
            plan.worker_version = plan.worker_version.filter(|_| self.has(OpFamily::Versions));
            plan.fair = plan.fair.filter(|_| self.has(OpFamily::Fair));
            plan.label = plan.label.filter(|_| self.has(OpFamily::Index));
            plan.index.retain(|_| self.has(OpFamily::Index));
            plan.limits.retain(|_| self.has(OpFamily::Limits));
            plan.after.retain(|(pick, _)| {
                self.has(OpFamily::Dependencies)
                    && (self.has(OpFamily::Groups) || !matches!(pick, DependencyPick::Group(_)))
            });
            if !self.has(OpFamily::Later) {
                plan.due = PlannedDue::Now;
            }
            plan.deadline = plan.deadline.filter(|_| self.has(OpFamily::Deadlines));
            if !self.has(OpFamily::Policies) {
                plan.policy = PlannedPolicy::default();
            }
        }
    }
}

const fn bit(family: OpFamily) -> u32 {
    1 << family as u32
}

const fn family(definition: &DefinitionOp) -> OpFamily {
    match definition.table {
        RegistryTable::Limits => OpFamily::Limits,
        RegistryTable::Queues => OpFamily::Settings,
        RegistryTable::Schedules => OpFamily::Schedules,
        RegistryTable::Handlers
        | RegistryTable::Workers
        | RegistryTable::Tokens
        | RegistryTable::Operations => OpFamily::Definitions,
    }
}
