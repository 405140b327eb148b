//! The verdict: the broken promises, and all events of the first job concerned.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use crore_core::{JobId, Span};
use crore_testkit::history::check::Violation;
use crore_testkit::history::response::{RecordedPush, RecordedReport};
use crore_testkit::history::{
    CheckRules, History, HistoryEvent, HistoryEventBody, NodeObservation, RecordedOp,
    RecordedResponse, check,
};

use crate::run::ChaosPlan;
use crate::tally::ChaosTally;

/// Tolerance for clock slew on one machine; leases are many times longer.
const TOLERANCE: Span = Span::from_millis(20);
/// Maximum number of violations shown, and of events of a job.
const MAX_VIOLATIONS: usize = 10;
const MAX_EVENTS: usize = 80;

/// The checker's rules for a server on this machine.
pub(crate) fn tolerant_rules() -> CheckRules {
    CheckRules { tolerance: TOLERANCE, ..CheckRules::default() }
}

/// A failed run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChaosFailure {
    summary: String,
    details: Vec<String>,
    /// The counts, if the history is complete.
    tally: Option<Box<ChaosTally>>,
    /// The numbers of the broken promises.
    pub promises: Vec<u8>,
}

/// Checks a history against the promises.
///
/// # Errors
///
/// The broken promises.
pub fn judge(history: &History, rules: &CheckRules) -> Result<ChaosTally, ChaosFailure> {
    let report = check(history, rules);
    let tally = ChaosTally::of(history, &report);
    let Some(first) = report.violations.first() else { return Ok(tally) };
    let n = report.violations.len();
    let shown = report.violations.iter().take(MAX_VIOLATIONS).map(ToString::to_string);
    let promises = report.violations.iter().map(|violation| violation.invariant.0).collect();
    Err(ChaosFailure {
        summary: format!("{n} promises were broken:\n  {}", shown.collect::<Vec<_>>().join("\n  ")),
        details: job_events(history, first),
        tally: Some(Box::new(tally)),
        promises,
    })
}

impl ChaosFailure {
    pub(crate) fn plain(what: impl Into<String>) -> Self {
        Self { summary: what.into(), details: Vec::new(), tally: None, promises: Vec::new() }
    }

    /// Adds the round.
    pub(crate) fn in_round(self, round: u32) -> Self {
        Self { summary: format!("round {round}: {}", self.summary), ..self }
    }

    /// Adds the plan.
    pub(crate) fn in_plan(self, plan: &ChaosPlan) -> Self {
        let ChaosPlan { fault, rounds, seed, .. } = plan;
        let what = format!("{fault}, {rounds} rounds, seed {seed}: {}", self.summary);
        Self { summary: what, ..self }
    }

    /// Adds where the data is kept.
    pub(crate) fn kept_in(self, home: &Path, history: &Path) -> Self {
        let (home, history) = (home.display(), history.display());
        self.with_line(&format!(
            "kept in {home}: the server's directory as `data`, its log as `server.log`;\n  \
             `crore verify {home}/data` examines it, `crore-chaos check {history}` checks it again"
        ))
    }

    /// Adds the command that reproduces the run, as the last line, where a reader finds it.
    pub(crate) fn repeated_by(self, command: &str) -> Self {
        self.with_line(&format!("repeat with: {command}"))
    }

    /// Adds a line.
    pub(crate) fn with_line(mut self, more: &str) -> Self {
        self.details.push(more.to_owned());
        self
    }
}

impl ChaosFailure {
    /// The first violation, in one line.
    pub(crate) fn first_violation(&self) -> String {
        let mut lines = self.summary.lines();
        let head = lines.next().unwrap_or_default();
        lines.next().unwrap_or(head).trim().to_owned()
    }
}

impl fmt::Display for ChaosFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary)?;
        if let Some(tally) = &self.tally {
            write!(f, "\n{tally}")?;
        }
        self.details.iter().try_for_each(|line| write!(f, "\n{line}"))
    }
}

