//! Invariants of the state machine, checked over random life cycles of a job.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::event::{AwaitedEvent, EventWait, OnEventTimeout, ReceivedEvent};
use crate::group::{Group, GroupTally};
use crate::id::{Delivery, EventId, GroupId, JobId};
use crate::index::IndexKey;
use crate::job::{
    DueTime, EndReason, Job, JobRetention, Lapse, Live, ReportFencing, ResultRetention, Spec, State,
};
use crate::limit::{LimitKey, PauseEnd};
use crate::name::Name;
use crate::payload::Payload;
use crate::time::{Span, Time};
use crate::unique::{Unique, UniqueHold};

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a valid name")
}

fn spec() -> Spec {
    let mut spec = Spec::new(name("q"), name("k"), Payload::json("1"));
    spec.group = Some(GroupId(1));
    spec.limits = vec![LimitKey { limit: name("l"), value: None }];
    spec.unique =
        Some(Box::new(Unique { key: "u".into(), hold: UniqueHold::UntilEnd, window: None }));
    spec.retry.max_attempts = Some(3);
    spec
}

/// A change settles dependents exactly when the job ends, according to its final state.
fn settles_as_its_state(change: &Change, was: State, after: Option<State>) {
    let told = change.effects.iter().find_map(|effect| match effect {
        Effect::Settle(settled) => Some(*settled),
        _ => None,
    });
    match after {
        Some(after) if after == was => assert_eq!(told, None, "{change:?}"),
        Some(after) => assert_eq!(told, Settled::of(after), "{change:?}"),
        // A done job has settled its dependents already.
        None if was == State::Done => assert_eq!(told, None, "{change:?}"),
        None => assert!(matches!(told, Some(Settled::Succeeded | Settled::Gone)), "{change:?}"),
    }
}

/// A model of one job and the records that its effects change.
struct JobModel {
    now: Time,
    job: Option<Job>,
    deliveries: u64,
    permits: i64,
    key_held: bool,
    group: Group,
    finals: u32,
    /// Reports that counted since the job was last handed over, without hand-backs.
    counted_reports: u32,
    follow_ups: usize,
    reached: BTreeSet<State>,
    events: u64,
}

/// A step of the model: an action of the store, or an event.
#[derive(Debug, Clone)]
enum ModelStep {
    Claim,
    Wait(u64),
    BreakDependency,
    /// The deadline is examined at the current time.
    Expire,
    /// An event of the name that the job waits for reaches it.
    Release,
    /// The time-out of the wait for an event is examined at the current time.
    EventTimeout,
    Event(JobEvent),
}

impl JobModel {
    fn new(spec: Spec, waits: u32) -> Self {
        let now = Time::from_millis(1_000_000);
        let live = Live::pushed(now, now, waits);
        Self {
            now,
            reached: BTreeSet::from([live.state]),
            job: Some(Job { id: JobId(1), spec: spec.into(), live }),
            deliveries: 0,
            permits: 0,
            key_held: true,
            group: Group { size: 2, sealed: true, ..Group::default() },
            finals: 0,
            counted_reports: 0,
            follow_ups: 0,
            events: 0,
        }
    }

    /// Lets the job wait for an event.
    fn set_wait(&mut self, awaited: Option<AwaitedEvent>) {
        let (job, now) = (self.job.as_mut().expect("just created"), self.now);
        if let Some(awaited) = awaited {
            job.live.await_event(&awaited, None, now);
            Arc::make_mut(&mut job.spec).wait_for = Some(Box::new(awaited));
        }
    }

    /// Sets the deadline of the job to this many milliseconds from now.
    fn set_deadline(&mut self, millis: Option<u64>) {
        let deadline = millis.map(|millis| self.now.after(Span::from_millis(millis)));
        self.job.as_mut().expect("just created").live.deadline = deadline;
    }

