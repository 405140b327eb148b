//! Random operations, with weights that make useful things happen often. The first choice of each is
//! the simplest, since that is where shrinking leads.

use crore_core::job::{DEFAULT_LEASE, Keep, Lapse, Needs, Reports, Retain};
use crore_core::unique::{Hold, Unique};
use crore_core::{Span, State};
use crore_store::jobs::Order;
use crore_store::registry::Table;
use crore_store::views::Step;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::strategy::Union;

use super::op::{Act, Back, Definition, Due, End, GroupPick, Guard, On, Op, Open, Pick, Plan};
use super::op::{Policy, Sight, Upkeep, View, What, Word};
use super::swarm::{Reach, Swarm};
use super::words;

const MILLI: Span = Span::from_millis(1);
const HALF: Span = Span::from_millis(500);
const SECOND: Span = Span::from_secs(1);
const MINUTE: Span = Span::from_secs(60);
const HOUR: Span = Span::from_secs(3600);

/// Up to `n` operations of a few families.
pub(super) fn ops(reach: Reach, n: usize) -> impl Strategy<Value = Vec<Op>> {
    // Limits that come late find few jobs left to hold.
    let limits = vec((0..2_u8, 0..words::VALUES), 0..=2).prop_map(|limits| {
        let table = Table::Limits;
        let set = |(name, n)| Definition {
            table,
            name,
            value: Some(n),
            guard: Guard::Any,
            expires_after: None,
        };
        Op::Define(limits.into_iter().map(set).collect())
    });
    // Twice as many, since those of unused families fall out.
    (Swarm::draw(reach), limits, vec(op(), n..=2 * n)).prop_map(move |(swarm, limits, ops)| {
        let all = std::iter::once(limits).chain(ops);
        all.filter_map(|op| swarm.keep(op)).take(n).collect()
    })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => push(),
        10 => claim(),
        10 => vec(act(), 1..=3).prop_map(Op::Apply),
        3 => advance().prop_map(Op::Advance),
        1 => vec((back(), option::of(span())), 1..=2).prop_map(Op::Renew),
        3 => vec(definition(), 1..=2).prop_map(Op::Define),
        1 => Just(Op::Look),
        1 => Just(Op::Holders),
        5 => upkeep().prop_map(Op::Upkeep),
        5 => view().prop_map(Op::View),
    ]
}

fn push() -> impl Strategy<Value = Op> {
    let open = || select(vec![Open::No, Open::Yes]);
    (vec(open(), 0..=2), vec(plan(), 1..=4)).prop_map(|(groups, jobs)| Op::Push { groups, jobs })
}

fn claim() -> impl Strategy<Value = Op> {
    let some = |most: Word| subsequence((0..most).collect::<Vec<_>>(), 1..=usize::from(most));
    let order = select(vec![Order::Merged, Order::Strict]);
    let kinds = option::weighted(0.2, some(KINDS));
    let all = Just((0..QUEUES).collect::<Vec<_>>());
    let queues = prop_oneof![1 => some(QUEUES), 1 => all].prop_shuffle();
    (queues, kinds, 0..=4_usize, order, 0..2_u8)
        .prop_map(|(queues, kinds, n, order, worker)| Op::Claim { queues, kinds, n, order, worker })
}

const QUEUES: Word = 3;
const KINDS: Word = 2;

/// Mostly the first, so that jobs meet.
fn queue() -> impl Strategy<Value = Word> {
    prop_oneof![2 => Just(0), 1 => 1..QUEUES]
}

fn kind() -> impl Strategy<Value = Word> {
    prop_oneof![2 => Just(0), 1 => 1..KINDS]
}

/// Mostly the newest.
fn back() -> impl Strategy<Value = Back> {
    prop_oneof![4 => 0..3_usize, 2 => 3..8_usize, 1 => 8..30_usize]
}

fn span() -> impl Strategy<Value = Span> {
    select(vec![MILLI, HALF, SECOND, SECOND.times(10), MINUTE])
}

/// To the next retry, past a lease, past a window, past what a queue keeps.
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

fn due() -> impl Strategy<Value = Due> {
    let at = select(vec![Span::ZERO, SECOND, SECOND.times(5), MINUTE]);
    prop_oneof![4 => Just(Due::Now), 2 => span().prop_map(Due::After), 1 => at.prop_map(Due::At)]
}

