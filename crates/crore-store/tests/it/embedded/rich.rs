//! A small store with something of everything in it, and all that it holds as text.
//!
//! The tests damage it and back it up, and what it wrote in every format is kept in `tests/fixtures`.

use std::fmt::Write as _;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crore_core::job::{ClientId, Keep, Needs, Retain, When};
use crore_core::limit::{Limit, LimitKey};
use crore_core::machine::{Again, Edit, Event, Outcome, decide};
use crore_core::push::{After, AfterRef, GroupRef, NewGroup};
use crore_core::schedule::{Missed, Timing};
use crore_core::unique::{Hold, Unique};
use crore_core::{Batch, GroupId, Job, JobId, Name, NewJob, Payload, Span, Spec, State};
use crore_store::embedded::disk::Disk;
use crore_store::embedded::{Embedded, Options};
use crore_store::jobs::{Claim, Order, Write};
use crore_store::registry::{Define, QueueSettings, Schedule, Table, Value};
use crore_store::views::{Note, Query, Step};
use crore_store::{Answer, Jobs, Registry, Upkeep, Views};
use crore_testkit::FakeClock;

/// Segments so small that a little makes several.
pub(crate) fn small() -> Options {
    Options { segment_bytes: Options::MIN_SEGMENT, ..Options::default() }
}

pub(crate) fn name(text: &str) -> Name {
    Name::new("name", text).expect("a good name")
}

pub(crate) fn spec(queue: &str, payload: &str) -> Spec {
    Spec::new(name(queue), name("arbeit"), Payload::json(payload))
}

/// A store without threads, and the hand that drives it.
#[derive(Debug)]
pub(crate) struct Hand {
    pub(crate) store: Embedded,
}

impl Hand {
    pub(crate) fn open(disk: Arc<dyn Disk>) -> Result<Self, crore_store::Error> {
        let clock = Arc::new(FakeClock::default());
        Embedded::open_on(disk, clock, small()).map(|store| Self { store })
    }

    pub(crate) fn get<'a, T>(&'a self, verb: impl FnOnce(&'a Embedded) -> Answer<'a, T>) -> T {
        let mut answer = verb(&self.store);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(answer) = answer.as_mut().poll(&mut context) {
                return answer.expect("the store answers");
            }
            self.store.commit_once().expect("committed");
        }
    }

    /// Commits and keeps until there is nothing left to do.
    pub(crate) fn rest(&self) {
        while self.store.commit_once().expect("committed") | self.store.keep_once().expect("kept") {
        }
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
        let claim = Claim { queues: vec![name(queue)], kinds, n: 1, order: Order::Merged, worker };
        self.get(|store| store.claim(claim)).jobs.remove(0)
    }

    pub(crate) fn tell(&self, job: &Job, event: &Event) {
        let change = decide(job, event, 7).expect("it means something");
        let _ = self.get(|store| store.apply(vec![Write::Job(change)]));
    }

    pub(crate) fn finish(&self, job: &Job, outcome: Outcome) {
        let delivery = Some(job.live.delivery);
        self.tell(job, &Event::Finished { delivery, report: outcome.into() });
    }

    /// Pushes a job, claims it and finishes it.
    pub(crate) fn through(&self, spec: Spec, outcome: Outcome) -> JobId {
        let (queue, job) = (spec.queue.clone(), NewJob::from(spec));
        let id = self.push(job)[0];
        let job = self.claim(queue.as_str());
        assert_eq!(job.id, id, "the queue was empty");
        self.finish(&job, outcome);
        id
    }
}

fn failed(again: Again) -> Outcome {
    Outcome::Failed { error: "die Nadel brach ⚠".into(), detail: None, again }
}

fn done(result: Option<&str>) -> Outcome {
    Outcome::Done { result: result.map(Payload::json) }
}

