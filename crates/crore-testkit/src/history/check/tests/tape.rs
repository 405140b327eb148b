//! Histories by hand: a few words per event. Every event takes a millisecond.

use std::sync::Arc;

use crore_core::job::{Keep, Lapse, Reports, Retain};
use crore_core::limit::LimitKey;
use crore_core::retry::{Backoff, Retry};
use crore_core::unique::{Hold, Unique};
use crore_core::{Delivery, JobId, Name, Span, State, Time};

use crate::history::answer::{Changed, Count, Granted, Look, Pushed, Renewed, Reported};
use crate::history::check::{Promise, Report, Rules, check};
use crate::history::node::{Dump, Stored};
use crate::history::op::{Again, Entry, Item, Lease, Meaning, Outcome, Want, When};
use crate::history::{Answer, Event, Fault, Hash, History, LEFT, Node, Op, What};

pub(super) const SECOND: Span = Span::from_secs(1);
pub(super) const LEASE: Span = Span::from_secs(10);

pub(super) fn name(text: &str) -> Name {
    Name::new("name", text).expect("a name")
}

/// The item that job `n` comes of: payload `n`, a lease of 10 s, 3 attempts, a second between them.
pub(super) fn item(n: u64) -> Item {
    Item {
        seq: n,
        queue: name("q"),
        kind: name("k"),
        priority: 0,
        due: When::Now,
        retry: Retry {
            backoff: Backoff::Constant { every: SECOND },
            max_attempts: Some(3),
            max_interval: None,
            jitter: 0,
        },
        lease: Some(LEASE),
        timeout: None,
        lapse: Lapse::Crash { quarantine: None },
        reports: Reports::Fenced,
        keep: Keep::For(Span::from_secs(3600)),
        retain: Retain::AsQueue,
        unique: None,
        group: None,
        after: Vec::new(),
        limits: Vec::new(),
        payload: Hash(n),
    }
}

pub(super) fn due(n: u64, due: When) -> Item {
    Item { due, ..item(n) }
}

pub(super) fn keyed(n: u64, hold: Hold, window: Option<Span>) -> Item {
    Item { unique: Some(Unique { key: "key".into(), hold, window }), ..item(n) }
}

pub(super) fn limited(n: u64) -> Item {
    Item { limits: vec![LimitKey { limit: name("l"), value: None }], ..item(n) }
}

pub(super) fn new(id: u64) -> Pushed {
    Pushed::New(JobId(id))
}

/// A delivery of the job that came of `item(id)`.
pub(super) fn grant(id: u64, delivery: u64, attempt: u32) -> Granted {
    Granted {
        id: JobId(id),
        queue: name("q"),
        attempt,
        delivery: Delivery(delivery),
        lease: Some(LEASE),
        payload: Hash(id),
        priority: 0,
        due: Time::ZERO,
    }
}

/// The job that came of `item(id)`, in a dump.
pub(super) fn stored(id: u64, state: State) -> Stored {
    Stored {
        id: JobId(id),
        state,
        queue: name("q"),
        kind: name("k"),
        priority: 0,
        due: Time::ZERO,
        attempt: 0,
        delivery: Delivery(0),
        payload: Hash(id),
        result: None,
        parent: None,
        unique: None,
        group: None,
    }
}

pub(super) fn look(id: u64, state: State, result: Option<Hash>) -> Look {
    Look { state, attempt: 1, delivery: Delivery(1), payload: Hash(id), result }
}

pub(super) const DONE: Outcome = Outcome::Done { result: None };
pub(super) const FAILED: Outcome = Outcome::Failed { again: Again::ByPolicy, detail: None };
pub(super) const FATAL: Outcome = Outcome::Failed { again: Again::Never, detail: None };

pub(super) fn result(n: u64) -> Outcome {
    Outcome::Done { result: Some(Hash(n)) }
}

/// A history that is being made.
#[derive(Default)]
pub(super) struct Tape {
    events: Vec<Event>,
    t: u64,
    calls: u64,
    pub(super) rules: Rules,
}

impl Tape {
    pub(super) fn new() -> Self {
        Self::default()
    }

    fn write(&mut self, p: &str, what: What) {
        self.t += 1_000_000;
        let i = self.events.len() as u64;
        self.events.push(Event { i, t: self.t, p: Arc::from(p), what });
    }

    /// Lets time pass.
    pub(super) fn pass(&mut self, span: Span) {
        self.t += span.as_millis() * 1_000_000;
    }

    pub(super) fn begin(&mut self, p: &str, op: Op) -> u64 {
        let n = self.calls;
        self.calls += 1;
        self.write(p, What::Invoke { n, at: None, op });
        n
    }

    pub(super) fn ok(&mut self, n: u64, r: Answer) {
        self.write("c", What::Ok { n, now: None, r });
    }

    pub(super) fn ok_at(&mut self, n: u64, now: i64, r: Answer) {
        self.write("c", What::Ok { n, now: Some(Time::from_millis(now)), r });
    }

    pub(super) fn info(&mut self, n: u64) {
        self.write("c", What::Info { n, why: "reset".to_owned() });
    }

    pub(super) fn left(&mut self, n: u64) {
        self.write("c", What::Info { n, why: LEFT.to_owned() });
    }

    pub(super) fn fail(&mut self, n: u64) {
        self.write("c", What::Fail { n, why: "refused".to_owned() });
    }

    pub(super) fn fault(&mut self, fault: Fault) {
        self.write("n", What::Fault { fault });
    }

