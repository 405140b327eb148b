//! Queues: their jobs by state, and their settings.

use std::collections::BTreeMap;
use std::sync::Arc;

use crore::store::registry::{QueueSettings, RegistryEntry, RegistryValue};
use crore::store::views::{JobCount, ShareCount};
use crore_core::fair::{FairField, FairShare};
use crore_core::index::MAX_INDEXED_FIELDS;
use crore_core::{Code, IndexedField, Invalid, Name, QueueIndex};
use crore_wire::api::marks::{MarkAction, MarkKind};
use crore_wire::api::queues::{
    ChangeQueue, Drained, Queue, QueueIndexField, QueueShare, Queues, QueuesQuery, ShareSize,
};
use crore_wire::units::{Moment, Period};

use crate::if_match::{IfMatch, Tagged, tag_of};
use crate::{Api, Fault, Grant, cursor};

/// The largest integer that every JSON parser reads exactly.
const MAX_COUNT: u64 = (1 << 53) - 1;

/// Default page size.
const DEFAULT_PAGE: usize = 1000;

/// Number of values of a shared queue in a response.
const MAX_SHARES: usize = 10;

/// Number of jobs by state.
type States = BTreeMap<String, u64>;

impl Api {
    /// A page of the queues that have jobs or settings, by name, as far as the caller may see them. The numbers are those
    /// of [`Api::recent_counts`].
    pub async fn list_queues(&self, grant: &Grant, which: QueuesQuery) -> Result<Queues, Fault> {
        let max = self.engine().status().caps().page;
        let limit = which.limit.unwrap_or(DEFAULT_PAGE.min(max));
        if limit == 0 || limit > max {
            let message = format!("`{limit}` is out of range: 1 to {max}");
            return Err(Invalid::new(Code::CountRange, "limit", message).into());
        }
        let after = which.cursor.map(|cursor| cursor::decode_name(&cursor)).transpose()?;
        let mut queues: BTreeMap<Name, (QueueSettings, States)> = BTreeMap::new();
        let is_later = |name: &Name| after.as_ref().is_none_or(|after| name > after);
        for entry in self.engine().queues().list().await? {
            if let RegistryValue::Queue(settings) = entry.value
                && is_later(&entry.name)
                && grant.only().is_none_or(|only| only.covers_queue(&entry.name))
            {
                queues.insert(entry.name, (settings, States::new()));
            }
        }
        let counts = self.recent_counts(grant).await?;
        let (_, later) = counts.split_at(counts.partition_point(|count| !is_later(&count.queue)));
        // One more than fits, so that a next page is noticed.
        for of_queue in later.chunk_by(|one, next| one.queue == next.queue).take(limit + 1) {
            let [first, ..] = of_queue else { continue };
            let states = &mut queues.entry(first.queue.clone()).or_default().1;
            of_queue.iter().for_each(|count| add(states, count));
        }
        let rest = queues.keys().nth(limit).cloned().map(|name| queues.split_off(&name));
        let next = rest.and_then(|_| queues.keys().next_back().map(cursor::encode_name));
        let sees_ages = grant.only().is_none_or(|only| only.kinds().is_empty());
        let ages = match sees_ages {
            true => self.engine().queues().oldest_ready(queues.keys().cloned().collect()).await?,
            false => Vec::new(),
        };
        let workers = self.queue_workers();
        let ages = ages.into_iter().chain(std::iter::repeat(None));
        let shown = queues.into_iter().zip(ages).map(|((name, (settings, states)), age)| {
            let mut shown = queue(&name, &settings, states);
            shown.oldest_at = age.map(Moment);
            workers.of(name.as_str()).add_to(&mut shown);
            shown
        });
        Ok(Queues { queues: shown.collect(), next })
    }

    /// A queue. A queue that was never used is empty and has default settings.
    pub async fn get_queue(&self, grant: &Grant, name: &Name) -> Result<Tagged<Queue>, Fault> {
        let mut states = States::new();
        for count in self.counts(grant, Some(name.as_str())).await? {
            add(&mut states, &count);
        }
        let settings = self.engine().queues().get(name).await?;
        let tag = self.engine().queues().entry(name).await?.as_ref().map(tag_of);
        let mut value = queue(name, &settings, states);
        self.queue_workers().of(name.as_str()).add_to(&mut value);
        if grant.check_whole_queue(name).is_ok() {
            let queues = self.engine().queues();
            let oldest = queues.oldest_ready(vec![name.clone()]).await?;
            value.oldest_at = oldest.into_iter().next().flatten().map(Moment);
            if settings.fair.is_some() {
                let shares = queues.largest_shares(name.clone(), MAX_SHARES).await?;
                value.shares = shares.into_iter().map(share_size).collect();
            }
        }
        Ok(Tagged { value, tag })
    }

