//! Events: a job that waits for one is released by the first of its name, once, with its payload.

use crore_core::event::OnEventTimeout;
use crore_core::job::{DependencyCondition, EndReason, StartDeadline};
use crore_core::machine::{JobEvent, RetryDirective};
use crore_core::push::{GroupRef, NewDependencyTarget};
use crore_core::unique::UniqueHold;
use crore_core::{
    AwaitedEvent, EventCaps, EventId, EventWait, Job, JobId, KeptEvent, NewEvent, NewJob, Payload,
    Span, State,
};
use crore_store::events::{Released, SendResult};
use crore_store::jobs::{Applied, Pushed};

use super::super::job_builder::{DAY, MINUTE, NewJobBuilder, SECOND, grouped, job, name};
use super::super::subject::{StoreSubject, change, expect_ok, failed, ids};

const CAPS: EventCaps = EventCaps { count: 100, bytes: 10_000 };

/// A job that waits for the event `paid`.
fn waiting(queue: &str) -> NewJob {
    wait(queue, None, OnEventTimeout::Cancel)
}

fn wait(queue: &str, timeout: Option<Span>, on_timeout: OnEventTimeout) -> NewJob {
    let awaited = AwaitedEvent { name: name("paid"), timeout, on_timeout };
    job(queue).with(|job| job.spec.wait_for = Some(Box::new(awaited)))
}

async fn try_send(s: &StoreSubject, event: &str, keep: Span, caps: EventCaps) -> SendResult {
    let payload = Payload::json(&format!("\"{event} {}\"", s.now().as_millis()));
    let event = NewEvent { name: name(event), payload, keep };
    expect_ok(s.store.send(event, caps)).await.into_inner()
}

/// Sends an event; returns its id and how many jobs waited.
async fn send(s: &StoreSubject, event: &str, keep: Span) -> (EventId, usize) {
    match try_send(s, event, keep, CAPS).await {
        SendResult::Sent { id, now, waiting } => {
            assert_eq!(now, s.now());
            (id, waiting)
        }
        SendResult::Full => panic!("there is room for `{event}`"),
    }
}

async fn release(s: &StoreSubject, n: usize) -> Released {
    expect_ok(s.store.release(n)).await
}

async fn kept(s: &StoreSubject, event: &str) -> Option<KeptEvent> {
    expect_ok(s.store.event(name(event))).await
}

/// The event that a job has received, and its payload.
fn received(job: &Job) -> Option<(EventId, Option<Payload>)> {
    let event = job.live.event.as_deref().and_then(EventWait::received)?;
    Some((event.id, event.payload.clone()))
}

async fn timed_out(s: &StoreSubject) -> Vec<JobId> {
    ids(&expect_ok(s.store.lapsed(100)).await.timed_out)
}

async fn time_out(s: &StoreSubject, id: JobId) {
    s.apply_to_current(id, &JobEvent::EventTimedOut(s.now())).await;
}

pub(in super::super) async fn an_event_releases_the_jobs_that_wait_for_it(s: &StoreSubject) {
    let [first, second] = s.push_all(vec![waiting("q"); 2]).await[..] else { panic!("two jobs") };
    let other = s.push(waiting("q").with(|job| {
        job.spec.wait_for.as_mut().expect("it waits").name = name("other");
    }));
    let other = other.await;
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
    assert_eq!(s.job(first).await.live.state, State::Waiting);
    let (id, waiting) = send(s, "paid", MINUTE).await;
    assert_eq!(waiting, 2);
    assert_eq!(s.claim_ids(&["q"], 9).await, [], "a send alone releases nothing");
    assert_eq!(release(s, 9).await, Released { count: 2, more: false });
    let payload = kept(s, "paid").await.map(|event| event.payload);
    assert_eq!(received(&s.job(first).await), Some((id, payload.clone())), "a read has it");
    let claimed = s.claim(&["q"], 9).await;
    assert_eq!(ids(&claimed), [first, second]);
    for job in &claimed {
        assert_eq!(received(job), Some((id, payload.clone())), "a claim has it");
    }
    assert_eq!(s.job(other).await.live.state, State::Waiting);
    s.finish_as_decided(&claimed[0], failed(RetryDirective::After(Span::ZERO))).await;
    assert_eq!(received(&s.claim_one("q").await), Some((id, payload)), "and so has a retry");
}

