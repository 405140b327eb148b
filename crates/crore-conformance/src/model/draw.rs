//! Random operations, weighted so that interesting interactions are frequent. The first alternative of each
//! choice is the simplest, since shrinking moves towards it.

use crore_core::event::OnEventTimeout;
use crore_core::job::{
    DEFAULT_LEASE, DependencyCondition, JobRetention, Lapse, ReportFencing, ResultRetention,
    StartDeadline,
};
use crore_core::unique::{Unique, UniqueHold};
use crore_core::{Span, State};
use crore_store::jobs::QueueOrder;
use crore_store::registry::RegistryTable;
use crore_store::views::{StatStep, StatsShape};
use crore_testkit::FakeClock;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::strategy::Union;

use super::op::{DecisionBasis, JobEventOp, NameIndex, PlannedPolicy, UpkeepOp, ViewOp};
use super::op::{
    DefinitionOp, DependencyPick, EventOp, EventTarget, GroupOpenness, GroupPick, GuardOp, ModelOp,
    PlannedDue, PlannedJob, PlannedOutcome, StepsBack, WriteOp,
};
use super::samples;
use super::swarm::{ModelReach, Swarm};

const MILLI: Span = Span::from_millis(1);
const HALF: Span = Span::from_millis(500);
const SECOND: Span = Span::from_secs(1);
const MINUTE: Span = Span::from_secs(60);
const HOUR: Span = Span::from_secs(3600);

/// Up to `n` operations of a few families.
pub(super) fn ops(reach: ModelReach, n: usize) -> impl Strategy<Value = Vec<ModelOp>> {
    // Limits defined late find few jobs left to hold back.
    let limits = vec((0..2_u8, 0..samples::VALUES), 0..=2).prop_map(|limits| {
        let table = RegistryTable::Limits;
        let set = |(name, n)| DefinitionOp {
            table,
            name,
            value: Some(n),
            guard: GuardOp::Any,
            expires_after: None,
            joint: false,
        };
        ModelOp::Define(limits.into_iter().map(set).collect())
    });
    // Twice as many, since those of unused families are dropped.
    (Swarm::draw(reach), limits, vec(op(), n..=2 * n)).prop_map(move |(swarm, limits, ops)| {
        let all = std::iter::once(limits).chain(ops);
        all.filter_map(|op| swarm.restrict(op)).take(n).collect()
    })
}

fn op() -> impl Strategy<Value = ModelOp> {
    prop_oneof![
        6 => push(),
        10 => claim(),
        10 => vec(act(), 1..=3).prop_map(ModelOp::Apply),
        3 => advance().prop_map(ModelOp::Advance),
        1 => vec((back(), option::of(span())), 1..=2).prop_map(ModelOp::Renew),
        3 => vec(definition(), 1..=2).prop_map(ModelOp::Define),
        1 => Just(ModelOp::Look),
        1 => Just(ModelOp::Holders),
        5 => event().prop_map(ModelOp::Event),
        5 => upkeep().prop_map(ModelOp::Upkeep),
        5 => view().prop_map(ModelOp::View),
    ]
}

fn push() -> impl Strategy<Value = ModelOp> {
    let open = || select(vec![GroupOpenness::Sealed, GroupOpenness::Open]);
    (vec(open(), 0..=2), vec(plan(), 1..=4))
        .prop_map(|(groups, jobs)| ModelOp::Push { groups, jobs })
}

fn claim() -> impl Strategy<Value = ModelOp> {
    let some = |most: NameIndex| subsequence((0..most).collect::<Vec<_>>(), 1..=usize::from(most));
    let order = select(vec![QueueOrder::Merged, QueueOrder::Strict]);
    let kinds = option::weighted(0.2, some(KINDS));
    let all = Just((0..QUEUES).collect::<Vec<_>>());
    let queues = prop_oneof![1 => some(QUEUES), 1 => all].prop_shuffle();
    let version = || option::of(0..samples::VERSIONS.len() as NameIndex);
    let versions = (version(), version()).prop_map(|(first, second)| {
        [(0, first), (1, second)].into_iter().filter_map(|(kind, v)| Some((kind, v?))).collect()
    });
    (queues, kinds, versions, 0..=4_usize, order, 0..2_u8).prop_map(
        |(queues, kinds, versions, n, order, worker)| ModelOp::Claim {
            queues,
            kinds,
            versions,
            n,
            order,
            worker,
        },
    )
}

const QUEUES: NameIndex = 3;
const KINDS: NameIndex = 2;

/// Mostly the first, so that jobs interact.
fn queue() -> impl Strategy<Value = NameIndex> {
    prop_oneof![2 => Just(0), 1 => 1..QUEUES]
}

