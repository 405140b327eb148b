//! Builder for hand-written histories. Every event takes a millisecond.

use std::sync::Arc;

use crore_core::job::{JobRetention, Lapse, ReportFencing, ResultRetention};
use crore_core::limit::LimitKey;
use crore_core::retry::{Backoff, Retry};
use crore_core::unique::{Unique, UniqueHold};
use crore_core::version::KindVersions;
use crore_core::{Delivery, JobId, Name, Span, State, Time};

use crate::history::check::{CheckReport, CheckRules, Invariant, check};
use crate::history::node::{DumpedJob, StoreDump};
use crate::history::op::{
    AdminAction, DefinitionContent, DueTime, RecordedDefinition, RecordedItem, RecordedLease,
    RecordedOutcome, RecordedRetry,
};
use crate::history::response::{
    RecordedChange, RecordedCount, RecordedDelivery, RecordedJob, RecordedPush, RecordedRenewal,
    RecordedReport,
};
use crate::history::{
    CALLER_LEFT, History, HistoryEvent, HistoryEventBody, NodeObservation, PayloadHash,
    RecordedFault, RecordedOp, RecordedResponse,
};

pub(super) const SECOND: Span = Span::from_secs(1);
pub(super) const LEASE: Span = Span::from_secs(10);

pub(super) fn name(text: &str) -> Name {
    Name::new("name", text).expect("a name")
}

/// The item that becomes job `n`: payload `n`, a lease of 10 s, 3 attempts one second apart.
pub(super) fn item(n: u64) -> RecordedItem {
    RecordedItem {
        seq: n,
        queue: name("q"),
        kind: name("k"),
        priority: 0,
        due: DueTime::Now,
        retry: Retry {
            backoff: Backoff::Constant { every: SECOND },
            max_attempts: Some(3),
            max_interval: None,
            jitter: 0,
        },
        lease: Some(LEASE),
        timeout: None,
        lapse: Lapse::Crash { quarantine: None },
        reports: ReportFencing::Fenced,
        keep: ResultRetention::For(Span::from_secs(3600)),
        retain: JobRetention::AsQueue,
        unique: None,
        group: None,
        after: Vec::new(),
        limits: Vec::new(),
        costs: None,
        deadline: None,
        on_expired: None,
        worker_version: None,
        waits_for_event: false,
        payload: PayloadHash(n),
    }
}

pub(super) fn due(n: u64, due: DueTime) -> RecordedItem {
    RecordedItem { due, ..item(n) }
}

pub(super) fn keyed(n: u64, hold: UniqueHold, window: Option<Span>) -> RecordedItem {
    RecordedItem { unique: Some(Unique { key: "key".into(), hold, window }), ..item(n) }
}

pub(super) fn limited(n: u64) -> RecordedItem {
    RecordedItem { limits: vec![LimitKey { limit: name("l"), value: None }], ..item(n) }
}

pub(super) fn new(id: u64) -> RecordedPush {
    RecordedPush::New(JobId(id))
}

/// A delivery of the job from `item(id)`.
pub(super) fn grant(id: u64, delivery: u64, attempt: u32) -> RecordedDelivery {
    RecordedDelivery {
        id: JobId(id),
        queue: name("q"),
        attempt,
        delivery: Delivery(delivery),
        lease: Some(LEASE),
        payload: PayloadHash(id),
        priority: 0,
        due: Time::ZERO,
    }
}

/// The job from `item(id)`, in a dump.
pub(super) fn stored(id: u64, state: State) -> DumpedJob {
    DumpedJob {
        id: JobId(id),
        state,
        queue: name("q"),
        kind: name("k"),
        priority: 0,
        due: Time::ZERO,
        attempt: 0,
        delivery: Delivery(0),
        payload: PayloadHash(id),
        result: None,
        parent: None,
        unique: None,
        group: None,
        expired: false,
    }
}

pub(super) fn recorded_job(id: u64, state: State, result: Option<PayloadHash>) -> RecordedJob {
    RecordedJob { state, attempt: 1, delivery: Delivery(1), payload: PayloadHash(id), result }
}

