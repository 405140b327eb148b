//! A fixed workload, and what a store holds after each of its steps.
//!
//! The script is told once, to a store on a disk without faults, where every step is committed and
//! looked at before the next. Later runs do the same steps on disks that fail: whatever they leave must
//! be what the first run showed after one of its steps, and not an earlier one than was answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use crore_conformance::sim_disk::SimDisk;
use crore_core::group::Group;
use crore_core::job::{Keep, Needs, Spec, When};
use crore_core::limit::{Limit, LimitKey};
use crore_core::machine::{Again, Edit, Event, Outcome, decide};
use crore_core::push::{After, AfterRef, GroupRef, NewGroup};
use crore_core::retry::Retry;
use crore_core::unique::{Hold, Unique};
use crore_core::{Batch, GroupId, Job, JobId, Name, NewJob, Payload, Span, State};
use crore_store::embedded::{Embedded, Options};
use crore_store::jobs::{Applied, Claim, Order, Pushed, Renew, Which, Write};
use crore_store::registry::{Define, Entry, QueueSettings, Table, Value};
use crore_store::views::{JobNotes, Note};
use crore_store::{Error, Jobs, Registry, Upkeep, Views};
use crore_testkit::FakeClock;

use super::driven::run;

/// The smallest segments, so that the log rolls, is compacted and uses its files again all the time.
pub(super) fn options() -> Options {
    Options { segment_bytes: 8 << 10, ..Options::default() }
}

/// One step of the script, as it was decided when the script was told.
#[derive(Debug, Clone)]
pub(super) enum Verb {
    Push(Batch),
    Claim(Claim),
    Renew(Vec<Renew>),
    Apply(Vec<Write>),
    Define(Vec<Define>),
    Note(Vec<Note>),
    Promote,
    Prune,
    Pass(Span),
}

/// What a verb was answered, as far as it matters afterwards.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) ids: Vec<JobId>,
    pub(super) deliveries: Vec<u64>,
}

/// Everything that can be seen of a store.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct View {
    pub(super) jobs: BTreeMap<JobId, Arc<Job>>,
    groups: BTreeMap<GroupId, Group>,
    entries: Vec<(Table, Entry)>,
    notes: BTreeMap<JobId, JobNotes>,
}

/// Steps between two openings of the store, and the disk they begin on.
pub(super) struct Chapter {
    pub(super) disk: SimDisk,
    pub(super) clock: FakeClock,
    pub(super) verbs: Vec<Verb>,
    /// What there is before the first step, and after each.
    pub(super) views: Vec<View>,
}

impl Chapter {
    /// The disk as it was, which the chapter has for itself.
    pub(super) fn fresh(&self) -> SimDisk {
        SimDisk::from_image(self.disk.image(), 1)
    }

    /// The clock as it was.
    pub(super) fn time(&self) -> FakeClock {
        FakeClock::at(crore_core::Clock::now(&self.clock))
    }
}

pub(super) fn name(text: &str) -> Name {
    Name::new("name", text).expect("a good name")
}

pub(super) fn open(disk: &SimDisk, clock: &FakeClock) -> Result<Embedded, Error> {
    Embedded::open_on(Arc::new(disk.clone()), Arc::new(clock.clone()), options())
}

