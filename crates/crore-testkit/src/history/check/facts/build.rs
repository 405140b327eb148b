//! The second pass: calls become what is known of each job.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crore_core::{JobId, Span};

use super::call::{Call, End, Moment, Took};
use super::definitions::Definitions;
use super::job::{Filed, Grant, Job, Looked, Notice, Renewal, Taking, Wanted};
use super::source::Sources;
use super::timeline::Timeline;
use super::{Facts, Unseen, nanos};
use crate::history::answer::{Changed, Renewed, Reported};
use crate::history::check::report::Findings;
use crate::history::check::rules::{Durability, Rules};
use crate::history::{Answer, Hash, History, Op};

impl<'h> Facts<'h> {
    /// Sorts a history; what is wrong with its form is a finding.
    pub(crate) fn new(history: &'h History, rules: &Rules, findings: &mut Findings) -> Self {
        let timeline = Timeline::new(history);
        for (i, what) in &timeline.faults {
            findings.add(0, None, &[*i], format!("event {i} {what}"));
        }
        let nothing = Moment { i: 0, t: 0, fast: 0, slow: 0 };
        let last = timeline.end.unwrap_or(nothing);
        let mut facts = Self {
            rules: *rules,
            calls: timeline.calls,
            sources: Sources::default(),
            jobs: BTreeMap::new(),
            definitions: Definitions::default(),
            memory: timeline.memory,
            marks: timeline.marks,
            dump: timeline.dump,
            strays: Vec::new(),
            twice: Vec::new(),
            reused: 0,
            end: Moment { i: last.i + 1, ..last },
            unseen: HashMap::new(),
            left: HashMap::new(),
            per_queue: HashMap::new(),
        };
        facts.sort();
        facts
    }