    fn run(&mut self, step: &ModelStep) -> Option<Result<(), Refusal>> {
        let job = self.job.as_mut()?;
        let before = job.clone();
        let answer = match step {
            ModelStep::Wait(millis) => {
                self.now = self.now.after(Span::from_millis(*millis));
                if job.live.state == State::Scheduled && job.live.due <= self.now {
                    job.live.promote();
                }
                Ok(())
            }
            ModelStep::BreakDependency => {
                if job.live.state == State::Waiting && job.live.waits > 0 {
                    job.live.break_dependency();
                }
                Ok(())
            }
            ModelStep::Claim => {
                if job.live.state == State::Ready && !job.live.is_expired(self.now) {
                    self.deliveries += 1;
                    let delivery = Delivery(self.deliveries);
                    job.live.claim(delivery, self.now, job.spec.lease, &name("w"));
                    self.permits += 1;
                    self.counted_reports = 0;
                }
                Ok(())
            }
            ModelStep::Expire => self.decide(&JobEvent::Expired(self.now)),
            ModelStep::EventTimeout => self.decide(&JobEvent::EventTimedOut(self.now)),
            ModelStep::Release => {
                self.events += 1;
                let (id, sent_at) = (EventId(self.events), self.now);
                job.live.release(ReceivedEvent { id, sent_at, payload: None }, self.now);
                Ok(())
            }
            ModelStep::Event(event) => self.decide(event),
        };
        self.check(&before, step);
        Some(answer)
    }

    fn decide(&mut self, event: &JobEvent) -> Result<(), Refusal> {
        let job = self.job.as_mut().expect("checked by the caller");
        let change = decide(job, event, 7)?;
        assert!(
            job.live.matches(&change.seen),
            "a change is guarded by the version it was based on"
        );
        let (was, after) = (job.live.state, change.state_after(job, self.now));
        let was_final = was.has_ended();
        match &change.next {
            NextRecord::Gone => self.job = None,
            NextRecord::Live(next) => job.apply(next, self.now),
        }
        assert_eq!(self.job.as_ref().map(|job| job.live.state), after, "as `state_after` says");
        settles_as_its_state(&change, was, after);
        let ended = self.job.as_ref().is_none_or(|job| job.live.state.has_ended());
        if ended && !was_final && matches!(event, JobEvent::Finished { .. }) {
            self.finals += 1;
        }
        if let JobEvent::Finished { report, .. } = event {
            let is_returned =
                matches!(report.outcome, Outcome::Interrupted | Outcome::Exhausted { .. });
            self.counted_reports += u32::from(!is_returned);
        }
        for effect in &change.effects {
            match effect {
                Effect::ReturnPermits => self.permits -= 1,
                Effect::CorrectCost { .. } | Effect::PauseKey { .. } => {}
                Effect::ReleaseKey => self.key_held = false,
                Effect::Tally(tally) => self.group = self.group.tallied(*tally),
                Effect::Settle(_) => {}
                Effect::Push(jobs) => self.follow_ups += jobs.len(),
            }
        }
        Ok(())
    }

    /// Invariants that hold after every step.
    fn check(&mut self, before: &Job, step: &ModelStep) {
        let running = self.job.as_ref().is_some_and(|j| j.live.state == State::Running);
        assert_eq!(self.permits, i64::from(running), "permits are held exactly while the job runs");
        assert!(self.group.ran <= self.group.size && self.group.succeeded <= 1, "{:?}", self.group);
        let Some(job) = &self.job else { return };
        self.reached.insert(job.live.state);
        assert!(job.live.attempt <= 3, "attempts never exceed the maximum: {:?}", job.live);
        assert!(job.live.history.len() <= crate::job::MAX_HISTORY);
        assert_eq!(job.live.ended_at.is_some(), job.live.state.has_ended());
        assert!(!job.live.stop || running, "only a running job is asked to stop");
        if job.live.deadline.is_some() || job.live.why == Some(EndReason::Expired) {
            assert_eq!(job.live.delivery, Delivery::NONE, "a job that started has no deadline");
        }
        if before.live.state.has_ended() && !job.live.state.has_ended() {
            assert!(
                matches!(step, ModelStep::Event(JobEvent::Retry)),
                "only a retry revives a job"
            );
            self.finals = 0;
        }
        let received = |job: &Job| job.live.event.as_deref().and_then(EventWait::received).cloned();
        if let Some(event) = received(before) {
            assert_eq!(received(job), Some(event), "a job receives one event, and keeps it");
        }
        let is_open = job.live.waits_for_event();
        assert!(
            !is_open || !matches!(job.live.state, State::Scheduled | State::Ready | State::Running)
        );
        if before.live.event.as_deref() == Some(&EventWait::TimedOut) {
            assert_eq!(job.live.event, before.live.event, "a job never waits again");
        }
        if *before != *job && !matches!(step, ModelStep::Wait(_)) {
            assert!(job.live.revision > before.live.revision, "a change has a new revision");
        }
        if job.live.state.has_ended() && self.group.ran == 0 {
            panic!("an ended member counts as run");
        }
    }
}

