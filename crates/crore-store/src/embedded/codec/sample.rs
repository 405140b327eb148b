//! Random jobs for tests: every variant, and numbers up to their limits.

use std::sync::Arc;

use crore_core::event::{OnEventTimeout, ReceivedEvent};
use crore_core::fair::FairKey;
use crore_core::group::Group;
use crore_core::job::{
    Attempt, ClientId, DeliveryEnd, Dependency, DependencyCondition, DependencyTarget, DueTime,
    EndReason, JobRetention, Lapse, ManualAction, ManualActionType, ReportDetails, ReportFencing,
    ResultRetention, StartDeadline, StoredResult,
};
use crore_core::limit::LimitKey;
use crore_core::push::{GroupRef, NewDependency, NewDependencyTarget, UnsetFields};
use crore_core::retry::{Backoff, Retry};
use crore_core::unique::{Unique, UniqueHold};
use crore_core::version::{MAX_PART, Version, VersionRequirement};
use crore_core::{
    AwaitedEvent, Delivery, Encoding, EventId, EventWait, GroupId, IndexKey, JobId, Live, Name,
    NewJob, OwnerId, Payload, Revision, Span, Spec, State, Time,
};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

fn number() -> impl Strategy<Value = u64> {
    let near_a_byte = (0..64_u32, 0..3_u64).prop_map(|(bit, off)| (1 << bit) - 1 + off);
    prop_oneof![0..300_u64, near_a_byte, any::<u64>(), Just(u64::MAX)]
}

fn number32() -> impl Strategy<Value = u32> {
    prop_oneof![0..300_u32, any::<u32>(), Just(u32::MAX)]
}

fn priority() -> impl Strategy<Value = i32> {
    prop_oneof![Just(0), -70..70_i32, any::<i32>(), Just(i32::MIN), Just(i32::MAX)]
}

fn span() -> impl Strategy<Value = Span> {
    number().prop_map(Span::from_millis)
}

fn time() -> impl Strategy<Value = Time> {
    let near = 1_700_000_000_000..1_700_000_100_000_i64;
    prop_oneof![near, 0..=Time::MAX.as_millis(), Just(0), Just(i64::MAX)]
        .prop_map(Time::from_millis)
}

fn text() -> impl Strategy<Value = Arc<str>> {
    let long = Just("é".repeat(100));
    prop_oneof![Just(String::new()), "[a-z]{1,8}", "\\PC{0,20}", any::<String>(), long]
        .prop_map(Into::into)
}

fn name() -> impl Strategy<Value = Name> {
    prop_oneof!["[a-z]{1,12}", "[^\\p{Cc}]{1,60}", Just("q".repeat(255))]
        .prop_map(|text| Name::new("name", &text).expect("a name"))
}

fn payload() -> impl Strategy<Value = Payload> {
    let bytes = prop_oneof![vec(any::<u8>(), 0..40), vec(any::<u8>(), 120..400)];
    (select(&Encoding::ALL[..]), bytes).prop_map(|(encoding, bytes)| Payload::new(encoding, bytes))
}

fn retry() -> impl Strategy<Value = Retry> {
    let backoff = prop_oneof![
        Just(Backoff::None),
        span().prop_map(|every| Backoff::Constant { every }),
        span().prop_map(|step| Backoff::Linear { step }),
        (span(), number32()).prop_map(|(base, factor)| Backoff::Exponential { base, factor }),
        Just(Backoff::Polynomial),
    ];
    let other = (backoff, option::of(number32()), option::of(span()), any::<u8>()).prop_map(
        |(backoff, max_attempts, max_interval, jitter)| Retry {
            backoff,
            max_attempts,
            max_interval,
            jitter,
        },
    );
    prop_oneof![Just(Retry::default()), other]
}

fn lapse() -> impl Strategy<Value = Lapse> {
    prop_oneof![
        Just(Lapse::Crash { quarantine: Some(3) }),
        option::of(number32()).prop_map(|quarantine| Lapse::Crash { quarantine }),
        Just(Lapse::Failure),
        Just(Lapse::Again),
    ]
}

fn keep() -> impl Strategy<Value = ResultRetention> {
    prop_oneof![
        Just(ResultRetention::Discard),
        span().prop_map(ResultRetention::Once),
        span().prop_map(ResultRetention::For)
    ]
}

fn unique() -> impl Strategy<Value = Unique> {
    let hold = select(
        &[
            UniqueHold::UntilStart,
            UniqueHold::UntilSuccess,
            UniqueHold::UntilEnd,
            UniqueHold::Window,
        ][..],
    );
    (text(), hold, option::of(span())).prop_map(|(key, hold, window)| Unique { key, hold, window })
}

