//! The engine on an embedded store whose disk fails or loses power, step by step: which calls return an
//! error, and the state after a restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crore::core::machine::Outcome;
use crore::core::{Code, Job, State};
use crore::finish::{Finish, FinishResult};
use crore::store::StoreProblem;
use crore::store::embedded::{self, Embedded};
use crore::{Engine, Error, Options};
use crore_conformance::sim_disk::{DiskCall, DiskError, DiskFault, Recurrence, SimDisk};
use crore_testkit::FakeClock;

use crate::test_engine::{HOUR, LEASE, MINUTE, SECOND, Task, ask, job, jobs, name, wait_for};

const DONE: Outcome = Outcome::Done { result: None };

/// An engine whose store commits when the test calls for it.
struct Machine {
    disk: SimDisk,
    clock: FakeClock,
    store: Arc<Embedded>,
    engine: Engine,
}

impl Machine {
    fn on(disk: SimDisk, clock: FakeClock) -> Self {
        let options = embedded::Options { segment_bytes: 1 << 16, ..embedded::Options::default() };
        let opened = Embedded::open_on(Arc::new(disk.clone()), Arc::new(clock.clone()), options);
        let store = Arc::new(opened.expect("opened"));
        let is_made = AtomicBool::new(false);
        let engine = std::thread::scope(|threads| {
            let commits = threads.spawn(|| {
                while !is_made.load(Ordering::SeqCst) {
                    store.commit_once().expect("committed");
                    std::thread::yield_now();
                }
            });
            let store = Arc::<Embedded>::clone(&store);
            let over = crore::block_on(Engine::without_thread(
                store,
                clock_of(&clock),
                Options::default(),
            ));
            is_made.store(true, Ordering::SeqCst);
            commits.join().expect("no panic");
            over.expect("an engine")
        });
        Self { disk, clock, store, engine }
    }

    /// Runs a call to completion while the store commits.
    fn run<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let mut task = Task::new(call);
        for _ in 0..100 {
            if let Some(answer) = task.poll() {
                return answer;
            }
            // The callers that wait for a failed commit get its error.
            let _ = self.store.commit_once();
        }
        panic!("there is no response");
    }

    fn code<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Option<Code> {
        self.run(call).err().map(|error| error.code())
    }

    fn fail(&self, kind: DiskCall) {
        let (error, then) = (DiskError::Eio, Recurrence::Once);
        self.disk.fail(DiskFault::AfterCalls { n: 0, kind, error, then });
    }

    /// The machine after a power cut and a restart.
    fn after_a_power_cut(self, seed: u64) -> Self {
        Self::on(self.disk.crash(seed), self.clock)
    }
}

fn clock_of(clock: &FakeClock) -> Arc<dyn crore::core::Clock> {
    Arc::new(clock.clone())
}

fn machine() -> Machine {
    Machine::on(SimDisk::new(7), FakeClock::default())
}

#[test]
fn a_failed_sync_fails_its_callers_and_all_later_calls() {
    for kind in [DiskCall::Sync, DiskCall::Write] {
        let machine = machine();
        let engine = &machine.engine;
        machine.run(engine.push_all(job("q").into())).expect("pushed");
        let fetched = machine.run(engine.fetch(ask("q"))).expect("fetched").remove(0);
        let mut waiter = Task::new(engine.wait(fetched.id, HOUR));
        assert!(waiter.poll().is_none());
        machine.store.commit_once().expect("committed");
        assert!(waiter.poll().is_none(), "it waits for the end of the job");
        machine.fail(kind);
        let report = Finish::of(&fetched, DONE);
        assert_eq!(engine.status().store_problem(), None);
        assert_eq!(machine.code(engine.finish(report.clone())), Some(Code::Poisoned));
        assert_eq!(engine.status().store_problem(), Some(StoreProblem::Poisoned));
        assert_eq!(machine.code(engine.finish(report)), Some(Code::Poisoned));
        assert_eq!(machine.code(engine.push_all(job("q").into())), Some(Code::Poisoned));
        assert_eq!(machine.code(engine.fetch(wait_for("q"))), Some(Code::Poisoned));
        assert_eq!(machine.code(engine.queues().drain(name("q"), HOUR)), Some(Code::Poisoned));
        machine.clock.advance(MINUTE);
        assert_eq!(machine.code(engine.upkeep().run_once()), Some(Code::Poisoned));
        engine.stop().expect("stopped");
        assert!(matches!(waiter.poll_if_woken(), Some(Err(Error::Stopping))));
    }
}