fn report(outcome: Outcome) -> Report {
    let then = || vec![Spec::new(name("next"), name("next"), Payload::json("2")).into()];
    Report { on_done: then(), on_dead: then(), ..outcome.into() }
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    let again = prop_oneof![
        Just(RetryDirective::ByPolicy),
        Just(RetryDirective::Never),
        Just(RetryDirective::After(Span::from_millis(5)))
    ];
    prop_oneof![
        Just(Outcome::Done { result: None }),
        Just(Outcome::Done { result: Some(Payload::json("{}")) }),
        again.prop_map(|again| Outcome::Failed { error: "no".into(), detail: None, again }),
        (0u64..20).prop_map(|ms| Outcome::Snooze(Span::from_millis(ms))),
        Just(Outcome::Cancel),
        Just(Outcome::Interrupted),
        Just(exhausted("l")),
    ]
}

fn exhausted(limit: &str) -> Outcome {
    Outcome::Exhausted { limit: name(limit), until: PauseEnd::After(Span::from_secs(60)) }
}

fn deliveries() -> impl Strategy<Value = Delivery> {
    (0u64..6).prop_map(Delivery)
}

fn events() -> impl Strategy<Value = JobEvent> {
    prop_oneof![
        6 => (proptest::option::of(deliveries()), outcomes())
            .prop_map(|(delivery, outcome)| JobEvent::Finished { delivery, report: report(outcome) }),
        2 => deliveries().prop_map(JobEvent::Lapsed),
        1 => deliveries().prop_map(JobEvent::WorkerLost),
        1 => deliveries().prop_map(JobEvent::TimedOut),
        1 => deliveries().prop_map(JobEvent::Delivered),
        1 => Just(JobEvent::Cancel),
        1 => Just(JobEvent::Retry),
        1 => Just(JobEvent::Delete),
        1 => Just(JobEvent::Prune),
        1 => Just(JobEvent::TakeResult),
        1 => (0u64..3).prop_map(|n| JobEvent::Index((n > 0).then(|| [IndexKey(n)].into()))),
        1 => Just(JobEvent::Broken),
        1 => (0u64..20).prop_map(|ms| JobEvent::Edit(JobEdit {
            spec: None,
            due: Some(DueTime::After(Span::from_millis(ms))),
        })),
    ]
}

fn steps() -> impl Strategy<Value = Vec<ModelStep>> {
    let step = prop_oneof![
        4 => Just(ModelStep::Claim),
        2 => prop_oneof![Just(1), Just(50), Just(100_000_000)].prop_map(ModelStep::Wait),
        1 => Just(ModelStep::BreakDependency),
        1 => Just(ModelStep::Expire),
        1 => Just(ModelStep::Release),
        1 => Just(ModelStep::EventTimeout),
        6 => events().prop_map(ModelStep::Event),
    ];
    proptest::collection::vec(step, 1..60)
}

fn specs() -> impl Strategy<Value = Spec> {
    let lapse = prop_oneof![
        Just(Lapse::Crash { quarantine: Some(2) }),
        Just(Lapse::Crash { quarantine: None }),
        Just(Lapse::Failure),
        Just(Lapse::Again),
    ];
    let reports = prop_oneof![Just(ReportFencing::Fenced), Just(ReportFencing::Any)];
    let keep = prop_oneof![
        Just(ResultRetention::Discard),
        Just(ResultRetention::Once(Span::from_secs(9)))
    ];
    let retain = prop_oneof![3 => Just(JobRetention::AsQueue), 1 => Just(JobRetention::Nothing)];
    (lapse, reports, keep, retain, any::<bool>()).prop_map(
        |(lapse, reports, keep, retain, lease)| {
            let lease = lease.then_some(Span::from_secs(30));
            Spec { lapse, reports, keep, retain, lease, ..spec() }
        },
    )
}

