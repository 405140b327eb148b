//! A small store with every kind of record, and its content as text.
//!
//! The tests damage it and back it up; `tests/fixtures` has its files in every released format.

use std::fmt::Write as _;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crore_core::job::{ClientId, DependencyCondition, DueTime, JobRetention, ResultRetention};
use crore_core::limit::{Limit, LimitKey};
use crore_core::machine::{JobEdit, JobEvent, Outcome, RetryDirective, decide};
use crore_core::push::{GroupRef, NewDependency, NewDependencyTarget, NewGroup};
use crore_core::schedule::{Missed, Timing};
use crore_core::unique::{Unique, UniqueHold};
use crore_core::version::KindVersions;
use crore_core::{Batch, GroupId, Job, JobId, Name, NewJob, Payload, Span, Spec, State};
use crore_store::embedded::disk::Disk;
use crore_store::embedded::{Embedded, Options};
use crore_store::jobs::{Claim, QueueOrder, StoreWrite};
use crore_store::registry::{Define, QueueSettings, RegistryTable, RegistryValue, Schedule};
use crore_store::views::{ListQuery, Note, StatStep};
use crore_store::{Jobs, Registry, StoreFuture, Upkeep, Views};
use crore_testkit::FakeClock;

/// Segments small enough that little data fills several.
pub(crate) fn small() -> Options {
    Options { segment_bytes: Options::MIN_SEGMENT, ..Options::default() }
}

pub(crate) fn name(text: &str) -> Name {
    Name::new("name", text).expect("a valid name")
}

pub(crate) fn spec(queue: &str, payload: &str) -> Spec {
    Spec::new(name(queue), name("arbeit"), Payload::json(payload))
}

/// A store without threads; the caller drives its commits.
#[derive(Debug)]
pub(crate) struct SteppedStore {
    pub(crate) store: Embedded,
}

impl SteppedStore {
    pub(crate) fn open(disk: Arc<dyn Disk>) -> Result<Self, crore_store::Error> {
        let clock = Arc::new(FakeClock::default());
        Embedded::open_on(disk, clock, small()).map(|store| Self { store })
    }

    pub(crate) fn get<'a, T>(&'a self, verb: impl FnOnce(&'a Embedded) -> StoreFuture<'a, T>) -> T {
        let mut answer = verb(&self.store);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(answer) = answer.as_mut().poll(&mut context) {
                return answer.expect("the store answers");
            }
            self.store.commit_once().expect("committed");
        }
    }

    /// Commits and runs the keeper until there is nothing left to do.
    pub(crate) fn settle(&self) {
        while self.store.commit_once().expect("committed")
            | self.store.maintain_once().expect("kept")
        {}
    }

    pub(crate) fn push(&self, batch: impl Into<Batch>) -> Vec<JobId> {
        let batch = batch.into();
        let pushes = self.get(|store| store.push(batch)).into_inner();
        pushes.jobs.into_iter().map(|pushed| pushed.id().expect("stored")).collect()
    }

    pub(crate) fn job(&self, id: JobId) -> Option<Job> {
        self.get(|store| store.get(vec![id.into()])).remove(0)
    }

    pub(crate) fn claim(&self, queue: &str) -> Job {
        let (kinds, worker) = (None, name("näherin-7"));
        let claim = Claim {
            queues: vec![name(queue)],
            kinds,
            versions: KindVersions::default(),
            n: 1,
            order: QueueOrder::Merged,
            worker,
        };
        self.get(|store| store.claim(claim)).jobs.remove(0)
    }

    pub(crate) fn apply_event(&self, job: &Job, event: &JobEvent) {
        let change = decide(job, event, 7).expect("the event applies");
        let _ = self.get(|store| store.apply(vec![StoreWrite::Job(change)]));
    }

    pub(crate) fn finish(&self, job: &Job, outcome: Outcome) {
        let delivery = Some(job.live.delivery);
        self.apply_event(job, &JobEvent::Finished { delivery, report: outcome.into() });
    }

    /// Pushes, claims and finishes a job.
    pub(crate) fn run_job(&self, spec: Spec, outcome: Outcome) -> JobId {
        let (queue, job) = (spec.queue.clone(), NewJob::from(spec));
        let id = self.push(job)[0];
        let job = self.claim(queue.as_str());
        assert_eq!(job.id, id, "the queue was empty");
        self.finish(&job, outcome);
        id
    }
}

fn failed(again: RetryDirective) -> Outcome {
    Outcome::Failed { error: "die Nadel brach ⚠".into(), detail: None, again }
}

