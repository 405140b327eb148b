//! Leaving out an operation without changing what the others mean.

use super::op::{Act, Back, GroupPick, On, Op, Pick, Plan, View, What};

/// What a [`Back`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Job,
    Group,
    Delivery,
}

/// How many jobs, groups and deliveries had been seen at some moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) jobs: usize,
    pub(super) groups: usize,
    pub(super) deliveries: usize,
}

impl Tally {
    const fn of(self, sort: Sort) -> usize {
        match sort {
            Sort::Job => self.jobs,
            Sort::Group => self.groups,
            Sort::Delivery => self.deliveries,
        }
    }
}

/// The operations without the one at `place`. `tallies` are those before each operation, as far as
/// they came; references to things older than what is left out are moved up by what is missing.
pub(super) fn without(ops: &[Op], place: usize, tallies: &[Tally]) -> Vec<Op> {
    let mut fewer = ops.to_vec();
    fewer.remove(place);
    let (Some(before), Some(after)) = (tallies.get(place), tallies.get(place + 1)) else {
        return fewer;
    };
    for (op, at) in fewer.iter_mut().skip(place).zip(tallies.iter().skip(place + 1)) {
        refs(op, &mut |sort, back| {
            let Some(nth) = at.of(sort).checked_sub(1 + *back) else { return };
            if nth < before.of(sort) {
                *back -= (after.of(sort) - before.of(sort)).min(*back);
            }
        });
    }
    fewer
}

/// The operations with every reference counted out: less than the number of things there were.
pub(super) fn counted_out(mut ops: Vec<Op>, tallies: &[Tally]) -> Vec<Op> {
    for (op, at) in ops.iter_mut().zip(tallies) {
        refs(op, &mut |sort, back| *back = back.checked_rem(at.of(sort)).unwrap_or(0));
    }
    ops
}

/// The operation with one job, act or definition less, in every way that leaves one.
pub(super) fn smaller(op: &Op) -> Vec<Op> {
    match op {
        Op::Push { groups, jobs } => {
            less(jobs).map(|jobs| Op::Push { groups: groups.clone(), jobs }).collect()
        }
        Op::Apply(acts) => less(acts).map(Op::Apply).collect(),
        Op::Define(definitions) => less(definitions).map(Op::Define).collect(),
        _ => Vec::new(),
    }
}

fn less<T: Clone>(many: &[T]) -> impl Iterator<Item = Vec<T>> {
    let places = if many.len() > 1 { 0..many.len() } else { 0..0 };
    places.map(|place| {
        let mut fewer = many.to_vec();
        fewer.remove(place);
        fewer
    })
}

/// Visits every reference of an operation.
fn refs(op: &mut Op, visit: &mut impl FnMut(Sort, &mut Back)) {
    match op {
        Op::Push { jobs, .. } => in_plans(jobs, visit),
        Op::Renew(leases) => leases.iter_mut().for_each(|(back, _)| visit(Sort::Delivery, back)),
        Op::Apply(acts) => acts.iter_mut().for_each(|act| in_act(act, visit)),
        Op::View(View::Progress(back, _) | View::Line(back, _) | View::Notes(back)) => {
            visit(Sort::Delivery, back);
        }
        Op::Claim { .. }
        | Op::Define(_)
        | Op::Advance(_)
        | Op::Look
        | Op::Holders
        | Op::Upkeep(_)
        | Op::View(_) => {}
    }
}

fn in_act(act: &mut Act, visit: &mut impl FnMut(Sort, &mut Back)) {
    match act {
        Act::Seal(back) => visit(Sort::Group, back),
        Act::Tick { push, .. } => in_plans(push, visit),
        Act::Decide { on, what, .. } => {
            match on {
                On::Job(back) => visit(Sort::Job, back),
                On::Delivery(back) => visit(Sort::Delivery, back),
            }
            if let What::Finish { then, .. } = what {
                in_plans(then, visit);
            }
        }
    }
}

fn in_plans(plans: &mut [Plan], visit: &mut impl FnMut(Sort, &mut Back)) {
    for plan in plans {
        if let Some(GroupPick::Known(back)) = &mut plan.group {
            visit(Sort::Group, back);
        }
        for (pick, _) in &mut plan.after {
            match pick {
                Pick::Job(back) => visit(Sort::Job, back),
                Pick::Group(GroupPick::Known(back)) => visit(Sort::Group, back),
                Pick::Group(GroupPick::New(_)) | Pick::Earlier(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::op::{End, Sight};
    use super::*;

    fn finish(back: Back) -> Op {
        let what = What::Finish { outcome: End::Interrupted, anonymous: false, then: Vec::new() };
        Op::Apply(vec![Act::Decide { on: On::Delivery(back), sight: Sight::Fresh, what }])
    }

    fn seen(deliveries: usize) -> Tally {
        Tally { deliveries, ..Tally::default() }
    }

    #[test]
    fn what_is_left_out_moves_older_references_and_no_newer_ones() {
        // The second operation hands out two deliveries, the third one more.
        let ops = [Op::Look, Op::Look, Op::Look, finish(3), finish(0)];
        let tallies = [seen(0), seen(1), seen(3), seen(4), seen(4)];
        let fewer = without(&ops, 1, &tallies);
        assert_eq!(fewer, [Op::Look, Op::Look, finish(1), finish(0)]);
        assert_eq!(without(&ops, 4, &tallies), ops.split_at(4).0);
        assert_eq!(without(&ops, 1, &[]), [Op::Look, Op::Look, finish(3), finish(0)]);
    }

    #[test]
    fn references_are_counted_out() {
        let ops = vec![finish(5), finish(5), finish(2)];
        let tallies = [seen(0), seen(4), seen(3)];
        assert_eq!(counted_out(ops, &tallies), [finish(0), finish(1), finish(2)]);
    }

    #[test]
    fn a_batch_of_one_is_not_made_empty() {
        assert_eq!(smaller(&finish(0)), []);
        let Op::Apply(acts) = finish(0) else { return };
        let two = Op::Apply([acts.clone(), acts].concat());
        assert_eq!(smaller(&two), [finish(0), finish(0)]);
    }
}
