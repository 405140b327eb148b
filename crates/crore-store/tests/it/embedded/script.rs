//! A fixed workload, and the content of a store after each of its steps.
//!
//! The script is recorded once, on a disk without faults, where every step is committed and viewed
//! before the next. Later runs repeat the steps on failing disks: the content they leave must equal
//! the recorded one after some step, not before the last acknowledged step.

use std::collections::BTreeMap;
use std::sync::Arc;

use crore_conformance::sim_disk::SimDisk;
use crore_core::group::Group;
use crore_core::job::{DependencyCondition, DueTime, ResultRetention, Spec};
use crore_core::limit::{Limit, LimitKey};
use crore_core::machine::{JobEdit, JobEvent, Outcome, RetryDirective, decide};
use crore_core::push::{GroupRef, NewDependency, NewDependencyTarget, NewGroup};
use crore_core::retry::Retry;
use crore_core::unique::{Unique, UniqueHold};
use crore_core::version::KindVersions;
use crore_core::{Batch, GroupId, Job, JobId, Name, NewJob, Payload, Span, State};
use crore_store::embedded::{Embedded, Options};
use crore_store::jobs::{Applied, Claim, JobSelector, Pushed, QueueOrder, Renew, StoreWrite};
use crore_store::registry::{Define, QueueSettings, RegistryEntry, RegistryTable, RegistryValue};
use crore_store::views::{JobNotes, Note};
use crore_store::{Error, Jobs, Registry, Upkeep, Views};
use crore_testkit::FakeClock;

use super::driven::run;

/// Segments small enough for constant rolling, compaction and reuse of files.
pub(super) fn options() -> Options {
    Options { segment_bytes: 8 << 10, ..Options::default() }
}

/// A recorded step of the script.
#[derive(Debug, Clone)]
pub(super) enum ScriptStep {
    Push(Batch),
    Claim(Claim),
    Renew(Vec<Renew>),
    Apply(Vec<StoreWrite>),
    Define(Vec<Define>),
    Note(Vec<Note>),
    Promote,
    Prune,
    Pass(Span),
}

/// The relevant parts of a step's answer.
#[derive(Debug, Default)]
pub(super) struct StepAnswer {
    pub(super) ids: Vec<JobId>,
    pub(super) deliveries: Vec<u64>,
}

/// The visible content of a store.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct StoreView {
    pub(super) jobs: BTreeMap<JobId, Arc<Job>>,
    groups: BTreeMap<GroupId, Group>,
    entries: Vec<(RegistryTable, RegistryEntry)>,
    notes: BTreeMap<JobId, JobNotes>,
}

/// Steps between two openings of the store, and the disk at their start.
pub(super) struct Chapter {
    pub(super) disk: SimDisk,
    pub(super) clock: FakeClock,
    pub(super) steps: Vec<ScriptStep>,
    /// The content before the first step, and after each.
    pub(super) views: Vec<StoreView>,
}

impl Chapter {
    /// A private copy of the disk at the start.
    pub(super) fn fresh(&self) -> SimDisk {
        SimDisk::from_image(self.disk.image(), 1)
    }

    /// The time at the start.
    pub(super) fn time(&self) -> FakeClock {
        FakeClock::at(crore_core::Clock::now(&self.clock))
    }
}

pub(super) fn name(text: &str) -> Name {
    Name::new("name", text).expect("a valid name")
}

pub(super) fn open(disk: &SimDisk, clock: &FakeClock) -> Result<Embedded, Error> {
    Embedded::open_on(Arc::new(disk.clone()), Arc::new(clock.clone()), options())
}

/// Starts a step and returns its pending answer.
pub(super) fn begin<'a>(
    store: &'a Embedded,
    clock: &FakeClock,
    verb: ScriptStep,
) -> crore_store::StoreFuture<'a, StepAnswer> {
    match verb {
        ScriptStep::Push(batch) => {
            let answer = store.push(batch);
            Box::pin(async {
                let pushes = answer.await?.into_inner();
                let ids = pushes.jobs.into_iter().filter_map(Pushed::id).collect();
                Ok(StepAnswer { ids, ..StepAnswer::default() })
            })
        }
        ScriptStep::Claim(ask) => {
            let answer = store.claim(ask);
            Box::pin(async {
                let jobs = answer.await?.jobs;
                let deliveries = jobs.iter().map(|job| job.live.delivery.0).collect();
                Ok(StepAnswer { deliveries, ..StepAnswer::default() })
            })
        }
        ScriptStep::Renew(leases) => without_answer(store.renew(leases)),
        ScriptStep::Apply(writes) => without_answer(store.apply(writes)),
        ScriptStep::Define(definitions) => without_answer(store.define(definitions)),
        ScriptStep::Note(notes) => without_answer(store.note(notes)),
        ScriptStep::Promote => without_answer(store.promote(100)),
        ScriptStep::Prune => without_answer(store.prune(100)),
        ScriptStep::Pass(span) => {
            clock.advance(span);
            Box::pin(std::future::ready(Ok(StepAnswer::default())))
        }
    }
}

