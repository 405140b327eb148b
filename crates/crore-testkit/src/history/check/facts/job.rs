//! What is known of one job.

use crore_core::{Delivery, JobId, Span, Time};

use super::call::{Moment, Took};
use crate::history::Hash;
use crate::history::answer::{Granted, Look};
use crate::history::node::Stored;
use crate::history::op::{Noticed, Outcome, Want};

/// One delivery.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grant<'h> {
    pub(crate) granted: &'h Granted,
    pub(crate) begun: Moment,
    pub(crate) ended: Moment,
    /// The store's time in the answer.
    pub(crate) now: Option<Time>,
}

impl Grant<'_> {
    pub(crate) const fn delivery(&self) -> Delivery {
        self.granted.delivery
    }
}

/// A report.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filed<'h> {
    pub(crate) begun: Moment,
    pub(crate) ended: Option<Moment>,
    pub(crate) took: Took,
    pub(crate) delivery: Option<Delivery>,
    pub(crate) outcome: &'h Outcome,
    /// Whether it was answered that the report does not count.
    pub(crate) stale: bool,
}

impl Filed<'_> {
    /// When it was accepted, if it was.
    pub(crate) fn accepted(&self) -> Option<Moment> {
        self.ended.filter(|_| self.took == Took::Yes)
    }

    /// The result that comes of it if it ends the job.
    pub(crate) const fn result(&self) -> Option<Hash> {
        match self.outcome {
            Outcome::Done { result } => *result,
            Outcome::Failed { detail, .. } => *detail,
            Outcome::Snooze(_) | Outcome::Cancel | Outcome::Interrupted => None,
        }
    }
}

/// Something wanted by hand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'h> {
    pub(crate) begun: Moment,
    pub(crate) ended: Option<Moment>,
    pub(crate) took: Took,
    pub(crate) want: &'h Want,
    /// Whether the job was running, and was only asked to stop.
    pub(crate) asked: bool,
}

/// Something noticed by the engine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Notice {
    pub(crate) begun: Moment,
    pub(crate) took: Took,
    pub(crate) delivery: Option<Delivery>,
    pub(crate) what: Noticed,
}

/// A renewal that was answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Renewal {
    pub(crate) begun: Moment,
    pub(crate) ended: Moment,
    pub(crate) delivery: Delivery,
    /// For how long; none: it was stale.
    pub(crate) span: Option<Span>,
}

/// A look that was answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Looked<'h> {
    pub(crate) begun: Moment,
    pub(crate) ended: Moment,
    pub(crate) job: Option<&'h Look>,
}

/// A taking of a result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taking {
    pub(crate) begun: Moment,
    pub(crate) ended: Option<Moment>,
    pub(crate) took: Took,
    pub(crate) result: Option<Hash>,
}

/// Everything that is known of one job, each list in the order of its beginnings.
#[derive(Debug, Default)]
pub(crate) struct Job<'h> {
    pub(crate) id: JobId,
    /// By delivery.
    pub(crate) grants: Vec<Grant<'h>>,
    pub(crate) reports: Vec<Filed<'h>>,
    pub(crate) wants: Vec<Wanted<'h>>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) renewals: Vec<Renewal>,
    pub(crate) looks: Vec<Looked<'h>>,
    pub(crate) takings: Vec<Taking>,
    /// When it was first listed, and its payload.
    pub(crate) listed: Option<(Moment, Hash)>,
    /// The job in the last dump.
    pub(crate) stored: Option<&'h Stored>,
}

impl<'h> Job<'h> {
    pub(crate) fn grant(&self, delivery: Delivery) -> Option<&Grant<'h>> {
        self.grants.iter().find(|grant| grant.delivery() == delivery)
    }

    /// Whether something like this was wanted by hand and may have had its effect between two
    /// moments. What nobody knows of may have it any time after it began.
    pub(crate) fn meddled(&self, from: Moment, to: Moment, like: impl Fn(&Want) -> bool) -> bool {
        self.wants.iter().any(|wanted| {
            wanted.took != Took::No
                && like(wanted.want)
                && wanted.begun.is_before(&to)
                && (wanted.took == Took::Perhaps
                    || wanted.ended.is_none_or(|ended| from.is_before(&ended)))
        })
    }

    /// Whether it may have been revived by hand between two moments.
    pub(crate) fn revived(&self, from: Moment, to: Moment) -> bool {
        self.meddled(from, to, |want| *want == Want::Retry)
    }

    /// The first sight of it: a delivery, a look, a list or the dump, whatever began first.
    pub(crate) fn first_seen(&self, dump: Option<Moment>) -> Option<Moment> {
        let grants = self.grants.iter().map(|grant| grant.ended);
        let looks = self.looks.iter().filter(|look| look.job.is_some()).map(|look| look.ended);
        let dump = dump.filter(|_| self.stored.is_some());
        let listed = self.listed.map(|(at, _)| at);
        grants.chain(looks).chain(listed).chain(dump).min_by_key(|moment| moment.i)
    }
}
