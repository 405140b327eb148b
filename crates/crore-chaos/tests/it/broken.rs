//! Histories with a planted violation: the verdict names the promise and lists the job's events.

use crore_chaos::judge;
use crore_core::version::KindVersions;
use crore_core::{JobId, Name, NewJob, Payload, Spec, State};
use crore_testkit::history::node::{DumpedJob, StoreDump};
use crore_testkit::history::op::RecordedItem;
use crore_testkit::history::response::{RecordedCount, RecordedDelivery, RecordedPush};
use crore_testkit::history::{
    CheckRules, History, NodeObservation, PayloadHash, RecordedFault, RecordedOp, RecordedResponse,
    Recorder,
};

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a name")
}

fn job(n: u64) -> NewJob {
    Spec::new(name("q"), name("k"), Payload::json(&n.to_string())).into()
}

fn stored(n: u64) -> DumpedJob {
    DumpedJob {
        id: JobId(n),
        state: State::Ready,
        queue: name("q"),
        kind: name("k"),
        priority: 0,
        due: crore_core::Time::ZERO,
        attempt: 0,
        delivery: crore_core::Delivery::NONE,
        payload: PayloadHash::of(&job(n).spec.payload),
        result: None,
        parent: None,
        unique: None,
        group: None,
        expired: false,
    }
}

/// Three jobs are pushed and acknowledged and the server is killed; the dump then contains `found`.
fn history(found: &[u64], between: impl FnOnce(&Recorder)) -> History {
    let recorder = Recorder::new(|| 1);
    recorder.node("server", NodeObservation::Opened);
    for n in 1..=3 {
        let op = RecordedOp::Push { groups: 0, items: vec![RecordedItem::of(n, &job(n))] };
        let call = recorder.invoke("pusher-0", op);
        let items = vec![RecordedPush::New(JobId(n))];
        recorder.ok(call, None, RecordedResponse::Pushed { groups: Vec::new(), items });
    }
    between(&recorder);
    recorder.fault("server", RecordedFault::Crash);
    let count = RecordedCount {
        queue: name("q"),
        kind: name("k"),
        state: State::Ready,
        n: found.len() as u64,
    };
    let jobs = found.iter().copied().map(stored).collect();
    recorder.node("server", NodeObservation::Dump(StoreDump { jobs, counts: vec![count] }));
    recorder.history()
}

#[test]
fn a_complete_history_has_no_violation() {
    let tally = judge(&history(&[1, 2, 3], |_| {}), &CheckRules::default()).expect("clean");
    assert_eq!((tally.acknowledged, tally.kills, tally.lost), (3, 1, 0));
}

#[test]
fn a_dropped_job_is_reported_as_lost_with_its_events() {
    let broken =
        judge(&history(&[1, 3], |_| {}), &CheckRules::default()).expect_err("job 2 is lost");
    let text = broken.to_string();
    assert_eq!(broken.promises, [1]);
    for part in ["I1:", "[job 2]", "lost = 1", "New(#2)", "fault: Crash", "final state: None"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("New(#1)") && !text.contains("New(#3)"), "{text}");
}

#[test]
fn a_job_held_by_two_workers_is_reported() {
    let twice = |recorder: &Recorder| {
        for n in 1..=2 {
            let queues = vec![name("q")];
            let op = RecordedOp::Fetch {
                queues,
                kinds: None,
                versions: KindVersions::default(),
                n: 1,
                strict: false,
            };
            let call = recorder.invoke(format!("worker-{n}"), op);
            let granted = RecordedDelivery {
                id: JobId(1),
                queue: name("q"),
                attempt: 1,
                delivery: crore_core::Delivery(n),
                lease: job(1).spec.lease,
                payload: PayloadHash::of(&job(1).spec.payload),
                priority: 0,
                due: crore_core::Time::ZERO,
            };
            recorder.ok(call, None, RecordedResponse::Fetched(vec![granted]));
        }
    };
    let broken =
        judge(&history(&[1, 2, 3], twice), &CheckRules::default()).expect_err("duplicated");
    assert_eq!(broken.promises, [5]);
    let text = broken.to_string();
    assert!(text.contains("doubled = 1") && text.contains("worker-2"), "{text}");
}
