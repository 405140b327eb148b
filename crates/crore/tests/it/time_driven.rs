//! Time-driven behavior: schedules, promotion, limits over time, pruning, statistics.

use std::sync::Arc;
use std::time::Duration;

use crore::core::job::{DependencyCondition, DueTime};
use crore::core::limit::Limit;
use crore::core::push::{NewDependency, NewDependencyTarget};
use crore::core::schedule::{Missed, Timing};
use crore::core::{Code, JobCounter, JobStats, NewJob, Span, State, Time};
use crore::store::embedded::{self, Embedded};
use crore::store::registry::{QueueSettings, RegistryValue};
use crore::store::views::{JobStatsQuery, StatStep, StatsShape};
use crore::store::{Memory, Store};
use crore::{Error, block_on};
use crore_testkit::FakeClock;

use crate::test_engine::{
    DAY, HOUR, MINUTE, SECOND, Task, TestEngine, job, jobs, name, on_both, wait_for,
};

fn set(scene: &TestEngine, timing: &str, missed: Missed) {
    set_job(scene, timing, missed, job("q")).expect("set");
}

fn set_job(scene: &TestEngine, timing: &str, missed: Missed, job: NewJob) -> Result<(), Error> {
    let timing = Timing::parse("timing", timing).expect("a timing");
    block_on(scene.engine.schedules().set(name("s"), timing, missed, job))
}

/// The number of jobs that the schedule has pushed since the last call.
fn fired(scene: &TestEngine) -> usize {
    let jobs = scene.fetch_n("q", 1000);
    jobs.iter().for_each(|job| scene.done(job));
    jobs.len()
}

/// The number of jobs that can be fetched now.
fn fetchable(scene: &TestEngine) -> usize {
    scene.fetch_n("q", 1000).len()
}

fn day(n: u64) -> Time {
    FakeClock::START.after(DAY.times(n))
}

/// Advances the clock to an instant, and runs upkeep whenever it is due.
fn advance_to(scene: &TestEngine, at: Time) {
    while scene.engine.upkeep().due_at() < at {
        scene.clock.set(scene.engine.upkeep().due_at().max(scene.now()));
        scene.settle();
    }
    scene.clock.set(at);
    scene.settle();
}

#[test]
fn a_schedule_fires_at_its_ticks_and_not_between() {
    on_both(|scene| {
        set(scene, "every 1m", Missed::Skip);
        scene.settle();
        assert_eq!(fired(scene), 0);
        for _ in 0..3 {
            scene.pass(Span::from_millis(59_999));
            assert_eq!(fired(scene), 0);
            scene.pass(Span::from_millis(1));
            assert_eq!(fired(scene), 1);
        }
    });
}

#[test]
fn missed_ticks_are_skipped_caught_up_once_or_all_caught_up() {
    for (missed, expected) in [(Missed::Skip, 0), (Missed::Once, 1), (Missed::All, 240)] {
        let scene = TestEngine::memory();
        set(&scene, "every 1h", missed);
        scene.settle();
        scene.clock.advance(DAY.times(10).plus(MINUTE.times(30)));
        let scene = scene.restarted();
        assert_eq!(fired(&scene), expected, "{missed:?}");
        scene.pass(MINUTE.times(30));
        assert_eq!(fired(&scene), 1, "{missed:?}");
    }
}

#[test]
fn three_in_the_morning_in_berlin_fires_once_a_day_across_clock_changes() {
    // On 29 March 2026 the clocks go from 2 to 3, on 25 October from 3 back to 2.
    for (day_before, hours_before, hours_after) in [(86, 2, 1), (296, 1, 2)] {
        let scene = TestEngine::memory();
        scene.clock.set(day(day_before));
        set(&scene, "cron 0 3 * * * in Europe/Berlin", Missed::Skip);
        for (n, hour) in [(0, hours_before), (1, hours_after), (2, hours_after)] {
            let at = day(day_before + n).after(HOUR.times(hour));
            advance_to(&scene, at.before(Span::from_millis(1)));
            assert_eq!(fired(&scene), 0, "{at:?}");
            advance_to(&scene, at);
            assert_eq!(fired(&scene), 1, "{at:?}");
        }
    }
}

#[test]
fn a_local_time_that_is_skipped_or_repeated_fires_once() {
    for day_of in [87, 297] {
        let scene = TestEngine::memory();
        scene.clock.set(day(day_of).before(HOUR.times(2)));
        set(&scene, "cron 30 2 * * * in Europe/Berlin", Missed::Skip);
        advance_to(&scene, day(day_of).after(HOUR.times(12)));
        assert_eq!(fired(&scene), 1, "day {day_of}");
    }
}

