//! Replays: new jobs from the definitions of stored ones.

use crore::actions::{BulkMode, BulkProgress, JobFilter};
use crore::block_on;
use crore::core::job::{ClientId, DueTime};
use crore::core::unique::{Unique, UniqueHold};
use crore::core::{JobId, NewJob, OwnerId, Payload, ReplayEdits, Span, Spec, State};
use crore::push::PushResult;
use crore::replay::BulkReplay;

use crate::test_engine::{HOUR, TestEngine, job, jobs, name, on_both};

fn replay(scene: &TestEngine, id: JobId, edits: &ReplayEdits) -> JobId {
    let pushed = block_on(scene.engine.jobs().replay(id, edits)).expect("pushed");
    match pushed {
        Some(PushResult::New(id)) => id,
        other => panic!("not new: {other:?}"),
    }
}

fn replay_all(scene: &TestEngine, replay: &BulkReplay, mode: BulkMode) -> BulkProgress {
    let filter = JobFilter { queue: Some(name("q")), ..JobFilter::default() };
    let all = scene.engine.jobs().replay_all(&filter, replay, mode, |_| true);
    block_on(all).expect("replayed")
}

#[test]
fn a_job_in_any_state_is_replayed_and_stays_unchanged() {
    on_both(|scene| {
        let original = scene.push(job("q"));
        for state in [State::Ready, State::Running, State::Done] {
            match state {
                State::Running => drop(scene.fetch("q")),
                State::Done => {
                    let running = scene.get(original);
                    scene.done(&running);
                }
                _ => {}
            }
            let before = scene.get(original);
            assert_eq!(before.live.state, state);
            let edits = ReplayEdits { queue: Some(name("other")), ..ReplayEdits::default() };
            let id = replay(scene, original, &edits);
            assert_ne!(id, original);
            assert_eq!(scene.get(original), before);
            let new = scene.get(id);
            assert_eq!((new.live.state, new.live.attempt), (State::Ready, 0));
            let spec =
                Spec { queue: name("other"), replay_of: Some(original), ..(*before.spec).clone() };
            assert_eq!(*new.spec, spec);
        }
        let again = replay(scene, original, &ReplayEdits::default());
        assert_eq!(scene.fetch("q").id, again);
        let missing = block_on(scene.engine.jobs().replay(JobId(999), &ReplayEdits::default()));
        assert!(matches!(missing, Ok(None)), "{missing:?}");
    });
}

#[test]
fn an_invalid_replay_is_refused_and_stores_nothing() {
    on_both(|scene| {
        let original = scene.push(job("q"));
        let edits = [
            ReplayEdits { payload: Some(Payload::json("{")), ..ReplayEdits::default() },
            ReplayEdits {
                due: Some(DueTime::After(Span::from_secs(1 << 40))),
                ..ReplayEdits::default()
            },
        ];
        for (edits, field) in edits.iter().zip(["jobs[0].payload", "jobs[0].due"]) {
            let refused = block_on(scene.engine.jobs().replay(original, edits)).expect("answered");
            let Some(PushResult::Invalid(invalid)) = refused else { panic!("{refused:?}") };
            assert_eq!(invalid.field, field);
        }
        let counts = block_on(scene.engine.jobs().counts(None)).expect("counts");
        assert_eq!(counts.iter().map(|count| count.n).sum::<u64>(), 1);
    });
}

#[test]
fn a_held_unique_key_answers_as_for_any_push() {
    on_both(|scene| {
        let key = |key: &str, hold| Unique { key: key.into(), hold, window: Some(HOUR) };
        let mut held: NewJob = job("q");
        held.spec.unique = Some(Box::new(key("order", UniqueHold::UntilEnd)));
        let id = ClientId { door: name("native"), id: "mine".into() };
        held.spec.client_id = Some(Box::new(id));
        let original = scene.push(held);
        let edits = ReplayEdits::default();
        let again = block_on(scene.engine.jobs().replay(original, &edits)).expect("answered");
        assert_eq!(again, Some(PushResult::Duplicate(original)));
        let preview = replay_all(scene, &BulkReplay::default(), BulkMode::DryRun);
        assert_eq!((preview.matched, preview.done), (1, 0));
        scene.done(&scene.fetch("q"));
        let preview = replay_all(scene, &BulkReplay::default(), BulkMode::DryRun);
        assert_eq!((preview.matched, preview.done), (1, 1));
        let new = scene.get(replay(scene, original, &edits));
        assert_eq!((&new.spec.client_id, new.spec.unique.is_some()), (&None, true));
    });
}

#[test]
fn each_matching_job_is_replayed_once_and_replays_are_not() {
    on_both(|scene| {
        scene.push_all(jobs("q", 450));
        scene.done(&scene.fetch("q"));
        let pusher = Some(OwnerId(7));
        let bulk = BulkReplay { pusher, ..BulkReplay::default() };
        let preview = replay_all(scene, &bulk, BulkMode::DryRun);
        assert_eq!(preview, BulkProgress { examined: 450, matched: 450, done: 450 });
        // The replays match the filter too, and are ready before and behind the page that is read.
        let done = replay_all(scene, &bulk, BulkMode::Apply);
        assert_eq!(done, preview);
        let ready = scene.fetch_n("q", 1000);
        let originals: std::collections::BTreeSet<_> =
            ready.iter().filter_map(|job| job.spec.replay_of).collect();
        assert_eq!((ready.len(), originals.len()), (449 + 450, 450));
        let replays = ready.iter().filter(|job| job.spec.replay_of.is_some());
        assert!(replays.into_iter().all(|job| job.spec.pusher == pusher));
    });
}

#[test]
fn large_payloads_are_replayed_in_several_batches() {
    on_both(|scene| {
        for _ in 0..20 {
            let mut large: NewJob = job("q");
            large.spec.payload = Payload::json(&format!("\"{}\"", "x".repeat(1_000_000)));
            scene.push(large);
        }
        let done = replay_all(scene, &BulkReplay::default(), BulkMode::Apply);
        assert_eq!(done, BulkProgress { examined: 20, matched: 20, done: 20 });
    });
}
