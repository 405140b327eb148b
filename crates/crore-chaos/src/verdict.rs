//! What was broken: which promise, and everything that happened to the job.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use crore_core::{JobId, Span};
use crore_testkit::history::answer::{Pushed, Reported};
use crore_testkit::history::check::Violation;
use crore_testkit::history::{Answer, Event, History, Node, Op, Rules, What, check};

use crate::run::Plan;
use crate::tally::Tally;

/// Clocks of one machine may be slewed; a lease is many times as long as this.
const TOLERANCE: Span = Span::from_millis(20);
/// So many promises, and so many events of a job, are told.
const TOLD: usize = 10;
const EVENTS: usize = 80;

/// The rules for a server on this machine.
pub(crate) fn tolerant() -> Rules {
    Rules { tolerance: TOLERANCE, ..Rules::default() }
}

/// What was broken, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    what: String,
    story: Vec<String>,
    /// What was counted, if the history came to its end.
    tally: Option<Box<Tally>>,
    /// The numbers of the promises.
    pub promises: Vec<u8>,
}

/// Holds a history to the promises, as they are for one server on this machine.
///
/// # Errors
///
/// What was not kept.
pub fn judge(history: &History, rules: &Rules) -> Result<Tally, Broken> {
    let report = check(history, rules);
    let tally = Tally::of(history, &report);
    let Some(first) = report.violations.first() else { return Ok(tally) };
    let n = report.violations.len();
    let told = report.violations.iter().take(TOLD).map(ToString::to_string);
    let promises = report.violations.iter().map(|violation| violation.promise.0).collect();
    Err(Broken {
        what: format!("{n} promises were broken:\n  {}", told.collect::<Vec<_>>().join("\n  ")),
        story: story(history, first),
        tally: Some(Box::new(tally)),
        promises,
    })
}

impl Broken {
    pub(crate) fn plain(what: impl Into<String>) -> Self {
        Self { what: what.into(), story: Vec::new(), tally: None, promises: Vec::new() }
    }

    /// In which round.
    pub(crate) fn at(self, round: u32) -> Self {
        Self { what: format!("round {round}: {}", self.what), ..self }
    }

    /// In which run.
    pub(crate) fn said_by(self, plan: &Plan) -> Self {
        let Plan { harm, rounds, seed, .. } = plan;
        let what = format!("{harm}, {rounds} rounds, seed {seed}: {}", self.what);
        Self { what, ..self }
    }

    /// Where everything is.
    pub(crate) fn kept_in(self, home: &Path, history: &Path) -> Self {
        let (home, history) = (home.display(), history.display());
        self.but(&format!(
            "kept in {home}: the server's directory as `data`, its log as `server.log`;\n  \
             `crore verify {home}/data` examines it, `crore-chaos check {history}` judges again"
        ))
    }

    /// Which command runs it again; told last, where it is seen.
    pub(crate) fn repeated_by(self, command: &str) -> Self {
        self.but(&format!("repeat with: {command}"))
    }

    /// Something to add.
    pub(crate) fn but(mut self, more: &str) -> Self {
        self.story.push(more.to_owned());
        self
    }
}

impl Broken {
    /// The first thing that was found, in one line.
    pub(crate) fn first(&self) -> String {
        let mut lines = self.what.lines();
        let head = lines.next().unwrap_or_default();
        lines.next().unwrap_or(head).trim().to_owned()
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if let Some(tally) = &self.tally {
            write!(f, "\n{tally}")?;
        }
        self.story.iter().try_for_each(|line| write!(f, "\n{line}"))
    }
}

/// Everything that happened to the job that a violation is about, and to the server meanwhile.
fn story(history: &History, violation: &Violation) -> Vec<String> {
    let mut ours = BTreeMap::new();
    for event in &history.events {
        if let What::Ok { n, r, .. } = &event.what
            && violation.job.is_some_and(|id| tells_of(r, id))
        {
            ours.insert(*n, ());
        }
        if let What::Invoke { n, op, .. } = &event.what
            && (violation.events.contains(&event.i)
                || violation.job.is_some_and(|id| asks_about(op, id)))
        {
            ours.insert(*n, ());
        }
    }
    let is_told = |event: &&Event| match &event.what {
        What::Invoke { n, .. }
        | What::Ok { n, .. }
        | What::Fail { n, .. }
        | What::Info { n, .. } => ours.contains_key(n),
        What::Node { node: Node::Dump(_) } => false,
        What::Fault { .. } | What::Node { .. } => true,
    };
    let told: Vec<&Event> = history.events.iter().filter(is_told).collect();
    // Of what happened to the server, only what lies around the job's own events.
    let own = |event: &&Event| !matches!(event.what, What::Fault { .. } | What::Node { .. });
    let first = told.iter().position(own).unwrap_or(0).saturating_sub(1);
    let last = told.iter().rposition(own).map_or(told.len(), |last| (last + 2).min(told.len()));
    let told = told.get(first..last).unwrap_or_default();
    let mut lines: Vec<String> = told.iter().take(EVENTS).map(|event| line(event)).collect();
    if let (Some(id), Some(dump)) = (violation.job, last_dump(history)) {
        let stored = dump.jobs.iter().find(|job| job.id == id);
        lines.push(format!("  in the end: {stored:?}"));
    }
    lines.insert(0, "what happened to that job, and to the server:".to_owned());
    lines
}

fn line(event: &Event) -> String {
    let ms = event.t / 1_000_000;
    format!("  {:>7} {ms:>6} ms {:<10} {:?}", event.i, event.p, event.what)
}

fn last_dump(history: &History) -> Option<&crore_testkit::history::node::Dump> {
    history.events.iter().rev().find_map(|event| match &event.what {
        What::Node { node: Node::Dump(dump) } => Some(dump),
        _ => None,
    })
}

fn asks_about(op: &Op, job: JobId) -> bool {
    match op {
        Op::Renew { leases } => leases.iter().any(|lease| lease.id == job),
        Op::Report { id, .. }
        | Op::Admin { id, .. }
        | Op::Notice { id, .. }
        | Op::TakeResult { id }
        | Op::Get { id } => *id == job,
        Op::Push { .. }
        | Op::Fetch { .. }
        | Op::Tick { .. }
        | Op::Define { .. }
        | Op::List
        | Op::Counts => false,
    }
}

fn tells_of(answer: &Answer, job: JobId) -> bool {
    let names =
        |pushed: &Pushed| matches!(pushed, Pushed::New(id) | Pushed::Duplicate(id) if *id == job);
    match answer {
        Answer::Pushed { items, .. } | Answer::Reported(Reported::Accepted(items)) => {
            items.iter().any(names)
        }
        Answer::Fetched(granted) => granted.iter().any(|granted| granted.id == job),
        Answer::Listed(jobs) => jobs.iter().any(|(id, _)| *id == job),
        _ => false,
    }
}
