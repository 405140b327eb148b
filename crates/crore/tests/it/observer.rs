//! Observers.

use std::sync::{Arc, Mutex};

use crore::core::job::DeliveryEnd;
use crore::core::machine::Outcome;
use crore::core::{Job, Name, State, Time};
use crore::fetch::Fetch;
use crore::finish::Finish;
use crore::observer::{EngineObserver, ObservedChange, ObservedPush};
use crore::{Engine, block_on};

/// Records the calls of the observer as text.
#[derive(Debug, Default)]
struct RecordingObserver(Mutex<Vec<String>>);

impl RecordingObserver {
    fn note(&self, line: String) {
        self.0.lock().expect("no panic").push(line);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("no panic"))
    }
}

impl EngineObserver for RecordingObserver {
    fn pushed(&self, jobs: &mut dyn Iterator<Item = ObservedPush<'_>>) {
        for job in jobs {
            assert!(job.begun_at <= job.at);
            self.note(format!("{} pushed to {} {:?}", job.id, job.queue, job.trace));
        }
    }

    fn started(&self, jobs: &[Job], at: Time) {
        for job in jobs {
            assert_eq!(job.live.started_at, at);
            self.note(format!("{} started", job.id));
        }
    }

    fn changed(&self, change: &ObservedChange<'_>) {
        let ObservedChange { job, ended, error, state, .. } = change;
        self.note(format!("{} {ended:?} {error:?} {state:?}", job.id));
    }
}

fn fetch(engine: &Engine) -> Job {
    let (queue, worker) = (Name::new("queue", "mail"), Name::new("worker", "w1"));
    let ask = Fetch::new(queue.expect("a name"), worker.expect("a name"));
    block_on(engine.fetch(ask)).expect("an answer").remove(0)
}

#[test]
fn an_observer_sees_a_job_from_push_to_end() {
    let engine = Engine::memory();
    let diary = Arc::new(RecordingObserver::default());
    assert!(engine.telemetry().set_observer(diary.clone()));
    assert!(
        !engine.telemetry().set_observer(Arc::new(RecordingObserver::default())),
        "there is room for one"
    );

    let id = engine.push("mail", "hello").attempts(2).wait().expect("pushed");
    assert_eq!(diary.take(), [format!("{id} pushed to mail None")]);
    let job = fetch(&engine);
    assert_eq!(diary.take(), [format!("{id} started")]);
    let again = crore::core::machine::RetryDirective::After(crore::core::Span::ZERO);
    let failed = Outcome::Failed { error: "busy".into(), detail: None, again };
    block_on(engine.finish(Finish::of(&job, failed))).expect("received");
    let failed =
        format!("{id} {:?} Some(\"busy\") {:?}", Some(DeliveryEnd::Failed), Some(State::Ready));
    assert_eq!(diary.take(), [failed]);

    let job = fetch(&engine);
    diary.take();
    block_on(engine.finish(Finish::of(&job, Outcome::Done { result: None }))).expect("received");
    let done = format!("{id} {:?} None {:?}", Some(DeliveryEnd::Done), None::<State>);
    assert_eq!(diary.take(), [done], "it is removed, which ends its run");
}

#[test]
fn cancelling_a_waiting_job_ends_no_run() {
    let engine = Engine::memory();
    let diary = Arc::new(RecordingObserver::default());
    engine.telemetry().set_observer(diary.clone());
    let id = engine.push("mail", "hello").wait().expect("pushed");
    diary.take();
    block_on(engine.jobs().act(id.into(), &crore::actions::JobAction::Cancel)).expect("an answer");
    assert_eq!(diary.take(), [format!("{id} None None {:?}", Some(State::Cancelled))]);
}

#[test]
fn an_embedded_store_counts_commits_and_a_memory_store_has_none() {
    assert_eq!(Engine::memory().telemetry().store_metrics(), None);
    let dir = tempfile::tempdir().expect("a directory");
    let engine = Engine::open(dir.path()).expect("a store");
    engine.push("mail", "hello").wait().expect("pushed");
    let vitals = engine.telemetry().store_metrics().expect("metrics");
    assert!(vitals.commits.iter().sum::<u64>() >= 1, "{vitals:?}");
    assert!(vitals.bytes_written > 5 && vitals.bytes_on_disk > vitals.bytes_written, "{vitals:?}");
    assert!(!vitals.commit_time.is_zero() && !vitals.is_stuck, "{vitals:?}");
}
