//! Human-readable operations, one per line, without default values.

use std::fmt::{self, Display, Formatter};

use crore_store::registry::RegistryValue;

use super::op::{DecisionBasis, JobEventOp, PlannedPolicy, UpkeepOp, ViewOp};
use super::op::{
    DefinitionOp, DependencyPick, EventOp, EventTarget, GroupOpenness, GroupPick, GuardOp, ModelOp,
    PlannedDue, PlannedJob, PlannedOutcome, WriteOp,
};
use super::samples;

/// Operations, numbered.
pub(super) struct Listing<'a>(pub(super) &'a [ModelOp]);

impl Display for Listing<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().zip(1..).try_for_each(|(op, n)| writeln!(f, "{n:>3}. {op}"))
    }
}

fn joined<T>(
    f: &mut Formatter<'_>,
    items: &[T],
    mut one: impl FnMut(&mut Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    items.iter().enumerate().try_for_each(|(index, item)| {
        f.write_str(if index == 0 { "" } else { ", " })?;
        one(f, item)
    })
}

impl Display for ModelOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Push { groups, jobs } => {
                f.write_str("push ")?;
                for group in groups {
                    f.write_str(if *group == GroupOpenness::Open {
                        "an open group, "
                    } else {
                        "a group, "
                    })?;
                }
                joined(f, jobs, |f, plan| write!(f, "{plan}"))
            }
            Self::Claim { queues, kinds, versions, n, order, worker } => {
                write!(f, "claim {n} from ")?;
                joined(f, queues, |f, queue| write!(f, "q{queue}"))?;
                if let Some(kinds) = kinds {
                    f.write_str(" of ")?;
                    joined(f, kinds, |f, kind| write!(f, "k{kind}"))?;
                }
                if !versions.is_empty() {
                    write!(f, " with {:?}", samples::kind_versions(versions))?;
                }
                write!(f, ", {order:?}, by w{worker}")
            }
            Self::Renew(leases) => {
                f.write_str("renew ")?;
                joined(f, leases, |f, (back, span)| match span {
                    Some(span) => write!(f, "delivery −{back} for {span:?}"),
                    None => write!(f, "delivery −{back}"),
                })
            }
            Self::Apply(acts) => {
                f.write_str("apply ")?;
                joined(f, acts, |f, act| write!(f, "{act}"))
            }
            Self::Define(definitions) => {
                f.write_str("define ")?;
                joined(f, definitions, |f, definition| write!(f, "{definition}"))
            }
            Self::Advance(span) => write!(f, "{span:?} pass"),
            Self::Look => f.write_str("look at every job"),
            Self::Holders => f.write_str("read the holder of each unique key"),
            Self::Event(event) => write!(f, "{event}"),
            Self::Upkeep(upkeep) => write!(f, "{upkeep}"),
            Self::View(view) => write!(f, "{view}"),
        }
    }
}

impl Display for EventOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send { name, payload, keep, count } => {
                write!(f, "send e{name} with payload {payload}, kept for {keep:?}, of {count}")
            }
            Self::Release(n) => write!(f, "release {n}"),
            Self::Remove(name) => write!(f, "remove e{name}"),
            Self::List(n) => write!(f, "read the kept events by {n}"),
        }
    }
}

impl Display for UpkeepOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Promote(n) => write!(f, "promote {n}"),
            Self::Lapsed(n) => write!(f, "read {n} lapsed or broken jobs"),
            Self::ExpireLeases => f.write_str("decide all lapsed and broken jobs"),
            Self::Prune(n) => write!(f, "prune in slices of {n} until done"),
            Self::Lead { node, span } => write!(f, "node {node} asks to lead for {span:?}"),
        }
    }
}

