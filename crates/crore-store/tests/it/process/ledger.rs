//! What has to be in a store, by all that its children said, and how it is held against what is.
//!
//! What a child asked for and was not told about may have happened or not, whole: the ledger finds
//! out at the next look, and from then on it has to stay so. A tag that is settled and gone is
//! forgotten, and so a job that comes back is one that nobody pushed.

use std::collections::{BTreeMap, BTreeSet};

use crore_core::{Job, State};

use super::draft::{ATTEMPTS, Tag};
use super::dump::Dump;
use super::said::{Said, To};

/// A promise that does not hold, in words.
pub(crate) type Broken = String;

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: BTreeMap<Tag, Entry>,
    /// Pushes that are not answered, by their first tag, and how many jobs they bring.
    open: BTreeMap<Tag, u64>,
    /// Pushes that were answered with a job that was there already.
    duplicates: Vec<(Tag, u64)>,
    writes: BTreeMap<u64, (Tag, u64, To)>,
    /// All deliveries of earlier rounds are at most this.
    before: u64,
    deliveries: BTreeSet<u64>,
    pub(crate) tally: Tally,
}

/// How much was said and seen: a run that saw nothing proves nothing.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tally {
    pub(crate) pushed: u64,
    pub(crate) granted: u64,
    pub(crate) applied: u64,
    pub(crate) stale: u64,
    pub(crate) refused: u64,
    /// Pushes and writes whose answer never came, and that turn out to have happened, or not.
    pub(crate) open_kept: u64,
    pub(crate) open_lost: u64,
}

#[derive(Debug, Default)]
struct Entry {
    id: Option<u64>,
    is_pushed: bool,
    /// The last attempt of earlier rounds.
    attempt: u32,
    /// Deliveries of this round, with their attempts.
    grants: BTreeMap<u64, u32>,
    /// What became of it for sure, and the delivery after which there is none.
    settled: Option<(To, u64)>,
    /// What may have become of it.
    perhaps: Option<To>,
}

impl Ledger {
    /// Takes down what a child said.
    pub(crate) fn hear(&mut self, said: &Said) -> Result<(), Broken> {
        match said {
            Said::Ready | Said::Over(_) => Ok(()),
            Said::Broken(what) => Err(what.clone()),
            Said::Push(first, n) => {
                self.open.insert(*first, *n);
                let tags = (0..*n).map(|i| first.plus(i));
                self.entries.extend(tags.map(|tag| (tag, Entry::default())));
                Ok(())
            }
            Said::Pushed(first, ids) => self.hear_pushed(*first, ids),
            Said::Refused(first) => {
                let n = self.open.remove(first).unwrap_or_default();
                (0..n).for_each(|i| drop(self.entries.remove(&first.plus(i))));
                self.tally.refused += 1;
                Ok(())
            }
            Said::Grant(tag, id, delivery, attempt) => {
                self.hear_grant(*tag, *id, *delivery, *attempt)
            }
            Said::Write(no, tag, delivery, to) => {
                self.writes.insert(*no, (*tag, *delivery, *to));
                Ok(())
            }
            Said::Wrote(no, applied) => self.hear_wrote(*no, *applied),
        }
    }

    fn hear_pushed(&mut self, first: Tag, ids: &[(u64, bool)]) -> Result<(), Broken> {
        let n = self.open.remove(&first).unwrap_or_default();
        if n != ids.len() as u64 {
            return Err(format!("{} answers to a push of {n}", ids.len()));
        }
        for (i, (id, is_new)) in (0..).zip(ids) {
            let tag = first.plus(i);
            if *is_new {
                self.tally.pushed += 1;
                let entry = self.known(tag)?;
                entry.is_pushed = true;
                entry.learn(tag, *id)?;
            } else {
                self.entries.remove(&tag);
                self.duplicates.push((tag, *id));
            }
        }
        Ok(())
    }

    fn hear_grant(&mut self, tag: Tag, id: u64, delivery: u64, attempt: u32) -> Result<(), Broken> {
        self.tally.granted += 1;
        if delivery <= self.before || !self.deliveries.insert(delivery) {
            return Err(format!("delivery {delivery} was handed out twice (I6)"));
        }
        if !(1..=ATTEMPTS).contains(&attempt) {
            return Err(format!("{tag:?} was tried {attempt} times (I6)"));
        }
        let entry = self.known(tag)?;
        entry.learn(tag, id)?;
        entry.grants.insert(delivery, attempt);
        Ok(())
    }

