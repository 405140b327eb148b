use std::sync::Arc;

use super::super::plan::TimeRange;
use super::super::{Fingerprint, SearchFilter};
use crate::id::{Delivery, GroupId, JobId};
use crate::index::{IndexKey, QueueIndex};
use crate::job::{Attempt, DeliveryEnd, EndReason, Job, Live, ReportDetails, Spec, State};
use crate::name::Name;
use crate::payload::Payload;
use crate::time::{Span, Time};

const PUSHED: i64 = 1_790_000_000_000;

fn now() -> Time {
    Time::from_millis(PUSHED).after(Span::from_secs(7200))
}

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a name")
}

fn attempt(error: Option<&str>) -> Attempt {
    Attempt {
        delivery: Delivery(1),
        started_at: Time::from_millis(PUSHED),
        ended_at: Time::from_millis(PUSHED),
        worker: None,
        ended: DeliveryEnd::Failed,
        error: error.map(Arc::from),
        details: ReportDetails::default(),
    }
}

/// A dead job of two hours.
fn job() -> Job {
    let payload = Payload::json(
        r#"{"to": "Ada", "n": 42, "text": "42", "on": true, "a": [1, {"b c": null}]}"#,
    );
    let mut spec = Spec::new(name("mail-eu"), name("send"), payload);
    spec.priority = -3;
    spec.labels =
        [("tenant", "acme"), ("eu", "")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    spec.parent = Some((JobId(5), 0));
    spec.replay_of = Some(JobId(7));
    spec.group = Some(GroupId(6));
    let pushed = Time::from_millis(PUSHED);
    let mut live = Live::pushed(pushed, pushed, 0);
    live.state = State::Dead;
    live.why = Some(EndReason::Exhausted);
    live.ended_at = Some(pushed.after(Span::from_secs(3600)));
    live.attempt = 4;
    live.worker = Some(name("w1"));
    live.history =
        vec![attempt(None), attempt(Some("Connection timeout after 30s")), attempt(Some("older"))];
    Job { id: JobId(17), spec: Arc::new(spec), live }
}

fn filter(text: &str) -> SearchFilter {
    SearchFilter::parse("q", text).unwrap_or_else(|error| panic!("{text}: {error} {:?}", error.at))
}

#[test]
fn terms_are_evaluated() {
    let fingerprint = Fingerprint::of("Connection timeout after 5s");
    let yes = [
        "",
        "state:dead",
        "state:done,dead",
        "queue:mail-eu",
        "queue:mail*",
        "queue:\"mail-eu\"",
        "kind:*e*",
        "worker:w*",
        "label:eu",
        "label:tenant=acme",
        "label:tenant=a*",
        "label:x,eu",
        "label:eu=\"\"",
        "id:3,17",
        "parent:5",
        "replays:6,7",
        "group:6",
        "why:asked,exhausted",
        "error~timeout",
        "error~TIME",
        "error~\"timeout after\"",
        "payload.to=Ada",
        "payload.to~aD",
        "payload.to=Bob,Ada",
        "payload.n=42",
        "payload.n=42.0",
        "payload.n>41.5",
        "payload.n<=42",
        "payload.text=42",
        "payload.text=\"42\"",
        "payload.on=true",
        "payload.a[1].\"b c\"=null",
        "payload.a[0]>=1",
        "age>1h",
        "age<=2h",
        "age>=2h",
        "ended>-1h1m",
        "ended<=-1h",
        "ended<now",
        "due<now",
        "pushed>=2026-09-21",
        "attempt=4",
        "attempt>3",
        "attempt=1,4",
        "crashes=0",
        "priority<0",
        "priority=-3",
        "-started>-99d",
    ];
    for text in yes.iter().map(ToString::to_string).chain([format!("error={fingerprint}")]) {
        assert!(filter(&text).matches(&job(), now()), "{text}");
        if !text.is_empty() && !text.starts_with('-') {
            assert!(!filter(&format!("-{text}")).matches(&job(), now()), "-{text}");
        }
    }
}

#[test]
fn terms_that_do_not_hold_exclude_the_job() {
    let no = [
        "state:done",
        "queue:mail",
        "queue:\"mail*\"",
        "worker:w",
        "label:acme",
        "label:tenant=\"a*\"",
        "id:18",
        "parent:17",
        "replays:5",
        "group:5",
        "why:asked",
        "error~older",
        "error=0000000000000000",
        "payload.to=ada",
        "payload.n=\"42\"",
        "payload.none=null",
        "payload.to>1",
        "payload.n~4",
        "payload.a=1",
        "age>2h",
        "age<1h",
        "ended>-1h",
        "started<now",
        "attempt>4",
        "priority>=0",
        "state:dead kind:other",
    ];
    for text in no {
        assert!(!filter(text).matches(&job(), now()), "{text}");
        if !text.contains(' ') {
            assert!(filter(&format!("-{text}")).matches(&job(), now()), "-{text}");
        }
    }
}

#[test]
fn the_plan_names_what_an_index_can_serve() {
    assert_eq!(filter("").states(), State::ALL);
    assert_eq!(filter("state:dead,done -state:done").states(), [State::Dead]);
    assert_eq!(filter("state:dead state:done").states(), []);
    assert_eq!(filter("ended>-1h -state:done").states(), [State::Dead, State::Cancelled]);
    assert_eq!(filter("why:asked").states(), [State::Done, State::Dead, State::Cancelled]);
    assert_eq!(filter("queue:b,a,b").queues(), Some(vec![name("a"), name("b")]));
    assert_eq!(filter("queue:a* -queue:b kind:c").queues(), None);
    assert_eq!(filter("kind:a*,b kind:c").kinds(), Some(vec![name("c")]));
    assert_eq!(filter("id:3,1,3 -id:1").ids(), Some(vec![JobId(1), JobId(3)]));
    assert_eq!(filter("-id:1").ids(), None);
    let at = |text: &str| text.parse::<i64>().map(Time::from_millis).expect("millis");
    let ended = filter("ended>=-1h ended<now due<+1h").ended_range(now());
    assert_eq!(ended, TimeRange { from: now().before(Span::from_secs(3600)), to: now() });
    assert_eq!(filter("-due<now").due_range(now()), TimeRange { from: at("0"), to: Time::MAX });
}

#[test]
fn a_job_that_matches_is_inside_the_plan() {
    for text in
        ["state:dead queue:mail-eu kind:send ended>-2h", "-state:done id:17 due<now why:exhausted"]
    {
        let filter = filter(text);
        assert!(filter.matches(&job(), now()) && filter.states().contains(&State::Dead), "{text}");
        let range = filter.ended_range(now());
        assert!(job().live.ended_at.is_some_and(|at| range.from <= at && at <= range.to));
    }
}

/// A search by index finds what a scan finds.
#[test]
fn a_job_has_a_key_of_every_lookup_of_a_filter_that_matches_it() {
    let job = job();
    let fingerprint = Fingerprint::of("Connection timeout after 7s");
    let by_error = format!("error={fingerprint},0000000000000000");
    for text in [
        "payload.to=Ada",
        "payload.to=x,Ada",
        "payload.n=42",
        "payload.n=4.2e1",
        "payload.text=42",
        "payload.text=\"42\"",
        "payload.on=true",
        "payload.a[0]=1.0 state:dead",
        "label:tenant=acme",
        "label:x=y,eu=\"\"",
        &by_error,
    ] {
        let filter = filter(text);
        assert!(filter.matches(&job, now()), "{text}");
        let [lookup] = &filter.lookups()[..] else { panic!("one lookup of {text}") };
        let mut keys = IndexKey::of_job(&job);
        if let Some(field) = &lookup.field {
            let index = QueueIndex::new(vec![field.clone()]).expect("an index");
            keys.extend(index.keys(&job.spec).into_iter().flat_map(|keys| keys.to_vec()));
        }
        assert!(keys.iter().any(|key| lookup.keys.contains(key)), "{text}");
        assert!(filter.is_indexed(Some(lookup.term)) && !filter.is_indexed(None), "{text}");
    }
    for text in [
        "-payload.to=Ada",
        "payload.to!=Ada",
        "payload.a[1].\"b c\"=null",
        "payload.to~ad",
        "payload.n>=3",
        "label:tenant",
        "label:tenant=a*",
        "label:tenant=acme,eu",
        "error~timeout",
        "kind:send",
    ] {
        assert_eq!(filter(text).lookups(), [], "{text}");
    }
    let all = format!("label:a=b error={fingerprint} payload.n=1 payload.to=2");
    let terms: Vec<usize> = filter(&all).lookups().iter().map(|lookup| lookup.term).collect();
    assert_eq!(terms, [2, 3, 1, 0], "rare values first");
}