fn dependency() -> impl Strategy<Value = Dependency> {
    let on = prop_oneof![
        number().prop_map(|id| DependencyTarget::Job(JobId(id))),
        number().prop_map(|id| DependencyTarget::Group(GroupId(id))),
    ];
    (on, select(&[DependencyCondition::End, DependencyCondition::Success][..]))
        .prop_map(|(on, needs)| Dependency { on, needs })
}

fn limit_key() -> impl Strategy<Value = LimitKey> {
    (name(), option::of(text())).prop_map(|(limit, value)| LimitKey { limit, value })
}

fn client_id() -> impl Strategy<Value = ClientId> {
    (name(), text()).prop_map(|(door, id)| ClientId { door, id })
}

/// Boxed in parts, like [`live`]: the strategy trees would overflow a test's stack otherwise.
pub(super) fn spec() -> BoxedStrategy<Spec> {
    let label = || text().prop_map(|text| text.to_string());
    let lease = prop_oneof![Just(Some(Span::from_secs(30))), option::of(span())];
    let head = (name(), name(), priority(), vec(limit_key(), 0..4), option::of(client_id()));
    let reports = select(&[ReportFencing::Fenced, ReportFencing::Any][..]);
    let retain = select(&[JobRetention::AsQueue, JobRetention::Nothing][..]);
    let ends = (option::of(span()), lapse(), reports, keep(), retain);
    let policies = (lease, option::of(unique()), retry(), ends);
    let parent = option::of((number().prop_map(JobId), number32()));
    let pusher = option::of(number().prop_map(OwnerId));
    let fair = option::of(option::of(text()).prop_map(FairKey::new));
    let replay_of = option::of(number().prop_map(JobId));
    let tags = (btree_map(label(), label(), 0..10), option::of(text()), replay_of);
    let costs = option::of(vec(any::<u32>(), 1..4).prop_map(Into::into));
    let index = option::of(vec(any::<u64>().prop_map(IndexKey), 1..4).prop_map(Into::into));
    let wait_for = option::of(awaited_event().prop_map(Box::new));
    let marks = (tags, pusher, fair, (option::of(worker_version()), costs, index), wait_for);
    let ties = (option::of(number().prop_map(GroupId)), vec(dependency(), 0..4), parent, marks);
    let parts = (head.boxed(), policies.boxed(), ties.boxed(), payload());
    parts
        .prop_map(|(head, policies, ties, payload)| {
            let (queue, kind, priority, limits, client_id) = head;
            let (lease, unique, retry, (timeout, lapse, reports, keep, retain)) = policies;
            let (group, after, parent, marks) = ties;
            let ((labels, trace, replay_of), pusher, fair, counted, wait_for) = marks;
            let (worker_version, costs, index) = counted;
            Spec {
                lease,
                unique: unique.map(Box::new),
                queue,
                kind,
                priority,
                payload,
                retry,
                timeout,
                lapse,
                reports,
                keep,
                retain,
                client_id: client_id.map(Box::new),
                limits,
                costs,
                group,
                after,
                parent,
                labels,
                trace,
                pusher,
                fair,
                index,
                on_expired: None,
                worker_version: worker_version.map(Box::new),
                replay_of,
                wait_for,
            }
        })
        .boxed()
}

/// A spec that may have a follow-up.
pub(super) fn spec_and_follow_up() -> BoxedStrategy<Spec> {
    (spec(), option::weighted(0.3, new_job()))
        .prop_map(|(spec, next)| Spec { on_expired: next.map(Box::new), ..spec })
        .boxed()
}

fn new_job() -> BoxedStrategy<NewJob> {
    let due = prop_oneof![
        Just(DueTime::Now),
        span().prop_map(DueTime::After),
        time().prop_map(DueTime::At),
        Just(DueTime::Keep),
    ];
    let deadline =
        prop_oneof![span().prop_map(StartDeadline::Within), time().prop_map(StartDeadline::At)];
    let index = || number32().prop_map(|n| n as usize);
    let group = || {
        prop_oneof![
            number().prop_map(|id| GroupRef::Id(GroupId(id))),
            index().prop_map(GroupRef::New)
        ]
    };
    let on = prop_oneof![
        number().prop_map(|id| NewDependencyTarget::Job(JobId(id))),
        index().prop_map(NewDependencyTarget::Earlier),
        group().prop_map(NewDependencyTarget::Group),
    ];
    let needs = select(&[DependencyCondition::End, DependencyCondition::Success][..]);
    let after = vec((on, needs).prop_map(|(on, needs)| NewDependency { on, needs }), 0..3);
    let unset = any::<[bool; 4]>().prop_map(|[queue, retry, timeout, keep]| UnsetFields {
        queue,
        retry,
        timeout,
        keep,
    });
    (spec(), due, option::of(deadline), option::of(group()), after, unset)
        .prop_map(|(spec, due, deadline, group, after, unset)| NewJob {
            spec,
            due,
            deadline,
            group,
            after,
            unset,
        })
        .boxed()
}

