//! Pushed jobs are stored unchanged, each with its own id.

use std::collections::BTreeMap;

use crore_core::job::{ClientId, DueTime, JobRetention, Lapse, ReportFencing, ResultRetention};
use crore_core::machine::JobEvent;
use crore_core::unique::UniqueHold;
use crore_core::{Encoding, Job, JobId, Live, Payload, Span, State, Time};
use crore_store::jobs::JobSelector;

use super::super::job_builder::{MILLI, MINUTE, NewJobBuilder, SECOND, job, jobs, name};
use super::super::subject::{JobsSubject, claim, expect_ok, ids};

/// Names that break careless quoting, hashing, escaping, case folding or truncation.
pub(super) fn odd_names() -> Vec<String> {
    let odd =
        ["' OR 1=1--", "{tag}", "a}b{c", "%s\\n", "a:b*?[c]", "Mail", "mail", "mail ", "m ail"];
    let more = ["null", "🦀 メール", "e\u{301}", "é", "\u{202e}abc", "$1", "\"", "../x", "0"];
    let long = ["q".repeat(255), "q".repeat(254) + "r"];
    odd.into_iter().chain(more).map(str::to_owned).chain(long).collect()
}

pub(in super::super) async fn a_pushed_job_reads_back_with_every_field(s: &JobsSubject) {
    let mut new = job("mail").kind("send").priority(-7).attempts(4).later(MINUTE);
    new =
        new.window("key", UniqueHold::UntilSuccess, MINUTE).client("native", "mine").limit("none");
    new = new.keep(ResultRetention::Once(SECOND)).limit_for("none", "{v}");
    new.spec.payload = Payload::new(Encoding::Msgpack, vec![0x81, 0xa1, b'a', 0x01]);
    new.spec.lease = Some(Span::from_millis(1234));
    new.spec.timeout = Some(Span::from_secs(7));
    new.spec.lapse = Lapse::Failure;
    new.spec.reports = ReportFencing::Any;
    new.spec.retain = JobRetention::Nothing;
    new.spec.trace = Some("00-4bf92f3577b34da6-01".into());
    new.spec.labels = BTreeMap::from([("' ".into(), "{}".into()), ("é".into(), String::new())]);
    let spec = new.spec.clone();
    let id = s.push(new).await;
    let live = Live::pushed(s.now(), s.now().after(MINUTE), 0);
    assert_eq!(s.job(id).await, Job { id, spec: spec.into(), live });
}

pub(in super::super) async fn absent_options_stay_absent(s: &JobsSubject) {
    let mut new = job("q");
    (new.spec.lease, new.spec.timeout) = (None, None);
    new.spec.retry.max_attempts = None;
    new.spec.lapse = Lapse::Crash { quarantine: None };
    let spec = new.spec.clone();
    let id = s.push(new).await;
    assert_eq!(*s.job(id).await.spec, spec);
}

pub(in super::super) async fn payload_bytes_are_kept_exactly(s: &JobsSubject) {
    let all: Vec<u8> = (0..=255).collect();
    let large: Vec<u8> = all.iter().copied().cycle().take(1 << 20).collect();
    for bytes in [Vec::new(), vec![0], b"\r\n'\\\0\0".to_vec(), all, large] {
        let payload = Payload::new(Encoding::Bytes, bytes);
        let id = s.push(job("q").payload(payload.clone())).await;
        let kept = s.job(id).await.spec.payload.clone();
        assert!(kept == payload, "{payload:?} was returned as {kept:?}");
        let claimed = s.claim_one("q").await.spec.payload.clone();
        assert!(claimed == payload, "{payload:?} was delivered as {claimed:?}");
    }
}

pub(in super::super) async fn an_encoding_is_kept_with_its_payload(s: &JobsSubject) {
    for encoding in Encoding::ALL {
        let payload = Payload::new(encoding, *b"1");
        let id = s.push(job("q").payload(payload.clone())).await;
        assert_eq!(s.job(id).await.spec.payload, payload);
    }
}

pub(in super::super) async fn priorities_span_the_whole_range(s: &JobsSubject) {
    let priorities = [0, i32::MAX, -1, i32::MIN, 1];
    let new = priorities.map(|priority| job("q").priority(priority)).to_vec();
    let pushed = s.push_all(new).await;
    let claimed = s.claim(&["q"], 5).await;
    let order: Vec<_> = claimed.iter().map(|job| job.spec.priority).collect();
    assert_eq!(order, [i32::MIN, -1, 0, 1, i32::MAX]);
    assert_eq!(claimed[0].id, pushed[3]);
}

pub(in super::super) async fn an_unusual_queue_name_is_distinct(s: &JobsSubject) {
    let names = odd_names();
    let pushed = s.push_all(names.iter().map(|queue| job(queue)).collect()).await;
    for (queue, id) in names.iter().zip(pushed) {
        assert_eq!(s.job(id).await.spec.queue.as_str(), queue);
        assert_eq!(s.claim_ids(&[queue], 100).await, [id], "queue `{queue}`");
    }
}

