//! Stored encodings, which must never change.

use crore_core::event::OnEventTimeout;
use crore_core::fair::FairKey;
use crore_core::job::{
    Attempt, ClientId, DeliveryEnd, Dependency, DependencyCondition, DependencyTarget, DueTime,
    EndReason, JobRetention, Lapse, ManualAction, ManualActionType, ReportDetails, ReportFencing,
    ResultRetention, StartDeadline, StoredResult,
};
use crore_core::limit::LimitKey;
use crore_core::push::{GroupRef, NewDependency, NewDependencyTarget, NewJob, UnsetFields};
use crore_core::retry::{Backoff, Retry};
use crore_core::unique::{Unique, UniqueHold};
use crore_core::version::VersionRequirement;
use crore_core::{
    AwaitedEvent, Delivery, Encoding, EventWait, GroupId, JobId, OwnerId, Payload, Revision, Span,
    State, Time,
};

use super::super::numbers::StoredNumber;
use super::*;

pub(super) fn plain_spec() -> Spec {
    Spec::new(name("mail"), name("welcome"), Payload::json("{\"to\":1}"))
}

const PUSHED_AT: Time = Time::from_millis(1_700_000_000_000);

pub(super) fn plain_live() -> Live {
    Live {
        state: State::Ready,
        stop: false,
        counted: false,
        broken: false,
        waits: 0,
        delivery: Delivery::NONE,
        revision: Revision(1),
        attempt: 0,
        crashes: 0,
        pushed_at: PUSHED_AT,
        due: PUSHED_AT,
        deadline: None,
        event: None,
        started_at: Time::ZERO,
        lease_until: Time::ZERO,
        ended_at: None,
        worker: None,
        why: None,
        history: Vec::new(),
        actions: Box::default(),
        result: None,
    }
}

fn later(seconds: u64) -> Time {
    PUSHED_AT.after(Span::from_secs(seconds))
}

fn edited() -> ManualAction {
    let (by, detail) = ("ada".into(), Some("queue q".into()));
    ManualAction { at: later(1), action: ManualActionType::Edit, by, detail }
}

fn running_live() -> Live {
    Live {
        state: State::Running,
        delivery: Delivery(3 << 40 | 77_000_000),
        revision: Revision(2),
        attempt: 1,
        due: later(60),
        started_at: later(86_400),
        lease_until: later(86_430),
        worker: Some(name("mailer-12.host-7")),
        ..plain_live()
    }
}

fn rich_spec() -> Spec {
    Spec {
        lease: None,
        unique: Some(Box::new(Unique {
            key: "mail:1".into(),
            hold: UniqueHold::UntilEnd,
            window: Some(Span::from_secs(5)),
        })),
        priority: -3,
        payload: Payload::new(Encoding::Bytes, &[0, 255][..]),
        retry: Retry {
            backoff: Backoff::Linear { step: Span::from_secs(2) },
            max_attempts: None,
            max_interval: Some(Span::MAX),
            jitter: 255,
        },
        timeout: Some(Span::from_secs(9)),
        lapse: Lapse::Crash { quarantine: None },
        reports: ReportFencing::Any,
        keep: ResultRetention::Once(Span::from_secs(1)),
        retain: JobRetention::Nothing,
        client_id: Some(Box::new(ClientId { door: name("native"), id: "é".into() })),
        limits: vec![
            LimitKey { limit: name("a"), value: None },
            LimitKey { limit: name("b"), value: Some("#1".into()) },
        ],
        group: Some(GroupId(300)),
        after: vec![
            Dependency { on: DependencyTarget::Job(JobId(4)), needs: DependencyCondition::End },
            Dependency {
                on: DependencyTarget::Group(GroupId(300)),
                needs: DependencyCondition::Success,
            },
        ],
        parent: Some((JobId(4), 1)),
        labels: [("team".to_owned(), String::new())].into(),
        trace: Some("00-ab".into()),
        ..plain_spec()
    }
}

