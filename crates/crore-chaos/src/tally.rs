//! Every job accounted for.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;

use crore_core::{Code, JobId, State};
use crore_testkit::history::answer::{Pushed, Reported};
use crore_testkit::history::check::Report;
use crore_testkit::history::{Answer, Fault, History, LEFT, Node, Op, What};

use crate::desk::UNANSWERED;

/// How much was asked, told and found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Servers that were started and harmed.
    pub rounds: u64,
    /// Jobs that somebody asked to push.
    pub pushed: u64,
    /// Of these, those that were answered as stored.
    pub acknowledged: u64,
    /// Those that were not answered as stored, and were seen later.
    pub found: u64,
    /// Acknowledged jobs that are done in the end.
    pub done: u64,
    /// Acknowledged jobs that are dead in the end.
    pub dead: u64,
    /// Acknowledged jobs that are cancelled in the end.
    pub cancelled: u64,
    /// Acknowledged jobs that are rightly gone: deleted, or done and not to be kept.
    pub gone: u64,
    /// Acknowledged jobs that are gone and should not be.
    pub lost: u64,
    /// Deliveries, reports or keys of which there are two and should be one.
    pub doubled: u64,
    /// Jobs that were handed over.
    pub deliveries: u64,
    /// Of these, those that were posted to push workers.
    pub posted: u64,
    /// Those that were sent on streams.
    pub streamed: u64,
    /// Reports that counted.
    pub accepted: u64,
    /// Reports that did not count, because another came first or the lease had ended.
    pub stale: u64,
    /// Calls that were refused.
    pub refused: u64,
    /// Calls of which nobody knows what became.
    pub unknown: u64,
    /// Calls that were answered so because the server had given itself up.
    pub given_up: u64,
    /// Servers that were killed.
    pub kills: u64,
    /// Times that the power was cut.
    pub cuts: u64,
    /// Servers that stopped in order, the last one of each run among them.
    pub stops: u64,
}

/// What is lost, and what is doubled, by the promise that was broken.
const LOSSES: [u8; 3] = [1, 14, 22];
const DOUBLES: [u8; 5] = [5, 6, 7, 9, 18];

impl Tally {
    /// Counts a history that was checked.
    pub(crate) fn of(history: &History, report: &Report) -> Self {
        let mut tally = Self { found: report.counters.recovered as u64, ..Self::default() };
        let (mut stored, mut there) = (Vec::new(), BTreeMap::new());
        for event in &history.events {
            match &event.what {
                What::Invoke { op, .. } => tally.asked(op),
                What::Ok { r, .. } => {
                    tally.told(r, &mut stored);
                    let to = |who: &str| u64::from(event.p.starts_with(who) && is_fetched(r));
                    tally.posted += to("posted-");
                    tally.streamed += to("streamed-");
                }
                What::Fail { .. } => tally.refused += 1,
                What::Info { why, .. } if why == UNANSWERED || why == LEFT => {}
                What::Info { why, .. } => {
                    tally.unknown += 1;
                    tally.given_up += u64::from(why.contains(Code::Poisoned.as_str()));
                }
                What::Fault { fault: Fault::Crash } => tally.kills += 1,
                What::Fault { fault: Fault::PowerCut } => tally.cuts += 1,
                What::Node { node: Node::Closed } => tally.stops += 1,
                What::Node { node: Node::Dump(dump) } => {
                    there = dump.jobs.iter().map(|job| (job.id, job.state)).collect();
                }
                What::Fault { .. } | What::Node { .. } => {}
            }
        }
        tally.acknowledged = stored.len() as u64;
        stored.iter().for_each(|id| tally.found_as(there.get(id)));
        for violation in &report.violations {
            tally.lost += u64::from(LOSSES.contains(&violation.promise.0));
            tally.doubled += u64::from(DOUBLES.contains(&violation.promise.0));
        }
        tally.gone = tally.gone.saturating_sub(tally.lost);
        tally
    }

    fn asked(&mut self, op: &Op) {
        self.pushed += match op {
            Op::Push { items, .. } => items.len() as u64,
            Op::Report { on_done, .. } => on_done.len() as u64,
            _ => 0,
        };
    }

    fn told(&mut self, answer: &Answer, stored: &mut Vec<JobId>) {
        let mut new = |items: &[Pushed]| {
            stored.extend(items.iter().filter_map(|item| match item {
                Pushed::New(id) => Some(*id),
                Pushed::Duplicate(_) | Pushed::Broken => None,
            }));
        };
        match answer {
            Answer::Pushed { items, .. } => new(items),
            Answer::Reported(Reported::Accepted(items)) => {
                new(items);
                self.accepted += 1;
            }
            Answer::Reported(Reported::Stale | Reported::Unknown) => self.stale += 1,
            Answer::Fetched(granted) => self.deliveries += granted.len() as u64,
            _ => {}
        }
    }

    fn found_as(&mut self, state: Option<&State>) {
        match state {
            Some(State::Done) => self.done += 1,
            Some(State::Dead) => self.dead += 1,
            Some(State::Cancelled) => self.cancelled += 1,
            Some(State::Waiting | State::Scheduled | State::Ready | State::Running) => {}
            None => self.gone += 1,
        }
    }
}

fn is_fetched(answer: &Answer) -> bool {
    matches!(answer, Answer::Fetched(_))
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.rounds += other.rounds;
        self.pushed += other.pushed;
        self.acknowledged += other.acknowledged;
        self.found += other.found;
        self.done += other.done;
        self.dead += other.dead;
        self.cancelled += other.cancelled;
        self.gone += other.gone;
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.deliveries += other.deliveries;
        self.posted += other.posted;
        self.streamed += other.streamed;
        self.accepted += other.accepted;
        self.stale += other.stale;
        self.refused += other.refused;
        self.unknown += other.unknown;
        self.given_up += other.given_up;
        self.kills += other.kills;
        self.cuts += other.cuts;
        self.stops += other.stops;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, pushed, acknowledged, found, done, dead, cancelled, .. } = self;
        let Self { gone, lost, doubled, deliveries, posted, streamed, accepted, stale, .. } = self;
        let Self { refused, unknown, given_up, kills, cuts, stops, .. } = self;
        writeln!(f, "{rounds} rounds: {kills} kills, {cuts} power cuts, {stops} orderly stops")?;
        writeln!(
            f,
            "{pushed} jobs pushed, {acknowledged} acknowledged: {done} done, {dead} dead, \
             {cancelled} cancelled, {gone} removed as asked"
        )?;
        writeln!(
            f,
            "{deliveries} deliveries, {posted} of them to push workers and {streamed} on streams; \
             {accepted} reports accepted and {stale} stale; \
             {refused} calls refused, {unknown} of unknown fate, and of these {found} jobs turned up"
        )?;
        if *given_up > 0 {
            writeln!(f, "{given_up} calls found that the server had given itself up")?;
        }
        write!(f, "lost = {lost}, doubled = {doubled}")
    }
}
