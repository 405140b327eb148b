//! The promises of the state machine, over random lives of a job.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::group::{Group, Tally};
use crate::id::{Delivery, GroupId, JobId};
use crate::job::{Job, Keep, Lapse, Live, Reports, Retain, Spec, State, When, Why};
use crate::limit::LimitKey;
use crate::name::Name;
use crate::payload::Payload;
use crate::time::{Span, Time};
use crate::unique::{Hold, Unique};

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a good name")
}

fn spec() -> Spec {
    let mut spec = Spec::new(name("q"), name("k"), Payload::json("1"));
    spec.group = Some(GroupId(1));
    spec.limits = vec![LimitKey { limit: name("l"), value: None }];
    spec.unique = Some(Unique { key: "u".into(), hold: Hold::UntilEnd, window: None });
    spec.retry.max_attempts = Some(3);
    spec
}

/// Jobs that wait are told exactly when a job comes to an end, and told what its state says.
fn settles_as_its_state(change: &Change, was: State, after: Option<State>) {
    let told = change.effects.iter().find_map(|effect| match effect {
        Effect::Settle(settled) => Some(*settled),
        _ => None,
    });
    match after {
        Some(after) if after == was => assert_eq!(told, None, "{change:?}"),
        Some(after) => assert_eq!(told, Settled::of(after), "{change:?}"),
        // Its dependants know already that a done job has succeeded.
        None if was == State::Done => assert_eq!(told, None, "{change:?}"),
        None => assert!(matches!(told, Some(Settled::Succeeded | Settled::Gone)), "{change:?}"),
    }
}

/// The one job of a tiny world, with the records that its effects touch.
struct World {
    now: Time,
    job: Option<Job>,
    deliveries: u64,
    permits: i64,
    key_held: bool,
    group: Group,
    finals: u32,
    follow_ups: usize,
    reached: BTreeSet<State>,
}

/// A step of the world: something that a store does, or an event to decide on.
#[derive(Debug, Clone)]
enum Step {
    Claim,
    Wait(u64),
    Snap,
    Event(Event),
}

impl World {
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
            follow_ups: 0,
        }
    }

    fn run(&mut self, step: &Step) -> Option<Result<(), Refusal>> {
        let job = self.job.as_mut()?;
        let before = job.clone();
        let answer = match step {
            Step::Wait(millis) => {
                self.now = self.now.after(Span::from_millis(*millis));
                if job.live.state == State::Scheduled && job.live.due <= self.now {
                    job.live.promote();
                }
                Ok(())
            }
            Step::Snap => {
                if job.live.state == State::Waiting && job.live.waits > 0 {
                    job.live.snap();
                }
                Ok(())
            }
            Step::Claim => {
                if job.live.state == State::Ready {
                    self.deliveries += 1;
                    let delivery = Delivery(self.deliveries);
                    job.live.claim(delivery, self.now, job.spec.lease, &name("w"));
                    self.permits += 1;
                }
                Ok(())
            }
            Step::Event(event) => self.decide(event),
        };
        self.check(&before, step);
        Some(answer)
    }

    fn decide(&mut self, event: &Event) -> Result<(), Refusal> {
        let job = self.job.as_mut().expect("checked by the caller");
        let change = decide(job, event, 7)?;
        assert!(job.live.is(&change.seen), "a change is guarded by what it was based on");
        let (was, after) = (job.live.state, change.state_after(job, self.now));
        let was_final = was.has_ended();
        match &change.next {
            Next::Gone => self.job = None,
            Next::Live(next) => job.take(next, self.now),
        }
        assert_eq!(self.job.as_ref().map(|job| job.live.state), after, "the state was foretold");
        settles_as_its_state(&change, was, after);
        let ended = self.job.as_ref().is_none_or(|job| job.live.state.has_ended());
        if ended && !was_final && matches!(event, Event::Finished { .. }) {
            self.finals += 1;
        }
        for effect in &change.effects {
            match effect {
                Effect::ReturnPermits => self.permits -= 1,
                Effect::ReleaseKey => self.key_held = false,
                Effect::Tally(tally) => self.group = self.group.tallied(*tally),
                Effect::Settle(_) => {}
                Effect::Push(jobs) => self.follow_ups += jobs.len(),
            }
        }
        Ok(())
    }

    /// What must hold after every step.
    fn check(&mut self, before: &Job, step: &Step) {
        let running = self.job.as_ref().is_some_and(|j| j.live.state == State::Running);
        assert_eq!(self.permits, i64::from(running), "permits are held exactly while it runs");
        assert!(self.group.ran <= self.group.size && self.group.succeeded <= 1, "{:?}", self.group);
        let Some(job) = &self.job else { return };
        self.reached.insert(job.live.state);
        assert!(job.live.attempt <= 3, "attempts never pass the maximum: {:?}", job.live);
        assert!(job.live.history.len() <= crate::job::MAX_HISTORY);
        assert_eq!(job.live.ended_at.is_some(), job.live.state.has_ended());
        assert!(!job.live.stop || running, "only a running job is asked to stop");
        if before.live.state.has_ended() && !job.live.state.has_ended() {
            assert!(matches!(step, Step::Event(Event::Retry)), "only a person revives a job");
            self.finals = 0;
        }
        if *before != *job && !matches!(step, Step::Wait(_)) {
            assert!(job.live.revision > before.live.revision, "every change shows");
        }
        if job.live.state.has_ended() && self.group.ran == 0 {
            panic!("an ended member counts as run");
        }
    }
}