impl Display for ViewOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Progress(back, percent) => write!(f, "note {percent} % of delivery −{back}"),
            Self::Line(back, n) => write!(f, "note line {n} of delivery −{back}"),
            Self::Stat(n) => write!(f, "note {n} more in a statistic"),
            Self::Notes(back) => write!(f, "read the notes of the job of delivery −{back}"),
            Self::Stats(step) => write!(f, "read a statistic by {step:?}"),
            Self::JobStat(queue, kind, n, run) => {
                write!(f, "note {n} jobs of q{queue} and k{kind} that ran for {run} ms")
            }
            Self::JobStats { queue, kind, step, age, shape } => {
                write!(f, "read the statistics of jobs by {step:?} since {age:?} ago, {shape:?}")?;
                queue.map_or(Ok(()), |queue| write!(f, " in q{queue}"))?;
                kind.map_or(Ok(()), |kind| write!(f, " of k{kind}"))
            }
            Self::List { state, queue, kind, key, n } => {
                write!(f, "list {state:?} jobs by {n}")?;
                queue.map_or(Ok(()), |queue| write!(f, " in q{queue}"))?;
                kind.map_or(Ok(()), |kind| write!(f, " of k{kind}"))?;
                key.map_or(Ok(()), |key| write!(f, " under index key {key}"))
            }
            Self::Counts(None) => f.write_str("count all"),
            Self::Counts(Some(queue)) => write!(f, "count q{queue}"),
            Self::Entries(table, n) => write!(f, "read the entries of {table:?} by {n}"),
        }
    }
}

impl Display for PlannedJob {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "q{}/k{}", self.queue, self.kind)?;
        if self.priority != 0 {
            write!(f, " priority {}", self.priority)?;
        }
        if self.payload != 0 {
            write!(f, " payload {}", self.payload)?;
        }
        if self.due != PlannedDue::Now {
            write!(f, " due {}", self.due)?;
        }
        if let Some((deadline, has_follow_up)) = self.deadline {
            write!(f, " deadline {deadline:?}")?;
            f.write_str(if has_follow_up { " with a follow-up" } else { "" })?;
        }
        if let Some(unique) = &self.unique {
            write!(f, " unique {} {:?}", unique.key, unique.hold)?;
            unique.window.map_or(Ok(()), |window| write!(f, " for {window:?}"))?;
        }
        if let Some((door, id)) = self.client_id {
            write!(f, " client-id d{door}:c{id}")?;
        }
        for (limit, value) in &self.limits {
            write!(f, " limit l{limit}")?;
            value.map_or(Ok(()), |value| write!(f, ":v{value}"))?;
        }
        if let Some(version) = self.worker_version {
            write!(f, " for versions {}", samples::worker_version(version))?;
        }
        self.fair.map_or(Ok(()), |key| write!(f, " fair f{key}"))?;
        self.label.map_or(Ok(()), |value| write!(f, " label v{value}"))?;
        if !self.index.is_empty() {
            write!(f, " index {:?}", self.index)?;
        }
        if let Some((name, timeout, then)) = self.event {
            write!(f, " waits for e{name}")?;
            timeout.map_or(Ok(()), |timeout| write!(f, " for {timeout:?}, then {then:?}"))?;
        }
        self.group.map_or(Ok(()), |group| write!(f, " in {group}"))?;
        for (pick, needs) in &self.after {
            write!(f, " after {needs:?} of {pick}")?;
        }
        write!(f, "{}", self.policy)
    }
}

impl Display for PlannedPolicy {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let usual = Self::default();
        if self.max_attempts != usual.max_attempts {
            write!(f, " max-attempts {:?}", self.max_attempts)?;
        }
        if self.lease != usual.lease {
            write!(f, " lease {:?}", self.lease)?;
        }
        if self.lapse != usual.lapse {
            write!(f, " lapse {:?}", self.lapse)?;
        }
        if self.reports != usual.reports {
            write!(f, " reports {:?}", self.reports)?;
        }
        if self.keep != usual.keep {
            write!(f, " keep {:?}", self.keep)?;
        }
        if self.retain != usual.retain {
            write!(f, " retain {:?}", self.retain)?;
        }
        f.write_str(if self.with_metadata { " with labels, trace and timeout" } else { "" })
    }
}