pub(in super::super) async fn an_event_that_no_job_waits_for_is_kept_for_jobs_pushed_later(
    s: &StoreSubject,
) {
    let (id, waiting_jobs) = send(s, "paid", MINUTE).await;
    assert_eq!((waiting_jobs, release(s, 9).await.count), (0, 0));
    s.advance(SECOND);
    let running = s.start(waiting("q")).await;
    let event = kept(s, "paid").await.expect("kept");
    assert_eq!((event.id, event.until), (id, event.sent_at.after(MINUTE)));
    assert_eq!(received(&running), Some((id, Some(event.payload))));
    let wait = running.live.event.as_deref().and_then(EventWait::received).expect("received");
    assert_eq!(wait.sent_at, event.sent_at);
}

pub(in super::super) async fn an_event_is_gone_at_the_end_of_its_retention(s: &StoreSubject) {
    send(s, "paid", MINUTE).await;
    s.advance(MINUTE);
    assert_eq!(kept(s, "paid").await, None);
    s.push(waiting("q")).await;
    expect_ok(s.store.prune(100)).await;
    assert_eq!(release(s, 9).await, Released { count: 0, more: false });
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
}

pub(in super::super) async fn an_event_that_is_not_kept_releases_only_jobs_that_wait(
    s: &StoreSubject,
) {
    let before = s.push(waiting("q")).await;
    send(s, "paid", Span::ZERO).await;
    let after = s.push(waiting("q")).await;
    assert_eq!(kept(s, "paid").await, None);
    assert_eq!(release(s, 9).await, Released { count: 1, more: false });
    assert_eq!(s.claim_ids(&["q"], 9).await, [before]);
    assert_eq!(s.job(after).await.live.state, State::Waiting);
    assert_eq!(send(s, "paid", Span::ZERO).await.1, 1);
    assert_eq!(release(s, 9).await.count, 1);
    assert_eq!(s.claim_ids(&["q"], 9).await, [after]);
}

pub(in super::super) async fn a_release_in_slices_reaches_each_job_once(s: &StoreSubject) {
    let jobs = s.push_all(vec![waiting("q"); 5]).await;
    let (id, _) = send(s, "paid", MINUTE).await;
    assert_eq!(release(s, 2).await, Released { count: 2, more: true });
    let late = s.push(waiting("q")).await;
    assert_eq!(received(&s.job(late).await).map(|(id, _)| id), Some(id), "at once");
    assert_eq!(release(s, 3).await, Released { count: 3, more: false });
    assert_eq!(release(s, 9).await, Released { count: 0, more: false });
    let mut all = jobs;
    all.push(late);
    assert_eq!(s.claim_ids(&["q"], 9).await, all);
}

pub(in super::super) async fn a_job_gets_the_first_event_after_its_push(s: &StoreSubject) {
    let first = s.push(waiting("q")).await;
    let (one, _) = send(s, "paid", Span::ZERO).await;
    let second = s.push(waiting("q")).await;
    s.advance(SECOND);
    let (two, waiting_jobs) = send(s, "paid", MINUTE).await;
    assert_eq!(waiting_jobs, 1, "the first job is owed the first event");
    assert_eq!(release(s, 9).await.count, 2);
    let event = |job: Job| received(&job).map(|(id, _)| id);
    assert_eq!(event(s.job(first).await), Some(one));
    assert_eq!(event(s.job(second).await), Some(two));
    let payload = received(&s.job(first).await).and_then(|(_, payload)| payload);
    assert_ne!(payload, kept(s, "paid").await.map(|event| event.payload), "each with its own");
}

pub(in super::super) async fn a_job_waits_for_its_dependencies_and_its_event(s: &StoreSubject) {
    let [a, b] = s.push_all(vec![job("first"); 2]).await[..] else { panic!("two jobs") };
    let on = |id| waiting("q").after(NewDependencyTarget::Job(id), DependencyCondition::Success);
    let early = s.push(on(a)).await;
    let running = s.claim(&["first"], 2).await;
    s.done(&running[0]).await;
    assert_eq!(s.job(early).await.live.state, State::Waiting, "the event is missing");
    let late = s.push(on(b)).await;
    send(s, "paid", MINUTE).await;
    release(s, 9).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [early]);
    s.done(&running[1]).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [late]);
}