fn rich_live() -> Live {
    let attempt = |delivery, ended, error: Option<&str>| Attempt {
        delivery: Delivery(delivery),
        started_at: later(1),
        ended_at: later(2),
        worker: error.map(|_| name("w")),
        ended,
        error: error.map(Into::into),
        details: ReportDetails::default(),
    };
    Live {
        state: State::Dead,
        stop: true,
        counted: true,
        broken: true,
        waits: 2,
        delivery: Delivery(u64::MAX),
        revision: Revision(500),
        attempt: 20,
        crashes: 1,
        due: PUSHED_AT.before(Span::from_secs(1)),
        started_at: later(3),
        lease_until: later(33),
        ended_at: Some(later(4)),
        worker: Some(name("w")),
        why: Some(EndReason::Exhausted),
        history: vec![
            attempt(u64::MAX, DeliveryEnd::Failed, Some("no route")),
            attempt(1, DeliveryEnd::Lapsed, None),
        ],
        result: Some(Box::new(StoredResult {
            payload: Payload::json("1"),
            until: Time::MAX,
            once: true,
        })),
        ..plain_live()
    }
}

#[test]
fn encodings_never_change() {
    let spec_of = |spec: &Spec| hex(&encode(spec, put_spec));
    let live_of = |live: &Live| hex(&encode(live, put_live));
    let group = Group { size: 300, ran: 2, sealed: true, lost: true, ..Group::default() };
    for (form, stored) in [
        (spec_of(&plain_spec()), "0100046d61696c0777656c636f6d6500087b22746f223a317d"),
        (
            spec_of(&rich_spec()),
            "01ffff03046d61696c0777656c636f6d650502016100016201022331066e617469766502c3a9\
             00066d61696c3a310201882702d00f0001ffffffffffffffffff01ff01e807a8460000ac0202\
             00040001ac0201040101047465616d000530302d6162040200ff",
        ),
        (live_of(&plain_live()), "010002000180a0abfef962"),
        (
            live_of(&running_live()),
            "011f03c0dadba480600280a0abfef962c0a907e0c4b65280f0b25201106d61696c65722d3132\
             2e686f73742d37",
        ),
        (
            live_of(&rich_live()),
            "01ffff0105ffffffffffffffffff01f40380a0abfef962cf0fd08304c03efecfd3a380bb72f0\
             2e0214010177000200d00fd00f0101770101086e6f20726f75746503d00fd00f000400000131",
        ),
        (hex(&encode(&group, put_group)), "0103ac02020000"),
    ] {
        assert_eq!(form, stored);
    }
    assert_round_trip(&rich_spec(), put_spec, get_spec);
    assert_round_trip(&rich_live(), put_live, get_live);
}

#[test]
fn a_plain_job_is_small() {
    let spec = plain_spec();
    let names = spec.queue.as_str().len() + spec.kind.as_str().len();
    assert!(encode(&spec, put_spec).len() - names - spec.payload.bytes.len() <= 8);
    assert!(encode(&plain_live(), put_live).len() <= 12);
    assert!(encode(&running_live(), put_live).len() <= 45);
}

/// The presence bits of `bytes`, behind their version.
fn bits(bytes: &[u8]) -> u64 {
    decode_all(&bytes[1..], |reader| {
        let bits = reader.var();
        *reader = ByteReader::new(&[]);
        bits
    })
    .expect("bits")
}

