use std::collections::BTreeMap;

use crore_core::job::{
    ClientId, DEFAULT_LEASE, Dependency, DependencyCondition, DependencyTarget, DueTime,
    JobRetention, Lapse, ReportFencing, ResultRetention,
};
use crore_core::limit::LimitKey;
use crore_core::machine::JobEvent;
use crore_core::push::{GroupRef, NewDependency, NewDependencyTarget};
use crore_core::unique::{Unique, UniqueHold};
use crore_core::{
    Delivery, Encoding, GroupId, Job, JobId, Live, NewJob, Payload, Span, Spec, State, Time,
};
use crore_store::Jobs;
use crore_store::jobs::Pushed;

use super::{DONE, ask, job, name, spec, subject};
use crore_store::jobs::JobSelector;

fn unique(key: &str, hold: UniqueHold, window: Option<u64>) -> NewJob {
    let mut spec = spec("q", "k");
    let window = window.map(Span::from_secs);
    spec.unique = Some(Box::new(Unique { key: key.into(), hold, window }));
    spec.into()
}

fn after(on: NewDependencyTarget, needs: DependencyCondition) -> NewJob {
    NewJob { after: vec![NewDependency { on, needs }], ..job("q") }
}

#[tokio::test]
async fn every_record_reads_back_equal() {
    let Some(it) = subject().await else { return };
    let every = [0, b'"', b'\\', 0x7f, 0x80, 0xff];
    let spec = Spec {
        priority: i32::MIN,
        payload: Payload::new(Encoding::Msgpack, every),
        lease: Some(Span::MAX),
        timeout: Some(Span::MAX),
        lapse: Lapse::Crash { quarantine: Some(u32::MAX) },
        reports: ReportFencing::Any,
        keep: ResultRetention::Once(Span::MAX),
        retain: JobRetention::Nothing,
        unique: Some(Box::new(Unique {
            key: "a\0'; drop table jobs; --".into(),
            hold: UniqueHold::Window,
            window: Some(Span::MAX),
        })),
        client_id: Some(Box::new(ClientId { door: name("lakh:é"), id: "\0\u{10ffff}".into() })),
        limits: vec![
            LimitKey { limit: name("l"), value: Some("\0\u{1}".into()) },
            LimitKey { limit: name("l"), value: None },
        ],
        parent: Some((JobId(7), u32::MAX)),
        labels: BTreeMap::from([("a\0".to_owned(), "$1 \u{2028}".to_owned())]),
        trace: Some("\0".into()),
        ..spec(&"ü".repeat(127), "'; drop schema public; --")
    };
    let due = DueTime::At(Time::MAX);
    let id = it.push(vec![NewJob { due, ..spec.clone().into() }]).await[0];
    let live = Live::pushed(it.now(), Time::MAX, 0);
    assert_eq!(it.get(id).await, Some(Job { id, spec: spec.into(), live }));
}

#[tokio::test]
async fn a_claimed_and_ended_job_reads_back_equal() {
    let Some(it) = subject().await else { return };
    let mut new = spec("q", "k");
    new.keep = ResultRetention::For(Span::from_secs(9));
    let id = it.push(vec![new.into()]).await[0];
    let mut expected = it.get(id).await.expect("stored");
    for round in 1..=12 {
        let claimed = it.claim(ask(&["q"], 1)).await.pop().expect("ready");
        expected.live.claim(claimed.live.delivery, it.now(), Some(DEFAULT_LEASE), &name("w"));
        assert_eq!(claimed, expected);
        let event = JobEvent::Lapsed(claimed.live.delivery);
        let event = if round == 3 { finished(&claimed) } else { event };
        let change = crore_core::machine::decide(&claimed, &event, 0).expect("decided");
        let crore_core::machine::NextRecord::Live(next) = &change.next else { panic!("kept") };
        expected.apply(next, it.now());
        it.decide(&claimed, event).await;
        assert_eq!(it.get(id).await.as_ref(), Some(&expected));
        if expected.live.state == State::Dead {
            it.decide(&expected.clone(), JobEvent::Retry).await;
            expected = it.get(id).await.expect("stored");
        }
        if expected.live.state.has_ended() {
            break;
        }
    }
    assert_eq!(expected.live.state, State::Done);
}

fn finished(job: &Job) -> JobEvent {
    let result = Some(Payload::new(Encoding::Bytes, [0, 255]));
    let report = crore_core::machine::Outcome::Done { result }.into();
    JobEvent::Finished { delivery: Some(job.live.delivery), report }
}

