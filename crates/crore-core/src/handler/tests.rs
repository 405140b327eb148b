use std::collections::BTreeMap;

use super::*;
use crate::id::{Delivery, JobId, Revision};
use crate::job::Live;

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a valid name")
}

fn handler() -> Handler {
    Handler::new(name("command"), Map::new())
}

fn job(kind: &str, labels: &[(&str, &str)]) -> Job {
    let mut spec = Spec::new(name("q"), name(kind), Payload::json("1"));
    spec.priority = 7;
    spec.labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    let live = Live {
        state: State::Running,
        stop: false,
        counted: false,
        broken: false,
        waits: 0,
        delivery: Delivery(1),
        revision: Revision(1),
        attempt: 1,
        crashes: 0,
        pushed_at: Time::from_millis(10_000),
        due: Time::from_millis(10_000),
        deadline: None,
        event: None,
        started_at: Time::from_millis(11_000),
        lease_until: Time::from_millis(41_000),
        ended_at: None,
        worker: None,
        why: None,
        history: Vec::new(),
        actions: Box::default(),
        result: None,
    };
    Job { id: JobId(3), spec: Arc::new(spec), live }
}

#[test]
fn a_follow_up_inherits_the_timeout_only_if_configured_and_unset() {
    let second = Span::from_secs(1);
    let mut first = job("k", &[]);
    Arc::make_mut(&mut first.spec).timeout = Some(second);
    let result = Payload::json("1");
    let followed = |next: Handler| {
        let known: BTreeMap<Name, Handler> = [(name("a"), next)].into();
        let handler = Handler { next: vec![follow("a", FollowUpPayload::Items)], ..handler() };
        let end = JobEnd::Done(Some(&result));
        let end = (end, &by_kind(&handler));
        handler
            .follow_ups(&first, end, (Time::from_millis(0), 1000), |kind| known.get(kind))
            .remove(0)
    };
    assert_eq!(followed(handler()).spec.timeout, None);
    let inherits = Handler { inherits_timeout: true, ..handler() };
    assert_eq!(followed(inherits.clone()).spec.timeout, Some(second));
    let own = Handler { timeout: Some(Span::from_secs(9)), ..inherits };
    assert_eq!(followed(own).spec.timeout, Some(Span::from_secs(9)));
}

#[test]
fn handlers_stored_by_older_versions_read_back() {
    let plain = handler();
    let text = plain.to_text();
    assert!(!["labels", "inherits", "link"].iter().any(|key| text.contains(key)), "{text}");
    assert_eq!(Handler::from_text(&text), Some(plain.clone()));
    let labels = [("door".to_owned(), "x".to_owned())].into();
    let linked = LinkPolicy { on_failure: true, ..LinkPolicy::default() };
    let marked = Handler { inherits_timeout: true, labels, links: vec![7], linked, ..plain };
    assert_eq!(Handler::from_text(&marked.to_text()), Some(marked));
}

#[test]
fn empty_items_are_kept_but_not_passed_on() {
    let bytes =
        |items: Vec<Payload>| items.iter().map(|one| one.bytes.to_vec()).collect::<Vec<_>>();
    let result = join_items(&[b"one", b""]);
    assert_eq!(bytes(all_items(&result)), [b"one".to_vec(), Vec::new()]);
    assert_eq!(bytes(items(&result)), [b"one".to_vec()]);
}

/// The handlers that follow, without links.
fn by_kind(handler: &Handler) -> FollowUpHandlers {
    handler.follows(|_| None)
}

#[test]
fn links_are_resolved_to_the_kinds_that_handlers_have() {
    let summarized =
        LinkPolicy { on_success: true, on_failure: true, gives: FollowUpPayload::Summary };
    let (plain, summarized) = (handler(), Handler { linked: summarized, ..handler() });
    let (a, b) = (name("a"), name("b"));
    let by_id = |id| match id {
        1 => Some((&a, &plain)),
        2 => Some((&b, &summarized)),
        _ => None,
    };
    let handler = Handler {
        next: vec![follow("c", FollowUpPayload::Items)],
        links: vec![2, 9, 1],
        ..handler()
    };
    let FollowUpHandlers { next, on_failure } = handler.follows(by_id);
    let all = [
        follow("c", FollowUpPayload::Items),
        follow("b", FollowUpPayload::Summary),
        follow("a", FollowUpPayload::Items),
    ];
    assert_eq!(next, all);
    assert_eq!(on_failure, [follow("b", FollowUpPayload::Summary)]);
}

fn follow(kind: &str, gives: FollowUpPayload) -> FollowUpHandler {
    FollowUpHandler { kind: name(kind), gives }
}

#[test]
fn each_item_that_is_not_empty_becomes_a_job_of_each_kind() {
    let next =
        [follow("a", FollowUpPayload::Items), follow("external", FollowUpPayload::Items)].to_vec();
    let known: BTreeMap<Name, Handler> = [(name("a"), handler())].into();
    let result = join_items(&[b"one", b"", b"\xff"]);
    let handler = Handler { next, ..handler() };
    let end = (JobEnd::Done(Some(&result)), &by_kind(&handler));
    let jobs = handler
        .follow_ups(&job("k", &[]), end, (Time::from_millis(0), 1000), |kind| known.get(kind));
    let told: Vec<_> = jobs.iter().map(|job| (&*job.spec.payload.bytes, &job.spec.kind)).collect();
    let (a, external) = (name("a"), name("external"));
    let items = [&b"one"[..], &b"\xff"[..]];
    assert_eq!(
        told,
        [(items[0], &a), (items[1], &a), (items[0], &external), (items[1], &external)]
    );
    let queues: Vec<_> = jobs.iter().map(|job| job.spec.queue.as_str()).collect();
    assert_eq!(queues, ["default", "default", "external", "external"]);
    assert!(jobs.iter().all(|job| job.spec.priority == 7));
}