pub(super) const DONE: RecordedOutcome = RecordedOutcome::Done { result: None };
pub(super) const FAILED: RecordedOutcome =
    RecordedOutcome::Failed { again: RecordedRetry::ByPolicy, detail: None };
pub(super) const FATAL: RecordedOutcome =
    RecordedOutcome::Failed { again: RecordedRetry::Never, detail: None };

pub(super) fn result(n: u64) -> RecordedOutcome {
    RecordedOutcome::Done { result: Some(PayloadHash(n)) }
}

/// Builder of a history.
#[derive(Default)]
pub(super) struct HistoryBuilder {
    events: Vec<HistoryEvent>,
    t: u64,
    calls: u64,
    pub(super) rules: CheckRules,
}

impl HistoryBuilder {
    pub(super) fn new() -> Self {
        Self::default()
    }

    fn write(&mut self, p: &str, what: HistoryEventBody) {
        self.t += 1_000_000;
        let i = self.events.len() as u64;
        self.events.push(HistoryEvent { i, t: self.t, p: Arc::from(p), what });
    }

    /// Lets time pass.
    pub(super) fn advance(&mut self, span: Span) {
        self.t += span.as_millis() * 1_000_000;
    }

    pub(super) fn begin(&mut self, p: &str, op: RecordedOp) -> u64 {
        let n = self.calls;
        self.calls += 1;
        self.write(p, HistoryEventBody::Invoke { n, at: None, op });
        n
    }

    pub(super) fn ok(&mut self, n: u64, r: RecordedResponse) {
        self.write("c", HistoryEventBody::Ok { n, now: None, r });
    }

    pub(super) fn ok_at(&mut self, n: u64, now: i64, r: RecordedResponse) {
        self.write("c", HistoryEventBody::Ok { n, now: Some(Time::from_millis(now)), r });
    }

    pub(super) fn info(&mut self, n: u64) {
        self.write("c", HistoryEventBody::Info { n, why: "reset".to_owned() });
    }

    pub(super) fn left(&mut self, n: u64) {
        self.write("c", HistoryEventBody::Info { n, why: CALLER_LEFT.to_owned() });
    }

    pub(super) fn fail(&mut self, n: u64) {
        self.write("c", HistoryEventBody::Fail { n, why: "refused".to_owned() });
    }

    pub(super) fn fault(&mut self, fault: RecordedFault) {
        self.write("n", HistoryEventBody::Fault { fault });
    }

    pub(super) fn node(&mut self, node: NodeObservation) {
        self.write("n", HistoryEventBody::Node { node });
    }

    /// A crash and the reopening after it.
    pub(super) fn crash(&mut self) {
        self.fault(RecordedFault::Crash);
        self.node(NodeObservation::Opened);
    }

    pub(super) fn begin_push(&mut self, items: Vec<RecordedItem>) -> u64 {
        self.begin("c", RecordedOp::Push { groups: 0, items })
    }

    pub(super) fn pushed(&mut self, n: u64, items: Vec<RecordedPush>) {
        self.ok(n, RecordedResponse::Pushed { groups: Vec::new(), items });
    }

    /// Pushes one item, which becomes the job with its sequence number.
    pub(super) fn push(&mut self, item: RecordedItem) {
        let id = item.seq;
        let n = self.begin_push(vec![item]);
        self.pushed(n, vec![new(id)]);
    }

    /// Pushes `item(id)` for each id.
    pub(super) fn push_all(&mut self, ids: &[u64]) {
        for id in ids {
            self.push(item(*id));
        }
    }

    pub(super) fn begin_fetch(&mut self) -> u64 {
        let queues = vec![name("q")];
        self.begin(
            "w",
            RecordedOp::Fetch {
                queues,
                kinds: None,
                versions: KindVersions::default(),
                n: 10,
                strict: false,
            },
        )
    }

    pub(super) fn fetched(&mut self, n: u64, grants: Vec<RecordedDelivery>) {
        self.ok(n, RecordedResponse::Fetched(grants));
    }

    pub(super) fn fetch(&mut self, grants: Vec<RecordedDelivery>) {
        let n = self.begin_fetch();
        self.fetched(n, grants);
    }