fn kind() -> impl Strategy<Value = NameIndex> {
    prop_oneof![2 => Just(0), 1 => 1..KINDS]
}

/// Mostly the newest.
fn back() -> impl Strategy<Value = StepsBack> {
    prop_oneof![4 => 0..3_usize, 2 => 3..8_usize, 1 => 8..30_usize]
}

fn span() -> impl Strategy<Value = Span> {
    select(vec![MILLI, HALF, SECOND, SECOND.times(10), MINUTE])
}

/// Spans that reach the next retry, or pass a lease, a unique window or a queue's retention.
fn advance() -> impl Strategy<Value = Span> {
    prop_oneof![
        2 => Just(MILLI),
        3 => Just(HALF),
        4 => select(vec![SECOND, SECOND.times(2)]),
        2 => Just(SECOND.times(30)),
        2 => Just(MINUTE),
        1 => select(vec![HOUR, HOUR.times(25), HOUR.times(24 * 200)]),
    ]
}

fn due() -> impl Strategy<Value = PlannedDue> {
    let at = select(vec![Span::ZERO, SECOND, SECOND.times(5), MINUTE]);
    prop_oneof![4 => Just(PlannedDue::Now), 2 => span().prop_map(PlannedDue::After), 1 => at.prop_map(PlannedDue::At)]
}

fn deadline() -> impl Strategy<Value = (StartDeadline, bool)> {
    let at = select(vec![Span::ZERO, SECOND.times(5), MINUTE]);
    let deadline = prop_oneof![
        4 => span().prop_map(StartDeadline::Within),
        1 => at.prop_map(|span| StartDeadline::At(FakeClock::START.after(span)))
    ];
    (deadline, any::<bool>())
}

fn priority() -> impl Strategy<Value = i32> {
    prop_oneof![5 => Just(0), 3 => select(vec![1, -1]), 1 => select(vec![i32::MAX, i32::MIN])]
}

fn unique() -> impl Strategy<Value = Unique> {
    let hold = select(vec![
        UniqueHold::UntilEnd,
        UniqueHold::UntilStart,
        UniqueHold::UntilSuccess,
        UniqueHold::Window,
    ]);
    let window = option::of(select(vec![MINUTE, HALF, SECOND.times(5)]));
    (0..samples::KEYS, hold, window).prop_map(|(key, hold, window)| {
        let window = if hold == UniqueHold::Window { window.or(Some(MINUTE)) } else { window };
        Unique { key: samples::unique_key(key), hold, window }
    })
}

fn limits() -> impl Strategy<Value = Vec<(NameIndex, Option<NameIndex>)>> {
    let value = || option::weighted(0.4, option::weighted(0.3, 0..2_u8));
    (value(), value()).prop_map(|(first, second)| {
        [(0, first), (1, second)].into_iter().filter_map(|(l, v)| Some((l, v?))).collect()
    })
}

fn group_pick() -> impl Strategy<Value = GroupPick> {
    prop_oneof![(0..2_usize).prop_map(GroupPick::New), (0..4_usize).prop_map(GroupPick::Known)]
}

fn after() -> impl Strategy<Value = Vec<(DependencyPick, DependencyCondition)>> {
    let pick = prop_oneof![
        3 => (0..3_usize).prop_map(DependencyPick::Earlier),
        3 => back().prop_map(DependencyPick::Job),
        2 => group_pick().prop_map(DependencyPick::Group),
    ];
    let one = (pick, select(vec![DependencyCondition::End, DependencyCondition::Success]));
    prop_oneof![2 => Just(Vec::new()), 1 => vec(one, 1..=2)]
}

fn policy() -> impl Strategy<Value = PlannedPolicy> {
    let lapse = [
        Lapse::Crash { quarantine: Some(3) },
        Lapse::Crash { quarantine: Some(1) },
        Lapse::Crash { quarantine: None },
        Lapse::Failure,
        Lapse::Again,
    ];
    let keep = [
        ResultRetention::Discard,
        ResultRetention::For(MINUTE),
        ResultRetention::Once(MINUTE),
        ResultRetention::For(SECOND),
    ];
    let random = (
        select(vec![Some(20), Some(1), Some(2), None]),
        select(vec![Some(DEFAULT_LEASE), Some(SECOND), None]),
        select(lapse.to_vec()),
        select(vec![ReportFencing::Fenced, ReportFencing::Any]),
        select(keep.to_vec()),
        select(vec![JobRetention::AsQueue, JobRetention::Nothing]),
        any::<bool>(),
    )
        .prop_map(|(max_attempts, lease, lapse, reports, keep, retain, marked)| {
            PlannedPolicy {
                max_attempts,
                lease,
                lapse,
                reports,
                keep,
                retain,
                with_metadata: marked,
            }
        });
    prop_oneof![1 => Just(PlannedPolicy::default()), 2 => random]
}

