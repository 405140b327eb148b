//! Removes an operation without changing what the others refer to.

use super::op::{
    DependencyPick, EventTarget, GroupPick, JobEventOp, ModelOp, PlannedJob, StepsBack, ViewOp,
    WriteOp,
};

/// Kind of thing that a [`StepsBack`] refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RefKind {
    Job,
    Group,
    Delivery,
}

/// Number of jobs, groups and deliveries seen at some point.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SeenCounts {
    pub(super) jobs: usize,
    pub(super) groups: usize,
    pub(super) deliveries: usize,
}

impl SeenCounts {
    const fn of(self, kind: RefKind) -> usize {
        match kind {
            RefKind::Job => self.jobs,
            RefKind::Group => self.groups,
            RefKind::Delivery => self.deliveries,
        }
    }
}

/// The operations without the one at `index`. `tallies` are the counts before each operation, as far as the
/// run came. References to things older than the removed operation are shifted by the number of things it
/// produced.
pub(super) fn without(ops: &[ModelOp], index: usize, tallies: &[SeenCounts]) -> Vec<ModelOp> {
    let mut fewer = ops.to_vec();
    fewer.remove(index);
    let (Some(before), Some(after)) = (tallies.get(index), tallies.get(index + 1)) else {
        return fewer;
    };
    for (op, at) in fewer.iter_mut().skip(index).zip(tallies.iter().skip(index + 1)) {
        visit_refs(op, &mut |kind, back| {
            let Some(nth) = at.of(kind).checked_sub(1 + *back) else { return };
            if nth < before.of(kind) {
                *back -= (after.of(kind) - before.of(kind)).min(*back);
            }
        });
    }
    fewer
}

/// The operations, with every reference reduced modulo the number of records seen before its operation.
pub(super) fn resolve_refs(mut ops: Vec<ModelOp>, tallies: &[SeenCounts]) -> Vec<ModelOp> {
    for (op, at) in ops.iter_mut().zip(tallies) {
        visit_refs(op, &mut |kind, back| *back = back.checked_rem(at.of(kind)).unwrap_or(0));
    }
    ops
}

/// All variants of the operation with one job, write or definition removed; never empty.
pub(super) fn smaller(op: &ModelOp) -> Vec<ModelOp> {
    match op {
        ModelOp::Push { groups, jobs } => {
            one_fewer(jobs).map(|jobs| ModelOp::Push { groups: groups.clone(), jobs }).collect()
        }
        ModelOp::Apply(acts) => one_fewer(acts).map(ModelOp::Apply).collect(),
        ModelOp::Define(definitions) => one_fewer(definitions).map(ModelOp::Define).collect(),
        _ => Vec::new(),
    }
}

fn one_fewer<T: Clone>(many: &[T]) -> impl Iterator<Item = Vec<T>> {
    let indexes = if many.len() > 1 { 0..many.len() } else { 0..0 };
    indexes.map(|index| {
        let mut fewer = many.to_vec();
        fewer.remove(index);
        fewer
    })
}

/// Visits every reference of an operation.
fn visit_refs(op: &mut ModelOp, visit: &mut impl FnMut(RefKind, &mut StepsBack)) {
    match op {
        ModelOp::Push { jobs, .. } => visit_jobs(jobs, visit),
        ModelOp::Renew(leases) => {
            leases.iter_mut().for_each(|(back, _)| visit(RefKind::Delivery, back));
        }
        ModelOp::Apply(acts) => acts.iter_mut().for_each(|act| visit_write(act, visit)),
        ModelOp::View(ViewOp::Progress(back, _) | ViewOp::Line(back, _) | ViewOp::Notes(back)) => {
            visit(RefKind::Delivery, back);
        }
        ModelOp::Claim { .. }
        | ModelOp::Define(_)
        | ModelOp::Advance(_)
        | ModelOp::Look
        | ModelOp::Holders
        | ModelOp::Event(_)
        | ModelOp::Upkeep(_)
        | ModelOp::View(_) => {}
    }
}

fn visit_write(act: &mut WriteOp, visit: &mut impl FnMut(RefKind, &mut StepsBack)) {
    match act {
        WriteOp::Seal(back) => visit(RefKind::Group, back),
        WriteOp::Tick { push, .. } => visit_jobs(push, visit),
        WriteOp::Decide { on, what, .. } => {
            match on {
                EventTarget::Job(back) => visit(RefKind::Job, back),
                EventTarget::Delivery(back) => visit(RefKind::Delivery, back),
            }
            if let JobEventOp::Finish { then, .. } = what {
                visit_jobs(then, visit);
            }
        }
    }
}

fn visit_jobs(plans: &mut [PlannedJob], visit: &mut impl FnMut(RefKind, &mut StepsBack)) {
    for plan in plans {
        if let Some(GroupPick::Known(back)) = &mut plan.group {
            visit(RefKind::Group, back);
        }
        for (pick, _) in &mut plan.after {
            match pick {
                DependencyPick::Job(back) => visit(RefKind::Job, back),
                DependencyPick::Group(GroupPick::Known(back)) => visit(RefKind::Group, back),
                DependencyPick::Group(GroupPick::New(_)) | DependencyPick::Earlier(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::op::{DecisionBasis, PlannedOutcome};
    use super::*;

    fn finish(back: StepsBack) -> ModelOp {
        let what = JobEventOp::Finish {
            outcome: PlannedOutcome::Interrupted,
            anonymous: false,
            then: Vec::new(),
        };
        ModelOp::Apply(vec![WriteOp::Decide {
            on: EventTarget::Delivery(back),
            basis: DecisionBasis::Fresh,
            what,
        }])
    }

    fn seen(deliveries: usize) -> SeenCounts {
        SeenCounts { deliveries, ..SeenCounts::default() }
    }

    #[test]
    fn removing_an_operation_shifts_only_older_references() {
        // The second operation produces two deliveries, the third one more.
        let ops = [ModelOp::Look, ModelOp::Look, ModelOp::Look, finish(3), finish(0)];
        let tallies = [seen(0), seen(1), seen(3), seen(4), seen(4)];
        let fewer = without(&ops, 1, &tallies);
        assert_eq!(fewer, [ModelOp::Look, ModelOp::Look, finish(1), finish(0)]);
        assert_eq!(without(&ops, 4, &tallies), ops.split_at(4).0);
        assert_eq!(without(&ops, 1, &[]), [ModelOp::Look, ModelOp::Look, finish(3), finish(0)]);
    }

    #[test]
    fn references_become_indices() {
        let ops = vec![finish(5), finish(5), finish(2)];
        let tallies = [seen(0), seen(4), seen(3)];
        assert_eq!(resolve_refs(ops, &tallies), [finish(0), finish(1), finish(2)]);
    }

    #[test]
    fn a_batch_of_one_is_not_made_empty() {
        assert_eq!(smaller(&finish(0)), []);
        let ModelOp::Apply(acts) = finish(0) else { return };
        let two = ModelOp::Apply([acts.clone(), acts].concat());
        assert_eq!(smaller(&two), [finish(0), finish(0)]);
    }
}
