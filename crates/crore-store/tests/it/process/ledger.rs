//! The expected content of a store, from the messages of its children, and the check against its
//! real content.
//!
//! A request without an answer may have taken effect entirely or not at all: the next check finds
//! out, and from then on it must stay so. A settled and removed tag is forgotten, so a job that
//! comes back counts as one that nobody pushed.

use std::collections::{BTreeMap, BTreeSet};

use crore_core::{Job, State};

use super::draft::{ATTEMPTS, Tag};
use super::dump::Dump;
use super::message::{ChildMessage, WriteTarget};

/// Description of a broken promise.
pub(crate) type BrokenPromise = String;

#[derive(Debug, Default)]
pub(crate) struct JobLedger {
    entries: BTreeMap<Tag, LedgerEntry>,
    /// Pushes without an answer, by first tag, with their number of jobs.
    unanswered: BTreeMap<Tag, u64>,
    /// Pushes answered with an existing job.
    duplicates: Vec<(Tag, u64)>,
    writes: BTreeMap<u64, (Tag, u64, WriteTarget)>,
    /// Upper bound of all deliveries of earlier rounds.
    last_delivery: u64,
    deliveries: BTreeSet<u64>,
    pub(crate) tally: EventTally,
}

/// Number of recorded events: a run without any proves nothing.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct EventTally {
    pub(crate) pushed: u64,
    pub(crate) granted: u64,
    pub(crate) applied: u64,
    pub(crate) stale: u64,
    pub(crate) refused: u64,
    /// Requests without an answer that took effect, and that did not.
    pub(crate) open_kept: u64,
    pub(crate) open_lost: u64,
}

#[derive(Debug, Default)]
struct LedgerEntry {
    id: Option<u64>,
    is_pushed: bool,
    /// The last attempt of earlier rounds.
    attempt: u32,
    /// Deliveries of this round, with their attempts.
    grants: BTreeMap<u64, u32>,
    /// The confirmed outcome, and the delivery after which there is none.
    settled: Option<(WriteTarget, u64)>,
    /// The possible outcome of an unanswered write.
    possible: Option<WriteTarget>,
}

impl JobLedger {
    /// Records a message of a child.
    pub(crate) fn record(&mut self, message: &ChildMessage) -> Result<(), BrokenPromise> {
        match message {
            ChildMessage::Ready | ChildMessage::GaveUp(_) => Ok(()),
            ChildMessage::Broken(what) => Err(what.clone()),
            ChildMessage::Push(first, n) => {
                self.unanswered.insert(*first, *n);
                let tags = (0..*n).map(|i| first.plus(i));
                self.entries.extend(tags.map(|tag| (tag, LedgerEntry::default())));
                Ok(())
            }
            ChildMessage::Pushed(first, ids) => self.record_pushed(*first, ids),
            ChildMessage::Refused(first) => {
                let n = self.unanswered.remove(first).unwrap_or_default();
                (0..n).for_each(|i| drop(self.entries.remove(&first.plus(i))));
                self.tally.refused += 1;
                Ok(())
            }
            ChildMessage::Grant(tag, id, delivery, attempt) => {
                self.record_grant(*tag, *id, *delivery, *attempt)
            }
            ChildMessage::Write(no, tag, delivery, to) => {
                self.writes.insert(*no, (*tag, *delivery, *to));
                Ok(())
            }
            ChildMessage::Wrote(no, applied) => self.record_wrote(*no, *applied),
        }
    }

    fn record_pushed(&mut self, first: Tag, ids: &[(u64, bool)]) -> Result<(), BrokenPromise> {
        let n = self.unanswered.remove(&first).unwrap_or_default();
        if n != ids.len() as u64 {
            return Err(format!("{} answers to a push of {n}", ids.len()));
        }
        for (i, (id, is_new)) in (0..).zip(ids) {
            let tag = first.plus(i);
            if *is_new {
                self.tally.pushed += 1;
                let entry = self.entry(tag)?;
                entry.is_pushed = true;
                entry.set_id(tag, *id)?;
            } else {
                self.entries.remove(&tag);
                self.duplicates.push((tag, *id));
            }
        }
        Ok(())
    }