    /// Changes settings of a queue.
    pub async fn change_queue(
        &self,
        grant: &Grant,
        name: &Name,
        changes: ChangeQueue,
        if_match: &IfMatch,
    ) -> Result<Tagged<Queue>, Fault> {
        grant.check_whole_queue(name)?;
        for (field, n) in [("max_done", changes.max_done), ("max_dead", changes.max_dead)] {
            if n.flatten().is_some_and(|n| n > MAX_COUNT) {
                let message = format!("must be at most {MAX_COUNT}, or `null` for no limit");
                return Err(Invalid::new(Code::CountRange, field, message).into());
            }
        }
        let fair = changes.fair.map(|fair| fair.map(share_of).transpose()).transpose()?;
        let index = changes.index.map(|fields| index_of(fields.as_deref())).transpose()?;
        if let Some(Some(share)) = &fair
            && let FairField::Field(field) = &share.by
        {
            self.mask().check_names("fair.by", field.names())?;
        }
        for field in index.iter().flatten().flat_map(|index| index.fields()) {
            self.mask().check_names("index", field.names())?;
        }
        let or_unlimited = |n: Option<u64>| n.unwrap_or(u64::MAX);
        let change = move |settings: &mut QueueSettings| {
            settings.keep_done = changes.keep_done.map_or(settings.keep_done, |keep| keep.0);
            settings.max_done = changes.max_done.map_or(settings.max_done, or_unlimited);
            settings.keep_dead = changes.keep_dead.map_or(settings.keep_dead, |keep| keep.0);
            settings.max_dead = changes.max_dead.map_or(settings.max_dead, or_unlimited);
            if let Some(fair) = &fair {
                settings.fair.clone_from(fair);
            }
            if let Some(index) = &index {
                settings.index.clone_from(index);
            }
        };
        let before = self.engine().queues().get(name).await?;
        let accepts = |entry: Option<&RegistryEntry>| if_match.accepts(entry);
        if !self.engine().queues().change_if(name.clone(), change, accepts).await? {
            return Err(IfMatch::failed(&format!("queue `{name}`")));
        }
        if self.engine().queues().get(name).await? != before {
            self.mark_queue(grant, name, MarkAction::Change);
        }
        self.get_queue(grant, name).await
    }

    /// Pauses a queue: its jobs are not delivered; running jobs continue.
    pub async fn pause_queue(&self, grant: &Grant, name: &Name) -> Result<Tagged<Queue>, Fault> {
        grant.check_whole_queue(name)?;
        self.pause_and_mark(grant, name).await?;
        self.get_queue(grant, name).await
    }

    async fn pause_and_mark(&self, grant: &Grant, name: &Name) -> Result<(), Fault> {
        let was_paused = self.engine().queues().get(name).await?.paused;
        self.engine().queues().pause(name.clone()).await?;
        if !was_paused {
            self.mark_queue(grant, name, MarkAction::Pause);
        }
        Ok(())
    }

    fn mark_queue(&self, grant: &Grant, name: &Name, action: MarkAction) {
        self.marks().changed(self.now(), (MarkKind::Queue, name), action, grant);
    }

    /// Resumes a queue.
    pub async fn resume_queue(&self, grant: &Grant, name: &Name) -> Result<Tagged<Queue>, Fault> {
        grant.check_whole_queue(name)?;
        let was_paused = self.engine().queues().get(name).await?.paused;
        self.engine().queues().resume(name.clone()).await?;
        if was_paused {
            self.mark_queue(grant, name, MarkAction::Resume);
        }
        self.get_queue(grant, name).await
    }

    /// Pauses a queue, and waits until none of its jobs runs.
    pub async fn drain_queue(
        &self,
        grant: &Grant,
        name: Name,
        wait: Option<Period>,
    ) -> Result<Drained, Fault> {
        grant.check_whole_queue(&name)?;
        // The queue is paused in any case, even if the wait ends early.
        self.pause_and_mark(grant, &name).await?;
        let drained = tokio::select! {
            drained = self.engine().queues().drain(name, self.bounded_wait(wait)) => drained?,
            () = self.closing() => false,
        };
        Ok(Drained { drained })
    }
}

fn add(states: &mut States, count: &JobCount) {
    *states.entry(count.state.word().to_owned()).or_default() += count.n;
}

/// The checked share of a request.
fn share_of(share: QueueShare) -> Result<Arc<FairShare>, Invalid> {
    let share = FairShare { by: FairField::parse(&share.by)?, weights: share.weights };
    share.check()?;
    Ok(Arc::new(share))
}

fn shown_share(share: &FairShare) -> QueueShare {
    QueueShare { by: share.by.to_string(), weights: share.weights.clone() }
}

/// The checked index of a request; `None`: no field is indexed.
fn index_of(fields: Option<&[String]>) -> Result<Option<Arc<QueueIndex>>, Invalid> {
    let Some(fields) = fields.filter(|fields| !fields.is_empty()) else { return Ok(None) };
    if fields.len() > MAX_INDEXED_FIELDS {
        let n = fields.len();
        let message = format!("{n} fields, at most {MAX_INDEXED_FIELDS} are allowed");
        return Err(Invalid::new(Code::CountRange, "index", message));
    }
    let fields: Result<_, Invalid> = fields.iter().map(|text| IndexedField::parse(text)).collect();
    QueueIndex::new(fields?).map(|index| Some(Arc::new(index)))
}

fn shown_index(index: &QueueIndex) -> Vec<QueueIndexField> {
    let shown = |field: &IndexedField| QueueIndexField {
        field: field.to_string(),
        complete: index.is_complete_for(field),
    };
    index.fields().iter().map(shown).collect()
}

fn queue(name: &Name, settings: &QueueSettings, counts: States) -> Queue {
    Queue {
        name: name.to_string(),
        paused: settings.paused,
        counts,
        keep_done: Period(settings.keep_done),
        max_done: Some(settings.max_done).filter(|n| *n < u64::MAX),
        keep_dead: Period(settings.keep_dead),
        max_dead: Some(settings.max_dead).filter(|n| *n < u64::MAX),
        fair: settings.fair.as_deref().map(shown_share),
        index: settings.index.as_deref().map(shown_index).unwrap_or_default(),
        oldest_at: None,
        workers: 0,
        slots: 0,
        busy_slots: 0,
        shares: Vec::new(),
    }
}

fn share_size(share: ShareCount) -> ShareSize {
    let ShareCount { key, weight, ready } = share;
    ShareSize { value: key.as_str().to_owned(), weight, ready }
}