fn awaited_events() -> impl Strategy<Value = AwaitedEvent> {
    let timeout = proptest::option::of((1u64..100).prop_map(Span::from_millis));
    (timeout, proptest::sample::select(OnEventTimeout::ALL.to_vec()))
        .prop_map(|(timeout, on_timeout)| AwaitedEvent { name: name("e"), timeout, on_timeout })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn promises_hold_over_random_lives(
        spec in specs(),
        waits in 0u32..2,
        deadline in proptest::option::of(0u64..200),
        awaited in proptest::option::of(awaited_events()),
        steps in steps(),
    ) {
        let mut world = JobModel::new(spec, waits);
        world.set_deadline(deadline);
        world.set_wait(awaited);
        for step in &steps {
            if world.run(step).is_none() {
                break;
            }
            prop_assert!(world.finals <= 1, "the first final report wins");
            prop_assert!(world.counted_reports <= 1, "one report counts between two hand-overs");
        }
    }
}

/// Runs steps that must all be accepted, and returns the model.
fn run_steps(spec: Spec, steps: &[ModelStep]) -> JobModel {
    let mut world = JobModel::new(spec, 0);
    for step in steps {
        let answer = world.run(step);
        assert_eq!(answer, Some(Ok(())), "{step:?}");
    }
    world
}

fn finish(delivery: u64, outcome: Outcome) -> ModelStep {
    ModelStep::Event(JobEvent::Finished {
        delivery: Some(Delivery(delivery)),
        report: report(outcome),
    })
}

fn fail() -> Outcome {
    Outcome::Failed { error: "no".into(), detail: None, again: RetryDirective::ByPolicy }
}

const DONE: Outcome = Outcome::Done { result: None };
const LATER: ModelStep = ModelStep::Wait(1_000_000_000);

#[test]
fn every_state_is_reachable() {
    let mut reached = JobModel::new(spec(), 1).reached;
    let lives = [
        vec![ModelStep::Claim, finish(1, DONE)],
        vec![ModelStep::Claim, finish(1, fail())],
        vec![
            ModelStep::Claim,
            finish(1, fail()),
            LATER,
            ModelStep::Claim,
            finish(2, fail()),
            LATER,
        ]
        .into_iter()
        .chain([ModelStep::Claim, finish(3, fail())])
        .collect(),
        vec![ModelStep::Event(JobEvent::Cancel)],
    ];
    for steps in lives {
        reached.extend(run_steps(spec(), &steps).reached);
    }
    assert_eq!(reached, BTreeSet::from(State::ALL));
}

#[test]
fn an_old_delivery_is_stale_and_changes_nothing() {
    let mut world = run_steps(
        spec(),
        &[ModelStep::Claim, ModelStep::Event(JobEvent::Lapsed(Delivery(1))), ModelStep::Claim],
    );
    for event in [
        JobEvent::Finished { delivery: Some(Delivery(1)), report: report(DONE) },
        JobEvent::Finished { delivery: None, report: report(DONE) },
        JobEvent::Lapsed(Delivery(1)),
        JobEvent::WorkerLost(Delivery(1)),
        JobEvent::TimedOut(Delivery(1)),
        JobEvent::Delivered(Delivery(1)),
    ] {
        assert_eq!(world.run(&ModelStep::Event(event)), Some(Err(Refusal::Stale)));
    }
}

#[test]
fn hand_backs_snoozes_and_crashes_cost_no_attempt() {
    for end in [
        finish(1, Outcome::Interrupted),
        finish(1, Outcome::Snooze(Span::from_secs(1))),
        finish(1, exhausted("l")),
        finish(1, exhausted("other")),
        ModelStep::Event(JobEvent::Lapsed(Delivery(1))),
    ] {
        let world = run_steps(spec(), &[ModelStep::Claim, end]);
        assert_eq!(world.job.expect("kept").live.attempt, 0);
    }
}