pub(in super::super) async fn a_job_released_by_an_event_is_scheduled_if_it_is_due_later(
    s: &StoreSubject,
) {
    let id = s.push(waiting("q").later(MINUTE)).await;
    send(s, "paid", Span::ZERO).await;
    release(s, 9).await;
    assert_eq!(s.job(id).await.live.state, State::Scheduled);
    s.advance(MINUTE);
    expect_ok(s.store.promote(9)).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [id]);
}

pub(in super::super) async fn a_wait_that_is_over_is_reported_until_it_is_decided(
    s: &StoreSubject,
) {
    let late = s.push(wait("q", Some(MINUTE), OnEventTimeout::Run)).await;
    let soon = s.push(wait("q", Some(SECOND), OnEventTimeout::Run)).await;
    let start = s.now();
    assert_eq!(expect_ok(s.store.lapsed(9)).await.next_at, Some(start.after(SECOND)));
    s.advance(SECOND);
    assert_eq!(timed_out(s).await, [soon], "over at its instant");
    s.advance(MINUTE);
    assert_eq!(timed_out(s).await, [soon, late]);
    let few = expect_ok(s.store.lapsed(1)).await;
    assert_eq!((ids(&few.timed_out), few.next_at <= Some(s.now())), (vec![soon], true));
    time_out(s, soon).await;
    assert_eq!(timed_out(s).await, [late]);
}

pub(in super::super) async fn a_job_that_is_owed_an_event_does_not_time_out(s: &StoreSubject) {
    let id = s.push(wait("q", Some(SECOND), OnEventTimeout::Cancel)).await;
    send(s, "paid", Span::ZERO).await;
    s.advance(MINUTE);
    let lapses = expect_ok(s.store.lapsed(9)).await;
    assert_eq!((ids(&lapses.timed_out), lapses.next_at), (vec![], None));
    assert_eq!(release(s, 9).await.count, 1);
    assert_eq!(s.claim_ids(&["q"], 9).await, [id]);
}

pub(in super::super) async fn a_timed_out_job_does_what_it_says(s: &StoreSubject) {
    for (then, state) in [
        (OnEventTimeout::Run, State::Ready),
        (OnEventTimeout::Cancel, State::Cancelled),
        (OnEventTimeout::Dead, State::Dead),
    ] {
        let id = s.push(wait("q", Some(SECOND), then)).await;
        s.advance(SECOND);
        time_out(s, id).await;
        let live = s.job(id).await.live;
        assert_eq!((live.state, live.event.as_deref()), (state, Some(&EventWait::TimedOut)));
        let why = (then != OnEventTimeout::Run).then_some(EndReason::EventTimedOut);
        assert_eq!(live.why, why);
        assert_eq!(send(s, "paid", Span::ZERO).await.1, 0, "it no longer waits");
        assert_eq!(release(s, 9).await.count, 0);
    }
    assert_eq!(received(&s.claim_one("q").await), None, "it runs without the event");
}

pub(in super::super) async fn a_retry_of_a_timed_out_job_does_not_wait_again(s: &StoreSubject) {
    for then in [OnEventTimeout::Cancel, OnEventTimeout::Dead] {
        let id = s.push(wait("q", Some(SECOND), then)).await;
        s.advance(SECOND);
        time_out(s, id).await;
        s.apply_to_current(id, &JobEvent::Retry).await;
        assert_eq!(s.claim_ids(&["q"], 9).await, [id]);
    }
}

pub(in super::super) async fn a_cancelled_job_receives_its_event_for_a_retry(s: &StoreSubject) {
    let id = s.push(wait("q", Some(SECOND), OnEventTimeout::Cancel)).await;
    s.apply_to_current(id, &JobEvent::Cancel).await;
    s.advance(MINUTE);
    assert_eq!(timed_out(s).await, [], "it has ended");
    let (event, waiting_jobs) = send(s, "paid", Span::ZERO).await;
    assert_eq!(waiting_jobs, 0);
    assert_eq!(release(s, 9).await.count, 1);
    assert_eq!(s.job(id).await.live.state, State::Cancelled);
    s.apply_to_current(id, &JobEvent::Retry).await;
    assert_eq!(received(&s.claim_one("q").await).map(|(id, _)| id), Some(event));
}

