//! A history indexed by subject, so that each invariant is a plain function over it.

mod build;
pub(crate) mod call;
pub(crate) mod crashes;
pub(crate) mod definitions;
pub(crate) mod ending;
pub(crate) mod job;
pub(crate) mod source;
mod timeline;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crore_core::{JobId, Name};

pub(crate) use self::call::{EffectCertainty, HistoryMoment, RecordedCall};
use self::crashes::CrashHistory;
use self::definitions::DefinitionHistory;
pub(crate) use self::ending::ReportEffect;
pub(crate) use self::job::{DeliveryGrant, JobFacts, RenewCall, ReportCall};
use self::source::PushSources;
pub(crate) use self::source::{PushFate, PushOrigin, PushSource};
use super::rules::CheckRules;
pub(crate) use super::rules::nanos;
use crate::history::PayloadHash;
use crate::history::node::StoreDump;

/// A fetch with an unknown result, during the time in which it may have taken jobs.
#[derive(Debug, Clone, Copy)]
struct UnseenFetch {
    from: HistoryMoment,
    /// The event at which this fetch and all before it were over.
    all_over: u64,
}

/// An event of a node, not of a job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeMark<'h> {
    pub(crate) node: &'h str,
    pub(crate) at: HistoryMoment,
    pub(crate) what: NodeMarkKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeMarkKind {
    Opened,
    SyncError,
    DiskFull,
    DiskFreed,
}

/// A history indexed by subject.
#[derive(Debug)]
pub(crate) struct HistoryFacts<'h> {
    pub(crate) rules: CheckRules,
    pub(crate) calls: Vec<RecordedCall<'h>>,
    pub(crate) sources: PushSources<'h>,
    pub(crate) jobs: BTreeMap<JobId, JobFacts<'h>>,
    pub(crate) definitions: DefinitionHistory<'h>,
    pub(crate) crash_history: CrashHistory,
    pub(crate) marks: Vec<NodeMark<'h>>,
    /// The last dump.
    pub(crate) dump: Option<(&'h StoreDump, HistoryMoment)>,
    /// Jobs that were seen and match no source, with their payload.
    pub(crate) strays: Vec<(JobId, Option<PayloadHash>, HistoryMoment)>,
    /// Ids that were given to two items, and the indices of the items.
    pub(crate) duplicate_ids: Vec<(JobId, usize, usize)>,
    /// Number of jobs left out because their id was used twice.
    pub(crate) reused: usize,
    /// A moment after the last event.
    pub(crate) end: HistoryMoment,
    unseen: HashMap<&'h Name, Vec<UnseenFetch>>,
    /// The events at which a caller that fetched from a queue was seen to leave.
    left: HashMap<&'h Name, BTreeSet<u64>>,
    per_queue: HashMap<&'h Name, u64>,
}

impl<'h> HistoryFacts<'h> {
    /// Whether a durable write acknowledged at `from` certainly still holds at `to`.
    pub(crate) fn write_still_holds(&self, from: HistoryMoment, to: HistoryMoment) -> bool {
        self.crash_history.write_still_holds(&self.rules, from, to)
    }

    /// Whether a claim or renewal answered at `from` certainly still holds at `to`.
    pub(crate) fn claim_still_holds(&self, from: HistoryMoment, to: HistoryMoment) -> bool {
        self.crash_history.claim_still_holds(&self.rules, from, to)
    }

    /// The first moment from `since` on at which an unseen fetch may have taken a job of a queue.
    pub(crate) fn unseen_fetch(&self, queue: &Name, since: HistoryMoment) -> Option<HistoryMoment> {
        let from = self.first_unseen(queue, since)?;
        Some(if from.is_before(&since) { since } else { from })
    }

    /// The beginning of the first unseen fetch that was not over at `since`. Unseen fetches are sorted by
    /// beginning.
    fn first_unseen(&self, queue: &Name, since: HistoryMoment) -> Option<HistoryMoment> {
        let all = self.unseen.get(queue)?;
        Some(all.get(all.partition_point(|fetch| fetch.all_over <= since.i))?.from)
    }

    /// Whether a caller was seen to leave by `to` whose fetch may have taken a job since `since`. The job may
    /// have been given back before its lease ended. The caller may have left earlier than that, because a
    /// server notices late.
    pub(crate) fn caller_left_between(
        &self,
        queue: &Name,
        since: HistoryMoment,
        to: HistoryMoment,
    ) -> bool {
        let (Some(left), Some(from)) = (self.left.get(queue), self.first_unseen(queue, since))
        else {
            return false;
        };
        from.i < to.i && left.range(from.i..to.i).next().is_some()
    }

    pub(crate) fn jobs_of_queue(&self, queue: &Name) -> u64 {
        self.per_queue.get(queue).copied().unwrap_or(0)
    }

    /// Every job whose source is known, with its source.
    pub(crate) fn sourced(&self) -> impl Iterator<Item = (&JobFacts<'h>, &PushSource<'h>)> {
        self.jobs.values().filter_map(|job| Some((job, self.sources.of(job.id)?)))
    }

    /// The moment by which a source had certainly become a job: it was acknowledged, or the job was seen.
    pub(crate) fn created_by(&self, source: &PushSource<'h>) -> Option<HistoryMoment> {
        let id = source.id?;
        if let (PushFate::New(_), Some(answered)) = (source.fate, source.answered) {
            return Some(answered);
        }
        self.jobs.get(&id)?.first_seen(self.dump.map(|(_, at)| at))
    }

    /// Whether the job that a source had become by `made` certainly still exists at `to`. A job that was only
    /// seen, not acknowledged, may not have been durable.
    pub(crate) fn job_still_exists(
        &self,
        source: &PushSource<'h>,
        made: HistoryMoment,
        to: HistoryMoment,
    ) -> bool {
        if let PushFate::New(_) = source.fate {
            self.write_still_holds(made, to)
        } else {
            self.claim_still_holds(made, to)
        }
    }
}