/// The decision about the report of a running job that took these costs from limits `a` and `b`.
fn reported(costs: Option<[u32; 2]>, report: Report) -> Change {
    let keys = ["a", "b"].map(|limit| LimitKey { limit: name(limit), value: Some("x".into()) });
    let costs = costs.map(Into::into);
    let spec = Spec { limits: keys.to_vec(), costs, ..spec() };
    let job = run_steps(spec, &[ModelStep::Claim]).job.expect("kept");
    decide(&job, &JobEvent::Finished { delivery: Some(Delivery(1)), report }, 0).expect("accepted")
}

/// Corrections of costs, and limits whose key is paused.
fn cost_effects(change: &Change) -> (Vec<(&str, u32, u32)>, Vec<&str>) {
    let corrected = change.effects.iter().filter_map(|effect| match effect {
        Effect::CorrectCost { key, charged, real } => Some((key.limit.as_str(), *charged, *real)),
        _ => None,
    });
    let paused = change.effects.iter().filter_map(|effect| match effect {
        Effect::PauseKey { key, .. } if key.value.is_some() => Some(key.limit.as_str()),
        _ => None,
    });
    (corrected.collect(), paused.collect())
}

#[test]
fn a_report_corrects_the_costs_that_were_charged() {
    let with = |costs: &[(&str, u32)], outcome| {
        let costs = costs.iter().map(|(limit, cost)| (name(limit), *cost)).collect();
        Report { costs, ..report(outcome) }
    };
    let none = (vec![], vec![]);
    for outcome in [DONE, fail(), Outcome::Cancel, Outcome::Interrupted] {
        let change = reported(Some([1, 70]), with(&[("b", 90), ("z", 4)], outcome.clone()));
        assert_eq!(cost_effects(&change), (vec![("b", 70, 90)], vec![]), "{outcome:?}");
        assert_eq!(cost_effects(&reported(Some([1, 70]), report(outcome))), none);
    }
    let same = reported(Some([1, 70]), with(&[("a", 1), ("b", 70)], DONE));
    assert_eq!(cost_effects(&same), none);
    assert_eq!(cost_effects(&reported(None, with(&[("a", 5)], DONE))).0, [("a", 1, 5)]);
}

#[test]
fn an_exhausted_key_is_paused_and_costs_nothing() {
    let change = reported(Some([1, 70]), report(exhausted("b")));
    assert_eq!(cost_effects(&change), (vec![("a", 1, 0), ("b", 70, 0)], vec!["b"]));
    let NextRecord::Live(next) = &change.next else { panic!("kept") };
    assert_eq!((next.state, next.due, next.attempt), (NextState::Pending, DueTime::Keep, 0));
    // Without such a key only the job waits.
    let change = reported(Some([1, 70]), report(exhausted("other")));
    assert_eq!(cost_effects(&change).1, [""; 0]);
    let NextRecord::Live(next) = &change.next else { panic!("kept") };
    assert_eq!((next.due, next.attempt), (DueTime::After(Span::from_secs(60)), 0));
}

#[test]
fn an_expired_reservation_costs_an_attempt_and_a_lost_worker_none() {
    let spec = Spec { reports: ReportFencing::Any, lapse: Lapse::Again, ..spec() };
    let lapse = ModelStep::Event(JobEvent::Lapsed(Delivery(1)));
    let job = run_steps(spec.clone(), &[ModelStep::Claim, lapse]).job.expect("kept");
    assert_eq!((job.live.state, job.live.attempt, job.live.crashes), (State::Ready, 1, 0));
    let gone = |d| [ModelStep::Claim, ModelStep::Event(JobEvent::WorkerLost(Delivery(d)))];
    let steps: Vec<_> = (1..=9).flat_map(gone).collect();
    let job = run_steps(spec, &steps).job.expect("kept");
    assert_eq!((job.live.state, job.live.attempt, job.live.crashes), (State::Ready, 0, 9));
}

#[test]
fn a_job_whose_workers_crash_is_quarantined() {
    let lapse = |d| ModelStep::Event(JobEvent::Lapsed(Delivery(d)));
    let steps =
        [ModelStep::Claim, lapse(1), ModelStep::Claim, lapse(2), ModelStep::Claim, lapse(3)];
    let job = run_steps(spec(), &steps).job.expect("kept");
    assert_eq!((job.live.state, job.live.why), (State::Dead, Some(EndReason::Quarantined)));
    assert_eq!((job.live.crashes, job.live.attempt), (3, 0));
}