pub(in super::super) async fn a_retry_of_a_job_that_still_waits_restarts_its_timeout(
    s: &StoreSubject,
) {
    let id = s.push(wait("q", Some(MINUTE), OnEventTimeout::Cancel)).await;
    s.apply_to_current(id, &JobEvent::Cancel).await;
    s.advance(DAY);
    s.apply_to_current(id, &JobEvent::Retry).await;
    assert_eq!(s.job(id).await.live.state, State::Waiting);
    assert_eq!(timed_out(s).await, []);
    s.advance(MINUTE);
    assert_eq!(timed_out(s).await, [id]);
}

pub(in super::super) async fn a_change_of_a_waiting_job_keeps_what_it_is_owed(s: &StoreSubject) {
    let id = s.push(wait("q", Some(SECOND), OnEventTimeout::Cancel)).await;
    let (first, _) = send(s, "paid", Span::ZERO).await;
    s.apply_to_current(id, &JobEvent::Cancel).await;
    s.apply_to_current(id, &JobEvent::Retry).await;
    s.advance(MINUTE);
    assert_eq!(timed_out(s).await, [], "it is owed an event");
    assert_eq!(send(s, "paid", Span::ZERO).await.1, 0, "it does not wait for another one");
    assert_eq!(release(s, 9).await.count, 1);
    assert_eq!(received(&s.claim_one("q").await).map(|(id, _)| id), Some(first));
}

pub(in super::super) async fn a_deleted_job_waits_for_nothing(s: &StoreSubject) {
    let id = s.push(wait("q", Some(SECOND), OnEventTimeout::Cancel)).await;
    s.apply_to_current(id, &JobEvent::Delete).await;
    s.advance(SECOND);
    assert_eq!(timed_out(s).await, []);
    assert_eq!((send(s, "paid", MINUTE).await.1, release(s, 9).await.count), (0, 0));
}

pub(in super::super) async fn a_decision_made_before_a_release_is_stale(s: &StoreSubject) {
    let id = s.push(wait("q", Some(SECOND), OnEventTimeout::Cancel)).await;
    s.advance(SECOND);
    let decided = change(&s.job(id).await, &JobEvent::EventTimedOut(s.now()));
    send(s, "paid", Span::ZERO).await;
    release(s, 9).await;
    assert_eq!(s.apply(decided).await, Applied::Stale);
    assert_eq!(s.claim_ids(&["q"], 9).await, [id]);
}

pub(in super::super) async fn a_deadline_passes_while_a_job_waits(s: &StoreSubject) {
    let within = Some(StartDeadline::Within(SECOND));
    let id = s.push(wait("q", Some(SECOND), OnEventTimeout::Run).with(|job| job.deadline = within));
    let id = id.await;
    s.advance(SECOND);
    assert_eq!(ids(&expect_ok(s.store.lapsed(9)).await.expired), [id]);
    s.apply_to_current(id, &JobEvent::Expired(s.now())).await;
    assert_eq!(timed_out(s).await, []);
    assert_eq!(s.job(id).await.live.why, Some(EndReason::Expired));
}

pub(in super::super) async fn a_duplicate_of_a_waiting_job_is_not_stored(s: &StoreSubject) {
    let id = s.push(waiting("q").unique("k", UniqueHold::UntilStart)).await;
    let again = s.try_push(waiting("q").unique("k", UniqueHold::UntilStart)).await;
    assert_eq!(again, Pushed::Duplicate(id));
    assert_eq!(send(s, "paid", Span::ZERO).await.1, 1);
    release(s, 9).await;
    assert_eq!(s.holders(&["k"]).await, [Some(id)], "held until the start");
    assert_eq!(s.claim_ids(&["q"], 9).await, [id]);
    assert_eq!(s.holders(&["k"]).await, [None]);
}