#[test]
fn follow_ups_stop_one_above_the_maximum() {
    let next = [follow("a", FollowUpPayload::Items), follow("b", FollowUpPayload::Items)].to_vec();
    let known: BTreeMap<Name, Handler> = [(name("a"), handler()), (name("b"), handler())].into();
    let result = join_items(&[&b"x"[..]; 100]);
    let handler = Handler { next, ..handler() };
    let end = (JobEnd::Done(Some(&result)), &by_kind(&handler));
    let made = |most| {
        let lookup = |kind: &Name| known.get(kind);
        handler.follow_ups(&job("k", &[]), end, (Time::from_millis(0), most), lookup).len()
    };
    assert_eq!((made(10), made(99), made(200)), (11, 100, 200));
}

#[test]
fn a_result_other_than_a_list_of_binaries_is_one_item() {
    let plain = Payload::new(Encoding::Text, &b"hello"[..]);
    assert_eq!(items(&plain), std::slice::from_ref(&plain));
    let texts = Payload::new(Encoding::Msgpack, &[0x92, 0xa1, b'a', 0xa1, b'b'][..]);
    assert_eq!(items(&texts), std::slice::from_ref(&texts));
    assert!(items(&Payload::new(Encoding::Text, &b""[..])).is_empty());
}

#[test]
fn a_follow_up_of_a_dead_job_gets_its_error() {
    let on_failure = vec![follow("a", FollowUpPayload::Summary)];
    let known: BTreeMap<Name, Handler> = [(name("a"), handler())].into();
    let handler =
        Handler { on_failure, next: vec![follow("a", FollowUpPayload::Items)], ..handler() };
    let now = Time::from_millis(12_000);
    let end = (JobEnd::Dead("no"), &by_kind(&handler));
    let jobs = handler.follow_ups(&job("k", &[]), end, (now, 1000), |kind| known.get(kind));
    let told: Vec<Value> = jobs
        .iter()
        .map(|job| serde_json::from_slice(&job.spec.payload.bytes).expect("JSON"))
        .collect();
    let expected = serde_json::json!([{
        "job": "3", "kind": "k", "state": "dead", "output": "", "error": "no", "attempt": 1,
        "scheduled_at": 10_000, "started_at": 11_000, "ended_at": 12_000,
    }]);
    assert_eq!(Value::from(told), expected);
}

#[test]
fn the_next_run_keeps_its_phase_however_late_the_last_one_ended() {
    let handler = Handler { every: Some(Span::from_secs(3)), ..handler() };
    let due = |job: &Job, now| {
        let (end, now) =
            ((JobEnd::Done(None), &FollowUpHandlers::default()), Time::from_millis(now));
        let jobs = handler.follow_ups(job, end, (now, 1000), |_| None::<&Handler>);
        let [next] = &jobs[..] else { panic!("{jobs:?}") };
        (next.due, next.spec.labels[PHASE_LABEL].clone())
    };
    let at = |millis| DueTime::At(Time::from_millis(millis));
    // Without the label, the phase is the push time.
    assert_eq!(due(&job("k", &[]), 11_500), (at(13_000), "10000".into()));
    assert_eq!(due(&job("k", &[]), 13_000), (at(16_000), "10000".into()));
    assert_eq!(due(&job("k", &[(PHASE_LABEL, "1000")]), 500_500), (at(502_000), "1000".into()));
    // A job that ran early is due again at its original due time.
    assert_eq!(due(&job("k", &[(PHASE_LABEL, "900000")]), 500_500), (at(900_000), "900000".into()));
}

#[test]
fn a_handler_fills_only_unset_fields() {
    let mut handler = handler();
    handler.timeout = Some(Span::from_secs(9));
    handler.results.success = true;
    let mut spec = (*job("k", &[]).spec).clone();
    handler.fill_unset(&mut spec, UnsetFields { timeout: true, ..UnsetFields::default() });
    assert_eq!((spec.timeout, spec.keep), (handler.timeout, ResultRetention::Discard));
    assert_eq!(spec.queue, name("q"));
    handler.fill_unset(&mut spec, UnsetFields::ALL);
    assert_eq!(
        (spec.queue, spec.keep),
        (name("default"), ResultRetention::For(DEFAULT_RESULT_RETENTION))
    );
}

#[test]
fn a_value_out_of_range_is_refused_with_its_field() {
    let caps = Caps::default();
    let mut cases = [handler(), handler(), handler(), handler(), handler()];
    cases[0].timeout = Some(Span::ZERO);
    cases[1].every = Some(Span::from_millis(1));
    cases[2].next = vec![follow("a", FollowUpPayload::Items); MAX_FOLLOW_UP_HANDLERS + 1];
    cases[3].settings.insert("x".into(), "x".repeat(caps.payload_bytes).into());
    cases[4].links = vec![1; MAX_FOLLOW_UP_HANDLERS + 1];
    let fields = cases.map(|handler| handler.check(&caps).expect_err("too much").field);
    assert_eq!(fields, ["timeout", "every", "next", "settings", "next"]);
    assert_eq!(handler().check(&caps), Ok(()));
}

#[test]
fn a_stored_handler_reads_back() {
    let mut handler = handler();
    handler.next = vec![follow("a", FollowUpPayload::Summary)];
    handler.settings.insert("program".into(), "ls".into());
    handler.every = Some(Span::from_secs(3));
    assert_eq!(Handler::from_text(&handler.to_text()), Some(handler));
    assert_eq!(Handler::from_text("by post"), None);
}
