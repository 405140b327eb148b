//! Counts of jobs, deliveries and calls.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;

use crore_core::{Code, JobId, State};
use crore_testkit::history::check::CheckReport;
use crore_testkit::history::response::{RecordedPush, RecordedReport};
use crore_testkit::history::{
    CALLER_LEFT, History, HistoryEventBody, NodeObservation, RecordedFault, RecordedOp,
    RecordedResponse,
};

use crate::context::NOTHING_POSTED;

/// Counts of one run, or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChaosTally {
    /// Servers that were started and ended by a fault.
    pub rounds: u64,
    /// Jobs in push requests and follow-ups.
    pub pushed: u64,
    /// Pushed jobs that were acknowledged as stored.
    pub acknowledged: u64,
    /// Pushed jobs that were not acknowledged, but seen later.
    pub recovered: u64,
    /// Acknowledged jobs that are done at the end.
    pub done: u64,
    /// Acknowledged jobs that are dead at the end.
    pub dead: u64,
    /// Acknowledged jobs that are cancelled at the end.
    pub cancelled: u64,
    /// Acknowledged jobs that are legitimately gone: deleted, or done and not to be retained.
    pub gone: u64,
    /// Acknowledged jobs that are missing.
    pub lost: u64,
    /// Duplicate deliveries, reports or keys.
    pub doubled: u64,
    /// Deliveries.
    pub deliveries: u64,
    /// Deliveries posted to push workers.
    pub posted: u64,
    /// Deliveries sent on streams.
    pub streamed: u64,
    /// Reports that were accepted.
    pub accepted: u64,
    /// Reports that were not accepted, because another came first or the lease had ended.
    pub stale: u64,
    /// Calls that were refused.
    pub refused: u64,
    /// Calls of unknown effect.
    pub unknown: u64,
    /// Calls that failed because the store was poisoned.
    pub poisoned: u64,
    /// Servers that were killed.
    pub kills: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Servers that stopped gracefully, including the last one of each run.
    pub stops: u64,
}

/// The promises whose violation is a loss, and those whose violation is a duplicate.
const LOSS_PROMISES: [u8; 3] = [1, 14, 22];
const DUPLICATE_PROMISES: [u8; 5] = [5, 6, 7, 9, 18];

impl ChaosTally {
    /// Counts a history that was checked.
    pub(crate) fn of(history: &History, report: &CheckReport) -> Self {
        let mut tally = Self { recovered: report.counters.recovered as u64, ..Self::default() };
        let (mut stored, mut there) = (Vec::new(), BTreeMap::new());
        for event in &history.events {
            match &event.what {
                HistoryEventBody::Invoke { op, .. } => tally.count_op(op),
                HistoryEventBody::Ok { r, .. } => {
                    tally.count_answer(r, &mut stored);
                    let to = |who: &str| u64::from(event.p.starts_with(who) && is_fetched(r));
                    tally.posted += to("posted-");
                    tally.streamed += to("streamed-");
                }
                HistoryEventBody::Fail { .. } => tally.refused += 1,
                HistoryEventBody::Info { why, .. }
                    if why == NOTHING_POSTED || why == CALLER_LEFT => {}
                HistoryEventBody::Info { why, .. } => {
                    tally.unknown += 1;
                    tally.poisoned += u64::from(why.contains(Code::Poisoned.as_str()));
                }
                HistoryEventBody::Fault { fault: RecordedFault::Crash } => tally.kills += 1,
                HistoryEventBody::Fault { fault: RecordedFault::PowerCut } => tally.cuts += 1,
                HistoryEventBody::Node { node: NodeObservation::Closed } => tally.stops += 1,
                HistoryEventBody::Node { node: NodeObservation::Dump(dump) } => {
                    there = dump.jobs.iter().map(|job| (job.id, job.state)).collect();
                }
                HistoryEventBody::Fault { .. } | HistoryEventBody::Node { .. } => {}
            }
        }
        tally.acknowledged = stored.len() as u64;
        stored.iter().for_each(|id| tally.count_final_state(there.get(id)));
        for violation in &report.violations {
            tally.lost += u64::from(LOSS_PROMISES.contains(&violation.invariant.0));
            tally.doubled += u64::from(DUPLICATE_PROMISES.contains(&violation.invariant.0));
        }
        tally.gone = tally.gone.saturating_sub(tally.lost);
        tally
    }

    fn count_op(&mut self, op: &RecordedOp) {
        self.pushed += match op {
            RecordedOp::Push { items, .. } => items.len() as u64,
            RecordedOp::Report { on_done, .. } => on_done.len() as u64,
            _ => 0,
        };
    }

    fn count_answer(&mut self, answer: &RecordedResponse, stored: &mut Vec<JobId>) {
        let mut new = |items: &[RecordedPush]| {
            stored.extend(items.iter().filter_map(|item| match item {
                RecordedPush::New(id) => Some(*id),
                RecordedPush::Duplicate(_) | RecordedPush::Broken => None,
            }));
        };
        match answer {
            RecordedResponse::Pushed { items, .. } => new(items),
            RecordedResponse::Reported(RecordedReport::Accepted(items)) => {
                new(items);
                self.accepted += 1;
            }
            RecordedResponse::Reported(RecordedReport::Stale | RecordedReport::Unknown) => {
                self.stale += 1;
            }
            RecordedResponse::Fetched(granted) => self.deliveries += granted.len() as u64,
            _ => {}
        }
    }

    fn count_final_state(&mut self, state: Option<&State>) {
        match state {
            Some(State::Done) => self.done += 1,
            Some(State::Dead) => self.dead += 1,
            Some(State::Cancelled) => self.cancelled += 1,
            Some(State::Waiting | State::Scheduled | State::Ready | State::Running) => {}
            None => self.gone += 1,
        }
    }
}

fn is_fetched(answer: &RecordedResponse) -> bool {
    matches!(answer, RecordedResponse::Fetched(_))
}

impl AddAssign for ChaosTally {
    fn add_assign(&mut self, other: Self) {
        self.rounds += other.rounds;
        self.pushed += other.pushed;
        self.acknowledged += other.acknowledged;
        self.recovered += other.recovered;
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
        self.poisoned += other.poisoned;
        self.kills += other.kills;
        self.cuts += other.cuts;
        self.stops += other.stops;
    }
}

impl fmt::Display for ChaosTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, pushed, acknowledged, recovered: found, done, dead, cancelled, .. } =
            self;
        let Self { gone, lost, doubled, deliveries, posted, streamed, accepted, stale, .. } = self;
        let Self { refused, unknown, poisoned: given_up, kills, cuts, stops, .. } = self;
        writeln!(f, "{rounds} rounds: {kills} kills, {cuts} power cuts, {stops} graceful stops")?;
        writeln!(
            f,
            "{pushed} jobs pushed, {acknowledged} acknowledged: {done} done, {dead} dead, \
             {cancelled} cancelled, {gone} removed on request"
        )?;
        writeln!(
            f,
            "{deliveries} deliveries, {posted} of them to push workers and {streamed} on streams; \
             {accepted} reports accepted and {stale} stale; \
             {refused} calls refused, {unknown} of unknown effect; {found} unacknowledged jobs were stored"
        )?;
        if *given_up > 0 {
            writeln!(f, "{given_up} calls failed because the store was poisoned")?;
        }
        write!(f, "lost = {lost}, doubled = {doubled}")
    }
}