    fn record_grant(
        &mut self,
        tag: Tag,
        id: u64,
        delivery: u64,
        attempt: u32,
    ) -> Result<(), BrokenPromise> {
        self.tally.granted += 1;
        if delivery <= self.last_delivery || !self.deliveries.insert(delivery) {
            return Err(format!("delivery {delivery} was handed out twice (I6)"));
        }
        if !(1..=ATTEMPTS).contains(&attempt) {
            return Err(format!("{tag:?} was tried {attempt} times (I6)"));
        }
        let entry = self.entry(tag)?;
        entry.set_id(tag, id)?;
        entry.grants.insert(delivery, attempt);
        Ok(())
    }

    fn record_wrote(&mut self, no: u64, applied: bool) -> Result<(), BrokenPromise> {
        let (tag, delivery, to) = self.writes.remove(&no).ok_or("an answer to nothing")?;
        if !applied {
            self.tally.stale += 1;
            return Ok(());
        }
        self.tally.applied += 1;
        let entry = self.entry(tag)?;
        match (entry.settled, to) {
            (Some((WriteTarget::Gone, _)), WriteTarget::Gone) => {
                Err(format!("{tag:?} was removed twice (I7)"))
            }
            (Some((WriteTarget::Ended, _)), WriteTarget::Ended) => {
                Err(format!("{tag:?} has ended twice (I7)"))
            }
            (_, WriteTarget::Live) => Ok(()),
            (settled, to) => {
                let was = settled.unwrap_or((WriteTarget::Live, 0));
                entry.settled = Some(was.max((to, delivery)));
                Ok(())
            }
        }
    }

    fn entry(&mut self, tag: Tag) -> Result<&mut LedgerEntry, BrokenPromise> {
        self.entries.get_mut(&tag).ok_or_else(|| {
            format!("{tag:?} was never pushed, or was settled and came back (I2, I3, I7)")
        })
    }

    /// Compares the store with the messages, and settles unanswered requests.
    pub(crate) fn check(&mut self, dump: &Dump) -> Result<(), BrokenPromise> {
        for (_, (tag, _, to)) in std::mem::take(&mut self.writes) {
            let entry = self.entry(tag)?;
            entry.possible = entry.possible.max(Some(to));
        }
        let found = self.find(dump)?;
        self.settle_pushes(&found)?;
        check_keys(dump)?;
        check_counts(dump)?;
        self.check_duplicates()?;
        let tally = &mut self.tally;
        let mut faults = Vec::new();
        self.entries.retain(|tag, entry| match entry.check(found.get(tag).copied(), tally) {
            Ok(stays) => stays,
            Err(why) => {
                faults.push(format!("{tag:?} (job {:?}) {why}", entry.id));
                true
            }
        });
        self.last_delivery =
            self.last_delivery.max(self.deliveries.last().copied().unwrap_or_default());
        self.deliveries.clear();
        match faults.as_slice() {
            [] => Ok(()),
            [first, ..] => Err(format!("{first}, and {} others", faults.len() - 1)),
        }
    }

    /// The jobs by tag: each was requested, exists once, and is unchanged.
    fn find<'a>(&mut self, dump: &'a Dump) -> Result<BTreeMap<Tag, &'a Job>, BrokenPromise> {
        let mut found = BTreeMap::new();
        for job in &dump.jobs {
            let tag = Tag::of(job).ok_or_else(|| format!("{:?} has lost its tag (I4)", job.id))?;
            self.entry(tag)?.set_id(tag, job.id.0)?;
            if *job.spec != tag.draft().spec {
                return Err(format!("{tag:?} has changed: {:?} (I4)", job.spec));
            }
            if job.live.result.as_ref().is_some_and(|kept| kept.payload != tag.result()) {
                return Err(format!("the result of {tag:?} has changed (I4)"));
            }
            if found.insert(tag, job).is_some() {
                return Err(format!("{tag:?} is there twice"));
            }
        }
        Ok(found)
    }

    /// An unanswered push is there entirely or not at all.
    fn settle_pushes(&mut self, found: &BTreeMap<Tag, &Job>) -> Result<(), BrokenPromise> {
        for (first, n) in std::mem::take(&mut self.unanswered) {
            let tags = || (0..n).map(|i| first.plus(i));
            let seen = |tag: &Tag| {
                found.contains_key(tag) || self.entries.get(tag).is_some_and(LedgerEntry::was_seen)
            };
            let there = tags().filter(seen).count() as u64;
            if there != 0 && there != n {
                return Err(format!("{there} of the {n} jobs of batch {first:?} are there (I17)"));
            }
            let outcome =
                if there == 0 { &mut self.tally.open_lost } else { &mut self.tally.open_kept };
            *outcome += 1;
            for tag in tags() {
                if there == 0 {
                    self.entries.remove(&tag);
                } else {
                    self.entry(tag)?.is_pushed = true;
                }
            }
        }
        Ok(())
    }

    /// A push answered with another job has the same key as that job.
    fn check_duplicates(&mut self) -> Result<(), BrokenPromise> {
        let tags: BTreeMap<u64, Tag> =
            self.entries.iter().filter_map(|(tag, entry)| Some((entry.id?, *tag))).collect();
        for (tag, id) in std::mem::take(&mut self.duplicates) {
            let holder = tags.get(&id).map(|tag| tag.draft().spec.unique);
            if holder != Some(tag.draft().spec.unique) {
                return Err(format!("{tag:?} was taken for job {id}, which has another key (I9)"));
            }
        }
        Ok(())
    }
}