fn priority() -> impl Strategy<Value = i32> {
    prop_oneof![5 => Just(0), 3 => select(vec![1, -1]), 1 => select(vec![i32::MAX, i32::MIN])]
}

fn unique() -> impl Strategy<Value = Unique> {
    let hold = select(vec![Hold::UntilEnd, Hold::UntilStart, Hold::UntilSuccess, Hold::Window]);
    let window = option::of(select(vec![MINUTE, HALF, SECOND.times(5)]));
    (0..words::KEYS, hold, window).prop_map(|(key, hold, window)| {
        let window = if hold == Hold::Window { window.or(Some(MINUTE)) } else { window };
        Unique { key: words::unique_key(key), hold, window }
    })
}

fn limits() -> impl Strategy<Value = Vec<(Word, Option<Word>)>> {
    let value = || option::weighted(0.4, option::weighted(0.3, 0..2_u8));
    (value(), value()).prop_map(|(first, second)| {
        [(0, first), (1, second)].into_iter().filter_map(|(l, v)| Some((l, v?))).collect()
    })
}

fn group_pick() -> impl Strategy<Value = GroupPick> {
    prop_oneof![(0..2_usize).prop_map(GroupPick::New), (0..4_usize).prop_map(GroupPick::Known)]
}

fn after() -> impl Strategy<Value = Vec<(Pick, Needs)>> {
    let pick = prop_oneof![
        3 => (0..3_usize).prop_map(Pick::Earlier),
        3 => back().prop_map(Pick::Job),
        2 => group_pick().prop_map(Pick::Group),
    ];
    let one = (pick, select(vec![Needs::End, Needs::Success]));
    prop_oneof![2 => Just(Vec::new()), 1 => vec(one, 1..=2)]
}

fn policy() -> impl Strategy<Value = Policy> {
    let lapse = [
        Lapse::Crash { quarantine: Some(3) },
        Lapse::Crash { quarantine: Some(1) },
        Lapse::Crash { quarantine: None },
        Lapse::Failure,
        Lapse::Again,
    ];
    let keep = [Keep::Discard, Keep::For(MINUTE), Keep::Once(MINUTE), Keep::For(SECOND)];
    let random =
        (
            select(vec![Some(20), Some(1), Some(2), None]),
            select(vec![Some(DEFAULT_LEASE), Some(SECOND), None]),
            select(lapse.to_vec()),
            select(vec![Reports::Fenced, Reports::Any]),
            select(keep.to_vec()),
            select(vec![Retain::AsQueue, Retain::Nothing]),
            any::<bool>(),
        )
            .prop_map(|(max_attempts, lease, lapse, reports, keep, retain, marked)| {
                Policy { max_attempts, lease, lapse, reports, keep, retain, marked }
            });
    prop_oneof![1 => Just(Policy::default()), 2 => random]
}

fn plan() -> BoxedStrategy<Plan> {
    let place = (queue(), kind(), priority(), 0..5_u8, due());
    let keys = (
        option::weighted(0.4, unique()),
        option::weighted(0.2, (0..2_u8, 0..3_u8)),
        limits(),
        option::weighted(0.4, group_pick()),
        after(),
        policy(),
    );
    (place, keys)
        .prop_map(|((queue, kind, priority, payload, due), keys)| {
            let (unique, client_id, limits, group, after, policy) = keys;
            Plan {
                queue,
                kind,
                priority,
                payload,
                due,
                unique,
                client_id,
                limits,
                group,
                after,
                policy,
            }
        })
        .boxed()
}

fn sight() -> impl Strategy<Value = Sight> {
    prop_oneof![3 => Just(Sight::Fresh), 1 => Just(Sight::Old)]
}

