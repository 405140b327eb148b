//! Facts: a history sorted by what it is about, so that each promise is a plain function of it.

mod build;
pub(crate) mod call;
pub(crate) mod definitions;
pub(crate) mod ending;
pub(crate) mod job;
pub(crate) mod memory;
pub(crate) mod source;
mod timeline;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crore_core::{JobId, Name};

pub(crate) use self::call::{Call, Moment, Took};
use self::definitions::Definitions;
pub(crate) use self::ending::Ending;
pub(crate) use self::job::{Filed, Grant, Job, Renewal};
use self::memory::Memory;
use self::source::Sources;
pub(crate) use self::source::{Fate, Origin, Source};
use super::rules::Rules;
pub(crate) use super::rules::nanos;
use crate::history::Hash;
use crate::history::node::Dump;

/// A fetch of which nobody knows what it took, while it may have taken something.
#[derive(Debug, Clone, Copy)]
struct Unseen {
    from: Moment,
    /// The event at which this one and all before it were over.
    all_over: u64,
}

/// Something that happened to a node, and not to a job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark<'h> {
    pub(crate) node: &'h str,
    pub(crate) at: Moment,
    pub(crate) what: Marked,
}

/// What happened to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marked {
    Opened,
    SyncError,
    DiskFull,
    DiskFreed,
}

/// A history sorted by what it is about.
#[derive(Debug)]
pub(crate) struct Facts<'h> {
    pub(crate) rules: Rules,
    pub(crate) calls: Vec<Call<'h>>,
    pub(crate) sources: Sources<'h>,
    pub(crate) jobs: BTreeMap<JobId, Job<'h>>,
    pub(crate) definitions: Definitions<'h>,
    pub(crate) memory: Memory,
    pub(crate) marks: Vec<Mark<'h>>,
    /// The last dump.
    pub(crate) dump: Option<(&'h Dump, Moment)>,
    /// Jobs that were seen and that no source can have become, with what they carried.
    pub(crate) strays: Vec<(JobId, Option<Hash>, Moment)>,
    /// Numbers that were given to two items, and the items.
    pub(crate) twice: Vec<(JobId, usize, usize)>,
    /// How many jobs were left out because their number was used twice.
    pub(crate) reused: usize,
    /// After everything.
    pub(crate) end: Moment,
    unseen: HashMap<&'h Name, Vec<Unseen>>,
    /// The events at which somebody who fetched from a queue was seen to leave.
    left: HashMap<&'h Name, BTreeSet<u64>>,
    per_queue: HashMap<&'h Name, u64>,
}

impl<'h> Facts<'h> {
    /// Whether what was answered durably at `from` certainly still holds at `to`.
    pub(crate) fn holds(&self, from: Moment, to: Moment) -> bool {
        self.memory.holds(&self.rules, from, to)
    }

    /// Whether a claim or renewal that was answered at `from` is certainly still known at `to`.
    pub(crate) fn recalls(&self, from: Moment, to: Moment) -> bool {
        self.memory.recalls(&self.rules, from, to)
    }

    /// The first moment from `since` on at which an unseen fetch may have taken a job of a queue.
    pub(crate) fn unseen_fetch(&self, queue: &Name, since: Moment) -> Option<Moment> {
        let from = self.first_unseen(queue, since)?;
        Some(if from.is_before(&since) { since } else { from })
    }

    /// When the first unseen fetch began that was not over at `since`. They are in the order of their
    /// beginnings, so it is the first that was not over.
    fn first_unseen(&self, queue: &Name, since: Moment) -> Option<Moment> {
        let all = self.unseen.get(queue)?;
        Some(all.get(all.partition_point(|fetch| fetch.all_over <= since.i))?.from)
    }

    /// Whether somebody was seen to leave by `to` whose fetch may have taken a job since `since`: it
    /// may have been given back before its lease was over. He may have left before, because a server
    /// notices that later than he does.
    pub(crate) fn left_by(&self, queue: &Name, since: Moment, to: Moment) -> bool {
        let (Some(left), Some(from)) = (self.left.get(queue), self.first_unseen(queue, since))
        else {
            return false;
        };
        from.i < to.i && left.range(from.i..to.i).next().is_some()
    }

    pub(crate) fn jobs_of_queue(&self, queue: &Name) -> u64 {
        self.per_queue.get(queue).copied().unwrap_or(0)
    }

    /// The source of a job and the job, for every job whose source is known.
    pub(crate) fn sourced(&self) -> impl Iterator<Item = (&Job<'h>, &Source<'h>)> {
        self.jobs.values().filter_map(|job| Some((job, self.sources.of(job.id)?)))
    }

    /// By when a source had certainly become a job: it was answered, or the job was seen.
    pub(crate) fn made_by(&self, source: &Source<'h>) -> Option<Moment> {
        let id = source.id?;
        if let (Fate::New(_), Some(answered)) = (source.fate, source.answered) {
            return Some(answered);
        }
        self.jobs.get(&id)?.first_seen(self.dump.map(|(_, at)| at))
    }

    /// Whether the job that a source had become by `made` is certainly still known at `to`. One that
    /// was only seen, and not answered, may not have been durable.
    pub(crate) fn keeps(&self, source: &Source<'h>, made: Moment, to: Moment) -> bool {
        if let Fate::New(_) = source.fate { self.holds(made, to) } else { self.recalls(made, to) }
    }
}
