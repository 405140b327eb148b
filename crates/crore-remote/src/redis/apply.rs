//! Applies decisions. Each write is one commit; effects on other slots go to its outbox.

use std::collections::BTreeMap;

use crore_core::group::JobOrigin;
use crore_core::job::{ResultRetention, Seen};
use crore_core::machine::{Change, Effect, NextLive, NextRecord, NextState, ResultChange};
use crore_core::{JobId, NewJob, Time};
use crore_store::Error;
use crore_store::jobs::{Applied, StoreWrite};

use super::join_all::join_all;
use super::names::{Layout, SlotIndex};
use super::pack::{Arg, map};
use super::plan::{FreedLocks, PushInput};
use super::push::{Commit, Written, due_fields, read_commit, single_slot_commit};
use super::record::{spec_fields, variant_name};
use super::reply::corrupt;
use super::rules::verdicts;
use super::{Redis, ScriptRun};

/// A write as a commit: its slot, its guard and the jobs that it pushes.
struct ApplyStep {
    slot: SlotIndex,
    guard: Vec<(&'static str, Arg)>,
    push: Vec<NewJob>,
    parent: Option<JobId>,
    frees: FreedLocks,
}

impl ApplyStep {
    fn load(&self) -> PushInput<'_> {
        PushInput {
            home: self.slot,
            groups: &[],
            jobs: &self.push,
            parent: self.parent,
            origin: self.parent.map_or(JobOrigin::Tick, |_| JobOrigin::FollowUp(None)),
            freed: self.frees,
        }
    }
}

/// An operation and its index in the batch, for writes that concern only their own slot.
type IndexedOp = (usize, Arg);

impl Redis {
    /// Without follow-ups, writes in different slots are independent, so all slots run in parallel, one
    /// script each. If any write has follow-ups, all run one by one, in order.
    pub(super) async fn apply_all(&self, writes: Vec<StoreWrite>) -> Result<Vec<Applied>, Error> {
        let steps: Vec<ApplyStep> =
            writes.into_iter().map(|write| step(&self.layout, write)).collect::<Result<_, _>>()?;
        let mut written: Vec<Option<Written>> = Vec::new();
        if steps.iter().all(|step| step.push.is_empty()) {
            written = self.apply_per_slot(steps).await?;
        } else {
            for step in steps {
                written.push(self.commit(step.guard.clone(), step.load()).await?);
            }
        }
        self.return_permits(written.iter().flatten().filter_map(|w| w.permits.as_ref())).await;
        Ok(written
            .into_iter()
            .map(|w| w.map_or(Applied::Stale, |w| Applied::Yes(w.jobs)))
            .collect())
    }

    async fn apply_per_slot(&self, steps: Vec<ApplyStep>) -> Result<Vec<Option<Written>>, Error> {
        let mut slots: BTreeMap<SlotIndex, Vec<IndexedOp>> = BTreeMap::new();
        let mut written: Vec<Option<Written>> = Vec::new();
        for (index, step) in steps.into_iter().enumerate() {
            let op = single_slot_commit(&self.layout, step.guard.clone(), step.load())?;
            slots.entry(step.slot).or_default().push((index, op));
            written.push(None);
        }
        let one = |slot: SlotIndex, indexed: Vec<IndexedOp>| async move {
            let (indexes, ops): (Vec<_>, Vec<_>) = indexed.into_iter().unzip();
            let ScriptRun { now, dirty, replies: answers } = self.run(slot, ops).await?;
            let read = answers.into_iter().map(|answer| read_commit(slot, now, answer));
            let commits: Vec<_> = indexes.into_iter().zip(read).collect();
            Ok::<_, Error>((dirty.then_some(slot), commits))
        };
        let answers = join_all(slots.into_iter().map(|(slot, ops)| one(slot, ops)).collect()).await;
        let mut dirty = Vec::new();
        for answer in answers {
            let (slot, commits) = answer?;
            dirty.extend(slot);
            for (index, commit) in commits {
                if let (Commit::Yes(yes), Some(row)) = (commit?, written.get_mut(index)) {
                    *row = Some(yes);
                }
            }
        }
        self.deliver_after_commit(dirty).await?;
        Ok(written)
    }
}