pub(in super::super) async fn a_member_that_waits_keeps_its_group_open(s: &StoreSubject) {
    let member = wait("q", Some(SECOND), OnEventTimeout::Dead).member(GroupRef::New(0));
    let on = NewDependencyTarget::Group(GroupRef::New(0));
    let then = |needs| job("then").after(on, needs);
    let batch = vec![member, then(DependencyCondition::End), then(DependencyCondition::Success)];
    let pushed = s.batch(grouped(batch)).await;
    let pushed: Vec<JobId> = pushed.jobs.iter().filter_map(|one| one.id()).collect();
    assert_eq!(s.claim_ids(&["then"], 9).await, []);
    s.advance(SECOND);
    time_out(s, pushed[0]).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [pushed[1]], "a dead member has run");
    s.apply_to_current(pushed[0], &JobEvent::Retry).await;
    s.done(&s.claim_one("q").await).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [pushed[2]]);
}

pub(in super::super) async fn a_payload_outlives_its_event_while_a_job_may_run(s: &StoreSubject) {
    s.push(waiting("q").later(MINUTE)).await;
    let (event, _) = send(s, "paid", SECOND).await;
    release(s, 9).await;
    let payload = kept(s, "paid").await.map(|event| event.payload);
    s.advance(MINUTE);
    expect_ok(s.store.prune(100)).await;
    expect_ok(s.store.promote(9)).await;
    let running = s.claim_one("q").await;
    assert_eq!(received(&running), Some((event, payload.clone())));
    s.fail_for_good(&running).await;
    assert_eq!(received(&s.job(running.id).await), Some((event, payload)), "it may be retried");
    s.apply_to_current(running.id, &JobEvent::Retry).await;
    let running = s.claim_one("q").await;
    s.done(&running).await;
    assert_eq!(received(&s.job(running.id).await), Some((event, None)), "it has run");
    let one = EventCaps { count: 1, ..CAPS };
    assert!(matches!(try_send(s, "other", SECOND, one).await, SendResult::Sent { .. }));
}

pub(in super::super) async fn a_removed_event_stays_with_the_jobs_that_have_it(s: &StoreSubject) {
    let owed = s.push(waiting("q")).await;
    let (event, _) = send(s, "paid", MINUTE).await;
    let has_it = s.push(waiting("q")).await;
    let remove = async || expect_ok(s.store.remove_event(name("paid"))).await.into_inner();
    assert!(remove().await);
    assert!(!remove().await, "once");
    assert_eq!(kept(s, "paid").await, None);
    s.push(waiting("q")).await;
    assert_eq!(release(s, 9).await.count, 1);
    let claimed = s.claim(&["q"], 9).await;
    assert_eq!(ids(&claimed), [owed, has_it]);
    for job in &claimed {
        let (id, payload) = received(job).expect("received");
        assert!(id == event && payload.is_some());
    }
}

pub(in super::super) async fn too_many_events_are_refused(s: &StoreSubject) {
    let two = EventCaps { count: 2, ..CAPS };
    let is_full =
        async |event, keep, caps| try_send(s, event, keep, caps).await == SendResult::Full;
    assert!(!is_full("a", SECOND, two).await && !is_full("b", MINUTE, two).await);
    assert!(is_full("c", MINUTE, two).await);
    assert_eq!(kept(s, "c").await, None, "nothing is stored");
    assert!(!is_full("b", MINUTE, two).await, "a replaced event makes room");
    let few_bytes = EventCaps { bytes: 20, ..CAPS };
    assert!(is_full("c", MINUTE, few_bytes).await);
    s.advance(SECOND);
    assert!(!is_full("c", MINUTE, two).await, "an event that is over makes room");
    s.push(waiting("q")).await;
    assert!(is_full("paid", Span::ZERO, two).await, "also if a job waits");
    assert_eq!(release(s, 9).await.count, 0);
}

pub(in super::super) async fn kept_events_are_listed_by_name(s: &StoreSubject) {
    for event in ["b", "c", "a"] {
        send(s, event, MINUTE).await;
    }
    send(s, "gone", SECOND).await;
    s.advance(SECOND);
    let list = async |after: Option<&str>, n| {
        let events = expect_ok(s.store.events(after.map(name), n)).await;
        events.into_iter().map(|event| event.name.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(list(None, 9).await, ["a", "b", "c"]);
    assert_eq!(list(None, 2).await, ["a", "b"]);
    assert_eq!(list(Some("b"), 9).await, ["c"]);
}