fn plan() -> BoxedStrategy<PlannedJob> {
    let times = (due(), option::weighted(0.3, deadline()));
    let position = (queue(), kind(), priority(), 0..5_u8, times);
    let keys = (
        option::weighted(0.4, unique()),
        option::weighted(0.2, (0..2_u8, 0..3_u8)),
        limits(),
        lanes_and_indexes(),
        (option::weighted(0.3, awaited()), option::weighted(0.4, group_pick())),
        after(),
        policy(),
    );
    (position, keys)
        .prop_map(|((queue, kind, priority, payload, (due, deadline)), keys)| {
            let (unique, client_id, limits, marks, (event, group), after, policy) = keys;
            let (worker_version, fair, label, index) = marks;
            PlannedJob {
                queue,
                kind,
                priority,
                payload,
                due,
                deadline,
                unique,
                client_id,
                limits,
                worker_version,
                fair,
                label,
                index,
                event,
                group,
                after,
                policy,
            }
        })
        .boxed()
}

/// A required version, a fair key, a label and index keys.
fn lanes_and_indexes()
-> impl Strategy<Value = (Option<NameIndex>, Option<NameIndex>, Option<NameIndex>, Vec<NameIndex>)>
{
    (
        option::weighted(0.3, 0..samples::REQUIRED.len() as NameIndex),
        option::weighted(0.6, 0..3_u8),
        option::weighted(0.5, 0..samples::INDEXED),
        index_keys(),
    )
}

fn index_keys() -> impl Strategy<Value = Vec<NameIndex>> {
    subsequence((0..samples::INDEXED).collect::<Vec<_>>(), 0..=2)
}

fn basis() -> impl Strategy<Value = DecisionBasis> {
    prop_oneof![3 => Just(DecisionBasis::Fresh), 1 => Just(DecisionBasis::Old)]
}

fn act() -> impl Strategy<Value = WriteOp> {
    let follow_ups = || prop_oneof![4 => Just(Vec::new()), 1 => vec(plan(), 1..=2)];
    let finish = (end(), proptest::bool::weighted(0.1), follow_ups())
        .prop_map(|(outcome, anonymous, then)| JobEventOp::Finish { outcome, anonymous, then });
    let by_worker = prop_oneof![
        6 => finish,
        1 => select(vec![JobEventOp::Lapsed, JobEventOp::TimedOut, JobEventOp::HandedOver]),
    ];
    let by_hand = prop_oneof![
        3 => select(vec![JobEventOp::Cancel, JobEventOp::Retry, JobEventOp::Delete, JobEventOp::Prune, JobEventOp::TakeResult]),
        1 => edit(),
        1 => index_keys().prop_map(JobEventOp::Index),
    ];
    let decide = |on: BoxedStrategy<EventTarget>, what: BoxedStrategy<JobEventOp>| {
        (on, basis(), what).prop_map(|(on, basis, what)| WriteOp::Decide { on, basis, what })
    };
    let delivery = || back().prop_map(EventTarget::Delivery).boxed();
    let job = prop_oneof![1 => delivery(), 2 => back().prop_map(EventTarget::Job)].boxed();
    let tick = (0..2_u8, basis(), select(vec![MINUTE, HOUR]), follow_ups()).prop_map(
        |(schedule, basis, forward, push)| WriteOp::Tick { schedule, basis, forward, push },
    );
    Union::new_weighted(vec![
        (10, decide(delivery(), by_worker.boxed()).boxed()),
        (5, decide(job, by_hand.boxed()).boxed()),
        (1, (0..4_usize).prop_map(WriteOp::Seal).boxed()),
        (2, tick.boxed()),
    ])
}

fn edit() -> impl Strategy<Value = JobEventOp> {
    (option::of(0..QUEUES), option::of(priority()), option::of(limits()), option::of(due()))
        .prop_map(|(queue, priority, limits, due)| JobEventOp::Edit {
            queue,
            priority,
            limits,
            due,
        })
}

fn end() -> impl Strategy<Value = PlannedOutcome> {
    prop_oneof![
        6 => any::<bool>().prop_map(|result| PlannedOutcome::Done { result }),
        4 => any::<bool>().prop_map(|detail| PlannedOutcome::Failed { detail }),
        1 => any::<bool>().prop_map(|detail| PlannedOutcome::FailedForGood { detail }),
        3 => select(vec![Span::ZERO, MILLI, SECOND]).prop_map(PlannedOutcome::FailedFor),
        1 => span().prop_map(PlannedOutcome::Snooze),
        1 => Just(PlannedOutcome::Cancel),
        2 => Just(PlannedOutcome::Interrupted),
    ]
}

