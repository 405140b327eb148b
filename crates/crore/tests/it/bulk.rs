//! Many jobs at once: bulk actions, groups, and dependencies.

use crore::actions::{ActionResult, BulkMode, BulkProgress, JobAction, JobChanges, JobFilter};
use crore::core::job::{DependencyCondition, DependencyTarget, DueTime, EndReason};
use crore::core::machine::Outcome;
use crore::core::push::{GroupRef, NewDependency, NewDependencyTarget, NewGroup};
use crore::core::{Batch, JobId, NewJob, Span, State};
use crore::finish::Finish;
use crore::push::PushResult;
use crore::{Error, block_on};

use crate::test_engine::{HOUR, LEASE, MINUTE, SECOND, TestEngine, job, jobs, name, on_both};

fn count(scene: &TestEngine, queue: &str, state: State) -> u64 {
    let counts = block_on(scene.engine.jobs().counts(Some(name(queue)))).expect("counts");
    counts.iter().filter(|count| count.state == state).map(|count| count.n).sum()
}

fn push_many(scene: &TestEngine, n: usize) {
    for start in (0..n).step_by(1000) {
        scene.push_all(jobs("q", (n - start).min(1000)));
    }
}

fn act_on(scene: &TestEngine, filter: &JobFilter, act: &JobAction, run: BulkMode) -> BulkProgress {
    block_on(scene.engine.jobs().act_on_all(filter, act, run, |_| true)).expect("acted")
}

#[test]
fn cancelling_100_000_jobs_counts_each_once() {
    on_both(|scene| {
        push_many(scene, 100_000);
        let all = act_on(scene, &JobFilter::default(), &JobAction::Cancel, BulkMode::Apply);
        let n = 100_000;
        assert_eq!(all, BulkProgress { examined: n, matched: n, done: n });
        assert_eq!(count(scene, "q", State::Cancelled), n);
        assert_eq!(scene.try_fetch("q"), None);
    });
}

#[test]
fn a_filter_that_matches_everything_visits_each_job_of_every_state_once() {
    on_both(|scene| {
        push_many(scene, 2500);
        let running = scene.fetch_n("q", 10);
        for job in &running[..5] {
            scene.done(job);
        }
        let all = act_on(scene, &JobFilter::default(), &JobAction::Cancel, BulkMode::Apply);
        assert_eq!(all, BulkProgress { examined: 2500, matched: 2500, done: 2495 });
        assert_eq!(count(scene, "q", State::Cancelled), 2490);
        assert!(running[5..].iter().all(|job| scene.get(job.id).live.stop));
    });
}

#[test]
fn a_dry_run_reports_the_changes_and_makes_none() {
    on_both(|scene| {
        push_many(scene, 1500);
        scene.fetch("q");
        let filter = JobFilter { queue: Some(name("q")), ..JobFilter::default() };
        let dry = act_on(scene, &filter, &JobAction::Delete, BulkMode::DryRun);
        assert_eq!(dry, BulkProgress { examined: 1500, matched: 1500, done: 1499 });
        assert_eq!(count(scene, "q", State::Ready), 1499);
        assert_eq!(act_on(scene, &filter, &JobAction::Delete, BulkMode::Apply), dry);
        assert_eq!(count(scene, "q", State::Ready), 0);
    });
}

#[test]
fn a_dry_run_refuses_what_a_real_one_refuses() {
    let scene = TestEngine::memory();
    let far = JobAction::Change(JobChanges {
        due: Some(DueTime::After(Span::MAX)),
        ..JobChanges::default()
    });
    for run in [BulkMode::DryRun, BulkMode::Apply] {
        let refused =
            block_on(scene.engine.jobs().act_on_all(&JobFilter::default(), &far, run, |_| true));
        assert!(matches!(refused, Err(Error::Invalid(invalid)) if invalid.field == "due"));
    }
}

