//! Applying decisions: each write is one commit, with its effects on other slots in its outbox.

use std::collections::BTreeMap;

use crore_core::job::{Keep, Seen};
use crore_core::machine::{Change, Effect, Next, NextLive, NextState, ResultChange};
use crore_core::{JobId, NewJob, Time};
use crore_store::Error;
use crore_store::jobs::{Applied, Write};

use super::names::{Layout, Slot};
use super::pack::{Arg, map};
use super::plan::{Frees, Load};
use super::push::{Commit, Written, due_fields, plain_commit, read_commit};
use super::record::{spec_fields, word};
use super::rules::verdicts;
use super::together::together;
use super::{Ran, Redis};

/// A write as a commit: where, guarded by what, pushing what.
struct Step {
    slot: Slot,
    guard: Vec<(&'static str, Arg)>,
    push: Vec<NewJob>,
    parent: Option<JobId>,
    frees: Frees,
}

impl Step {
    fn load(&self) -> Load<'_> {
        Load {
            home: self.slot,
            groups: &[],
            jobs: &self.push,
            parent: self.parent,
            frees: self.frees,
        }
    }
}

/// A step that only its own slot is concerned with, and its place in the batch.
type Placed = (usize, Arg);

impl Redis {
    /// Writes without follow-ups cannot meet each other across slots, so all slots take theirs at
    /// once, one script each; as soon as one has follow-ups, they go one by one, in order.
    pub(super) async fn apply_all(&self, writes: Vec<Write>) -> Result<Vec<Applied>, Error> {
        let steps: Vec<Step> =
            writes.into_iter().map(|write| step(&self.layout, write)).collect::<Result<_, _>>()?;
        let mut written: Vec<Option<Written>> = Vec::new();
        if steps.iter().all(|step| step.push.is_empty()) {
            written = self.apply_apart(steps).await?;
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

    async fn apply_apart(&self, steps: Vec<Step>) -> Result<Vec<Option<Written>>, Error> {
        let mut slots: BTreeMap<Slot, Vec<Placed>> = BTreeMap::new();
        let mut written: Vec<Option<Written>> = Vec::new();
        for (place, step) in steps.into_iter().enumerate() {
            let op = plain_commit(&self.layout, step.guard.clone(), step.load())?;
            slots.entry(step.slot).or_default().push((place, op));
            written.push(None);
        }
        let one = |slot: Slot, placed: Vec<Placed>| async move {
            let (places, ops): (Vec<_>, Vec<_>) = placed.into_iter().unzip();
            let Ran { now, dirty, answers } = self.run(slot, ops).await?;
            let read = answers.into_iter().map(|answer| read_commit(slot, now, answer));
            let commits: Vec<_> = places.into_iter().zip(read).collect();
            Ok::<_, Error>((dirty.then_some(slot), commits))
        };
        let answers = together(slots.into_iter().map(|(slot, ops)| one(slot, ops)).collect()).await;
        let mut dirty = Vec::new();
        for answer in answers {
            let (slot, commits) = answer?;
            dirty.extend(slot);
            for (place, commit) in commits {
                if let (Commit::Yes(yes), Some(row)) = (commit?, written.get_mut(place)) {
                    *row = Some(yes);
                }
            }
        }
        self.settle(dirty).await?;
        Ok(written)
    }
}

fn step(layout: &Layout, write: Write) -> Result<Step, Error> {
    match write {
        Write::Job(change) => job_step(layout, change),
        Write::Seal(id) => {
            let guard = vec![("seal", id.0.into())];
            Ok(Step {
                slot: layout.of_group(id),
                guard,
                push: Vec::new(),
                parent: None,
                frees: Frees::default(),
            })
        }
        Write::Tick { schedule, seen, cursor, push } => {
            let tick = map! {
                "name" => schedule.as_str(), "revision" => seen.0, "cursor" => cursor.as_millis(),
            };
            Ok(Step {
                slot: layout.registry(),
                guard: vec![("tick", tick)],
                push,
                parent: None,
                frees: Frees::default(),
            })
        }
    }
}

fn job_step(layout: &Layout, change: Change) -> Result<Step, Error> {
    let slot = layout.of_job(change.id);
    let Seen { state, delivery, revision, lease_until } = change.seen;
    let seen = map! {
        "state" => word(&state)?, "delivery" => layout.tick(slot, delivery), "revision" => revision.0,
        "lease_until" => lease_until.map_or(-1, Time::as_millis),
    };
    let mut fields = vec![("id", change.id.0.into()), ("seen", seen)];
    if let Next::Live(next) = &change.next {
        fields.push(("next", next_fields(next)?));
    }
    let mut push = Vec::new();
    let frees = Frees {
        key_of: change.effects.contains(&Effect::ReleaseKey).then_some(change.id),
        removed: matches!(change.next, Next::Gone).then_some(change.id),
    };
    for effect in change.effects {
        match effect {
            Effect::ReturnPermits => fields.push(("permits", true.into())),
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
    Ok(Step { slot, guard, push, parent: Some(change.id), frees })
}

const fn state_word(state: NextState) -> &'static str {
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
        ("state", state_word(next.state).into()),
        ("attempt", i64::from(next.attempt).into()),
        ("crashes", i64::from(next.crashes).into()),
        ("stop", next.stop.into()),
        ("counted", next.counted.into()),
        ("broken", next.broken.into()),
    ];
    fields.extend(due_fields(next.due));
    if let Some(why) = &next.why {
        fields.push(("why", word(why)?.into()));
    }
    if let Some((ended, error)) = &next.ended {
        fields.push(("ended", word(ended)?.into()));
        fields.extend(error.as_ref().map(|error| ("error", format!("={error}").into())));
    }
    match &next.result {
        ResultChange::Leave => {}
        ResultChange::Drop => fields.push(("result", "drop".into())),
        ResultChange::Set(payload, keep) => {
            let (once, span) = match keep {
                Keep::Discard => (false, 0),
                Keep::Once(span) => (true, span.as_millis()),
                Keep::For(span) => (false, span.as_millis()),
            };
            fields.push(("result", "set".into()));
            fields.push(("payload", payload.bytes.to_vec().into()));
            fields.push(("encoding", word(&payload.encoding)?.into()));
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