fn without_answer<'a, T: Send + 'a>(
    answer: crore_store::StoreFuture<'a, T>,
) -> crore_store::StoreFuture<'a, StepAnswer> {
    Box::pin(async { answer.await.map(|_| StepAnswer::default()) })
}

impl ScriptStep {
    /// Whether the step is durable when it is answered.
    pub(super) const fn is_durable_when_answered(&self) -> bool {
        matches!(self, Self::Push(_) | Self::Apply(_) | Self::Define(_) | Self::Prune)
    }
}

/// Reads everything up to an id.
pub(super) fn view(store: &Embedded, most: u64) -> Result<StoreView, Error> {
    let ids: Vec<JobId> = (1..=most).map(JobId).collect();
    let mut view = StoreView::default();
    for job in run(store, store.get(JobSelector::all(&ids)))?.into_iter().flatten() {
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
    for table in [RegistryTable::Limits, RegistryTable::Queues, RegistryTable::Handlers] {
        let entries = run(store, store.entries(table, None, 1000))?;
        view.entries.extend(entries.into_iter().map(|entry| (table, entry)));
    }
    Ok(view)
}

/// Records the script: `chapters` of `steps` steps each, with about `jobs` jobs at a time.
pub(super) fn record_script(chapters: usize, steps: usize, jobs: usize) -> (Vec<Chapter>, u64) {
    let (disk, clock) = (SimDisk::new(1), FakeClock::default());
    let mut teller = ScriptRecorder { random: 1, jobs, last: 40, step: 0 };
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
            run_keeper_to_end(&store);
            views.push(share_unchanged(view(&store, teller.last).expect("seen"), views.last()));
            verbs.push(verb);
        }
        if nth % 2 == 0 {
            store.close().expect("closed");
        }
        told.push(Chapter { disk: start, clock: at, steps: verbs, views });
    }
    (told, teller.last)
}

/// Runs the keeper until it has nothing left to do.
pub(super) fn run_keeper_to_end(store: &Embedded) {
    for _ in 0..1000 {
        if !store.maintain_once().expect("kept") {
            return;
        }
        store.commit_once().expect("committed");
    }
    panic!("the keeper never becomes idle");
}

/// Shares the memory of unchanged jobs with the previous view.
fn share_unchanged(mut view: StoreView, before: Option<&StoreView>) -> StoreView {
    for (id, job) in &mut view.jobs {
        if let Some(same) = before.and_then(|before| before.jobs.get(id)).filter(|old| *old == job)
        {
            *job = Arc::clone(same);
        }
    }
    view
}

/// Chooses the next step from the content of the store.
struct ScriptRecorder {
    random: u64,
    jobs: usize,
    last: u64,
    step: u64,
}

impl ScriptRecorder {
    fn up_to(&mut self, most: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % (most + 1)
    }

    fn next(&mut self, view: &StoreView) -> ScriptStep {
        self.step += 1;
        let full = view.jobs.len() > self.jobs;
        match self.up_to(19) {
            0..=4 if !full => ScriptStep::Push(self.batch(view)),
            5 => ScriptStep::Define(vec![self.definition()]),
            6 => ScriptStep::Prune,
            7 => ScriptStep::Promote,
            8 => ScriptStep::Pass(Span::from_secs(self.up_to(40))),
            9 => self.notes(view),
            10 => self.renewal(view),
            11..=14 => ScriptStep::Claim(claim(1 + self.up_to(3) as usize)),
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
            spec.keep = ResultRetention::For(Span::from_secs(1 << 20));
        }
        if self.up_to(3) == 0 {
            let key = format!("u{}", self.up_to(5)).into();
            spec.unique = Some(Box::new(Unique { key, hold: UniqueHold::UntilEnd, window: None }));
        }
        if self.up_to(3) == 0 {
            spec.limits.push(LimitKey { limit: name("l0"), value: None });
        }
        let mut job = NewJob::from(spec);
        if self.up_to(4) == 0 {
            job.due = DueTime::After(Span::from_secs(self.up_to(60)));
        }
        job
    }

    fn batch(&mut self, view: &StoreView) -> Batch {
        let mut jobs: Vec<NewJob> = (0..=self.up_to(3)).map(|_| self.job()).collect();
        if self.up_to(2) == 0
            && let Some(id) = self.any(view, |_| true)
        {
            jobs[0].after.push(NewDependency {
                on: NewDependencyTarget::Job(id.id),
                needs: DependencyCondition::End,
            });
        }
        if self.up_to(2) != 0 {
            return Batch::from(jobs);
        }
        jobs.iter_mut().for_each(|job| job.group = Some(GroupRef::New(0)));
        let mut last = self.job();
        let on = NewDependencyTarget::Group(GroupRef::New(0));
        last.after.push(NewDependency { on, needs: DependencyCondition::Success });
        jobs.push(last);
        Batch { groups: vec![NewGroup { open: false, maker: None }], jobs }
    }