impl LedgerEntry {
    /// Whether a worker has seen the job, so that it existed.
    const fn was_seen(&self) -> bool {
        self.id.is_some() || self.settled.is_some() || self.possible.is_some()
    }

    fn set_id(&mut self, tag: Tag, id: u64) -> Result<(), BrokenPromise> {
        match self.id.replace(id) {
            Some(was) if was != id => Err(format!("{tag:?} is job {was} and job {id} (I4)")),
            _ => Ok(()),
        }
    }

    /// Checks the job; returns whether to keep the entry.
    fn check(&mut self, job: Option<&Job>, tally: &mut EventTally) -> Result<bool, BrokenPromise> {
        self.check_grants()?;
        let settled = self.settled.map_or(WriteTarget::Live, |(to, _)| to);
        let may_be = self.possible.take().unwrap_or(WriteTarget::Live).max(settled);
        let is = match job {
            None => WriteTarget::Gone,
            Some(job) if job.live.state.has_ended() => WriteTarget::Ended,
            Some(_) => WriteTarget::Live,
        };
        if is > may_be {
            return Err(format!(
                "was pushed and is {is:?}, though nothing asked for more than {may_be:?} (I1)"
            ));
        }
        if is < settled {
            return Err(format!("was {settled:?} and is {is:?} again (I7)"));
        }
        if may_be > settled {
            let outcome = if is == may_be { &mut tally.open_kept } else { &mut tally.open_lost };
            *outcome += 1;
        }
        if let Some(job) = job.filter(|job| job.live.state == State::Done)
            && job.live.result.is_none()
        {
            return Err("is done and has lost its result (I12)".to_owned());
        }
        self.settled = (is == WriteTarget::Ended).then_some((WriteTarget::Ended, 0));
        Ok(is != WriteTarget::Gone)
    }

    fn check_grants(&mut self) -> Result<(), BrokenPromise> {
        let last = self.grants.last_key_value().map_or(0, |(delivery, _)| *delivery);
        if let Some((to, delivery)) = self.settled
            && last > delivery
        {
            return Err(format!(
                "was {to:?} after delivery {delivery} and handed out as {last} (I7)"
            ));
        }
        for (delivery, attempt) in std::mem::take(&mut self.grants) {
            if attempt < self.attempt {
                return Err(format!(
                    "was tried {} times, and delivery {delivery} says {attempt} (I6)",
                    self.attempt
                ));
            }
            self.attempt = attempt;
        }
        Ok(())
    }
}

/// No two unfinished jobs have the same unique key.
fn check_keys(dump: &Dump) -> Result<(), BrokenPromise> {
    let mut keys = BTreeSet::new();
    for job in dump.jobs.iter().filter(|job| !job.live.state.has_ended()) {
        if let Some(unique) = &job.spec.unique
            && !keys.insert(&unique.key)
        {
            return Err(format!("{} has two jobs (I9)", unique.key));
        }
    }
    Ok(())
}

/// Counts match lists.
fn check_counts(dump: &Dump) -> Result<(), BrokenPromise> {
    let mut listed: BTreeMap<State, u64> = BTreeMap::new();
    dump.jobs.iter().for_each(|job| *listed.entry(job.live.state).or_default() += 1);
    let counts = dump.counts.iter().filter(|(_, n)| **n > 0);
    if !listed.iter().eq(counts) {
        return Err(format!("{:?} are counted and {listed:?} are there (I19)", dump.counts));
    }
    Ok(())
}