fn act() -> impl Strategy<Value = Act> {
    let follow_ups = || prop_oneof![4 => Just(Vec::new()), 1 => vec(plan(), 1..=2)];
    let finish = (end(), proptest::bool::weighted(0.1), follow_ups())
        .prop_map(|(outcome, anonymous, then)| What::Finish { outcome, anonymous, then });
    let by_worker = prop_oneof![
        6 => finish,
        1 => select(vec![What::Lapsed, What::TimedOut, What::HandedOver]),
    ];
    let by_hand = prop_oneof![
        3 => select(vec![What::Cancel, What::Retry, What::Delete, What::Prune, What::TakeResult]),
        1 => edit(),
    ];
    let decide = |on: BoxedStrategy<On>, what: BoxedStrategy<What>| {
        (on, sight(), what).prop_map(|(on, sight, what)| Act::Decide { on, sight, what })
    };
    let delivery = || back().prop_map(On::Delivery).boxed();
    let job = prop_oneof![1 => delivery(), 2 => back().prop_map(On::Job)].boxed();
    let tick = (0..2_u8, sight(), select(vec![MINUTE, HOUR]), follow_ups())
        .prop_map(|(schedule, sight, forward, push)| Act::Tick { schedule, sight, forward, push });
    Union::new_weighted(vec![
        (10, decide(delivery(), by_worker.boxed()).boxed()),
        (5, decide(job, by_hand.boxed()).boxed()),
        (1, (0..4_usize).prop_map(Act::Seal).boxed()),
        (2, tick.boxed()),
    ])
}

fn edit() -> impl Strategy<Value = What> {
    (option::of(0..QUEUES), option::of(priority()), option::of(limits()), option::of(due()))
        .prop_map(|(queue, priority, limits, due)| What::Edit { queue, priority, limits, due })
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        6 => any::<bool>().prop_map(|result| End::Done { result }),
        4 => any::<bool>().prop_map(|detail| End::Failed { detail }),
        1 => any::<bool>().prop_map(|detail| End::FailedForGood { detail }),
        3 => select(vec![Span::ZERO, MILLI, SECOND]).prop_map(End::FailedFor),
        1 => span().prop_map(End::Snooze),
        1 => Just(End::Cancel),
        2 => Just(End::Interrupted),
    ]
}

const TABLES: [Table; 6] = [
    Table::Limits,
    Table::Queues,
    Table::Schedules,
    Table::Handlers,
    Table::Workers,
    Table::Tokens,
];

fn definition() -> impl Strategy<Value = Definition> {
    let table = prop_oneof![
        4 => Just(Table::Limits),
        3 => Just(Table::Queues),
        2 => Just(Table::Schedules),
        1 => select(TABLES.to_vec()),
    ];
    let guard = prop_oneof![
        4 => Just(Guard::Any),
        1 => Just(Guard::Absent),
        2 => (0..2_usize).prop_map(Guard::At),
    ];
    let value = option::weighted(0.8, 0..words::VALUES);
    let expires = option::weighted(0.1, select(vec![MINUTE, SECOND]));
    (table, 0..2_u8, value, guard, expires).prop_map(
        |(table, name, value, guard, expires_after)| Definition {
            table,
            name,
            value,
            guard,
            expires_after,
        },
    )
}

fn upkeep() -> impl Strategy<Value = Upkeep> {
    let few = || prop_oneof![1 => 0..3_usize, 3 => Just(100)];
    prop_oneof![
        6 => few().prop_map(Upkeep::Promote),
        3 => Just(Upkeep::Rescue),
        1 => few().prop_map(Upkeep::Lapsed),
        3 => select(vec![100, 1, 3]).prop_map(Upkeep::Prune),
        1 => (1..3_u64, select(vec![SECOND, MINUTE]))
            .prop_map(|(node, span)| Upkeep::Lead { node, span }),
    ]
}

fn view() -> impl Strategy<Value = View> {
    let queue = || option::of(0..QUEUES);
    let list = (select(State::ALL.to_vec()), queue(), option::of(0..KINDS), 1..4_usize)
        .prop_map(|(state, queue, kind, n)| View::List { state, queue, kind, n });
    prop_oneof![
        4 => list,
        1 => queue().prop_map(View::Counts),
        2 => (select(TABLES.to_vec()), 1..3_usize).prop_map(|(table, n)| View::Entries(table, n)),
        1 => (back(), 0..=100_u8).prop_map(|(back, percent)| View::Progress(back, percent)),
        3 => (back(), 0..9_u8).prop_map(|(back, n)| View::Line(back, n)),
        3 => back().prop_map(View::Notes),
        2 => (1..5_u64).prop_map(View::Stat),
        2 => select(Step::ALL.to_vec()).prop_map(View::Stats),
    ]
}