    fn definition(&mut self) -> Define {
        match self.up_to(3) {
            0 => Define::set(
                name("l0"),
                RegistryValue::Limit(Limit::parse("concurrency 3").expect("a limit")),
            ),
            1 => Define::remove(RegistryTable::Limits, name("l0")),
            2 => {
                let keep_done = Span::from_secs(self.up_to(30));
                let settings = QueueSettings { keep_done, keep_dead: keep_done, ..<_>::default() };
                Define::set(name("a"), RegistryValue::Queue(settings))
            }
            _ => {
                let text = format!("handler {}", "y".repeat(self.up_to(300) as usize)).into();
                Define::set(name(&format!("h{}", self.up_to(4))), RegistryValue::Handler(text))
            }
        }
    }

    fn any(&mut self, view: &StoreView, is: impl Fn(&Job) -> bool) -> Option<Arc<Job>> {
        let all: Vec<_> = view.jobs.values().filter(|job| is(job)).collect();
        let last = (all.len() as u64).checked_sub(1)?;
        Some(Arc::clone(all[self.up_to(last) as usize]))
    }

    fn running(&mut self, view: &StoreView) -> Option<Arc<Job>> {
        self.any(view, |job| job.live.state == State::Running)
    }

    fn notes(&mut self, view: &StoreView) -> ScriptStep {
        let Some(job) = self.running(view) else { return ScriptStep::Promote };
        let (id, delivery) = (job.id, job.live.delivery);
        let text: Arc<str> = format!("line {}", self.step).into();
        let line = Note::Line { id, delivery, text: Arc::clone(&text) };
        let percent = self.up_to(100) as u8;
        ScriptStep::Note(vec![line, Note::Progress { id, delivery, percent, text }])
    }

    fn renewal(&mut self, view: &StoreView) -> ScriptStep {
        let Some(job) = self.running(view) else { return ScriptStep::Promote };
        let span = Some(Span::from_secs(30 + self.up_to(60)));
        ScriptStep::Renew(vec![Renew { id: job.id, delivery: job.live.delivery, span }])
    }

    fn changes(&mut self, view: &StoreView) -> ScriptStep {
        let jobs = [self.running(view), self.running(view), self.any(view, |_| true)];
        let mut writes = BTreeMap::new();
        for job in jobs.into_iter().flatten() {
            let event = self.event(&job);
            if let Ok(change) = decide(&job, &event, 7) {
                writes.insert(job.id, StoreWrite::Job(change));
            }
        }
        ScriptStep::Apply(writes.into_values().collect())
    }

    fn event(&mut self, job: &Job) -> JobEvent {
        let delivery = job.live.delivery;
        let outcome = match self.up_to(9) {
            0 => return JobEvent::Delete,
            1 => return JobEvent::Cancel,
            2 => return JobEvent::Retry,
            3 => return self.edit(job),
            4 => return JobEvent::Lapsed(delivery),
            5 => {
                let again = [RetryDirective::Never, RetryDirective::After(Span::from_secs(5))]
                    [self.up_to(1) as usize];
                Outcome::Failed { error: "it broke".into(), detail: None, again }
            }
            6 => Outcome::Done { result: None },
            _ => Outcome::Done { result: Some(Payload::json("\"a result\"")) },
        };
        JobEvent::Finished { delivery: Some(delivery), report: outcome.into() }
    }

    fn edit(&mut self, job: &Job) -> JobEvent {
        let mut spec = Spec::clone(&job.spec);
        spec.priority = 5;
        spec.payload = Payload::json(&format!("\"edited {}\"", self.step));
        JobEvent::Edit(JobEdit { spec: Some(Arc::new(spec)), due: None })
    }
}

pub(super) fn job(text: &str) -> NewJob {
    Spec::new(name("a"), name("work"), Payload::json(&format!("\"{text}\""))).into()
}

pub(super) fn finish(store: &Embedded, job: &Job) {
    let report = Outcome::Done { result: None }.into();
    let event = JobEvent::Finished { delivery: Some(job.live.delivery), report };
    let change = decide(job, &event, 7).expect("the event applies");
    let applied =
        run(store, store.apply(vec![StoreWrite::Job(change)])).expect("applied").into_inner();
    assert!(matches!(applied[0], Applied::Yes(_)));
}

pub(super) fn claim(n: usize) -> Claim {
    let queues = vec![name("a"), name("b")];
    Claim {
        queues,
        kinds: None,
        versions: KindVersions::default(),
        n,
        order: QueueOrder::Merged,
        worker: name("worker"),
    }
}

impl StoreView {
    /// The first differences.
    pub(super) fn differs(&self, other: &Self) -> String {
        let ids = self.jobs.keys().chain(other.jobs.keys());
        let jobs = ids.filter(|id| self.jobs.get(id) != other.jobs.get(id));
        let job = jobs.map(|id| (self.jobs.get(id), other.jobs.get(id))).next();
        let groups = self.groups != other.groups;
        let (entries, notes) = (self.entries != other.entries, self.notes != other.notes);
        format!("groups {groups}, entries {entries}, notes {notes}, job {job:#?}")
    }
}