impl Display for PlannedDue {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now => f.write_str("now"),
            Self::After(span) => write!(f, "in {span:?}"),
            Self::At(span) => write!(f, "at start + {span:?}"),
        }
    }
}

impl Display for GroupPick {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::New(n) => write!(f, "new group {n}"),
            Self::Known(back) => write!(f, "group −{back}"),
        }
    }
}

impl Display for DependencyPick {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Earlier(n) => write!(f, "batch[{n}]"),
            Self::Job(back) => write!(f, "job −{back}"),
            Self::Group(group) => write!(f, "{group}"),
        }
    }
}

impl Display for WriteOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decide { on, basis, what } => {
                write!(f, "{what} to ")?;
                match on {
                    EventTarget::Job(back) => write!(f, "job −{back}"),
                    EventTarget::Delivery(back) => write!(f, "delivery −{back}"),
                }?;
                f.write_str(if *basis == DecisionBasis::Old { " as seen before" } else { "" })
            }
            Self::Seal(back) => write!(f, "the seal of group −{back}"),
            Self::Tick { schedule, basis, forward, push } => {
                write!(f, "a tick of s{schedule} by {forward:?} that pushes [")?;
                joined(f, push, |f, plan| write!(f, "{plan}"))?;
                f.write_str(if *basis == DecisionBasis::Old { "] as seen before" } else { "]" })
            }
        }
    }
}

impl Display for JobEventOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finish { outcome, anonymous, then } => {
                write!(f, "{outcome}")?;
                f.write_str(if *anonymous { " without a delivery" } else { "" })?;
                if !then.is_empty() {
                    f.write_str(" and then [")?;
                    joined(f, then, |f, plan| write!(f, "{plan}"))?;
                    f.write_str("]")?;
                }
                Ok(())
            }
            Self::Edit { queue, priority, limits, due } => {
                f.write_str("Edit")?;
                queue.map_or(Ok(()), |queue| write!(f, " queue q{queue}"))?;
                priority.map_or(Ok(()), |priority| write!(f, " priority {priority}"))?;
                if let Some(limits) = limits {
                    let keys: Vec<_> = limits.iter().copied().map(samples::limit_key).collect();
                    write!(f, " limits {keys:?}")?;
                }
                due.map_or(Ok(()), |due| write!(f, " due {due}"))
            }
            other => write!(f, "{other:?}"),
        }
    }
}

impl Display for PlannedOutcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done { result: true } => f.write_str("Done with a result"),
            Self::Done { result: false } => f.write_str("Done"),
            Self::Failed { detail: true } => f.write_str("Failed with a detail"),
            Self::Failed { detail: false } => f.write_str("Failed"),
            Self::FailedFor(span) => write!(f, "Failed for {span:?}"),
            Self::FailedForGood { detail: true } => f.write_str("Failed for good with a detail"),
            Self::FailedForGood { detail: false } => f.write_str("Failed for good"),
            Self::Snooze(span) => write!(f, "Snooze for {span:?}"),
            Self::Cancel => f.write_str("GivenUp"),
            Self::Interrupted => f.write_str("Interrupted"),
        }
    }
}

impl Display for DefinitionOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { table, name, value, guard, expires_after, joint } = self;
        write!(f, "{table:?} {} ", samples::entry(*table, *name))?;
        match value {
            Some(n) => match samples::value(*table, *n) {
                RegistryValue::Limit(limit) => write!(f, "= {limit}"),
                value => write!(f, "= {value:?}"),
            },
            None => f.write_str("removed"),
        }?;
        match guard {
            GuardOp::Any => Ok(()),
            GuardOp::Absent => f.write_str(" if absent"),
            GuardOp::At(back) => write!(f, " if at revision −{back}"),
        }?;
        f.write_str(if *joint { " jointly" } else { "" })?;
        expires_after.map_or(Ok(()), |span| write!(f, " for {span:?}"))
    }
}