    fn sort(&mut self) {
        for (place, call) in self.calls.iter().enumerate() {
            self.sources.note(place, call);
            self.definitions.note(call);
            note_job(&mut self.jobs, call);
            note_unseen(&mut self.unseen, call, &self.calls, &self.memory.crashes);
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
        self.leave_out_reused();
    }

    /// Finds the source of every job that was seen and that nobody was told of.
    fn recognise(&mut self) {
        let dump = self.dump.map(|(_, at)| at);
        for known in self.jobs.values() {
            let Some(at) = known.first_seen(dump) else { continue };
            if self.sources.of(known.id).is_some() {
                continue;
            }
            let Some(payload) = carried(known) else { continue };
            if self.sources.recognise(known.id, payload).is_none() {
                self.strays.push((known.id, Some(payload), at));
            }
        }
    }

    /// A store that may lose data may also give a number again that it forgot. What is known of
    /// such a number is about two jobs, and says nothing.
    fn leave_out_reused(&mut self) {
        self.twice = std::mem::take(&mut self.sources.twice);
        let may_lose = self.rules.durability < Durability::D2
            || self.memory.damages.iter().any(|damage| damage.reported);
        if !may_lose {
            return;
        }
        let reused: BTreeSet<JobId> = self.twice.drain(..).map(|(id, ..)| id).collect();
        self.reused = reused.len();
        for id in reused {
            self.jobs.remove(&id);
            self.sources.by_id.remove(&id);
        }
    }
}

fn carried(job: &Job<'_>) -> Option<Hash> {
    let granted = job.grants.iter().map(|grant| grant.granted.payload);
    let looked = job.looks.iter().filter_map(|look| look.job).map(|look| look.payload);
    let listed = job.listed.map(|(_, payload)| payload);
    granted.chain(looked).chain(listed).chain(job.stored.map(|stored| stored.payload)).next()
}

fn job<'a, 'h>(jobs: &'a mut BTreeMap<JobId, Job<'h>>, id: JobId) -> &'a mut Job<'h> {
    jobs.entry(id).or_insert_with(|| Job { id, ..Job::default() })
}

fn note_job<'h>(jobs: &mut BTreeMap<JobId, Job<'h>>, call: &Call<'h>) {
    let (begun, ended, took) = (call.begun, call.ended(), call.took());
    match (call.op, call.answer()) {
        (Op::Fetch { .. }, Some((Answer::Fetched(granted), ended))) => {
            for granted in granted {
                let grant = Grant { granted, begun, ended, now: call.now() };
                job(jobs, granted.id).grants.push(grant);
            }
        }
        (Op::Renew { leases }, Some((Answer::Renewed(renewed), ended))) => {
            for (lease, renewed) in leases.iter().zip(renewed) {
                let span = match renewed {
                    Renewed::For { span, .. } => Some(*span),
                    Renewed::Stale => None,
                };
                let renewal = Renewal { begun, ended, delivery: lease.delivery, span };
                job(jobs, lease.id).renewals.push(renewal);
            }
        }
        (Op::Report { id, delivery, outcome, .. }, answer) => {
            let stale = matches!(answer, Some((Answer::Reported(Reported::Stale), _)));
            let filed = Filed { begun, ended, took, delivery: *delivery, outcome, stale };
            job(jobs, *id).reports.push(filed);
        }
        (Op::Admin { id, want }, answer) => {
            let asked = matches!(answer, Some((Answer::Changed(Changed::Asked), _)));
            job(jobs, *id).wants.push(Wanted { begun, ended, took, want, asked });
        }
        (Op::Notice { id, delivery, what }, _) => {
            let notice = Notice { begun, took, delivery: *delivery, what: *what };
            job(jobs, *id).notices.push(notice);
        }
        (Op::Get { id }, Some((Answer::Job(look), ended))) => {
            job(jobs, *id).looks.push(Looked { begun, ended, job: look.as_ref() });
        }
        (Op::List, Some((Answer::Listed(listed), ended))) => {
            for (id, payload) in listed {
                job(jobs, *id).listed.get_or_insert((ended, *payload));
            }
        }
        // One that was refused says nothing of the result.
        (Op::TakeResult { .. }, None) if took == Took::No => {}
        (Op::TakeResult { id }, answer) => {
            let result = match answer {
                Some((Answer::Result(result), _)) => *result,
                _ => None,
            };
            job(jobs, *id).takings.push(Taking { begun, ended, took, result });
        }
        _ => {}
    }
}

/// Somebody who fetched was seen to leave.
fn note_left<'h>(left: &mut HashMap<&'h crore_core::Name, BTreeSet<u64>>, call: &Call<'h>) {
    let (Op::Fetch { queues, .. }, End::Left(at)) = (call.op, call.end) else { return };
    for queue in queues {
        left.entry(queue).or_default().insert(at.i);
    }
}

/// How long a server may take to notice that somebody has left.
const NOTICED: Span = Span::from_secs(1);

/// A fetch that ended in `info` may have taken something until then, one whose caller has left until
/// the server has noticed, and one without an end until the next crash.
fn note_unseen<'h>(
    unseen: &mut HashMap<&'h crore_core::Name, Vec<Unseen>>,
    call: &Call<'h>,
    calls: &[Call<'h>],
    crashes: &[super::memory::Crash],
) {
    let Op::Fetch { queues, .. } = call.op else { return };
    if call.took() != Took::Perhaps {
        return;
    }
    let crash = || crashes.iter().map(|crash| crash.at).find(|at| call.begun.is_before(at));
    let noticed = |left: Moment| {
        let later = calls.partition_point(|call| call.begun.t <= left.t + nanos(NOTICED));
        calls.get(later).map(|call| call.begun)
    };
    let over = match call.end {
        End::Left(at) => noticed(at).into_iter().chain(crash()).min_by_key(|at| at.i),
        _ => call.ended().or_else(crash),
    };
    let over = over.map_or(u64::MAX, |at| at.i);
    for queue in queues {
        let before = unseen.entry(queue).or_default();
        let all_over = before.last().map_or(over, |last| last.all_over.max(over));
        before.push(Unseen { from: call.begun, all_over });
    }
}