fn worker_version() -> impl Strategy<Value = VersionRequirement> {
    let part = || prop_oneof![0u32..3, Just(MAX_PART)];
    let version =
        move || proptest::array::uniform3(part()).prop_filter_map("a version", Version::new);
    (version(), option::of(version()))
        .prop_filter_map("a range", |(from, below)| VersionRequirement::between(from, below))
}

fn attempt() -> impl Strategy<Value = Attempt> {
    const ENDED: [DeliveryEnd; 7] = [
        DeliveryEnd::Done,
        DeliveryEnd::Failed,
        DeliveryEnd::Snoozed,
        DeliveryEnd::Interrupted,
        DeliveryEnd::Lapsed,
        DeliveryEnd::TimedOut,
        DeliveryEnd::Cancelled,
    ];
    let times = (time(), time());
    let details = (option::of(time()), option::of(text()))
        .prop_map(|(finished_at, reason)| ReportDetails { finished_at, reason });
    let details = option::of(details).prop_map(Option::unwrap_or_default);
    (number(), times, option::of(name()), select(&ENDED[..]), (option::of(text()), details))
        .prop_map(|(delivery, (started_at, ended_at), worker, ended, (error, details))| Attempt {
            delivery: Delivery(delivery),
            started_at,
            ended_at,
            worker,
            ended,
            error,
            details,
        })
}

fn action() -> impl Strategy<Value = ManualAction> {
    const TYPES: [ManualActionType; 3] =
        [ManualActionType::Cancel, ManualActionType::Retry, ManualActionType::Edit];
    (time(), select(&TYPES[..]), text(), option::of(text()))
        .prop_map(|(at, action, by, detail)| ManualAction { at, action, by, detail })
}

fn why() -> impl Strategy<Value = EndReason> {
    const WHY: [EndReason; 9] = [
        EndReason::Exhausted,
        EndReason::NotRetried,
        EndReason::Quarantined,
        EndReason::Asked,
        EndReason::GivenUp,
        EndReason::DependencyBroken,
        EndReason::Damaged,
        EndReason::Expired,
        EndReason::EventTimedOut,
    ];
    select(&WHY[..])
}

fn event_wait() -> impl Strategy<Value = EventWait> {
    let received = |(id, sent_at)| ReceivedEvent { id: EventId(id), sent_at, payload: None };
    prop_oneof![
        option::of(time()).prop_map(|until| EventWait::Open { until }),
        (number(), time()).prop_map(move |event| EventWait::Received(received(event))),
        Just(EventWait::TimedOut),
    ]
}

fn awaited_event() -> impl Strategy<Value = AwaitedEvent> {
    (name(), option::of(span()), select(&OnEventTimeout::ALL[..]))
        .prop_map(|(name, timeout, on_timeout)| AwaitedEvent { name, timeout, on_timeout })
}

pub(super) fn live() -> BoxedStrategy<Live> {
    let result = (payload(), time(), any::<bool>())
        .prop_map(|(payload, until, once)| Box::new(StoredResult { payload, until, once }));
    let flags = (select(&State::ALL[..]), any::<bool>(), any::<bool>(), any::<bool>());
    let counts = (number32(), number(), number(), number32(), number32());
    let ends = (option::of(time()), option::of(time()));
    let times = (time(), option::of(time()), time(), time(), ends);
    let event = option::of(event_wait().prop_map(Box::new));
    let past = (vec(attempt(), 0..12), vec(action(), 0..12));
    let past = (option::of(name()), option::of(why()), past, option::of(result), event);
    let parts = (flags, counts.boxed(), times.boxed(), past.boxed());
    parts
        .prop_map(|(flags, counts, times, past)| {
            let (state, stop, counted, broken) = flags;
            let (waits, delivery, revision, attempt, crashes) = counts;
            let (pushed_at, due, started_at, lease_until, (ended_at, deadline)) = times;
            let (worker, why, (history, actions), result, event) = past;
            Live {
                state,
                stop,
                counted,
                broken,
                waits,
                delivery: Delivery(delivery),
                revision: Revision(revision),
                attempt,
                crashes,
                pushed_at,
                due: due.unwrap_or(pushed_at),
                deadline,
                event,
                started_at,
                lease_until,
                ended_at,
                worker,
                why,
                history,
                actions: actions.into(),
                result,
            }
        })
        .boxed()
}

pub(super) fn group() -> impl Strategy<Value = Group> {
    let counts = (number(), number(), number());
    let maker = option::of(number().prop_map(OwnerId));
    (counts, any::<bool>(), any::<bool>(), number(), maker).prop_map(
        |((size, ran, succeeded), sealed, lost, revision, maker)| Group {
            size,
            ran,
            succeeded,
            sealed,
            lost,
            revision: Revision(revision),
            maker,
        },
    )
}