#[test]
fn a_failure_after_a_cancel_is_not_retried() {
    let cancel = ModelStep::Event(JobEvent::Cancel);
    for end in [finish(1, fail()), finish(1, Outcome::Interrupted), finish(1, Outcome::Cancel)] {
        let job = run_steps(spec(), &[ModelStep::Claim, cancel.clone(), end]).job.expect("kept");
        assert_eq!((job.live.state, job.live.why), (State::Cancelled, Some(EndReason::Asked)));
    }
    let job = run_steps(spec(), &[ModelStep::Claim, cancel, finish(1, DONE)]).job.expect("kept");
    assert_eq!(job.live.state, State::Done);
}

#[test]
fn a_job_asked_to_stop_keeps_its_error() {
    let steps = [ModelStep::Claim, ModelStep::Event(JobEvent::Cancel), finish(1, fail())];
    let job = run_steps(spec(), &steps).job.expect("kept");
    assert_eq!(job.live.history[0].error.as_deref(), Some("no"));
    let lapse = ModelStep::Event(JobEvent::Lapsed(Delivery(1)));
    let job = run_steps(spec(), &[ModelStep::Claim, ModelStep::Event(JobEvent::Cancel), lapse])
        .job
        .expect("kept");
    assert!(job.live.history[0].error.is_some());
}

fn lakh() -> Spec {
    Spec { reports: ReportFencing::Any, lapse: Lapse::Again, ..spec() }
}

fn lapsed(delivery: u64) -> ModelStep {
    ModelStep::Event(JobEvent::Lapsed(Delivery(delivery)))
}

fn stale(world: &mut JobModel, step: &ModelStep) {
    let before = world.job.clone();
    assert_eq!(world.run(step), Some(Err(Refusal::Stale)));
    assert_eq!(world.job, before);
}

#[test]
fn where_any_delivery_may_report_a_success_after_the_lease_ends_the_job() {
    for lost in [lapsed(1), ModelStep::Event(JobEvent::WorkerLost(Delivery(1)))] {
        let mut world = run_steps(lakh(), &[ModelStep::Claim, lost, finish(1, DONE)]);
        assert_eq!(world.job.as_ref().expect("kept").live.state, State::Done);
        stale(&mut world, &finish(1, fail()));
    }
}

#[test]
fn where_any_delivery_may_report_only_the_first_report_between_two_hand_overs_counts() {
    let anonymous = ModelStep::Event(JobEvent::Finished { delivery: None, report: report(DONE) });
    let again = [ModelStep::Claim, lapsed(1), ModelStep::Claim, finish(1, fail())];
    let mut world = run_steps(lakh(), &again);
    for step in [finish(2, DONE), finish(1, DONE), finish(2, fail()), anonymous] {
        stale(&mut world, &step);
        world.run(&LATER);
        stale(&mut world, &step);
    }
    assert_eq!(world.job.as_ref().expect("kept").live.attempt, 2);
    assert_eq!(world.run(&ModelStep::Claim), Some(Ok(())));
    assert_eq!(world.run(&finish(1, DONE)), Some(Ok(())), "the job was handed over again");
    assert_eq!(world.job.expect("kept").live.state, State::Done);
}

#[test]
fn a_failure_after_the_lease_is_the_first_report_and_delays_nothing() {
    let mut world = run_steps(lakh(), &[ModelStep::Claim, lapsed(1), finish(1, fail())]);
    let job = world.job.clone().expect("kept");
    assert_eq!((job.live.state, job.live.attempt, job.live.due), (State::Ready, 1, world.now));
    stale(&mut world, &finish(1, DONE));
    let never = Outcome::Failed { error: "no".into(), detail: None, again: RetryDirective::Never };
    let steps = [ModelStep::Claim, lapsed(1), finish(1, never), ModelStep::Event(JobEvent::Retry)];
    let mut world = run_steps(lakh(), &steps);
    assert_eq!(world.follow_ups, 1);
    stale(&mut world, &finish(1, DONE));
}

