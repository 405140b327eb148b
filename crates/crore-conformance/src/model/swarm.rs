//! Which families of operations a case uses.

use proptest::bits;
use proptest::prelude::*;

use crore_store::registry::Table;

use super::op::{Act, Definition, Due, Op, Pick, Plan, Policy, Sight, What};

/// How much of a store is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The path of a job and the registry.
    Jobs,
    /// All of it.
    Whole,
}

/// What a case may use besides pushes, claims, reports and the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Unique,
    ClientIds,
    Groups,
    Dependencies,
    Limits,
    Later,
    Policies,
    FollowUps,
    OldSights,
    Operators,
    Renewals,
    Settings,
    Definitions,
    Schedules,
    Upkeep,
    Views,
}

const FAMILIES: usize = 16;

/// The families of a case, a bit each. It shrinks by giving up families, each with one try.
#[derive(Debug, Clone, Copy)]
pub(super) struct Swarm(u32);

impl Swarm {
    /// Each family with a chance of one in two, or of three in four.
    pub(super) fn draw(reach: Reach) -> impl Strategy<Value = Self> {
        let half = || bits::u32::between(0, FAMILIES);
        (half(), half(), any::<bool>()).prop_map(move |(some, others, more)| {
            let whole = [Family::Schedules, Family::Upkeep, Family::Views];
            let beyond = whole.iter().fold(0, |bits, family| bits | bit(*family));
            let swarm = if more { some | others } else { some };
            Self(if reach == Reach::Whole { swarm } else { swarm & !beyond })
        })
    }

    const fn has(self, family: Family) -> bool {
        self.0 & bit(family) != 0
    }

    /// The operation without what is not used; `None` if nothing is left of it.
    pub(super) fn keep(self, mut op: Op) -> Option<Op> {
        let stays = match &mut op {
            Op::Push { groups, jobs } => {
                if !self.has(Family::Groups) {
                    groups.clear();
                }
                self.strip(jobs);
                true
            }
            Op::Apply(acts) => {
                acts.retain_mut(|act| self.keeps(act));
                !acts.is_empty()
            }
            Op::Define(definitions) => {
                definitions.retain(|definition| self.has(family(definition)));
                !definitions.is_empty()
            }
            Op::Renew(_) => self.has(Family::Renewals),
            Op::Upkeep(_) => self.has(Family::Upkeep),
            Op::View(_) => self.has(Family::Views),
            Op::Claim { .. } | Op::Advance(_) | Op::Look => true,
            Op::Holders => self.has(Family::Unique),
        };
        stays.then_some(op)
    }

    fn keeps(self, act: &mut Act) -> bool {
        match act {
            Act::Seal(_) => self.has(Family::Groups),
            Act::Tick { push, sight, .. } => {
                self.strip(push);
                self.blur(sight);
                self.has(Family::Schedules)
            }
            Act::Decide { sight, what, .. } => {
                self.blur(sight);
                self.happens(what)
            }
        }
    }

    fn happens(self, what: &mut What) -> bool {
        match what {
            What::Finish { then, .. } => {
                if !self.has(Family::FollowUps) {
                    then.clear();
                }
                self.strip(then);
                true
            }
            What::Edit { limits, due, .. } => {
                *limits = limits.take().filter(|_| self.has(Family::Limits));
                *due = due.filter(|_| self.has(Family::Later));
                self.has(Family::Operators)
            }
            What::Cancel | What::Retry | What::Delete | What::Prune => self.has(Family::Operators),
            What::Lapsed | What::TimedOut | What::HandedOver | What::TakeResult => {
                self.has(Family::Policies)
            }
        }
    }

    const fn blur(self, sight: &mut Sight) {
        if !self.has(Family::OldSights) {
            *sight = Sight::Fresh;
        }
    }

    fn strip(self, plans: &mut [Plan]) {
        for plan in plans {
            plan.unique = plan.unique.take().filter(|_| self.has(Family::Unique));
            plan.client_id = plan.client_id.filter(|_| self.has(Family::ClientIds));
            plan.group = plan.group.filter(|_| self.has(Family::Groups));
            plan.limits.retain(|_| self.has(Family::Limits));
            plan.after.retain(|(pick, _)| {
                self.has(Family::Dependencies)
                    && (self.has(Family::Groups) || !matches!(pick, Pick::Group(_)))
            });
            if !self.has(Family::Later) {
                plan.due = Due::Now;
            }
            if !self.has(Family::Policies) {
                plan.policy = Policy::default();
            }
        }
    }
}

const fn bit(family: Family) -> u32 {
    1 << family as u32
}

const fn family(definition: &Definition) -> Family {
    match definition.table {
        Table::Limits => Family::Limits,
        Table::Queues => Family::Settings,
        Table::Schedules => Family::Schedules,
        Table::Handlers | Table::Workers | Table::Tokens => Family::Definitions,
    }
}