#[test]
fn the_bits_of_a_spec_never_change() {
    let (plain, rich) = (plain_spec, rich_spec());
    let specs = [
        Spec { priority: rich.priority, ..plain() },
        Spec { client_id: rich.client_id, ..plain() },
        Spec { limits: rich.limits, ..plain() },
        Spec { lease: rich.lease, ..plain() },
        Spec { unique: rich.unique, ..plain() },
        Spec { retry: rich.retry, ..plain() },
        Spec { keep: rich.keep, ..plain() },
        Spec { timeout: rich.timeout, ..plain() },
        Spec { lapse: rich.lapse, ..plain() },
        Spec { reports: rich.reports, ..plain() },
        Spec { retain: rich.retain, ..plain() },
        Spec { group: rich.group, ..plain() },
        Spec { after: rich.after, ..plain() },
        Spec { parent: rich.parent, ..plain() },
        Spec { labels: rich.labels, ..plain() },
        Spec { trace: rich.trace, ..plain() },
        Spec { pusher: Some(OwnerId(300)), ..plain() },
    ];
    for (bit, spec) in specs.into_iter().enumerate() {
        assert_eq!(bits(&encode(&spec, put_spec)), 1 << bit, "{spec:?}");
        assert_round_trip(&spec, put_spec, get_spec);
    }
    let fair = Spec { fair: Some(FairKey::new(Some("acme".into()))), ..plain() };
    assert_eq!(
        hex(&encode(&fair, put_spec)),
        "01808010046d61696c0777656c636f6d650461636d6500087b22746f223a317d"
    );
    assert_round_trip(&fair, put_spec, get_spec);
    let costing = Spec { costs: Some([1, 300].into()), ..plain() };
    assert_eq!(
        hex(&encode(&costing, put_spec)),
        "01808040046d61696c0777656c636f6d650201ac0200087b22746f223a317d"
    );
    assert_round_trip(&costing, put_spec, get_spec);
    let next = NewJob {
        due: DueTime::After(Span::from_secs(2)),
        deadline: Some(StartDeadline::Within(Span::from_secs(1))),
        group: Some(GroupRef::Id(GroupId(300))),
        after: vec![NewDependency {
            on: NewDependencyTarget::Job(JobId(4)),
            needs: DependencyCondition::Success,
        }],
        unset: UnsetFields { retry: true, keep: true, ..UnsetFields::default() },
        ..plain().into()
    };
    let expiring = Spec { on_expired: Some(Box::new(next)), ..plain() };
    assert_eq!(
        hex(&encode(&expiring, put_spec)),
        "01808008046d61696c0777656c636f6d6501d00f0100e8070100ac02010004010a\
         0100046d61696c0777656c636f6d6500087b22746f223a317d00087b22746f223a317d"
    );
    assert_round_trip(&expiring, put_spec, get_spec);
    let awaited = AwaitedEvent {
        name: name("paid"),
        timeout: Some(Span::from_secs(1)),
        on_timeout: OnEventTimeout::Dead,
    };
    let waiting = Spec { wait_for: Some(Box::new(awaited)), ..plain() };
    assert_eq!(
        hex(&encode(&waiting, put_spec)),
        "01808020046d61696c0777656c636f6d65047061696401e8070200087b22746f223a317d"
    );
    assert_round_trip(&waiting, put_spec, get_spec);
    let required = VersionRequirement::parse("worker_version", ">=2.3 <300.0.1").ok();
    let versioned = Spec { worker_version: required.map(Box::new), ..plain() };
    assert_eq!(
        hex(&encode(&versioned, put_spec)),
        "0180808004046d61696c0777656c636f6d6502030001ac02000100087b22746f223a317d"
    );
    assert_round_trip(&versioned, put_spec, get_spec);
    let replay = Spec { replay_of: Some(JobId(300)), ..plain() };
    assert_eq!(
        hex(&encode(&replay, put_spec)),
        "0180808002046d61696c0777656c636f6d65ac0200087b22746f223a317d"
    );
    assert_round_trip(&replay, put_spec, get_spec);
    let indexed = Spec { index: Some([IndexKey(0x0102_0304_0506_0708)].into()), ..plain() };
    assert_eq!(
        hex(&encode(&indexed, put_spec)),
        "0180808001046d61696c0777656c636f6d6501080706050403020100087b22746f223a317d"
    );
    assert_round_trip(&indexed, put_spec, get_spec);
}