/// All events of the job that a violation is about, and of the server meanwhile.
fn job_events(history: &History, violation: &Violation) -> Vec<String> {
    let mut calls = BTreeMap::new();
    for event in &history.events {
        if let HistoryEventBody::Ok { n, r, .. } = &event.what
            && violation.job.is_some_and(|id| answer_names_job(r, id))
        {
            calls.insert(*n, ());
        }
        if let HistoryEventBody::Invoke { n, op, .. } = &event.what
            && (violation.events.contains(&event.i)
                || violation.job.is_some_and(|id| op_names_job(op, id)))
        {
            calls.insert(*n, ());
        }
    }
    let is_relevant = |event: &&HistoryEvent| match &event.what {
        HistoryEventBody::Invoke { n, .. }
        | HistoryEventBody::Ok { n, .. }
        | HistoryEventBody::Fail { n, .. }
        | HistoryEventBody::Info { n, .. } => calls.contains_key(n),
        HistoryEventBody::Node { node: NodeObservation::Dump(_) } => false,
        HistoryEventBody::Fault { .. } | HistoryEventBody::Node { .. } => true,
    };
    let relevant: Vec<&HistoryEvent> = history.events.iter().filter(is_relevant).collect();
    // Of the server's events, only those around the job's own.
    let own = |event: &&HistoryEvent| {
        !matches!(event.what, HistoryEventBody::Fault { .. } | HistoryEventBody::Node { .. })
    };
    let first = relevant.iter().position(own).unwrap_or(0).saturating_sub(1);
    let last = relevant
        .iter()
        .rposition(own)
        .map_or(relevant.len(), |last| (last + 2).min(relevant.len()));
    let relevant = relevant.get(first..last).unwrap_or_default();
    let mut lines: Vec<String> =
        relevant.iter().take(MAX_EVENTS).map(|event| event_line(event)).collect();
    if let (Some(id), Some(dump)) = (violation.job, last_dump(history)) {
        let stored = dump.jobs.iter().find(|job| job.id == id);
        lines.push(format!("  final state: {stored:?}"));
    }
    lines.insert(0, "events of that job and of the server:".to_owned());
    lines
}

fn event_line(event: &HistoryEvent) -> String {
    let ms = event.t / 1_000_000;
    format!("  {:>7} {ms:>6} ms {:<10} {:?}", event.i, event.p, event.what)
}

fn last_dump(history: &History) -> Option<&crore_testkit::history::node::StoreDump> {
    history.events.iter().rev().find_map(|event| match &event.what {
        HistoryEventBody::Node { node: NodeObservation::Dump(dump) } => Some(dump),
        _ => None,
    })
}

fn op_names_job(op: &RecordedOp, job: JobId) -> bool {
    match op {
        RecordedOp::Renew { leases } => leases.iter().any(|lease| lease.id == job),
        RecordedOp::Report { id, .. }
        | RecordedOp::Admin { id, .. }
        | RecordedOp::Notice { id, .. }
        | RecordedOp::TakeResult { id }
        | RecordedOp::Get { id } => *id == job,
        RecordedOp::Push { .. }
        | RecordedOp::Fetch { .. }
        | RecordedOp::Tick { .. }
        | RecordedOp::Define { .. }
        | RecordedOp::List
        | RecordedOp::Counts => false,
    }
}

fn answer_names_job(answer: &RecordedResponse, job: JobId) -> bool {
    let names = |pushed: &RecordedPush| matches!(pushed, RecordedPush::New(id) | RecordedPush::Duplicate(id) if *id == job);
    match answer {
        RecordedResponse::Pushed { items, .. }
        | RecordedResponse::Reported(RecordedReport::Accepted(items)) => items.iter().any(names),
        RecordedResponse::Fetched(granted) => granted.iter().any(|granted| granted.id == job),
        RecordedResponse::Listed(jobs) => jobs.iter().any(|(id, _)| *id == job),
        _ => false,
    }
}