    fn hear_wrote(&mut self, no: u64, applied: bool) -> Result<(), Broken> {
        let (tag, delivery, to) = self.writes.remove(&no).ok_or("an answer to nothing")?;
        if !applied {
            self.tally.stale += 1;
            return Ok(());
        }
        self.tally.applied += 1;
        let entry = self.known(tag)?;
        match (entry.settled, to) {
            (Some((To::Gone, _)), To::Gone) => Err(format!("{tag:?} was removed twice (I7)")),
            (Some((To::Ended, _)), To::Ended) => Err(format!("{tag:?} has ended twice (I7)")),
            (_, To::Live) => Ok(()),
            (settled, to) => {
                let was = settled.unwrap_or((To::Live, 0));
                entry.settled = Some(was.max((to, delivery)));
                Ok(())
            }
        }
    }

    fn known(&mut self, tag: Tag) -> Result<&mut Entry, Broken> {
        self.entries.get_mut(&tag).ok_or_else(|| {
            format!("{tag:?} was never pushed, or was settled and came back (I2, I3, I7)")
        })
    }

    /// Holds what is there against what was said, and settles what was open.
    pub(crate) fn check(&mut self, dump: &Dump) -> Result<(), Broken> {
        for (_, (tag, _, to)) in std::mem::take(&mut self.writes) {
            let entry = self.known(tag)?;
            entry.perhaps = entry.perhaps.max(Some(to));
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
        self.before = self.before.max(self.deliveries.last().copied().unwrap_or_default());
        self.deliveries.clear();
        match faults.as_slice() {
            [] => Ok(()),
            [first, ..] => Err(format!("{first}, and {} others", faults.len() - 1)),
        }
    }

    /// The jobs by their tags: each of them asked for, once, and not a bit of it changed.
    fn find<'a>(&mut self, dump: &'a Dump) -> Result<BTreeMap<Tag, &'a Job>, Broken> {
        let mut found = BTreeMap::new();
        for job in &dump.jobs {
            let tag = Tag::of(job).ok_or_else(|| format!("{:?} has lost its tag (I4)", job.id))?;
            self.known(tag)?.learn(tag, job.id.0)?;
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

    /// A push that was not answered is there whole, or not at all.
    fn settle_pushes(&mut self, found: &BTreeMap<Tag, &Job>) -> Result<(), Broken> {
        for (first, n) in std::mem::take(&mut self.open) {
            let tags = || (0..n).map(|i| first.plus(i));
            let seen = |tag: &Tag| {
                found.contains_key(tag) || self.entries.get(tag).is_some_and(Entry::was_seen)
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
                    self.known(tag)?.is_pushed = true;
                }
            }
        }
        Ok(())
    }

    /// A push that was answered with another job has the same key as that one.
    fn check_duplicates(&mut self) -> Result<(), Broken> {
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

impl Entry {
    /// Whether somebody had it in his hands, so that it was there.
    const fn was_seen(&self) -> bool {
        self.id.is_some() || self.settled.is_some() || self.perhaps.is_some()
    }

    fn learn(&mut self, tag: Tag, id: u64) -> Result<(), Broken> {
        match self.id.replace(id) {
            Some(was) if was != id => Err(format!("{tag:?} is job {was} and job {id} (I4)")),
            _ => Ok(()),
        }
    }

    /// Whether the entry is to be kept.
    fn check(&mut self, job: Option<&Job>, tally: &mut Tally) -> Result<bool, Broken> {
        self.check_grants()?;
        let settled = self.settled.map_or(To::Live, |(to, _)| to);
        let may_be = self.perhaps.take().unwrap_or(To::Live).max(settled);
        let is = match job {
            None => To::Gone,
            Some(job) if job.live.state.has_ended() => To::Ended,
            Some(_) => To::Live,
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
        self.settled = (is == To::Ended).then_some((To::Ended, 0));
        Ok(is != To::Gone)
    }

    fn check_grants(&mut self) -> Result<(), Broken> {
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

/// No two jobs that have not ended have the same unique key.
fn check_keys(dump: &Dump) -> Result<(), Broken> {
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

/// What is counted is what is listed.
fn check_counts(dump: &Dump) -> Result<(), Broken> {
    let mut listed: BTreeMap<State, u64> = BTreeMap::new();
    dump.jobs.iter().for_each(|job| *listed.entry(job.live.state).or_default() += 1);
    let counts = dump.counts.iter().filter(|(_, n)| **n > 0);
    if !listed.iter().eq(counts) {
        return Err(format!("{:?} are counted and {listed:?} are there (I19)", dump.counts));
    }
    Ok(())
}
