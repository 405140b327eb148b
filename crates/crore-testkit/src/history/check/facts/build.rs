//! Second pass: assigns calls to jobs, sources and definitions.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crore_core::{JobId, Span};

use super::call::{CallEnd, EffectCertainty, HistoryMoment, RecordedCall};
use super::definitions::DefinitionHistory;
use super::job::{
    AdminCall, DeliveryGrant, GetCall, JobFacts, RenewCall, ReportCall, TakeResultCall, UpkeepCall,
};
use super::source::PushSources;
use super::timeline::Timeline;
use super::{HistoryFacts, UnseenFetch, nanos};
use crate::history::check::report::Findings;
use crate::history::check::rules::{CheckRules, DurabilityClass};
use crate::history::response::{RecordedChange, RecordedRenewal, RecordedReport};
use crate::history::{History, PayloadHash, RecordedOp, RecordedResponse};

impl<'h> HistoryFacts<'h> {
    /// Indexes a history; a malformed history is a finding.
    pub(crate) fn new(history: &'h History, rules: &CheckRules, findings: &mut Findings) -> Self {
        let timeline = Timeline::new(history);
        for (i, what) in &timeline.faults {
            findings.add(0, None, &[*i], format!("event {i} {what}"));
        }
        let nothing = HistoryMoment { i: 0, t: 0, fast: 0, slow: 0 };
        let last = timeline.end.unwrap_or(nothing);
        let mut facts = Self {
            rules: *rules,
            calls: timeline.calls,
            sources: PushSources::default(),
            jobs: BTreeMap::new(),
            definitions: DefinitionHistory::default(),
            crash_history: timeline.memory,
            marks: timeline.marks,
            dump: timeline.dump,
            strays: Vec::new(),
            duplicate_ids: Vec::new(),
            reused: 0,
            end: HistoryMoment { i: last.i + 1, ..last },
            unseen: HashMap::new(),
            left: HashMap::new(),
            per_queue: HashMap::new(),
        };
        facts.build();
        facts
    }

    fn build(&mut self) {
        for (index, call) in self.calls.iter().enumerate() {
            self.sources.note(index, call);
            self.definitions.note(call);
            note_job(&mut self.jobs, call);
            note_unseen(&mut self.unseen, call, &self.calls, &self.crash_history.crashes);
            note_left(&mut self.left, call);
        }
        if let Some((dump, _)) = self.dump {
            for stored in &dump.jobs {
                job(&mut self.jobs, stored.id).stored = Some(stored);
            }
        }
        for known in self.jobs.values_mut() {
            known.grants.sort_by_key(|grant| (grant.delivery(), grant.ended.i));
        }
        self.recognise();
        for source in &self.sources.all {
            *self.per_queue.entry(&source.item.queue).or_default() += 1;
            if let Some(id) = source.id {
                job(&mut self.jobs, id);
            }
        }
        self.drop_reused_ids();
    }

    /// Finds the source of every job that was seen but never acknowledged.
    fn recognise(&mut self) {
        let dump = self.dump.map(|(_, at)| at);
        for known in self.jobs.values() {
            let Some(at) = known.first_seen(dump) else { continue };
            if self.sources.of(known.id).is_some() {
                continue;
            }
            let Some(payload) = observed_payload(known) else { continue };
            if self.sources.recognise(known.id, payload).is_none() {
                self.strays.push((known.id, Some(payload), at));
            }
        }
    }

    /// A store that may lose data may also reuse an id that it lost. Facts about a reused id concern two jobs
    /// and prove nothing.
    fn drop_reused_ids(&mut self) {
        self.duplicate_ids = std::mem::take(&mut self.sources.duplicate_ids);
        let may_lose = self.rules.durability < DurabilityClass::D2
            || self.crash_history.damages.iter().any(|damage| damage.reported);
        if !may_lose {
            return;
        }
        let reused: BTreeSet<JobId> = self.duplicate_ids.drain(..).map(|(id, ..)| id).collect();
        self.reused = reused.len();
        for id in reused {
            self.jobs.remove(&id);
            self.sources.by_id.remove(&id);
        }
    }
}

fn observed_payload(job: &JobFacts<'_>) -> Option<PayloadHash> {
    let granted = job.grants.iter().map(|grant| grant.granted.payload);
    let read = job.gets.iter().filter_map(|get| get.job).map(|get| get.payload);
    let listed = job.listed.map(|(_, payload)| payload);
    granted.chain(read).chain(listed).chain(job.stored.map(|stored| stored.payload)).next()
}

fn job<'a, 'h>(jobs: &'a mut BTreeMap<JobId, JobFacts<'h>>, id: JobId) -> &'a mut JobFacts<'h> {
    jobs.entry(id).or_insert_with(|| JobFacts { id, ..JobFacts::default() })
}