#[test]
fn the_bits_of_a_live_record_never_change() {
    let (plain, rich) = (plain_live, rich_live());
    let often = rich.result.clone().map(|kept| Box::new(StoredResult { once: false, ..*kept }));
    let lives = [
        (0x1, Live { started_at: rich.started_at, ..plain() }),
        (0x2, Live { lease_until: rich.lease_until, ..plain() }),
        (0x4, Live { attempt: rich.attempt, ..plain() }),
        (0x8, Live { worker: rich.worker, ..plain() }),
        (0x10, Live { due: rich.due, ..plain() }),
        (0x20, Live { ended_at: rich.ended_at, ..plain() }),
        (0x40, Live { history: rich.history, ..plain() }),
        (0x80, Live { result: often, ..plain() }),
        (0x180, Live { result: rich.result, ..plain() }),
        (0x200, Live { why: rich.why, ..plain() }),
        (0x400, Live { crashes: rich.crashes, ..plain() }),
        (0x800, Live { waits: rich.waits, ..plain() }),
        (0x1000, Live { stop: true, ..plain() }),
        (0x2000, Live { counted: true, ..plain() }),
        (0x4000, Live { broken: true, ..plain() }),
        (0x10000, Live { deadline: Some(later(5)), ..plain() }),
        (0x80000, Live { actions: [edited()].into(), ..plain() }),
        (0x20000, Live { event: Some(Box::new(EventWait::TimedOut)), ..plain() }),
    ];
    for (expected, live) in lives {
        assert_eq!(bits(&encode(&live, put_live)), expected, "{live:?}");
        assert_round_trip(&live, put_live, get_live);
    }
    let acted = Live { actions: [edited()].into(), ..plain() };
    assert_eq!(
        hex(&encode(&acted, put_live)),
        "0180802002000180a0abfef96201d00f0203616461010771756575652071"
    );
    let none = Group::default();
    for (expected, group) in [
        (1, Group { sealed: true, ..none }),
        (2, Group { lost: true, ..none }),
        (4, Group { maker: Some(OwnerId(300)), ..none }),
    ] {
        assert_eq!(bits(&encode(&group, put_group)), expected);
        assert_round_trip(&group, put_group, get_group);
    }
}

/// Checks that `variants` have the numbers from 0 on, and that there are no others.
fn assert_numbers<T: StoredNumber + Copy + PartialEq + Debug>(variants: &[T]) {
    for number in 0..=u8::MAX {
        match variants.get(usize::from(number)) {
            Some(variant) => {
                assert_eq!(variant.number(), number);
                assert_eq!(T::from_number(number).as_ref(), Ok(variant));
            }
            None => assert!(T::from_number(number).is_err(), "{number}"),
        }
    }
}

#[test]
fn the_numbers_of_variants_never_change() {
    use {DeliveryEnd as E, EndReason as W};
    assert_numbers(&State::ALL);
    assert_numbers(&Encoding::ALL);
    assert_numbers(&[
        UniqueHold::UntilStart,
        UniqueHold::UntilSuccess,
        UniqueHold::UntilEnd,
        UniqueHold::Window,
    ]);
    assert_numbers(&OnEventTimeout::ALL);
    assert_numbers(&[DependencyCondition::End, DependencyCondition::Success]);
    assert_numbers(&[
        E::Done,
        E::Failed,
        E::Snoozed,
        E::Interrupted,
        E::Lapsed,
        E::TimedOut,
        E::Cancelled,
    ]);
    assert_numbers(&[ManualActionType::Cancel, ManualActionType::Retry, ManualActionType::Edit]);
    assert_numbers(&[
        W::Exhausted,
        W::NotRetried,
        W::Quarantined,
        W::Asked,
        W::GivenUp,
        W::DependencyBroken,
        W::Damaged,
        W::Expired,
        W::EventTimedOut,
    ]);
}