#[test]
fn february_29_fires_every_four_years() {
    let scene = TestEngine::memory();
    set(&scene, "cron 0 0 29 2 *", Missed::Once);
    scene.settle();
    let leap_day = day(365 + 365 + 31 + 28);
    scene.clock.set(leap_day.before(SECOND));
    scene.settle();
    assert_eq!(fired(&scene), 0);
    scene.clock.set(leap_day);
    scene.settle();
    assert_eq!(fired(&scene), 1);
    scene.pass(DAY.times(1461));
    assert_eq!(fired(&scene), 1);
}

#[test]
fn a_schedule_that_can_never_fire_is_refused() {
    let scene = TestEngine::memory();
    scene.clock.set(Time::MAX);
    let refused = set_job(&scene, "every 1h", Missed::Skip, job("q"));
    assert_eq!(refused.expect_err("refused").code(), Code::ScheduleNever);
}

#[test]
fn a_schedule_whose_job_refers_to_a_batch_is_refused() {
    let scene = TestEngine::memory();
    let mut held = job("q");
    held.after.push(NewDependency {
        on: NewDependencyTarget::Earlier(0),
        needs: DependencyCondition::End,
    });
    let refused = set_job(&scene, "every 1m", Missed::Skip, held);
    let Err(Error::Invalid(invalid)) = refused else { panic!("{refused:?}") };
    assert_eq!(invalid.field, "job.after");
}

#[test]
fn a_paused_schedule_does_not_fire_nor_catch_up_when_resumed() {
    on_both(|scene| {
        set(scene, "every 1m", Missed::All);
        block_on(scene.engine.schedules().pause(&name("s"))).expect("paused");
        scene.pass(HOUR);
        assert_eq!(fired(scene), 0);
        block_on(scene.engine.schedules().resume(&name("s"))).expect("resumed");
        scene.settle();
        assert_eq!(fired(scene), 0);
        scene.pass(MINUTE);
        assert_eq!(fired(scene), 1);
        let absent = block_on(scene.engine.schedules().pause(&name("absent")));
        assert!(matches!(absent, Err(Error::NotFound { .. })));
    });
}

#[test]
fn a_schedule_that_is_set_again_keeps_its_next_tick_unless_its_timing_changes() {
    on_both(|scene| {
        set(scene, "every 1h", Missed::Once);
        scene.settle();
        scene.clock.advance(HOUR.times(3));
        set(scene, "every 1h", Missed::Once);
        scene.settle();
        assert_eq!(fired(scene), 1, "missed events stay missed");
        scene.clock.advance(HOUR.times(3));
        set(scene, "every 2h", Missed::Once);
        scene.settle();
        assert_eq!(fired(scene), 0, "another timing begins now");
        block_on(scene.engine.schedules().remove(name("s"))).expect("removed");
        scene.pass(DAY);
        assert_eq!(fired(scene), 0);
    });
}

#[test]
fn one_schedule_is_found_among_many() {
    let scene = TestEngine::memory();
    for n in 0..50 {
        let timing = Timing::parse("timing", "every 1h").expect("a timing");
        let set =
            scene.engine.schedules().set(name(&format!("s{n}")), timing, Missed::Skip, job("q"));
        block_on(set).expect("set");
    }
    block_on(scene.engine.schedules().pause(&name("s17"))).expect("paused");
    let all = block_on(scene.engine.schedules().list()).expect("schedules");
    let is_paused = |value: &RegistryValue| matches!(value, RegistryValue::Schedule(s) if s.paused);
    let paused: Vec<_> = all.iter().filter(|entry| is_paused(&entry.value)).collect();
    assert_eq!(paused.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["s17"]);
}

#[test]
fn a_queue_is_found_by_its_exact_name() {
    on_both(|scene| {
        let long = "x".repeat(255);
        let names = ["a", "a ", "a!", "ab", "\u{10ffff}", "é", "a\u{e000}", long.as_str()];
        for queue in names {
            assert!(!block_on(scene.engine.queues().get(&name(queue))).expect("settings").paused);
            block_on(scene.engine.queues().pause(name(queue))).expect("paused");
            assert!(block_on(scene.engine.queues().get(&name(queue))).expect("settings").paused);
        }
        for queue in names {
            block_on(scene.engine.queues().resume(name(queue))).expect("resumed");
        }
        let queues = block_on(scene.engine.queues().list()).expect("queues");
        assert_eq!(queues.len(), names.len());
    });
}