#[tokio::test]
async fn ids_grow_in_the_order_of_the_batch_and_unknown_ones_are_none() {
    let Some(it) = subject().await else { return };
    let ids = it.push(vec![job("q"); 100]).await;
    assert!(ids.is_sorted() && ids[0].0 > 0);
    let asked = vec![JobId(u64::MAX), ids[3], JobId(0), ids[3], JobId(999_999)];
    let got = it.store.get(JobSelector::all(&asked)).await.expect("gets");
    let got: Vec<_> = got.into_iter().map(|job| job.map(|job| job.id)).collect();
    assert_eq!(got, [None, Some(ids[3]), None, Some(ids[3]), None]);
    assert_eq!(it.answers(Vec::new()).await, []);
}

#[tokio::test]
async fn a_key_has_one_job_in_a_batch_and_between_batches() {
    let Some(it) = subject().await else { return };
    let key = || unique("u", UniqueHold::UntilEnd, None);
    let answers = it.answers(vec![key(), key(), job("q")]).await;
    let [Pushed::New(first), Pushed::Duplicate(again), Pushed::New(_)] = answers[..] else {
        panic!("{answers:?}")
    };
    assert_eq!(first, again);
    assert_eq!(it.answers(vec![key()]).await, [Pushed::Duplicate(first)]);
}

#[tokio::test]
async fn each_unique_hold_ends_at_its_event() {
    let Some(it) = subject().await else { return };
    for (hold, after_start, after_done) in [
        (UniqueHold::UntilStart, true, true),
        (UniqueHold::UntilSuccess, false, true),
        (UniqueHold::UntilEnd, false, true),
        (UniqueHold::Window, false, false),
    ] {
        let key = format!("{hold:?}");
        let again = || unique(&key, hold, Some(60));
        let first = it.push(vec![again()]).await[0];
        let running = it.claim(ask(&["q"], 1)).await.remove(0);
        assert_eq!(running.id, first);
        let other = it.answers(vec![again()]).await[0];
        assert_eq!(matches!(other, Pushed::New(_)), after_start, "{hold:?}");
        if after_start {
            // The new holder keeps the key when the old one ends.
            it.finish(&running, DONE).await;
            assert_eq!(it.answers(vec![again()]).await[0], Pushed::Duplicate(other.id().unwrap()));
            it.claim(ask(&["q"], 1)).await;
            continue;
        }
        it.finish(&running, DONE).await;
        let other = it.answers(vec![again()]).await[0];
        assert_eq!(matches!(other, Pushed::New(_)), after_done, "{hold:?}");
        it.claim(ask(&["q"], 1)).await;
    }
}

#[tokio::test]
async fn a_dead_job_keeps_its_key_only_if_success_ends_the_hold() {
    use crore_core::machine::{Outcome, RetryDirective};
    let Some(it) = subject().await else { return };
    for (hold, free) in [(UniqueHold::UntilSuccess, false), (UniqueHold::UntilEnd, true)] {
        let key = format!("{hold:?}");
        it.push(vec![unique(&key, hold, None)]).await;
        let job = it.claim(ask(&["q"], 1)).await.remove(0);
        let failed =
            Outcome::Failed { error: "no".into(), detail: None, again: RetryDirective::Never };
        it.finish(&job, failed).await;
        let again = it.answers(vec![unique(&key, hold, None)]).await[0];
        assert_eq!(matches!(again, Pushed::New(_)), free, "{hold:?}");
        it.claim(ask(&["q"], 1)).await;
    }
}

#[tokio::test]
async fn a_unique_window_counts_from_the_due_time_and_the_old_job_releases_nothing() {
    let Some(it) = subject().await else { return };
    let key = || unique("u", UniqueHold::UntilEnd, Some(10));
    let later = NewJob { due: DueTime::After(Span::from_secs(5)), ..key() };
    let first = it.push(vec![later]).await[0];
    it.clock.advance(Span::from_millis(14_999));
    assert_eq!(it.answers(vec![key()]).await, [Pushed::Duplicate(first)]);
    it.clock.advance(Span::from_millis(1));
    let second = it.push(vec![key()]).await[0];
    it.decide(&it.get(first).await.expect("stored"), JobEvent::Delete).await;
    assert_eq!(it.answers(vec![key()]).await, [Pushed::Duplicate(second)]);
}

#[tokio::test]
async fn a_client_id_is_unique_within_its_door_until_its_job_is_removed() {
    let Some(it) = subject().await else { return };
    let client = |door: &str, id: &str| {
        let mut spec = spec("q", "k");
        spec.client_id = Some(Box::new(ClientId { door: name(door), id: id.into() }));
        NewJob::from(spec)
    };
    let first = it.push(vec![client("a", "x")]).await[0];
    assert_eq!(it.answers(vec![client("a", "x")]).await, [Pushed::Duplicate(first)]);
    it.push(vec![client("b", "x"), client("a", "y")]).await;
    let running = it.claim(ask(&["q"], 1)).await.remove(0);
    it.finish(&running, DONE).await;
    assert_eq!(it.answers(vec![client("a", "x")]).await, [Pushed::Duplicate(first)]);
    it.decide(&it.get(first).await.expect("kept"), JobEvent::Delete).await;
    it.push(vec![client("a", "x")]).await;
}