/// Does a verb, as far as it goes without waiting, and gives what will be answered.
pub(super) fn begin<'a>(
    store: &'a Embedded,
    clock: &FakeClock,
    verb: Verb,
) -> crore_store::Answer<'a, Said> {
    match verb {
        Verb::Push(batch) => {
            let answer = store.push(batch);
            Box::pin(async {
                let pushes = answer.await?.into_inner();
                let ids = pushes.jobs.into_iter().filter_map(Pushed::id).collect();
                Ok(Said { ids, ..Said::default() })
            })
        }
        Verb::Claim(ask) => {
            let answer = store.claim(ask);
            Box::pin(async {
                let jobs = answer.await?.jobs;
                let deliveries = jobs.iter().map(|job| job.live.delivery.0).collect();
                Ok(Said { deliveries, ..Said::default() })
            })
        }
        Verb::Renew(leases) => nothing(store.renew(leases)),
        Verb::Apply(writes) => nothing(store.apply(writes)),
        Verb::Define(definitions) => nothing(store.define(definitions)),
        Verb::Note(notes) => nothing(store.note(notes)),
        Verb::Promote => nothing(store.promote(100)),
        Verb::Prune => nothing(store.prune(100)),
        Verb::Pass(span) => {
            clock.advance(span);
            Box::pin(std::future::ready(Ok(Said::default())))
        }
    }
}