fn step(layout: &Layout, write: StoreWrite) -> Result<ApplyStep, Error> {
    match write {
        StoreWrite::Job(change) => job_step(layout, change),
        StoreWrite::Seal(id) => {
            let guard = vec![("seal", id.0.into())];
            Ok(ApplyStep {
                slot: layout.of_group(id),
                guard,
                push: Vec::new(),
                parent: None,
                frees: FreedLocks::default(),
            })
        }
        // Refused before.
        StoreWrite::ResumeKeys { .. } => Ok(ApplyStep {
            slot: layout.registry(),
            guard: Vec::new(),
            push: Vec::new(),
            parent: None,
            frees: FreedLocks::default(),
        }),
        StoreWrite::Tick { schedule, seen, cursor, push } => {
            let tick = map! {
                "name" => schedule.as_str(), "revision" => seen.0, "cursor" => cursor.as_millis(),
            };
            Ok(ApplyStep {
                slot: layout.registry(),
                guard: vec![("tick", tick)],
                push,
                parent: None,
                frees: FreedLocks::default(),
            })
        }
    }
}

fn job_step(layout: &Layout, change: Change) -> Result<ApplyStep, Error> {
    let slot = layout.of_job(change.id);
    let Seen { state, delivery, revision, lease_until } = change.seen;
    let seen = map! {
        "state" => variant_name(&state)?, "delivery" => layout.tick(slot, delivery), "revision" => revision.0,
        "lease_until" => lease_until.map_or(-1, Time::as_millis),
    };
    let mut fields = vec![("id", change.id.0.into()), ("seen", seen)];
    if let NextRecord::Live(next) = &change.next {
        fields.push(("next", next_fields(next)?));
    }
    let mut push = Vec::new();
    let frees = FreedLocks {
        key_of: change.effects.contains(&Effect::ReleaseKey).then_some(change.id),
        removed: matches!(change.next, NextRecord::Gone).then_some(change.id),
    };
    for effect in change.effects {
        match effect {
            Effect::ReturnPermits => fields.push(("permits", true.into())),
            // No limit counts costs, and a pause is refused before.
            Effect::CorrectCost { .. } | Effect::PauseKey { .. } => {}
            Effect::ReleaseKey => fields.push(("unlock", true.into())),
            Effect::Tally(tally) => {
                let counts = [tally.size, tally.ran, tally.succeeded, i8::from(tally.lost)];
                fields.push(("tally", Arg::list(counts.map(i64::from))));
            }
            Effect::Settle(settled) => {
                let verdicts = verdicts(|needs| settled.satisfaction(needs));
                let verdicts = verdicts.into_iter().map(|(needs, verdict)| (needs, verdict.into()));
                fields.push(("settle", Arg::Map(verdicts.collect())));
            }
            Effect::Push(jobs) => push.extend(jobs),
        }
    }
    let guard = vec![("change", Arg::Map(fields))];
    Ok(ApplyStep { slot, guard, push, parent: Some(change.id), frees })
}

const fn state_name(state: NextState) -> &'static str {
    match state {
        NextState::Pending => "pending",
        NextState::Running => "running",
        NextState::Done => "done",
        NextState::Dead => "dead",
        NextState::Cancelled => "cancelled",
    }
}

fn next_fields(next: &NextLive) -> Result<Arg, Error> {
    let mut fields = vec![
        ("state", state_name(next.state).into()),
        ("attempt", i64::from(next.attempt).into()),
        ("crashes", i64::from(next.crashes).into()),
        ("stop", next.stop.into()),
        ("counted", next.counted.into()),
        ("broken", next.broken.into()),
    ];
    fields.extend(due_fields(next.due));
    if let Some(why) = &next.why {
        fields.push(("why", variant_name(why)?.into()));
    }
    if let Some((ended, error)) = &next.ended {
        fields.push(("ended", variant_name(ended)?.into()));
        fields.extend(error.as_ref().map(|error| ("error", format!("={error}").into())));
        if !next.details.is_empty() {
            let details = serde_json::to_string(&next.details);
            let details = details.map_err(|e| corrupt(e.to_string()))?;
            fields.push(("details", details.into()));
        }
    }
    match &next.result {
        ResultChange::Leave => {}
        ResultChange::Drop => fields.push(("result", "drop".into())),
        ResultChange::Set(payload, keep) => {
            let (once, span) = match keep {
                ResultRetention::Discard => (false, 0),
                ResultRetention::Once(span) => (true, span.as_millis()),
                ResultRetention::For(span) => (false, span.as_millis()),
            };
            fields.push(("result", "set".into()));
            fields.push(("payload", payload.bytes.to_vec().into()));
            fields.push(("encoding", variant_name(&payload.encoding)?.into()));
            fields.push(("span", span.min(Time::MAX.as_millis().unsigned_abs()).into()));
            fields.push(("once", once.into()));
        }
    }
    if let Some(spec) = &next.spec {
        fields.extend(spec_fields(spec)?);
        fields.push(("bytes", spec.payload.bytes.to_vec().into()));
    }
    Ok(Arg::Map(fields))
}