fn note_job<'h>(jobs: &mut BTreeMap<JobId, JobFacts<'h>>, call: &RecordedCall<'h>) {
    let (begun, ended, effect) = (call.begun, call.ended(), call.had_effect());
    match (call.op, call.response()) {
        (RecordedOp::Fetch { .. }, Some((RecordedResponse::Fetched(granted), ended))) => {
            for granted in granted {
                let grant = DeliveryGrant { granted, begun, ended, now: call.now() };
                job(jobs, granted.id).grants.push(grant);
            }
        }
        (RecordedOp::Renew { leases }, Some((RecordedResponse::Renewed(renewed), ended))) => {
            for (lease, renewed) in leases.iter().zip(renewed) {
                let span = match renewed {
                    RecordedRenewal::For { span, .. } => Some(*span),
                    RecordedRenewal::Stale => None,
                };
                let renewal = RenewCall { begun, ended, delivery: lease.delivery, span };
                job(jobs, lease.id).renewals.push(renewal);
            }
        }
        (RecordedOp::Report { id, delivery, outcome, .. }, answer) => {
            let stale =
                matches!(answer, Some((RecordedResponse::Reported(RecordedReport::Stale), _)));
            let report = ReportCall { begun, ended, effect, delivery: *delivery, outcome, stale };
            job(jobs, *id).reports.push(report);
        }
        (RecordedOp::Admin { id, want: action }, answer) => {
            let asked =
                matches!(answer, Some((RecordedResponse::Changed(RecordedChange::Asked), _)));
            job(jobs, *id).admin_calls.push(AdminCall { begun, ended, effect, action, asked });
        }
        (RecordedOp::Notice { id, delivery, what }, _) => {
            let notice = UpkeepCall { begun, effect, delivery: *delivery, what: *what };
            job(jobs, *id).upkeep_calls.push(notice);
        }
        (RecordedOp::Get { id }, Some((RecordedResponse::Job(look), ended))) => {
            job(jobs, *id).gets.push(GetCall { begun, ended, job: look.as_ref() });
        }
        (RecordedOp::List, Some((RecordedResponse::Listed(listed), ended))) => {
            for (id, payload) in listed {
                job(jobs, *id).listed.get_or_insert((ended, *payload));
            }
        }
        // A refused take says nothing about the result.
        (RecordedOp::TakeResult { .. }, None) if effect == EffectCertainty::No => {}
        (RecordedOp::TakeResult { id }, answer) => {
            let result = match answer {
                Some((RecordedResponse::Result(result), _)) => *result,
                _ => None,
            };
            job(jobs, *id).takes.push(TakeResultCall { begun, ended, effect, result });
        }
        _ => {}
    }
}

/// A caller with an open fetch was seen to leave.
fn note_left<'h>(left: &mut HashMap<&'h crore_core::Name, BTreeSet<u64>>, call: &RecordedCall<'h>) {
    let (RecordedOp::Fetch { queues, .. }, CallEnd::Left(at)) = (call.op, call.end) else { return };
    for queue in queues {
        left.entry(queue).or_default().insert(at.i);
    }
}

/// Maximum time in which a server notices that a caller has left.
const LEAVE_NOTICED_WITHIN: Span = Span::from_secs(1);

/// A fetch that ended in `info` may have taken jobs until then; one whose caller left, until the server
/// noticed; and one without an end, until the next crash.
fn note_unseen<'h>(
    unseen: &mut HashMap<&'h crore_core::Name, Vec<UnseenFetch>>,
    call: &RecordedCall<'h>,
    calls: &[RecordedCall<'h>],
    crashes: &[super::crashes::NodeCrash],
) {
    let RecordedOp::Fetch { queues, .. } = call.op else { return };
    if call.had_effect() != EffectCertainty::Perhaps {
        return;
    }
    let crash = || crashes.iter().map(|crash| crash.at).find(|at| call.begun.is_before(at));
    let noticed = |left: HistoryMoment| {
        let later =
            calls.partition_point(|call| call.begun.t <= left.t + nanos(LEAVE_NOTICED_WITHIN));
        calls.get(later).map(|call| call.begun)
    };
    let over = match call.end {
        CallEnd::Left(at) => noticed(at).into_iter().chain(crash()).min_by_key(|at| at.i),
        _ => call.ended().or_else(crash),
    };
    let over = over.map_or(u64::MAX, |at| at.i);
    for queue in queues {
        let before = unseen.entry(queue).or_default();
        let all_over = before.last().map_or(over, |last| last.all_over.max(over));
        before.push(UnseenFetch { from: call.begun, all_over });
    }
}