/// Makes the store. It is left as a crash leaves it, with everything on the disk.
pub(crate) fn make(disk: Arc<dyn Disk>) {
    let hand = Hand::open(disk).expect("opened");
    define(&hand);
    push_all(&hand);
    run_all(&hand);
    // What is done and gone at once makes waste, so that the oldest segments are given up and what
    // is left in them moves.
    for n in 0..40 {
        let mut spec = spec("flüchtig", &format!(r#"{{"n": {n}, "text": "{}"}}"#, "x".repeat(300)));
        spec.retain = Retain::Nothing;
        hand.through(spec, done(None));
        hand.rest();
    }
    after_the_move(&hand);
    for n in 0..24 {
        let text = format!(r#"{{"regal": {n}, "stoff": "{}"}}"#, "Tüll ".repeat(30));
        hand.push(NewJob::from(spec("lager", &text)));
        hand.rest();
    }
    // And from here on nothing moves any more.
    for _ in 0..3 {
        hand.claim("lager");
    }
    let taken = hand.claim("lager");
    hand.finish(&taken, done(None));
    hand.push(NewJob::from(spec("lager", "\"zuletzt\"")));
}

fn define(hand: &Hand) {
    let limit = |text| Value::Limit(Limit::parse(text).expect("a limit"));
    let schedule = Schedule {
        timing: Timing::parse("timing", "cron 0 3 * * *").expect("a timing"),
        missed: Missed::Skip,
        job: spec("nachts", r#"{"räume": "auf"}"#).into(),
        cursor: FakeClock::START,
        paused: false,
    };
    let paused = QueueSettings { paused: true, ..QueueSettings::default() };
    let mut worker = Define::set(name("näherin-7"), Value::Worker("{\"ort\": \"Köln\"}".into()));
    worker.expires_after = Some(Span::from_secs(3600));
    let _ = hand.get(|store| {
        store.define(vec![
            Define::set(name("küche"), limit("concurrency 2")),
            Define::set(name("tor"), limit("rate 5/1m")),
            Define::set(name("halt"), Value::Queue(paused)),
            Define::set(name("nachtlauf"), Value::Schedule(Box::new(schedule))),
            Define::set(name("arbeit"), Value::Handler("{\"cmd\": [\"näh\"]}".into())),
            worker,
            Define::set(name("schlüssel"), Value::Token("{\"scope\": \"all\"}".into())),
            Define::set(name("weg"), Value::Token("{}".into())),
        ])
    });
    let _ = hand.get(|store| store.define(vec![Define::remove(Table::Tokens, name("weg"))]));
    hand.get(|store| store.lead(name("aufräumen"), 11, Span::from_secs(60)));
    hand.get(|store| store.note(vec![Note::Stat { series: name("genäht"), n: 3 }]));
}

fn push_all(hand: &Hand) {
    let mut unique = spec("schneiderei", r#"{"kleid": "größe 38 👗"}"#);
    unique.unique = Some(Unique {
        key: "kleid/38".into(),
        hold: Hold::UntilSuccess,
        window: Some(Span::from_secs(900)),
    });
    unique.client_id = Some(ClientId { door: name("native"), id: "bestellung-1".into() });
    unique.labels.insert("farbe".to_owned(), "grün".to_owned());
    unique.trace = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into());
    unique.priority = -5;
    let mut limited = spec("schneiderei", "[1, 2, 3]");
    limited.limits = vec![
        LimitKey { limit: name("küche"), value: None },
        LimitKey { limit: name("tor"), value: Some("köln".into()) },
    ];
    let later = NewJob { due: When::After(Span::from_secs(86_400)), ..spec("morgen", "{}").into() };
    let member =
        |payload| NewJob { group: Some(GroupRef::New(0)), ..NewJob::from(spec("gruppe", payload)) };
    let after = |on| vec![After { on, needs: Needs::Success }];
    let waits = NewJob { after: after(AfterRef::Earlier(0)), ..spec("danach", "{}").into() };
    let for_group =
        NewJob { after: after(AfterRef::Group(GroupRef::New(0))), ..spec("danach", "1").into() };
    hand.push(vec![unique.into(), limited.into(), later, spec("halt", "\"paused\"").into()]);
    let jobs = vec![member(r#""a""#), member(r#""b""#), waits, for_group];
    hand.push(Batch { groups: vec![NewGroup { open: true }], jobs });
    hand.rest();
}

fn run_all(hand: &Hand) {
    let mut kept = spec("ergebnis", "{}");
    kept.keep = Keep::For(Span::from_secs(7200));
    hand.through(kept.clone(), done(Some(r#"{"maß": "10 × 20 cm"}"#)));
    kept.keep = Keep::Once(Span::from_secs(7200));
    hand.through(kept, done(Some("\"einmal\"")));
    hand.through(spec("tot", r#"{"warum": "Nadel"}"#), failed(Again::Never));
    hand.through(spec("nochmal", "{}"), failed(Again::ByPolicy));
    let cancelled = hand.push(NewJob::from(spec("abgesagt", "{}")))[0];
    let cancelled = hand.job(cancelled).expect("there");
    hand.tell(&cancelled, &Event::Cancel);
    let deleted = hand.push(NewJob::from(spec("gelöscht", "{}")))[0];
    let deleted = hand.job(deleted).expect("there");
    hand.tell(&deleted, &Event::Delete);
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
    hand.rest();
}

/// Jobs that have moved change, so that there are changes of what stands elsewhere.
fn after_the_move(hand: &Hand) {
    let unique = hand.claim("schneiderei");
    hand.finish(&unique, failed(Again::After(Span::from_secs(60))));
    let limited = hand.claim("schneiderei");
    assert!(!limited.spec.limits.is_empty(), "the one with limits is next");
    let later = hand.get(|store| {
        let (queue, kind, after) = (Some(name("morgen")), None, None);
        store.list(Query { state: State::Scheduled, queue, kind, after, n: 1 })
    });
    let edited = Edit { spec: Some(Arc::new(spec("übermorgen", "{}"))), ..Edit::default() };
    hand.tell(&later.jobs[0], &Event::Edit(edited));
}

/// Everything that a store holds, as text: one line for each thing.
pub(crate) fn describe(hand: &Hand) -> String {
    let mut out = String::new();
    for state in State::ALL {
        let query = Query { state, queue: None, kind: None, after: None, n: 10_000 };
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
    for step in Step::ALL {
        let stats = hand.get(|store| store.stats(name("genäht"), step));
        writeln!(out, "stats {step:?} {stats:?}").expect("text");
    }
    let lead = hand.get(|store| store.lead(name("aufräumen"), 12, Span::from_secs(1)));
    writeln!(out, "leader {lead:?}").expect("text");
    out
}

const TABLES: [Table; 6] = [
    Table::Limits,
    Table::Queues,
    Table::Schedules,
    Table::Handlers,
    Table::Workers,
    Table::Tokens,
];

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("text")
}