const TABLES: [RegistryTable; 7] = [
    RegistryTable::Limits,
    RegistryTable::Queues,
    RegistryTable::Schedules,
    RegistryTable::Handlers,
    RegistryTable::Workers,
    RegistryTable::Tokens,
    RegistryTable::Operations,
];

fn definition() -> impl Strategy<Value = DefinitionOp> {
    let table = prop_oneof![
        4 => Just(RegistryTable::Limits),
        3 => Just(RegistryTable::Queues),
        2 => Just(RegistryTable::Schedules),
        1 => select(TABLES.to_vec()),
    ];
    let guard = prop_oneof![
        4 => Just(GuardOp::Any),
        1 => Just(GuardOp::Absent),
        2 => (0..2_usize).prop_map(GuardOp::At),
    ];
    let value = option::weighted(0.8, 0..samples::VALUES);
    let expires = option::weighted(0.1, select(vec![MINUTE, SECOND]));
    let joint = proptest::bool::weighted(0.3);
    (table, 0..2_u8, value, guard, expires, joint).prop_map(
        |(table, name, value, guard, expires_after, joint)| DefinitionOp {
            table,
            name,
            value,
            guard,
            expires_after,
            joint,
        },
    )
}

fn event() -> impl Strategy<Value = EventOp> {
    let keep = select(vec![Span::ZERO, SECOND, MINUTE, HOUR]);
    let count = prop_oneof![1 => 0..4_usize, 3 => Just(100)];
    prop_oneof![
        4 => (0..2_u8, 0..5_u8, keep, count)
            .prop_map(|(name, payload, keep, count)| EventOp::Send { name, payload, keep, count }),
        4 => prop_oneof![1 => 0..3_usize, 2 => Just(100)].prop_map(EventOp::Release),
        1 => (0..2_u8).prop_map(EventOp::Remove),
        1 => (1..3_usize).prop_map(EventOp::List),
    ]
}

fn awaited() -> impl Strategy<Value = (NameIndex, Option<Span>, OnEventTimeout)> {
    (0..2_u8, option::of(span()), select(OnEventTimeout::ALL.to_vec()))
}

fn upkeep() -> impl Strategy<Value = UpkeepOp> {
    let few = || prop_oneof![1 => 0..3_usize, 3 => Just(100)];
    prop_oneof![
        6 => few().prop_map(UpkeepOp::Promote),
        3 => Just(UpkeepOp::ExpireLeases),
        1 => few().prop_map(UpkeepOp::Lapsed),
        3 => select(vec![100, 1, 3]).prop_map(UpkeepOp::Prune),
        1 => (1..3_u64, select(vec![SECOND, MINUTE]))
            .prop_map(|(node, span)| UpkeepOp::Lead { node, span }),
    ]
}

fn view() -> impl Strategy<Value = ViewOp> {
    let queue = || option::of(0..QUEUES);
    let key = option::of(0..3 * samples::INDEXED);
    let list = (select(State::ALL.to_vec()), queue(), option::of(0..KINDS), key, 1..4_usize)
        .prop_map(|(state, queue, kind, key, n)| ViewOp::List { state, queue, kind, key, n });
    let shapes = vec![StatsShape::OverTime, StatsShape::BySeries];
    let ages = vec![Span::ZERO, MINUTE, HOUR, HOUR.times(24 * 500)];
    let job_stats = (
        (queue(), option::of(0..KINDS)),
        (select(StatStep::ALL.to_vec()), select(ages), select(shapes)),
    )
        .prop_map(|((queue, kind), (step, age, shape))| ViewOp::JobStats {
            queue,
            kind,
            step,
            age,
            shape,
        });
    prop_oneof![
        4 => list,
        1 => queue().prop_map(ViewOp::Counts),
        2 => (select(TABLES.to_vec()), 1..3_usize).prop_map(|(table, n)| ViewOp::Entries(table, n)),
        1 => (back(), 0..=100_u8).prop_map(|(back, percent)| ViewOp::Progress(back, percent)),
        3 => (back(), 0..9_u8).prop_map(|(back, n)| ViewOp::Line(back, n)),
        3 => back().prop_map(ViewOp::Notes),
        2 => (1..5_u64).prop_map(ViewOp::Stat),
        2 => select(StatStep::ALL.to_vec()).prop_map(ViewOp::Stats),
        4 => (0..QUEUES, 0..KINDS, 1..5_u64, 0..100_000_u64)
            .prop_map(|(queue, kind, n, run)| ViewOp::JobStat(queue, kind, n, run)),
        3 => job_stats,
    ]
}
