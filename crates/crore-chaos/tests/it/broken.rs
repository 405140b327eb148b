//! Histories with a lie in them: the verdict names the promise, and tells what happened to the job.

use crore_chaos::judge;
use crore_core::{JobId, Name, NewJob, Payload, Spec, State};
use crore_testkit::history::answer::{Count, Granted, Pushed};
use crore_testkit::history::node::{Dump, Stored};
use crore_testkit::history::op::Item;
use crore_testkit::history::{Answer, Fault, Hash, History, Node, Op, Recorder, Rules};

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a name")
}

fn job(n: u64) -> NewJob {
    Spec::new(name("q"), name("k"), Payload::json(&n.to_string())).into()
}

fn stored(n: u64) -> Stored {
    Stored {
        id: JobId(n),
        state: State::Ready,
        queue: name("q"),
        kind: name("k"),
        priority: 0,
        due: crore_core::Time::ZERO,
        attempt: 0,
        delivery: crore_core::Delivery::NONE,
        payload: Hash::of(&job(n).spec.payload),
        result: None,
        parent: None,
        unique: None,
        group: None,
    }
}

/// Three jobs are pushed and answered, the server is killed, and these are found.
fn history(found: &[u64], between: impl FnOnce(&Recorder)) -> History {
    let recorder = Recorder::new(|| 1);
    recorder.node("server", Node::Opened);
    for n in 1..=3 {
        let op = Op::Push { groups: 0, items: vec![Item::of(n, &job(n))] };
        let call = recorder.invoke("pusher-0", op);
        let items = vec![Pushed::New(JobId(n))];
        recorder.ok(call, None, Answer::Pushed { groups: Vec::new(), items });
    }
    between(&recorder);
    recorder.fault("server", Fault::Crash);
    let count =
        Count { queue: name("q"), kind: name("k"), state: State::Ready, n: found.len() as u64 };
    let jobs = found.iter().copied().map(stored).collect();
    recorder.node("server", Node::Dump(Dump { jobs, counts: vec![count] }));
    recorder.history()
}

#[test]
fn a_history_in_which_nothing_is_missing_is_clean() {
    let tally = judge(&history(&[1, 2, 3], |_| {}), &Rules::default()).expect("clean");
    assert_eq!((tally.acknowledged, tally.kills, tally.lost), (3, 1, 0));
}

#[test]
fn one_job_that_is_dropped_is_called_lost_and_its_events_are_told() {
    let broken = judge(&history(&[1, 3], |_| {}), &Rules::default()).expect_err("job 2 is lost");
    let text = broken.to_string();
    assert_eq!(broken.promises, [1]);
    for part in ["I1:", "[job 2]", "lost = 1", "New(#2)", "fault: Crash", "in the end: None"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("New(#1)") && !text.contains("New(#3)"), "{text}");
}

#[test]
fn one_job_that_two_workers_have_at_once_is_called_doubled() {
    let twice = |recorder: &Recorder| {
        for n in 1..=2 {
            let queues = vec![name("q")];
            let op = Op::Fetch { queues, kinds: None, n: 1, strict: false };
            let call = recorder.invoke(format!("worker-{n}"), op);
            let granted = Granted {
                id: JobId(1),
                queue: name("q"),
                attempt: 1,
                delivery: crore_core::Delivery(n),
                lease: job(1).spec.lease,
                payload: Hash::of(&job(1).spec.payload),
                priority: 0,
                due: crore_core::Time::ZERO,
            };
            recorder.ok(call, None, Answer::Fetched(vec![granted]));
        }
    };
    let broken = judge(&history(&[1, 2, 3], twice), &Rules::default()).expect_err("doubled");
    assert_eq!(broken.promises, [5]);
    let text = broken.to_string();
    assert!(text.contains("doubled = 1") && text.contains("worker-2"), "{text}");
}