#[test]
fn a_delivery_that_was_returned_unfinished_is_no_hand_over() {
    let back = |d| [ModelStep::Claim, finish(d, Outcome::Interrupted)];
    let lapse = [vec![ModelStep::Claim, lapsed(1)], back(2).to_vec(), back(3).to_vec()].concat();
    let mut world = run_steps(lakh(), &lapse);
    assert_eq!(world.run(&finish(1, DONE)), Some(Ok(())));
    let failed = [vec![ModelStep::Claim, finish(1, fail()), LATER], back(2).to_vec()].concat();
    stale(&mut run_steps(lakh(), &failed), &finish(1, DONE));
}

#[test]
fn follow_ups_are_pushed_with_the_end_and_only_then() {
    assert_eq!(run_steps(spec(), &[ModelStep::Claim, finish(1, DONE)]).follow_ups, 1);
    assert_eq!(run_steps(spec(), &[ModelStep::Claim, finish(1, fail())]).follow_ups, 0);
    let never = Outcome::Failed { error: "no".into(), detail: None, again: RetryDirective::Never };
    assert_eq!(run_steps(spec(), &[ModelStep::Claim, finish(1, never)]).follow_ups, 1);
}

#[test]
fn a_result_can_be_taken_once() {
    let spec = Spec { keep: ResultRetention::Once(Span::from_secs(60)), ..spec() };
    let result = Outcome::Done { result: Some(Payload::json("42")) };
    let mut world = run_steps(
        spec,
        &[ModelStep::Claim, finish(1, result), ModelStep::Event(JobEvent::TakeResult)],
    );
    assert_eq!(world.run(&ModelStep::Event(JobEvent::TakeResult)), Some(Err(Refusal::Nothing)));
}

#[test]
fn a_removed_member_leaves_its_group() {
    let job =
        Job { id: JobId(1), spec: spec().into(), live: Live::pushed(Time::ZERO, Time::ZERO, 0) };
    let change = decide(&job, &JobEvent::Delete, 0).expect("a ready job can be deleted");
    let leave = GroupTally { size: -1, ..GroupTally::default() };
    assert!(change.effects.contains(&Effect::Tally(leave)));
}

#[test]
fn a_dead_member_that_is_pruned_is_lost_to_its_group() {
    let never = Outcome::Failed { error: "no".into(), detail: None, again: RetryDirective::Never };
    let world =
        run_steps(spec(), &[ModelStep::Claim, finish(1, never), ModelStep::Event(JobEvent::Prune)]);
    assert!(world.job.is_none() && world.group.lost);
    assert_eq!((world.group.size, world.group.ran), (2, 1));
    let done =
        run_steps(spec(), &[ModelStep::Claim, finish(1, DONE), ModelStep::Event(JobEvent::Prune)]);
    assert!(!done.group.lost);
}

#[test]
fn a_revived_job_starts_with_no_attempts() {
    let never = Outcome::Failed { error: "no".into(), detail: None, again: RetryDirective::Never };
    let steps = [ModelStep::Claim, finish(1, never), ModelStep::Event(JobEvent::Retry)];
    let world = run_steps(spec(), &steps);
    let job = world.job.as_ref().expect("kept");
    assert_eq!((job.live.state, job.live.attempt, job.live.why), (State::Ready, 0, None));
    assert!(!world.key_held);
}

/// A job with a deadline in 50 ms and a follow-up for it.
fn with_deadline(waits: u32) -> JobModel {
    let next = Spec::new(name("next"), name("next"), Payload::json("2"));
    let spec = Spec { on_expired: Some(Box::new(next.into())), ..spec() };
    let mut world = JobModel::new(spec, waits);
    world.set_deadline(Some(50));
    world
}

#[test]
fn a_job_that_is_not_started_by_its_deadline_expires_with_its_follow_up() {
    for waits in [0, 1] {
        let mut world = with_deadline(waits);
        world.run(&ModelStep::Wait(49));
        assert_eq!(world.run(&ModelStep::Expire), Some(Err(Refusal::NotNow)));
        world.run(&ModelStep::Wait(1));
        assert_eq!(world.run(&ModelStep::Expire), Some(Ok(())), "over at its instant");
        let job = world.job.as_ref().expect("kept");
        assert_eq!((job.live.state, job.live.why), (State::Cancelled, Some(EndReason::Expired)));
        assert_eq!((world.follow_ups, world.key_held, world.group.ran), (1, false, 1));
        assert_eq!(world.run(&ModelStep::Expire), Some(Err(Refusal::Ended)));
        assert_eq!(world.follow_ups, 1);
    }
}