    pub(super) fn node(&mut self, node: Node) {
        self.write("n", What::Node { node });
    }

    /// A crash, and the opening after it.
    pub(super) fn crash(&mut self) {
        self.fault(Fault::Crash);
        self.node(Node::Opened);
    }

    pub(super) fn begin_push(&mut self, items: Vec<Item>) -> u64 {
        self.begin("c", Op::Push { groups: 0, items })
    }

    pub(super) fn pushed(&mut self, n: u64, items: Vec<Pushed>) {
        self.ok(n, Answer::Pushed { groups: Vec::new(), items });
    }

    /// Pushes one item, which becomes the job of its number.
    pub(super) fn push(&mut self, item: Item) {
        let id = item.seq;
        let n = self.begin_push(vec![item]);
        self.pushed(n, vec![new(id)]);
    }

    /// Pushes `item(id)` for each.
    pub(super) fn push_all(&mut self, ids: &[u64]) {
        for id in ids {
            self.push(item(*id));
        }
    }

    pub(super) fn begin_fetch(&mut self) -> u64 {
        let queues = vec![name("q")];
        self.begin("w", Op::Fetch { queues, kinds: None, n: 10, strict: false })
    }

    pub(super) fn fetched(&mut self, n: u64, grants: Vec<Granted>) {
        self.ok(n, Answer::Fetched(grants));
    }

    pub(super) fn fetch(&mut self, grants: Vec<Granted>) {
        let n = self.begin_fetch();
        self.fetched(n, grants);
    }

    pub(super) fn renew(&mut self, id: u64, delivery: u64, span: Option<Span>) {
        let lease = Lease { id: JobId(id), delivery: Delivery(delivery), span };
        let n = self.begin("w", Op::Renew { leases: vec![lease] });
        let renewed = span.map_or(Renewed::Stale, |span| Renewed::For { span, stop: false });
        self.ok(n, Answer::Renewed(vec![renewed]));
    }

    pub(super) fn begin_report(&mut self, id: u64, delivery: u64, outcome: Outcome) -> u64 {
        self.begin_report_with(id, delivery, outcome, Vec::new())
    }

    pub(super) fn begin_report_with(
        &mut self,
        id: u64,
        delivery: u64,
        outcome: Outcome,
        on_done: Vec<Item>,
    ) -> u64 {
        let (id, delivery) = (JobId(id), Some(Delivery(delivery)));
        self.begin("w", Op::Report { id, delivery, outcome, on_done, on_dead: Vec::new() })
    }

    pub(super) fn accepted(&mut self, n: u64) {
        self.ok(n, Answer::Reported(Reported::Accepted(Vec::new())));
    }

    /// A report that is accepted.
    pub(super) fn report(&mut self, id: u64, delivery: u64, outcome: Outcome) {
        let n = self.begin_report(id, delivery, outcome);
        self.accepted(n);
    }

    /// A report that is stale.
    pub(super) fn stale(&mut self, id: u64, delivery: u64, outcome: Outcome) {
        let n = self.begin_report(id, delivery, outcome);
        self.ok(n, Answer::Reported(Reported::Stale));
    }

    pub(super) fn want(&mut self, id: u64, want: Want, changed: Changed) {
        let n = self.begin("a", Op::Admin { id: JobId(id), want });
        self.ok(n, Answer::Changed(changed));
    }

    pub(super) fn get(&mut self, id: u64, look: Option<Look>) {
        let n = self.begin("c", Op::Get { id: JobId(id) });
        self.ok(n, Answer::Job(look));
    }

    pub(super) fn take(&mut self, id: u64, result: Option<Hash>) {
        let n = self.begin("c", Op::TakeResult { id: JobId(id) });
        self.ok(n, Answer::Result(result));
    }

    pub(super) fn define(&mut self, entry: &str, to: Meaning) {
        let entries = vec![Entry { name: name(entry), to, expires_after: None }];
        let n = self.begin("a", Op::Define { entries });
        self.ok(n, Answer::Defined(vec![true]));
    }

    /// Ends with a dump whose counts are right.
    pub(super) fn dump(&mut self, jobs: Vec<Stored>) {
        let mut counts: Vec<Count> = Vec::new();
        for job in &jobs {
            let (queue, kind) = (job.queue.clone(), job.kind.clone());
            counts.push(Count { queue, kind, state: job.state, n: 1 });
        }
        self.node(Node::Dump(Dump { jobs, counts }));
    }

    /// Ends with a dump of these jobs, as they were pushed.
    pub(super) fn end(&mut self, jobs: &[(u64, State)]) {
        self.dump(jobs.iter().map(|(id, state)| stored(*id, *state)).collect());
    }

    pub(super) fn check(&self) -> Report {
        check(&History { events: self.events.clone() }, &self.rules)
    }

    /// Asserts that exactly this promise is broken.
    #[track_caller]
    pub(super) fn breaks(&self, promise: u8) -> Report {
        let report = self.check();
        assert!(!report.is_clean(), "nothing was found, and I{promise} is broken");
        let only = report.violations.iter().all(|found| found.promise == Promise(promise));
        assert!(only, "I{promise} alone is broken, and this was found:\n{report}");
        report
    }

    /// Asserts that every promise is kept.
    #[track_caller]
    pub(super) fn is_fine(&self) -> Report {
        let report = self.check();
        assert!(report.is_clean(), "every promise is kept, and this was found:\n{report}");
        report
    }
}