#[test]
fn the_delay_of_a_scheduled_job_counts_from_the_tick() {
    let scene = TestEngine::memory();
    let mut later = job("q");
    later.due = DueTime::After(SECOND.times(10));
    set_job(&scene, "every 1h", Missed::Skip, later).expect("set");
    scene.pass(HOUR);
    assert_eq!(fired(&scene), 0);
    scene.pass(SECOND.times(10));
    assert_eq!(fired(&scene), 1);
}

#[test]
fn a_scheduled_job_is_delivered_when_due_and_never_early() {
    on_both(|scene| {
        let mut later = job("q");
        later.due = DueTime::At(scene.now().after(HOUR));
        let id = scene.push(later);
        assert_eq!(
            scene.engine.upkeep().due_at().min(scene.now().after(HOUR)),
            scene.engine.upkeep().due_at()
        );
        scene.pass(Span::from_millis(3_599_999));
        assert_eq!((scene.state(id), scene.try_fetch("q")), (State::Scheduled, None));
        scene.pass(Span::from_millis(1));
        assert_eq!(scene.fetch("q").id, id);
    });
}

#[test]
fn more_due_jobs_than_one_page_are_all_promoted() {
    let scene = TestEngine::memory();
    let mut later = job("q");
    later.due = DueTime::After(MINUTE);
    for _ in 0..5 {
        scene.push_all(vec![later.clone(); 1000]);
    }
    scene.pass(MINUTE);
    assert_eq!((0..6).map(|_| scene.fetch_n("q", 1000).len()).sum::<usize>(), 5000);
}

fn limit(scene: &TestEngine, text: &str) {
    let limit = Limit::parse(text).expect("a limit");
    block_on(scene.engine.limits().set(name("l"), limit)).expect("set");
}

#[test]
fn a_limit_of_zero_holds_all_jobs_until_it_is_changed_or_removed() {
    on_both(|scene| {
        limit(scene, "concurrency 0");
        scene.push_all(jobs("q", 10));
        assert_eq!(fetchable(scene), 0);
        limit(scene, "concurrency 3");
        scene.settle();
        assert_eq!(fetchable(scene), 3);
        limit(scene, "concurrency 4");
        assert_eq!(fetchable(scene), 1, "held permits stay held");
        block_on(scene.engine.limits().remove(name("l"))).expect("removed");
        scene.settle();
        assert_eq!(fetchable(scene), 6);
    });
}