#[tokio::test]
async fn unsatisfiable_dependencies_are_broken_and_others_are_pushed() {
    let Some(it) = subject().await else { return };
    let gone = it.push(vec![job("q")]).await[0];
    it.decide(&it.get(gone).await.expect("stored"), JobEvent::Cancel).await;
    let nobody = JobId(u64::MAX);
    let answers = it
        .answers(vec![
            after(NewDependencyTarget::Job(nobody), DependencyCondition::End),
            after(NewDependencyTarget::Earlier(0), DependencyCondition::End),
            after(NewDependencyTarget::Job(gone), DependencyCondition::Success),
            after(NewDependencyTarget::Job(gone), DependencyCondition::End),
            after(NewDependencyTarget::Group(GroupRef::Id(GroupId(404))), DependencyCondition::End),
            NewJob { group: Some(GroupRef::Id(GroupId(405))), ..job("q") },
            job("q"),
        ])
        .await;
    assert_eq!(
        answers[..3],
        [
            Pushed::Broken(DependencyTarget::Job(nobody)),
            Pushed::BrokenBy(0),
            Pushed::Broken(DependencyTarget::Job(gone)),
        ]
    );
    assert_eq!(
        answers[4..6],
        [
            Pushed::Broken(DependencyTarget::Group(GroupId(404))),
            Pushed::Broken(DependencyTarget::Group(GroupId(405))),
        ]
    );
    let ready = it.claim_ids(ask(&["q"], 10)).await;
    assert_eq!(ready, [answers[3].id().unwrap(), answers[6].id().unwrap()]);
}

#[tokio::test]
async fn a_reference_to_a_duplicate_means_the_job_that_was_first() {
    let Some(it) = subject().await else { return };
    let key = || unique("u", UniqueHold::Window, Some(60));
    let first = it.push(vec![key()]).await[0];
    let running = it.claim(ask(&["q"], 1)).await.remove(0);
    let answers = it
        .answers(vec![key(), after(NewDependencyTarget::Earlier(0), DependencyCondition::Success)])
        .await;
    assert_eq!(answers[0], Pushed::Duplicate(first));
    let held = it.get(answers[1].id().expect("new")).await.expect("stored");
    assert_eq!(
        held.spec.after,
        [Dependency { on: DependencyTarget::Job(first), needs: DependencyCondition::Success }]
    );
    assert_eq!((held.live.state, held.live.waits), (State::Waiting, 1));
    it.finish(&running, DONE).await;
    assert_eq!(it.claim_ids(ask(&["q"], 9)).await, [held.id]);
    let late = it
        .answers(vec![key(), after(NewDependencyTarget::Earlier(0), DependencyCondition::Success)])
        .await;
    assert_eq!(it.claim_ids(ask(&["q"], 9)).await, [late[1].id().expect("ready at once")]);
}

#[tokio::test]
async fn a_reference_outside_the_batch_is_broken() {
    let Some(it) = subject().await else { return };
    let nobody = Pushed::Broken(DependencyTarget::Group(GroupId(0)));
    for (bad, answer) in [
        (after(NewDependencyTarget::Earlier(1), DependencyCondition::End), Pushed::BrokenBy(1)),
        (
            after(NewDependencyTarget::Earlier(usize::MAX), DependencyCondition::End),
            Pushed::BrokenBy(usize::MAX),
        ),
        (after(NewDependencyTarget::Group(GroupRef::New(0)), DependencyCondition::End), nobody),
        (NewJob { group: Some(GroupRef::New(9)), ..job("q") }, nobody),
    ] {
        let answers = it.answers(vec![job("q"), bad]).await;
        assert_eq!(answers[1], answer);
    }
    assert_eq!(it.claim(ask(&["q"], 9)).await.len(), 4);
}

#[tokio::test]
async fn job_times_come_only_from_the_clock_of_the_store() {
    let Some(it) = subject().await else { return };
    let due = |due| NewJob { due, ..job("q") };
    let past = DueTime::At(Time::ZERO);
    let soon = DueTime::After(Span::from_millis(1));
    let ids = it.push(vec![due(past), due(soon), due(DueTime::Keep)]).await;
    let states = [State::Ready, State::Scheduled, State::Ready];
    for (id, state) in ids.into_iter().zip(states) {
        let live = it.get(id).await.expect("stored").live;
        assert_eq!((live.state, live.pushed_at), (state, it.now()));
        assert!(live.due >= it.now() && live.delivery == Delivery::NONE);
    }
}