#[test]
fn a_bulk_action_ends_when_its_progress_callback_says_so() {
    let scene = TestEngine::memory();
    push_many(&scene, 5000);
    let filter = JobFilter { states: vec![State::Ready], ..JobFilter::default() };
    let mut told = Vec::new();
    let stop = |progress: BulkProgress| {
        told.push(progress.done);
        told.len() < 2
    };
    let ended = block_on(scene.engine.jobs().act_on_all(
        &filter,
        &JobAction::Cancel,
        BulkMode::Apply,
        stop,
    ));
    assert_eq!(ended.expect("no error").done, 400);
    assert_eq!(told, [200, 400]);
    assert_eq!(count(&scene, "q", State::Ready), 4600);
}

#[test]
fn jobs_that_a_change_moves_ahead_are_not_visited_twice() {
    let scene = TestEngine::memory();
    let mut later = job("q");
    later.due = DueTime::After(MINUTE);
    for _ in 0..3 {
        scene.push_all(vec![later.clone(); 1000]);
    }
    let act =
        JobAction::Change(JobChanges { due: Some(DueTime::After(HOUR)), ..JobChanges::default() });
    let mut told = 0;
    let progress = |_| {
        scene.clock.advance(Span::from_millis(1));
        told += 1;
        told < 100
    };
    let ended = block_on(scene.engine.jobs().act_on_all(
        &JobFilter::default(),
        &act,
        BulkMode::Apply,
        progress,
    ));
    assert_eq!(
        ended.expect("no error"),
        BulkProgress { examined: 3000, matched: 3000, done: 3000 }
    );
    assert!(told < 100, "it ended by itself");
}

#[test]
fn a_filter_takes_labels_kinds_and_times_together() {
    let scene = TestEngine::memory();
    let labelled = |kind: &str, tenant: &str| {
        let mut one = job("q");
        one.spec.kind = name(kind);
        one.spec.labels.insert("tenant".to_owned(), tenant.to_owned());
        scene.push(one)
    };
    let old = labelled("mail", "a");
    scene.clock.advance(SECOND);
    let now = scene.now();
    let others = [labelled("mail", "a"), labelled("mail", "b"), labelled("print", "a")];
    let filter = JobFilter {
        states: vec![State::Ready],
        kind: Some(name("mail")),
        labels: vec![("tenant".to_owned(), "a".to_owned())],
        pushed_before: Some(now),
        ..JobFilter::default()
    };
    assert_eq!(act_on(&scene, &filter, &JobAction::Cancel, BulkMode::Apply).done, 1);
    assert_eq!(scene.state(old), State::Cancelled);
    assert!(others.iter().all(|id| scene.state(*id) == State::Ready));
}

fn after(on: NewDependencyTarget, needs: DependencyCondition) -> NewJob {
    let mut job = job("then");
    job.after.push(NewDependency { on, needs });
    job
}

#[test]
fn a_group_of_100_000_jobs_releases_its_follow_up_when_all_succeeded() {
    on_both(|scene| {
        let batch = Batch { groups: vec![NewGroup { open: true, maker: None }], jobs: Vec::new() };
        let group = block_on(scene.engine.push_all(batch)).expect("pushed").groups[0];
        let then = scene.push(after(
            NewDependencyTarget::Group(GroupRef::Id(group)),
            DependencyCondition::Success,
        ));
        let mut member = job("q");
        member.group = Some(GroupRef::Id(group));
        for _ in 0..100 {
            scene.push_all(vec![member.clone(); 1000]);
        }
        let mut finished = 0;
        loop {
            let some = scene.fetch_n("q", 1000);
            if some.is_empty() {
                break;
            }
            finished += some.len();
            let done = |job| Finish::of(job, Outcome::Done { result: None });
            let reports = some.iter().map(done).collect();
            block_on(scene.engine.deliveries().finish_all(reports)).expect("reported");
        }
        assert_eq!(finished, 100_000);
        assert_eq!(scene.state(then), State::Waiting, "the group is not sealed");
        assert!(block_on(scene.engine.groups().seal(group)).expect("sealed"));
        assert!(
            !block_on(scene.engine.groups().seal(group)).expect("answered"),
            "a second seal has no effect"
        );
        let counts =
            block_on(scene.engine.groups().get(group)).expect("no error").expect("it exists");
        assert_eq!((counts.size, counts.ran, counts.succeeded), (100_000, 100_000, 100_000));
        assert_eq!(scene.fetch("then").id, then);
    });
}