#[test]
fn a_new_limit_is_applied_to_waiting_jobs() {
    on_both(|scene| {
        scene.push_all(jobs("q", 1000));
        scene.push_all(jobs("q", 1000));
        let mut later = job("q");
        later.due = DueTime::After(MINUTE);
        scene.push_all(vec![later; 10]);
        let ready = scene.fetch("q");
        let mut held = job("q");
        held.after.push(NewDependency {
            on: NewDependencyTarget::Job(ready.id),
            needs: DependencyCondition::End,
        });
        let held = scene.push(held);
        limit(scene, r#"where queue = "q" concurrency 0"#);
        scene.settle();
        assert_eq!(fetchable(scene), 0);
        scene.pass(MINUTE);
        assert_eq!(fetchable(scene), 0);
        assert_eq!(scene.get(held).spec.limits.len(), 1);
        block_on(scene.engine.limits().remove(name("l"))).expect("removed");
        scene.settle();
        assert!(scene.get(held).spec.limits.is_empty());
        assert_eq!(fetchable(scene), 1000);
    });
}

#[test]
fn a_running_job_that_is_handed_back_is_under_the_current_limits() {
    on_both(|scene| {
        let id = scene.push(job("q"));
        let running = scene.fetch("q");
        limit(scene, "concurrency 0");
        scene.settle();
        scene.finish(&running, crore::core::machine::Outcome::Interrupted);
        scene.settle();
        assert_eq!(scene.get(id).spec.limits.len(), 1);
        assert_eq!(fetchable(scene), 0);
    });
}

#[test]
fn records_past_their_retention_are_removed() {
    on_both(|scene| {
        let settings = QueueSettings { max_done: 2, keep_dead: HOUR, ..QueueSettings::default() };
        block_on(scene.engine.queues().set(name("q"), settings)).expect("set");
        let ids: Vec<_> = (0..5).map(|_| scene.push(job("q"))).collect();
        for _ in 0..4 {
            scene.clock.advance(Span::from_millis(1));
            scene.done(&scene.fetch("q"));
        }
        let outcome = crore::core::machine::Outcome::Failed {
            error: "no".into(),
            detail: None,
            again: crore::core::machine::RetryDirective::Never,
        };
        scene.finish(&scene.fetch("q"), outcome);
        scene.pass(SECOND.times(10));
        let left = || {
            let all =
                block_on(scene.engine.jobs().get_all(crore::store::jobs::JobSelector::all(&ids)));
            all.expect("jobs").iter().map(Option::is_some).collect::<Vec<_>>()
        };
        assert_eq!(left(), [false, false, true, true, true]);
        scene.pass(HOUR.plus(MINUTE.times(15)));
        assert_eq!(left(), [false, false, true, true, false]);
        scene.pass(DAY);
        assert_eq!(left(), [false; 5]);
    });
}

#[test]
fn a_queue_without_settings_has_the_defaults_of_its_store() {
    let queues = QueueSettings { max_done: 1, ..QueueSettings::default() };
    let clock = FakeClock::default();
    let memory = Memory::new(Arc::new(clock.clone())).with_queues(queues.clone());
    let dir = tempfile::tempdir().expect("a directory");
    let options = embedded::Options { queues, ..embedded::Options::default() };
    let embedded = Embedded::open(dir.path(), Arc::new(clock.clone()), options).expect("opened");
    let stores: [Arc<dyn Store>; 2] = [Arc::new(memory), Arc::new(embedded)];
    for store in stores {
        let scene = TestEngine::on_store(store, clock.clone(), None);
        let ids: Vec<_> = (0..3).map(|_| scene.push(job("q"))).collect();
        for _ in &ids {
            scene.clock.advance(Span::from_millis(1));
            scene.done(&scene.fetch("q"));
        }
        scene.pass(SECOND.times(10));
        let all = block_on(scene.engine.jobs().get_all(crore::store::jobs::JobSelector::all(&ids)));
        let left: Vec<_> = all.expect("jobs").iter().map(Option::is_some).collect();
        assert_eq!(left, [false, false, true]);
    }
}

#[test]
fn statistics_are_counted_and_written() {
    on_both(|scene| {
        scene.push_all(jobs("q", 3));
        scene.done(&scene.fetch("q"));
        let outcome = crore::core::machine::Outcome::Cancel;
        scene.finish(&scene.fetch("q"), outcome);
        scene.pass(SECOND.times(5));
        let total = |series: &str| {
            let stats =
                block_on(scene.engine.jobs().stats(name(series), StatStep::Minute)).expect("stats");
            stats.iter().map(|(_, n)| n).sum::<u64>()
        };
        assert_eq!((total("pushed"), total("done"), total("cancelled")), (3, 1, 1));
        assert_eq!((total("dead"), total("failed")), (0, 0));
    });
}

/// The statistics of one kind, or of all, of the last day.
fn job_stats(engine: &crore::Engine, kind: Option<&str>) -> JobStats {
    let query = JobStatsQuery {
        queue: None,
        kind: kind.map(name),
        within: None,
        step: StatStep::Minute,
        from: Time::ZERO,
        to: Time::MAX,
        shape: StatsShape::OverTime,
    };
    let mut sum = JobStats::default();
    let rows = block_on(engine.jobs().job_stats(query)).expect("statistics");
    rows.iter().for_each(|row| sum.merge(&row.stats));
    sum
}

#[test]
fn jobs_are_counted_by_kind_with_their_waits_and_runs() {
    on_both(|scene| {
        let of = |queue: &str, kind: &str| {
            let mut job = job(queue);
            job.spec.kind = name(kind);
            job
        };
        scene.push_all(vec![of("q", "a"), of("q", "a"), of("q", "a")]);
        scene.push(NewJob { due: DueTime::After(MINUTE), ..of("late", "b") });
        scene.pass(SECOND.times(10));
        scene.done(&scene.fetch("q"));
        let failing = scene.fetch("q");
        let again = crore::core::machine::RetryDirective::ByPolicy;
        let failed =
            crore::core::machine::Outcome::Failed { error: "no".into(), detail: None, again };
        scene.pass(SECOND);
        scene.finish(&failing, failed);
        scene.pass(SECOND.times(70));
        let counts = |kind| {
            let stats = job_stats(&scene.engine, kind);
            let counts = JobCounter::ALL.map(|counter| stats.count(counter));
            (counts, stats.wait.quantile(99), stats.run.quantile(99))
        };
        let (all, ..) = counts(None);
        let (a, wait, run) = counts(Some("a"));
        let (b, ..) = counts(Some("b"));
        // Pushed, started, done, failed, retried, dead, cancelled, lapsed, expired.
        assert_eq!((a, b), ([3, 2, 1, 1, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(all, [4, 2, 1, 1, 1, 0, 0, 0, 0]);
        let near = |span: Option<Span>, exact: u64| {
            span.is_some_and(|span| span.as_millis().abs_diff(exact) * 100 <= exact * 15)
        };
        assert!(near(wait, 10_000) && near(run, 1_000), "{wait:?} {run:?}");
        // The wait of a job that is due later begins then.
        let late = scene.fetch("late");
        scene.pass(SECOND.times(5));
        let waited = job_stats(&scene.engine, Some("b")).wait.quantile(50);
        let exact = late.live.started_at.since(late.live.due).as_millis();
        assert!(near(waited, exact), "{waited:?} for {exact}");
    });
}

#[test]
fn statistics_are_written_before_a_stop() {
    let dir = tempfile::tempdir().expect("a directory");
    let engine = crore::Engine::open(dir.path()).expect("opened");
    for _ in 0..3 {
        engine.push("q", "x").wait().expect("pushed");
    }
    engine.stop().expect("stopped");
    drop(engine);
    let engine = crore::Engine::open(dir.path()).expect("opened again");
    let stats = block_on(engine.jobs().stats(name("pushed"), StatStep::Hour)).expect("stats");
    assert_eq!(stats.iter().map(|(_, n)| n).sum::<u64>(), 3);
    assert_eq!(job_stats(&engine, None).count(JobCounter::Pushed), 3);
}

#[test]
fn more_jobs_than_one_page_are_put_under_the_current_limits() {
    let scene = TestEngine::memory();
    let push = || drop(scene.push_all(jobs("q", 1000)));
    (0..3).for_each(|_| push());
    let running: Vec<_> = (0..3).flat_map(|_| scene.fetch_n("q", 1000)).collect();
    limit(&scene, "concurrency 0");
    scene.settle();
    for job in &running {
        scene.finish(job, crore::core::machine::Outcome::Interrupted);
    }
    scene.settle();
    assert!(running.iter().all(|job| scene.get(job.id).spec.limits.len() == 1));
    assert_eq!(fetchable(&scene), 0);
}

#[test]
fn loosening_or_removing_a_limit_wakes_waiting_fetches() {
    on_both(|scene| {
        let loosen: [fn(&TestEngine); 3] = [
            |scene| limit(scene, "rate 1000/1s burst 1000"),
            |scene| limit(scene, "concurrency 100"),
            |scene| block_on(scene.engine.limits().remove(name("l"))).expect("removed"),
        ];
        for loosened in loosen {
            limit(scene, "rate 1/1d concurrency 1");
            scene.settle();
            scene.push_all(jobs("q", 2));
            let first = scene.try_fetch("q");
            let mut waiter = Task::new(scene.engine.fetch(wait_for("q")));
            // On the embedded store the first claim takes a while.
            crore_testkit::eventually(Duration::from_secs(10), || {
                assert!(waiter.poll().is_none());
                scene.engine.deliveries().waiting() == 1
            });
            loosened(scene);
            scene.settle();
            // A rate that was used up allows the next job after its new interval.
            let got = crore_testkit::eventually(Duration::from_secs(10), || {
                scene.pass(Span::from_millis(1));
                waiter.poll_if_woken()
            });
            let got = got.expect("no error");
            assert_eq!(got.len(), 1);
            got.iter().chain(&first).for_each(|job| scene.done(job));
            let rest = scene.fetch_n("q", 10);
            rest.iter().for_each(|job| scene.done(job));
            scene.clock.advance(DAY.times(2));
            scene.settle();
        }
    });
}

#[test]
fn jobs_that_miss_their_deadline_are_counted() {
    on_both(|scene| {
        let deadline = Some(crore::core::job::StartDeadline::Within(SECOND));
        scene.push(NewJob { deadline, ..job("q") });
        scene.push(NewJob { deadline, ..job("q") });
        scene.done(&scene.fetch("q"));
        scene.pass(MINUTE);
        let stats = job_stats(&scene.engine, None);
        let counts = [JobCounter::Done, JobCounter::Cancelled, JobCounter::Expired];
        assert_eq!(counts.map(|counter| stats.count(counter)), [1, 1, 1]);
    });
}