    pub(super) fn renew(&mut self, id: u64, delivery: u64, span: Option<Span>) {
        let lease = RecordedLease { id: JobId(id), delivery: Delivery(delivery), span };
        let n = self.begin("w", RecordedOp::Renew { leases: vec![lease] });
        let renewed =
            span.map_or(RecordedRenewal::Stale, |span| RecordedRenewal::For { span, stop: false });
        self.ok(n, RecordedResponse::Renewed(vec![renewed]));
    }

    pub(super) fn begin_report(&mut self, id: u64, delivery: u64, outcome: RecordedOutcome) -> u64 {
        self.begin_report_with(id, delivery, outcome, Vec::new())
    }

    pub(super) fn begin_report_with(
        &mut self,
        id: u64,
        delivery: u64,
        outcome: RecordedOutcome,
        on_done: Vec<RecordedItem>,
    ) -> u64 {
        let (id, delivery) = (JobId(id), Some(Delivery(delivery)));
        self.begin("w", RecordedOp::Report { id, delivery, outcome, on_done, on_dead: Vec::new() })
    }

    pub(super) fn accepted(&mut self, n: u64) {
        self.ok(n, RecordedResponse::Reported(RecordedReport::Accepted(Vec::new())));
    }

    /// A report that is accepted.
    pub(super) fn report(&mut self, id: u64, delivery: u64, outcome: RecordedOutcome) {
        let n = self.begin_report(id, delivery, outcome);
        self.accepted(n);
    }

    /// A report that is stale.
    pub(super) fn stale(&mut self, id: u64, delivery: u64, outcome: RecordedOutcome) {
        let n = self.begin_report(id, delivery, outcome);
        self.ok(n, RecordedResponse::Reported(RecordedReport::Stale));
    }

    pub(super) fn admin(&mut self, id: u64, want: AdminAction, changed: RecordedChange) {
        let n = self.begin("a", RecordedOp::Admin { id: JobId(id), want });
        self.ok(n, RecordedResponse::Changed(changed));
    }

    pub(super) fn get(&mut self, id: u64, look: Option<RecordedJob>) {
        let n = self.begin("c", RecordedOp::Get { id: JobId(id) });
        self.ok(n, RecordedResponse::Job(look));
    }

    pub(super) fn take(&mut self, id: u64, result: Option<PayloadHash>) {
        let n = self.begin("c", RecordedOp::TakeResult { id: JobId(id) });
        self.ok(n, RecordedResponse::Result(result));
    }

    pub(super) fn define(&mut self, entry: &str, to: DefinitionContent) {
        let entries = vec![RecordedDefinition { name: name(entry), to, expires_after: None }];
        let n = self.begin("a", RecordedOp::Define { entries });
        self.ok(n, RecordedResponse::Defined(vec![true]));
    }

    /// Ends with a dump with correct counts.
    pub(super) fn dump(&mut self, jobs: Vec<DumpedJob>) {
        let mut counts: Vec<RecordedCount> = Vec::new();
        for job in &jobs {
            let (queue, kind) = (job.queue.clone(), job.kind.clone());
            counts.push(RecordedCount { queue, kind, state: job.state, n: 1 });
        }
        self.node(NodeObservation::Dump(StoreDump { jobs, counts }));
    }

    /// Ends with a dump of these jobs, unchanged since their push.
    pub(super) fn end(&mut self, jobs: &[(u64, State)]) {
        self.dump(jobs.iter().map(|(id, state)| stored(*id, *state)).collect());
    }

    pub(super) fn check(&self) -> CheckReport {
        check(&History { events: self.events.clone() }, &self.rules)
    }

    /// Asserts that exactly this invariant is violated.
    #[track_caller]
    pub(super) fn assert_violates(&self, promise: u8) -> CheckReport {
        let report = self.check();
        assert!(!report.is_clean(), "I{promise} is violated, but nothing was found");
        let only = report.violations.iter().all(|found| found.invariant == Invariant(promise));
        assert!(only, "only I{promise} is violated, but this was found:\n{report}");
        report
    }

    /// Asserts that no invariant is violated.
    #[track_caller]
    pub(super) fn assert_clean(&self) -> CheckReport {
        let report = self.check();
        assert!(report.is_clean(), "no invariant is violated, but this was found:\n{report}");
        report
    }
}