fn nothing<'a, T: Send + 'a>(answer: crore_store::Answer<'a, T>) -> crore_store::Answer<'a, Said> {
    Box::pin(async { answer.await.map(|_| Said::default()) })
}

impl Verb {
    /// Whether it is durable when it is answered.
    pub(super) const fn is_waited_for(&self) -> bool {
        matches!(self, Self::Push(_) | Self::Apply(_) | Self::Define(_) | Self::Prune)
    }
}

/// Looks at everything up to an id.
pub(super) fn view(store: &Embedded, most: u64) -> Result<View, Error> {
    let ids: Vec<JobId> = (1..=most).map(JobId).collect();
    let mut view = View::default();
    for job in run(store, store.get(Which::all(&ids)))?.into_iter().flatten() {
        view.jobs.insert(job.id, Arc::new(job));
    }
    for id in ids.iter().filter(|id| !view.jobs.contains_key(id)) {
        if let Some(group) = run(store, store.group(GroupId(id.0)))? {
            view.groups.insert(GroupId(id.0), group);
        }
    }
    for id in view.jobs.keys() {
        let notes = run(store, store.notes(*id))?;
        if notes != JobNotes::default() {
            view.notes.insert(*id, notes);
        }
    }
    for table in [Table::Limits, Table::Queues, Table::Handlers] {
        let entries = run(store, store.entries(table, None, 1000))?;
        view.entries.extend(entries.into_iter().map(|entry| (table, entry)));
    }
    Ok(view)
}

/// Tells the script: `chapters` of them with `steps` each, with about so many jobs at a time.
pub(super) fn tell(chapters: usize, steps: usize, jobs: usize) -> (Vec<Chapter>, u64) {
    let (disk, clock) = (SimDisk::new(1), FakeClock::default());
    let mut teller = Teller { random: 1, jobs, last: 40, step: 0 };
    let mut told = Vec::new();
    for nth in 0..chapters {
        let start = SimDisk::from_image(disk.image(), 1);
        let at = FakeClock::at(crore_core::Clock::now(&clock));
        let store = open(&disk, &clock).expect("opened");
        let mut views = vec![view(&store, teller.last).expect("seen")];
        let mut verbs = Vec::new();
        for _ in 0..steps {
            let verb = teller.next(views.last().expect("the first"));
            let said = run(&store, begin(&store, &clock, verb.clone())).expect("answered");
            teller.last = said.ids.iter().map(|id| id.0 + 20).fold(teller.last, u64::max);
            while store.commit_once().expect("committed") {}
            keep_all(&store);
            views.push(share(view(&store, teller.last).expect("seen"), views.last()));
            verbs.push(verb);
        }
        if nth % 2 == 0 {
            store.close().expect("closed");
        }
        told.push(Chapter { disk: start, clock: at, verbs, views });
    }
    (told, teller.last)
}

/// Does all that nobody waits for, which must come to an end.
pub(super) fn keep_all(store: &Embedded) {
    for _ in 0..1000 {
        if !store.keep_once().expect("kept") {
            return;
        }
        store.commit_once().expect("committed");
    }
    panic!("the keeper has always something to do");
}

/// Jobs that are as they were before take no room of their own.
fn share(mut view: View, before: Option<&View>) -> View {
    for (id, job) in &mut view.jobs {
        if let Some(same) = before.and_then(|before| before.jobs.get(id)).filter(|old| *old == job)
        {
            *job = Arc::clone(same);
        }
    }
    view
}

/// Decides what comes next, from what there is.
struct Teller {
    random: u64,
    jobs: usize,
    last: u64,
    step: u64,
}

impl Teller {
    fn up_to(&mut self, most: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % (most + 1)
    }

    fn next(&mut self, view: &View) -> Verb {
        self.step += 1;
        let full = view.jobs.len() > self.jobs;
        match self.up_to(19) {
            0..=4 if !full => Verb::Push(self.batch(view)),
            5 => Verb::Define(vec![self.definition()]),
            6 => Verb::Prune,
            7 => Verb::Promote,
            8 => Verb::Pass(Span::from_secs(self.up_to(40))),
            9 => self.notes(view),
            10 => self.renewal(view),
            11..=14 => Verb::Claim(claim(1 + self.up_to(3) as usize)),
            _ => self.changes(view),
        }
    }

    fn job(&mut self) -> NewJob {
        let queue = ["a", "b"][self.up_to(1) as usize];
        let bytes = [0, 10, 200, 900][self.up_to(3) as usize];
        let text = format!("\"{}-{}\"", self.step, "x".repeat(bytes));
        let mut spec = Spec::new(name(queue), name("work"), Payload::json(&text));
        spec.priority = self.up_to(2) as i32 - 1;
        spec.retry = Retry { max_attempts: Some(3), ..Retry::default() };
        if self.up_to(3) == 0 {
            spec.keep = Keep::For(Span::from_secs(1 << 20));
        }
        if self.up_to(3) == 0 {
            let key = format!("u{}", self.up_to(5)).into();
            spec.unique = Some(Unique { key, hold: Hold::UntilEnd, window: None });
        }
        if self.up_to(3) == 0 {
            spec.limits.push(LimitKey { limit: name("l0"), value: None });
        }
        let mut job = NewJob::from(spec);
        if self.up_to(4) == 0 {
            job.due = When::After(Span::from_secs(self.up_to(60)));
        }
        job
    }

    fn batch(&mut self, view: &View) -> Batch {
        let mut jobs: Vec<NewJob> = (0..=self.up_to(3)).map(|_| self.job()).collect();
        if self.up_to(2) == 0
            && let Some(id) = self.any(view, |_| true)
        {
            jobs[0].after.push(After { on: AfterRef::Job(id.id), needs: Needs::End });
        }
        if self.up_to(2) != 0 {
            return Batch::from(jobs);
        }
        jobs.iter_mut().for_each(|job| job.group = Some(GroupRef::New(0)));
        let mut last = self.job();
        let on = AfterRef::Group(GroupRef::New(0));
        last.after.push(After { on, needs: Needs::Success });
        jobs.push(last);
        Batch { groups: vec![NewGroup { open: false }], jobs }
    }

    fn definition(&mut self) -> Define {
        match self.up_to(3) {
            0 => Define::set(
                name("l0"),
                Value::Limit(Limit::parse("concurrency 3").expect("a limit")),
            ),
            1 => Define::remove(Table::Limits, name("l0")),
            2 => {
                let keep_done = Span::from_secs(self.up_to(30));
                let settings = QueueSettings { keep_done, keep_dead: keep_done, ..<_>::default() };
                Define::set(name("a"), Value::Queue(settings))
            }
            _ => {
                let text = format!("handler {}", "y".repeat(self.up_to(300) as usize)).into();
                Define::set(name(&format!("h{}", self.up_to(4))), Value::Handler(text))
            }
        }
    }

    fn any(&mut self, view: &View, is: impl Fn(&Job) -> bool) -> Option<Arc<Job>> {
        let all: Vec<_> = view.jobs.values().filter(|job| is(job)).collect();
        let last = (all.len() as u64).checked_sub(1)?;
        Some(Arc::clone(all[self.up_to(last) as usize]))
    }

    fn running(&mut self, view: &View) -> Option<Arc<Job>> {
        self.any(view, |job| job.live.state == State::Running)
    }

    fn notes(&mut self, view: &View) -> Verb {
        let Some(job) = self.running(view) else { return Verb::Promote };
        let (id, delivery) = (job.id, job.live.delivery);
        let text: Arc<str> = format!("line {}", self.step).into();
        let line = Note::Line { id, delivery, text: Arc::clone(&text) };
        let percent = self.up_to(100) as u8;
        Verb::Note(vec![line, Note::Progress { id, delivery, percent, text }])
    }

    fn renewal(&mut self, view: &View) -> Verb {
        let Some(job) = self.running(view) else { return Verb::Promote };
        let span = Some(Span::from_secs(30 + self.up_to(60)));
        Verb::Renew(vec![Renew { id: job.id, delivery: job.live.delivery, span }])
    }

    fn changes(&mut self, view: &View) -> Verb {
        let jobs = [self.running(view), self.running(view), self.any(view, |_| true)];
        let mut writes = BTreeMap::new();
        for job in jobs.into_iter().flatten() {
            let event = self.event(&job);
            if let Ok(change) = decide(&job, &event, 7) {
                writes.insert(job.id, Write::Job(change));
            }
        }
        Verb::Apply(writes.into_values().collect())
    }

    fn event(&mut self, job: &Job) -> Event {
        let delivery = job.live.delivery;
        let outcome = match self.up_to(9) {
            0 => return Event::Delete,
            1 => return Event::Cancel,
            2 => return Event::Retry,
            3 => return self.edit(job),
            4 => return Event::Lapsed(delivery),
            5 => {
                let again =
                    [Again::Never, Again::After(Span::from_secs(5))][self.up_to(1) as usize];
                Outcome::Failed { error: "it broke".into(), detail: None, again }
            }
            6 => Outcome::Done { result: None },
            _ => Outcome::Done { result: Some(Payload::json("\"a result\"")) },
        };
        Event::Finished { delivery: Some(delivery), report: outcome.into() }
    }

    fn edit(&mut self, job: &Job) -> Event {
        let mut spec = Spec::clone(&job.spec);
        spec.priority = 5;
        spec.payload = Payload::json(&format!("\"edited {}\"", self.step));
        Event::Edit(Edit { spec: Some(Arc::new(spec)), due: None })
    }
}

pub(super) fn job(text: &str) -> NewJob {
    Spec::new(name("a"), name("work"), Payload::json(&format!("\"{text}\""))).into()
}

pub(super) fn finish(store: &Embedded, job: &Job) {
    let report = Outcome::Done { result: None }.into();
    let event = Event::Finished { delivery: Some(job.live.delivery), report };
    let change = decide(job, &event, 7).expect("it means something");
    let applied = run(store, store.apply(vec![Write::Job(change)])).expect("applied").into_inner();
    assert!(matches!(applied[0], Applied::Yes(_)));
}

pub(super) fn claim(n: usize) -> Claim {
    let queues = vec![name("a"), name("b")];
    Claim { queues, kinds: None, n, order: Order::Merged, worker: name("worker") }
}

impl View {
    /// The first things that are not the same.
    pub(super) fn differs(&self, other: &Self) -> String {
        let ids = self.jobs.keys().chain(other.jobs.keys());
        let jobs = ids.filter(|id| self.jobs.get(id) != other.jobs.get(id));
        let job = jobs.map(|id| (self.jobs.get(id), other.jobs.get(id))).next();
        let groups = self.groups != other.groups;
        let (entries, notes) = (self.entries != other.entries, self.notes != other.notes);
        format!("groups {groups}, entries {entries}, notes {notes}, job {job:#?}")
    }
}