#[test]
fn a_job_that_depends_on_a_removed_job_is_broken_and_not_stored() {
    on_both(|scene| {
        let gone = scene.push(job("q"));
        scene.act(gone, &JobAction::Delete);
        let taken = scene
            .push_all(vec![after(NewDependencyTarget::Job(gone), DependencyCondition::Success)]);
        assert_eq!(taken, [PushResult::Broken(DependencyTarget::Job(gone))]);
        let cancelled = scene.push(job("q"));
        scene.act(cancelled, &JobAction::Cancel);
        let taken = scene.push_all(vec![after(
            NewDependencyTarget::Job(cancelled),
            DependencyCondition::Success,
        )]);
        assert_eq!(taken, [PushResult::Broken(DependencyTarget::Job(cancelled))]);
    });
}

#[test]
fn a_cancelled_job_cancels_its_dependants_transitively() {
    on_both(|scene| {
        let first = scene.push(job("q"));
        let second =
            scene.push(after(NewDependencyTarget::Job(first), DependencyCondition::Success));
        let third =
            scene.push(after(NewDependencyTarget::Job(second), DependencyCondition::Success));
        let any_end = scene.push(after(NewDependencyTarget::Job(second), DependencyCondition::End));
        assert_eq!(
            scene.act(first, &JobAction::Cancel),
            ActionResult::Applied(Some(State::Cancelled))
        );
        scene.settle();
        for id in [second, third] {
            let live = scene.get(id).live;
            assert_eq!(
                (live.state, live.why),
                (State::Cancelled, Some(EndReason::DependencyBroken))
            );
        }
        assert_eq!(scene.state(any_end), State::Ready);
    });
}

#[test]
fn more_broken_jobs_than_one_page_are_all_cancelled() {
    let scene = TestEngine::memory();
    let first = scene.push(job("q"));
    for _ in 0..3 {
        scene.push_all(vec![
            after(NewDependencyTarget::Job(first), DependencyCondition::Success);
            1000
        ]);
    }
    scene.act(first, &JobAction::Cancel);
    scene.settle();
    assert_eq!(count(&scene, "then", State::Cancelled), 3000);
}

#[test]
fn more_lapsed_leases_than_one_page_are_all_taken_back() {
    let scene = TestEngine::memory();
    push_many(&scene, 2500);
    let taken: usize = (0..3).map(|_| scene.fetch_n("q", 1000).len()).sum();
    assert_eq!(taken, 2500);
    scene.pass(LEASE);
    assert_eq!(count(&scene, "q", State::Ready), 2500);
}

#[test]
fn a_job_released_before_it_is_due_is_delivered_when_due() {
    on_both(|scene| {
        let first = scene.push(job("q"));
        let mut held = after(NewDependencyTarget::Job(first), DependencyCondition::Success);
        held.due = DueTime::After(HOUR);
        let held = scene.push(held);
        // Another job is due earlier; after its promotion nothing is planned.
        let mut sooner = job("sooner");
        sooner.due = DueTime::After(SECOND);
        scene.push(sooner);
        scene.pass(SECOND);
        scene.done(&scene.fetch("q"));
        assert_eq!(scene.state(held), State::Scheduled);
        scene.pass(HOUR);
        assert_eq!(scene.state(held), State::Ready);
    });
}

#[test]
fn a_job_released_after_a_restart_is_delivered_when_due() {
    let scene = TestEngine::memory();
    let first = scene.push(job("q"));
    let mut held = after(NewDependencyTarget::Job(first), DependencyCondition::Success);
    held.due = DueTime::After(HOUR);
    let held = scene.push(held);
    let scene = scene.restarted();
    scene.done(&scene.fetch("q"));
    assert_eq!(scene.state(held), State::Scheduled);
    scene.pass(HOUR);
    assert_eq!(scene.state(held), State::Ready);
}

#[test]
fn an_action_on_an_unknown_job_reports_not_found() {
    let scene = TestEngine::memory();
    for act in [
        JobAction::Cancel,
        JobAction::Retry,
        JobAction::Delete,
        JobAction::Change(JobChanges::default()),
    ] {
        assert_eq!(scene.act(JobId(4711), &act), ActionResult::NotFound);
    }
}