pub(in super::super) async fn an_unusual_kind_name_is_distinct(s: &JobsSubject) {
    let names = odd_names();
    let pushed = s.push_all(names.iter().map(|kind| job("q").kind(kind)).collect()).await;
    for (kind, id) in names.iter().zip(pushed) {
        let mut ask = claim(&["q"], 100);
        (ask.kinds, ask.worker) = (Some(vec![name(kind)]), name(kind));
        let claimed = s.ask(ask).await.jobs;
        assert_eq!(ids(&claimed), [id], "kind `{kind}`");
        assert_eq!(claimed[0].live.worker, Some(name(kind)), "a worker may have the same name");
    }
}

pub(in super::super) async fn ids_grow_in_the_order_of_pushes(s: &JobsSubject) {
    let mut all = Vec::new();
    for n in [1, 3, 2] {
        all.extend(s.push_all(jobs("q", n)).await);
    }
    assert!(all.is_sorted_by(|a, b| a < b), "{all:?}");
    assert!(all.iter().all(|id| JobId::new(id.0).is_some()), "{all:?}");
}

pub(in super::super) async fn an_id_is_never_reused(s: &JobsSubject) {
    let first = s.push_all(jobs("q", 3)).await;
    for id in &first {
        s.apply_to_current(*id, &JobEvent::Delete).await;
    }
    let second = s.push_all(jobs("q", 3)).await;
    assert!(second[0] > first[2], "{first:?} then {second:?}");
}

pub(in super::super) async fn an_empty_push_is_answered_and_stores_nothing(s: &JobsSubject) {
    let pushes = s.batch(Vec::new()).await;
    assert_eq!((pushes.now, pushes.groups.len(), pushes.jobs.len()), (s.now(), 0, 0));
}

pub(in super::super) async fn push_times_come_from_the_clock_of_the_store(s: &JobsSubject) {
    let at = |millis| DueTime::At(Time::from_millis(millis));
    let now = s.now();
    for (due, expected, state) in [
        (DueTime::Now, now, State::Ready),
        (DueTime::After(Span::ZERO), now, State::Ready),
        (DueTime::After(MILLI), now.after(MILLI), State::Scheduled),
        (at(now.as_millis() + 5), now.after(Span::from_millis(5)), State::Scheduled),
        (at(now.as_millis()), now, State::Ready),
        (at(now.as_millis() - 1), now, State::Ready),
        (at(0), now, State::Ready),
    ] {
        let pushes = s.batch(job("q").due(due)).await;
        assert_eq!(pushes.now, now);
        let live = s.job(pushes.jobs[0].id().expect("stored")).await.live;
        assert_eq!((live.due, live.pushed_at, live.state), (expected, now, state), "{due:?}");
    }
}

pub(in super::super) async fn a_due_time_in_the_past_does_not_improve_the_position(
    s: &JobsSubject,
) {
    let first = s.push(job("q")).await;
    s.advance(SECOND);
    let liar = s.push(job("q").due(DueTime::At(Time::ZERO))).await;
    assert_eq!(s.claim_ids(&["q"], 2).await, [first, liar]);
}

pub(in super::super) async fn a_job_that_is_due_later_is_not_claimed(s: &JobsSubject) {
    let id = s.push(job("q").later(SECOND)).await;
    assert_eq!(s.claim_ids(&["q"], 1).await, []);
    s.advance(Span::from_millis(999));
    assert_eq!(s.claim_ids(&["q"], 1).await, [], "never early");
    assert_eq!(s.job(id).await.live.state, State::Scheduled);
}

pub(in super::super) async fn get_returns_jobs_in_the_requested_order(s: &JobsSubject) {
    let pushed = s.push_all(jobs("q", 3)).await;
    let (a, b, c) = (pushed[0], pushed[1], pushed[2]);
    let nobody = JobId(c.0 + 1000);
    let found = expect_ok(s.store.get(JobSelector::all(&[c, nobody, a, c, JobId(0), b]))).await;
    let found: Vec<_> = found.into_iter().map(|job| job.map(|job| job.id)).collect();
    assert_eq!(found, [Some(c), None, Some(a), Some(c), None, Some(b)]);
    assert_eq!(expect_ok(s.store.get(Vec::new())).await, []);
}

pub(in super::super) async fn a_job_is_found_by_its_callers_id(s: &JobsSubject) {
    let mine = s.push(job("q").client("native", "mine")).await;
    let theirs = s.push(job("q").client("lakh", "mine").unique("u", UniqueHold::UntilEnd)).await;
    let client =
        |door: &str, id: &str| JobSelector::Client(ClientId { door: name(door), id: id.into() });
    let asked = vec![client("lakh", "mine"), mine.into(), client("native", "mine")];
    let found = expect_ok(s.store.get(asked)).await;
    assert_eq!(ids(&found.into_iter().flatten().collect::<Vec<_>>()), [theirs, mine, mine]);
    assert_eq!(expect_ok(s.store.get(vec![client("native", "yours")])).await, [None]);
    s.apply_to_current(mine, &JobEvent::Delete).await;
    assert_eq!(expect_ok(s.store.get(vec![client("native", "mine")])).await, [None]);
}