fn report(outcome: Outcome) -> Report {
    let then = || vec![Spec::new(name("next"), name("next"), Payload::json("2")).into()];
    Report { outcome, on_done: then(), on_dead: then() }
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    let again = prop_oneof![
        Just(Again::ByPolicy),
        Just(Again::Never),
        Just(Again::After(Span::from_millis(5)))
    ];
    prop_oneof![
        Just(Outcome::Done { result: None }),
        Just(Outcome::Done { result: Some(Payload::json("{}")) }),
        again.prop_map(|again| Outcome::Failed { error: "no".into(), detail: None, again }),
        (0u64..20).prop_map(|ms| Outcome::Snooze(Span::from_millis(ms))),
        Just(Outcome::Cancel),
        Just(Outcome::Interrupted),
    ]
}

fn deliveries() -> impl Strategy<Value = Delivery> {
    (0u64..6).prop_map(Delivery)
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (proptest::option::of(deliveries()), outcomes())
            .prop_map(|(delivery, outcome)| Event::Finished { delivery, report: report(outcome) }),
        2 => deliveries().prop_map(Event::Lapsed),
        1 => deliveries().prop_map(Event::Vanished),
        1 => deliveries().prop_map(Event::TimedOut),
        1 => deliveries().prop_map(Event::HandedOver),
        1 => Just(Event::Cancel),
        1 => Just(Event::Retry),
        1 => Just(Event::Delete),
        1 => Just(Event::Prune),
        1 => Just(Event::TakeResult),
        1 => Just(Event::Broken),
        1 => (0u64..20).prop_map(|ms| Event::Edit(Edit {
            spec: None,
            due: Some(When::After(Span::from_millis(ms))),
        })),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => Just(Step::Claim),
        2 => prop_oneof![Just(1), Just(50), Just(100_000_000)].prop_map(Step::Wait),
        1 => Just(Step::Snap),
        6 => events().prop_map(Step::Event),
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
    let reports = prop_oneof![Just(Reports::Fenced), Just(Reports::Any)];
    let keep = prop_oneof![Just(Keep::Discard), Just(Keep::Once(Span::from_secs(9)))];
    let retain = prop_oneof![3 => Just(Retain::AsQueue), 1 => Just(Retain::Nothing)];
    (lapse, reports, keep, retain, any::<bool>()).prop_map(
        |(lapse, reports, keep, retain, lease)| {
            let lease = lease.then_some(Span::from_secs(30));
            Spec { lapse, reports, keep, retain, lease, ..spec() }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn promises_hold_over_random_lives(spec in specs(), waits in 0u32..2, steps in steps()) {
        let mut world = World::new(spec, waits);
        for step in &steps {
            if world.run(step).is_none() {
                break;
            }
            prop_assert!(world.finals <= 1, "the first final report wins");
        }
    }
}

/// Runs steps that must all be accepted, and gives the world they lead to.
fn life(spec: Spec, steps: &[Step]) -> World {
    let mut world = World::new(spec, 0);
    for step in steps {
        let answer = world.run(step);
        assert_eq!(answer, Some(Ok(())), "{step:?}");
    }
    world
}

fn finish(delivery: u64, outcome: Outcome) -> Step {
    Step::Event(Event::Finished { delivery: Some(Delivery(delivery)), report: report(outcome) })
}

fn fail() -> Outcome {
    Outcome::Failed { error: "no".into(), detail: None, again: Again::ByPolicy }
}

const DONE: Outcome = Outcome::Done { result: None };
const LATER: Step = Step::Wait(1_000_000_000);

#[test]
fn every_state_is_reachable() {
    let mut reached = World::new(spec(), 1).reached;
    let lives = [
        vec![Step::Claim, finish(1, DONE)],
        vec![Step::Claim, finish(1, fail())],
        vec![Step::Claim, finish(1, fail()), LATER, Step::Claim, finish(2, fail()), LATER]
            .into_iter()
            .chain([Step::Claim, finish(3, fail())])
            .collect(),
        vec![Step::Event(Event::Cancel)],
    ];
    for steps in lives {
        reached.extend(life(spec(), &steps).reached);
    }
    assert_eq!(reached, BTreeSet::from(State::ALL));
}

#[test]
fn an_old_delivery_is_stale_and_changes_nothing() {
    let mut world =
        life(spec(), &[Step::Claim, Step::Event(Event::Lapsed(Delivery(1))), Step::Claim]);
    for event in [
        Event::Finished { delivery: Some(Delivery(1)), report: report(DONE) },
        Event::Finished { delivery: None, report: report(DONE) },
        Event::Lapsed(Delivery(1)),
        Event::Vanished(Delivery(1)),
        Event::TimedOut(Delivery(1)),
        Event::HandedOver(Delivery(1)),
    ] {
        assert_eq!(world.run(&Step::Event(event)), Some(Err(Refusal::Stale)));
    }
}

#[test]
fn hand_backs_snoozes_and_crashes_cost_no_attempt() {
    for end in [
        finish(1, Outcome::Interrupted),
        finish(1, Outcome::Snooze(Span::from_secs(1))),
        Step::Event(Event::Lapsed(Delivery(1))),
    ] {
        let world = life(spec(), &[Step::Claim, end]);
        assert_eq!(world.job.expect("kept").live.attempt, 0);
    }
}

#[test]
fn a_reservation_that_ends_costs_an_attempt_and_a_worker_that_is_gone_none() {
    let spec = Spec { reports: Reports::Any, lapse: Lapse::Again, ..spec() };
    let lapse = Step::Event(Event::Lapsed(Delivery(1)));
    let job = life(spec.clone(), &[Step::Claim, lapse]).job.expect("kept");
    assert_eq!((job.live.state, job.live.attempt, job.live.crashes), (State::Ready, 1, 0));
    let gone = |d| [Step::Claim, Step::Event(Event::Vanished(Delivery(d)))];
    let steps: Vec<_> = (1..=9).flat_map(gone).collect();
    let job = life(spec, &steps).job.expect("kept");
    assert_eq!((job.live.state, job.live.attempt, job.live.crashes), (State::Ready, 0, 9));
}

#[test]
fn a_job_whose_workers_crash_is_quarantined() {
    let lapse = |d| Step::Event(Event::Lapsed(Delivery(d)));
    let steps = [Step::Claim, lapse(1), Step::Claim, lapse(2), Step::Claim, lapse(3)];
    let job = life(spec(), &steps).job.expect("kept");
    assert_eq!((job.live.state, job.live.why), (State::Dead, Some(Why::Quarantined)));
    assert_eq!((job.live.crashes, job.live.attempt), (3, 0));
}

#[test]
fn a_failure_after_a_cancel_is_not_retried() {
    let cancel = Step::Event(Event::Cancel);
    for end in [finish(1, fail()), finish(1, Outcome::Interrupted), finish(1, Outcome::Cancel)] {
        let job = life(spec(), &[Step::Claim, cancel.clone(), end]).job.expect("kept");
        assert_eq!((job.live.state, job.live.why), (State::Cancelled, Some(Why::Asked)));
    }
    let job = life(spec(), &[Step::Claim, cancel, finish(1, DONE)]).job.expect("kept");
    assert_eq!(job.live.state, State::Done);
}

#[test]
fn a_job_that_was_asked_to_stop_keeps_what_it_failed_with() {
    let steps = [Step::Claim, Step::Event(Event::Cancel), finish(1, fail())];
    let job = life(spec(), &steps).job.expect("kept");
    assert_eq!(job.live.history[0].error.as_deref(), Some("no"));
    let lapse = Step::Event(Event::Lapsed(Delivery(1)));
    let job = life(spec(), &[Step::Claim, Step::Event(Event::Cancel), lapse]).job.expect("kept");
    assert!(job.live.history[0].error.is_some());
}

#[test]
fn where_any_delivery_may_report_a_late_success_ends_the_retrying() {
    let spec = Spec { reports: Reports::Any, lapse: Lapse::Again, ..spec() };
    let lapse = Step::Event(Event::Lapsed(Delivery(1)));
    let world = life(spec.clone(), &[Step::Claim, lapse.clone(), finish(1, DONE)]);
    assert_eq!(world.job.expect("kept").live.state, State::Done);
    let mut world = life(spec, &[Step::Claim, lapse]);
    assert_eq!(world.run(&finish(1, fail())), Some(Err(Refusal::Stale)));
}

#[test]
fn follow_ups_come_with_the_end_and_only_then() {
    assert_eq!(life(spec(), &[Step::Claim, finish(1, DONE)]).follow_ups, 1);
    assert_eq!(life(spec(), &[Step::Claim, finish(1, fail())]).follow_ups, 0);
    let never = Outcome::Failed { error: "no".into(), detail: None, again: Again::Never };
    assert_eq!(life(spec(), &[Step::Claim, finish(1, never)]).follow_ups, 1);
}

#[test]
fn a_result_can_be_taken_once() {
    let spec = Spec { keep: Keep::Once(Span::from_secs(60)), ..spec() };
    let result = Outcome::Done { result: Some(Payload::json("42")) };
    let mut world = life(spec, &[Step::Claim, finish(1, result), Step::Event(Event::TakeResult)]);
    assert_eq!(world.run(&Step::Event(Event::TakeResult)), Some(Err(Refusal::Nothing)));
}

#[test]
fn a_removed_member_leaves_its_group() {
    let job =
        Job { id: JobId(1), spec: spec().into(), live: Live::pushed(Time::ZERO, Time::ZERO, 0) };
    let change = decide(&job, &Event::Delete, 0).expect("a ready job can be deleted");
    let leave = Tally { size: -1, ..Tally::default() };
    assert!(change.effects.contains(&Effect::Tally(leave)));
}

#[test]
fn a_dead_member_whose_time_is_over_is_lost_to_its_group() {
    let never = Outcome::Failed { error: "no".into(), detail: None, again: Again::Never };
    let world = life(spec(), &[Step::Claim, finish(1, never), Step::Event(Event::Prune)]);
    assert!(world.job.is_none() && world.group.lost);
    assert_eq!((world.group.size, world.group.ran), (2, 1));
    let done = life(spec(), &[Step::Claim, finish(1, DONE), Step::Event(Event::Prune)]);
    assert!(!done.group.lost);
}

#[test]
fn a_revived_job_starts_afresh() {
    let never = Outcome::Failed { error: "no".into(), detail: None, again: Again::Never };
    let steps = [Step::Claim, finish(1, never), Step::Event(Event::Retry)];
    let world = life(spec(), &steps);
    let job = world.job.as_ref().expect("kept");
    assert_eq!((job.live.state, job.live.attempt, job.live.why), (State::Ready, 0, None));
    assert!(!world.key_held);
}