fn done(result: Option<&str>) -> Outcome {
    Outcome::Done { result: result.map(Payload::json) }
}

/// Creates the store and leaves it as after a crash, with everything on disk.
pub(crate) fn make(disk: Arc<dyn Disk>) {
    let hand = SteppedStore::open(disk).expect("opened");
    define(&hand);
    push_all(&hand);
    run_all(&hand);
    // Jobs that end at once make waste, so that the oldest segments are compacted.
    for n in 0..40 {
        let mut spec = spec("flüchtig", &format!(r#"{{"n": {n}, "text": "{}"}}"#, "x".repeat(300)));
        spec.retain = JobRetention::Nothing;
        hand.run_job(spec, done(None));
        hand.settle();
    }
    change_moved_jobs(&hand);
    for n in 0..24 {
        let text = format!(r#"{{"regal": {n}, "stoff": "{}"}}"#, "Tüll ".repeat(30));
        hand.push(NewJob::from(spec("lager", &text)));
        hand.settle();
    }
    // From here on nothing is compacted.
    for _ in 0..3 {
        hand.claim("lager");
    }
    let taken = hand.claim("lager");
    hand.finish(&taken, done(None));
    hand.push(NewJob::from(spec("lager", "\"zuletzt\"")));
}

fn define(hand: &SteppedStore) {
    let limit = |text| RegistryValue::Limit(Limit::parse(text).expect("a limit"));
    let schedule = Schedule {
        timing: Timing::parse("timing", "cron 0 3 * * *").expect("a timing"),
        missed: Missed::Skip,
        job: spec("nachts", r#"{"räume": "auf"}"#).into(),
        cursor: FakeClock::START,
        paused: false,
    };
    let paused = QueueSettings { paused: true, ..QueueSettings::default() };
    let mut worker =
        Define::set(name("näherin-7"), RegistryValue::Worker("{\"ort\": \"Köln\"}".into()));
    worker.expires_after = Some(Span::from_secs(3600));
    let _ = hand.get(|store| {
        store.define(vec![
            Define::set(name("küche"), limit("concurrency 2")),
            Define::set(name("tor"), limit("rate 5/1m")),
            Define::set(name("halt"), RegistryValue::Queue(paused)),
            Define::set(name("nachtlauf"), RegistryValue::Schedule(Box::new(schedule))),
            Define::set(name("arbeit"), RegistryValue::Handler("{\"cmd\": [\"näh\"]}".into())),
            worker,
            Define::set(name("schlüssel"), RegistryValue::Token("{\"scope\": \"all\"}".into())),
            Define::set(name("weg"), RegistryValue::Token("{}".into())),
        ])
    });
    let _ =
        hand.get(|store| store.define(vec![Define::remove(RegistryTable::Tokens, name("weg"))]));
    hand.get(|store| store.lead(name("aufräumen"), 11, Span::from_secs(60)));
    hand.get(|store| store.note(vec![Note::Stat { series: name("genäht"), n: 3 }]));
}

fn push_all(hand: &SteppedStore) {
    let mut unique = spec("schneiderei", r#"{"kleid": "größe 38 👗"}"#);
    unique.unique = Some(Box::new(Unique {
        key: "kleid/38".into(),
        hold: UniqueHold::UntilSuccess,
        window: Some(Span::from_secs(900)),
    }));
    unique.client_id = Some(Box::new(ClientId { door: name("native"), id: "bestellung-1".into() }));
    unique.labels.insert("farbe".to_owned(), "grün".to_owned());
    unique.trace = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into());
    unique.priority = -5;
    let mut limited = spec("schneiderei", "[1, 2, 3]");
    limited.limits = vec![
        LimitKey { limit: name("küche"), value: None },
        LimitKey { limit: name("tor"), value: Some("köln".into()) },
    ];
    let later =
        NewJob { due: DueTime::After(Span::from_secs(86_400)), ..spec("morgen", "{}").into() };
    let member =
        |payload| NewJob { group: Some(GroupRef::New(0)), ..NewJob::from(spec("gruppe", payload)) };
    let after = |on| vec![NewDependency { on, needs: DependencyCondition::Success }];
    let waits =
        NewJob { after: after(NewDependencyTarget::Earlier(0)), ..spec("danach", "{}").into() };
    let for_group = NewJob {
        after: after(NewDependencyTarget::Group(GroupRef::New(0))),
        ..spec("danach", "1").into()
    };
    hand.push(vec![unique.into(), limited.into(), later, spec("halt", "\"paused\"").into()]);
    let jobs = vec![member(r#""a""#), member(r#""b""#), waits, for_group];
    hand.push(Batch { groups: vec![NewGroup { open: true, maker: None }], jobs });
    hand.settle();
}

fn run_all(hand: &SteppedStore) {
    let mut kept = spec("ergebnis", "{}");
    kept.keep = ResultRetention::For(Span::from_secs(7200));
    hand.run_job(kept.clone(), done(Some(r#"{"maß": "10 × 20 cm"}"#)));
    kept.keep = ResultRetention::Once(Span::from_secs(7200));
    hand.run_job(kept, done(Some("\"einmal\"")));
    hand.run_job(spec("tot", r#"{"warum": "Nadel"}"#), failed(RetryDirective::Never));
    hand.run_job(spec("nochmal", "{}"), failed(RetryDirective::ByPolicy));
    let cancelled = hand.push(NewJob::from(spec("abgesagt", "{}")))[0];
    let cancelled = hand.job(cancelled).expect("it exists");
    hand.apply_event(&cancelled, &JobEvent::Cancel);
    let deleted = hand.push(NewJob::from(spec("gelöscht", "{}")))[0];
    let deleted = hand.job(deleted).expect("it exists");
    hand.apply_event(&deleted, &JobEvent::Delete);
    hand.push(NewJob::from(spec("läuft", r#"{"an": "der Maschine"}"#)));
    let running = hand.claim("läuft");
    let (id, delivery) = (running.id, running.live.delivery);
    let text = "halb fertig ½".into();
    hand.get(|store| {
        store.note(vec![
            Note::Progress { id, delivery, percent: 50, text },
            Note::Line { id, delivery, text: "eingefädelt".into() },
            Note::Stat { series: name("genäht"), n: 4 },
        ])
    });
    hand.settle();
}

/// Changes jobs that compaction has moved, so that there are live records of moved puts.
fn change_moved_jobs(hand: &SteppedStore) {
    let unique = hand.claim("schneiderei");
    hand.finish(&unique, failed(RetryDirective::After(Span::from_secs(60))));
    let limited = hand.claim("schneiderei");
    assert!(!limited.spec.limits.is_empty(), "the one with limits is next");
    let later = hand.get(|store| {
        let (queue, kind, after) = (Some(name("morgen")), None, None);
        store.list(ListQuery { state: State::Scheduled, queue, kind, key: None, after, n: 1 })
    });
    let edited = JobEdit { spec: Some(Arc::new(spec("übermorgen", "{}"))), ..JobEdit::default() };
    hand.apply_event(&later.jobs[0], &JobEvent::Edit(edited));
}

/// The content of a store as text, one line per item.
pub(crate) fn describe(hand: &SteppedStore) -> String {
    let mut out = String::new();
    for state in State::ALL {
        let query = ListQuery { state, queue: None, kind: None, key: None, after: None, n: 10_000 };
        for job in hand.get(|store| store.list(query)).jobs {
            let mut spec = (*job.spec).clone();
            let payload = std::mem::replace(&mut spec.payload, Payload::json(""));
            let (spec, live) = (json(&spec), json(&job.live));
            writeln!(out, "job {} {state:?}\n  spec {spec}\n  live {live}", job.id).expect("text");
            let text = String::from_utf8_lossy(&payload.bytes);
            writeln!(out, "  payload {:?} {text}", payload.encoding).expect("text");
            let notes = hand.get(|store| store.notes(job.id));
            if notes != crore_store::views::JobNotes::default() {
                writeln!(out, "  notes {notes:?}").expect("text");
            }
        }
    }
    for table in TABLES {
        for entry in hand.get(|store| store.entries(table, None, 1000)) {
            writeln!(out, "entry {table:?} {}", json(&entry)).expect("text");
        }
    }
    for id in 1..200 {
        if let Some(group) = hand.get(|store| store.group(GroupId(id))) {
            writeln!(out, "group {id} {group:?}").expect("text");
        }
    }
    for step in [StatStep::Minute, StatStep::Hour] {
        let stats = hand.get(|store| store.stats(name("genäht"), step));
        writeln!(out, "stats {step:?} {stats:?}").expect("text");
    }
    let lead = hand.get(|store| store.lead(name("aufräumen"), 12, Span::from_secs(1)));
    writeln!(out, "leader {lead:?}").expect("text");
    out
}

const TABLES: [RegistryTable; 6] = [
    RegistryTable::Limits,
    RegistryTable::Queues,
    RegistryTable::Schedules,
    RegistryTable::Handlers,
    RegistryTable::Workers,
    RegistryTable::Tokens,
];

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("text")
}