#[test]
fn the_follow_up_is_pushed_before_the_group_counts_the_job() {
    let mut world = with_deadline(0);
    let job = world.job.take().expect("just created");
    let change = decide(&job, &JobEvent::Expired(Time::MAX), 0).expect("its deadline is over");
    let at = |wanted: fn(&Effect) -> bool| change.effects.iter().position(wanted);
    let released = at(|effect| matches!(effect, Effect::ReleaseKey));
    let pushed = at(|effect| matches!(effect, Effect::Push(_)));
    let counted = at(|effect| matches!(effect, Effect::Tally(_)));
    assert!(released < pushed && pushed < counted, "{:?}", change.effects);
}

#[test]
fn the_first_start_meets_the_deadline() {
    let mut world = with_deadline(0);
    for step in [ModelStep::Claim, finish(1, fail()), LATER] {
        assert_eq!(world.run(&step), Some(Ok(())));
    }
    assert_eq!(world.run(&ModelStep::Expire), Some(Err(Refusal::NotNow)), "a retry has none");
    assert_eq!(world.job.expect("kept").live.state, State::Ready);
    let mut world = with_deadline(0);
    world.run(&ModelStep::Claim);
    world.run(&LATER);
    assert_eq!(world.run(&ModelStep::Expire), Some(Err(Refusal::Running)));
}

#[test]
fn a_retry_by_hand_removes_the_deadline() {
    let mut world = with_deadline(0);
    let retry = ModelStep::Event(JobEvent::Retry);
    for step in [LATER, ModelStep::Expire, retry] {
        assert_eq!(world.run(&step), Some(Ok(())), "{step:?}");
    }
    let live = &world.job.as_ref().expect("kept").live;
    assert_eq!((live.state, live.deadline, live.why), (State::Ready, None, None));
    assert_eq!(world.run(&ModelStep::Expire), Some(Err(Refusal::NotNow)));
}

fn waiting_for_event(on_timeout: OnEventTimeout) -> JobModel {
    let mut world = JobModel::new(spec(), 0);
    let timeout = Some(Span::from_millis(50));
    world.set_wait(Some(AwaitedEvent { name: name("e"), timeout, on_timeout }));
    world
}

#[test]
fn a_wait_for_an_event_ends_as_the_job_says() {
    let dead = (State::Dead, Some(EndReason::EventTimedOut));
    let cancelled = (State::Cancelled, Some(EndReason::EventTimedOut));
    for (then, expected) in [
        (OnEventTimeout::Run, (State::Ready, None)),
        (OnEventTimeout::Cancel, cancelled),
        (OnEventTimeout::Dead, dead),
    ] {
        let mut world = waiting_for_event(then);
        world.run(&ModelStep::Wait(49));
        assert_eq!(world.run(&ModelStep::EventTimeout), Some(Err(Refusal::NotNow)));
        world.run(&ModelStep::Wait(1));
        assert_eq!(world.run(&ModelStep::EventTimeout), Some(Ok(())), "over at its instant");
        let live = &world.job.as_ref().expect("kept").live;
        assert_eq!((live.state, live.why), expected);
        assert_eq!(world.run(&ModelStep::EventTimeout), Some(Err(Refusal::NotNow)), "once");
        if then != OnEventTimeout::Run {
            assert_eq!((world.key_held, world.group.ran), (false, 1));
            world.run(&ModelStep::Event(JobEvent::Retry));
            let live = &world.job.as_ref().expect("kept").live;
            assert_eq!(live.state, State::Ready, "a retry does not wait again");
        }
    }
}

#[test]
fn only_the_first_event_counts() {
    let mut world = waiting_for_event(OnEventTimeout::Cancel);
    for step in [ModelStep::Release, ModelStep::Release] {
        world.run(&step);
        let live = &world.job.as_ref().expect("kept").live;
        let received = live.event.as_deref().and_then(EventWait::received);
        assert_eq!((live.state, received.map(|event| event.id)), (State::Ready, Some(EventId(1))));
    }
    world.run(&LATER);
    assert_eq!(world.run(&ModelStep::EventTimeout), Some(Err(Refusal::NotNow)));
}