#[test]
fn acknowledged_writes_and_leases_survive_a_power_cut() {
    for seed in 0..20 {
        let machine = machine();
        let engine = &machine.engine;
        let pushed = machine.run(engine.push_all(jobs("q", 3).into())).expect("pushed");
        let ids: Vec<_> = pushed.jobs.iter().filter_map(crore::push::PushResult::id).collect();
        let first = machine.run(engine.fetch(ask("q"))).expect("fetched").remove(0);
        let done = machine.run(engine.finish(Finish::of(&first, DONE))).expect("reported");
        assert!(matches!(done, FinishResult::Accepted { .. }));
        let second = machine.run(engine.fetch(ask("q"))).expect("fetched").remove(0);
        // The next push commits the record of the claim too.
        machine.run(engine.push_all(job("other").into())).expect("pushed");
        // This report gets no answer.
        let mut unanswered = Task::new(engine.finish(Finish::of(&second, DONE)));
        assert!(unanswered.poll().is_none());
        drop(unanswered);
        machine.clock.advance(LEASE.plus(SECOND));
        let machine = machine.after_a_power_cut(seed);
        let engine = &machine.engine;
        let state = |n: usize| {
            let job = machine.run(engine.get(ids[n])).expect("no error");
            job.map(|job| job.live.state)
        };
        assert_eq!((state(0), state(2)), (Some(State::Done), Some(State::Ready)), "seed {seed}");
        assert_eq!(state(1), Some(State::Running), "seed {seed}");
        machine.run(engine.upkeep().run_once()).expect("upkeep");
        assert_eq!(state(1), Some(State::Running), "one more lease, seed {seed}");
        let late = machine.run(engine.finish(Finish::of(&second, DONE))).expect("reported");
        assert!(
            matches!(late, FinishResult::Accepted { state: Some(State::Done), .. }),
            "seed {seed}"
        );
    }
}

#[test]
fn a_full_disk_refuses_pushes_and_accepts_reports() {
    let machine = machine();
    let engine = &machine.engine;
    machine.run(engine.push_all(jobs("q", 3).into())).expect("pushed");
    let fetched = machine.run(engine.fetch(ask("q"))).expect("fetched").remove(0);
    machine.disk.capacity(0);
    let mut refused = None;
    for _ in 0..10_000 {
        let mut large = job("q");
        let bytes = vec![0; 4096];
        large.spec.payload = crore::core::Payload::new(crore::core::Encoding::Bytes, bytes);
        refused = machine.code(engine.push_all(large.into()));
        if refused.is_some() {
            break;
        }
        // A store without threads needs its maintenance called.
        let _ = machine.store.maintain_once();
    }
    assert_eq!(refused, Some(Code::Full));
    assert!(matches!(engine.status().store_problem(), Some(StoreProblem::Full(_))));
    let done = machine.run(engine.finish(Finish::of(&fetched, DONE))).expect("reported");
    assert!(matches!(done, FinishResult::Accepted { .. }));
}

/// A machine whose process is killed while jobs run, restarted on a disk with `left` free bytes.
fn restarted_with(left: u64, running: usize, is_kept: bool) -> (Machine, Vec<Job>) {
    let machine = machine();
    let mut fetched = Vec::new();
    for _ in 0..running {
        machine.run(machine.engine.push_all(job("q").into())).expect("pushed");
        fetched.extend(machine.run(machine.engine.fetch(ask("q"))).expect("fetched"));
        if is_kept {
            machine.store.maintain_once().expect("kept");
        }
    }
    machine.store.commit_once().expect("committed");
    let used: u64 = machine.disk.image().values().map(|file| file.len() as u64).sum();
    machine.disk.capacity(used + left);
    machine.clock.advance(SECOND);
    (Machine::on(machine.disk.kill(), machine.clock), fetched)
}

#[test]
fn an_engine_that_is_opened_on_a_full_disk_serves_its_running_jobs() {
    for (n, running) in (1..1500).step_by(97).enumerate() {
        // A store that had no time to create its reserve reports that it is full; the other one has a reserve.
        let is_kept = n % 2 == 0;
        for left in [0, 1 << 10, 1 << 14] {
            let (machine, fetched) = restarted_with(left, running, is_kept);
            let may = |code: Option<Code>, what: &str| {
                let is_well = code.is_none_or(|code| !is_kept && code == Code::Full);
                assert!(is_well, "{running} running, {left} bytes left: {what}: {code:?}");
            };
            may(machine.code(machine.engine.upkeep().run_once()), "upkeep");
            for job in &fetched {
                may(machine.code(machine.engine.finish(Finish::of(job, DONE))), "a report");
                // A store without threads needs its maintenance called.
                let _ = machine.store.maintain_once();
            }
            assert!(!machine.store.health().is_poisoned);
        }
    }
}
