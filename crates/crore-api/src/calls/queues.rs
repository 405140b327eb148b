//! Queues: their jobs by state, and their settings.

use std::collections::BTreeMap;

use crore::store::registry::{QueueSettings, Value};
use crore::store::views::Count;
use crore_core::{Code, Invalid, Name};
use crore_wire::api::queues::{ChangeQueue, Drained, Queue, Queues};
use crore_wire::api::words;
use crore_wire::words::Period;

use crate::{Api, Fault};

/// The largest integer that every JSON reader keeps exactly.
const MAX_COUNT: u64 = (1 << 53) - 1;

/// Number of jobs by state.
type States = BTreeMap<String, u64>;

impl Api {
    /// All queues that have jobs or settings.
    pub async fn list_queues(&self) -> Result<Queues, Fault> {
        let mut queues: BTreeMap<Name, (QueueSettings, States)> = BTreeMap::new();
        for entry in self.engine().queues().list().await? {
            if let Value::Queue(settings) = entry.value {
                queues.insert(entry.name, (settings, States::new()));
            }
        }
        for count in self.engine().jobs().counts(None).await? {
            add(&mut queues.entry(count.queue.clone()).or_default().1, &count);
        }
        let queue = |(name, (settings, states)): (Name, _)| queue(&name, &settings, states);
        Ok(Queues { queues: queues.into_iter().map(queue).collect() })
    }

    /// A queue. A queue that was never used is empty and has default settings.
    pub async fn get_queue(&self, name: &Name) -> Result<Queue, Fault> {
        let settings = self.engine().queues().get(name).await?;
        let mut states = States::new();
        for count in self.engine().jobs().counts(Some(name.clone())).await? {
            add(&mut states, &count);
        }
        Ok(queue(name, &settings, states))
    }

    /// Changes settings of a queue.
    pub async fn change_queue(&self, name: &Name, ask: ChangeQueue) -> Result<Queue, Fault> {
        for (field, n) in [("max_done", ask.max_done), ("max_dead", ask.max_dead)] {
            if n.flatten().is_some_and(|n| n > MAX_COUNT) {
                let message = format!("at most {MAX_COUNT} are allowed, or `null` for any number");
                return Err(Invalid::new(Code::CountRange, field, message).into());
            }
        }
        let most = |n: Option<u64>| n.unwrap_or(u64::MAX);
        let change = move |settings: &mut QueueSettings| {
            settings.keep_done = ask.keep_done.map_or(settings.keep_done, |keep| keep.0);
            settings.max_done = ask.max_done.map_or(settings.max_done, most);
            settings.keep_dead = ask.keep_dead.map_or(settings.keep_dead, |keep| keep.0);
            settings.max_dead = ask.max_dead.map_or(settings.max_dead, most);
        };
        self.engine().queues().change(name.clone(), change).await?;
        self.get_queue(name).await
    }

    /// Pauses a queue: its jobs are not handed out; running ones go on.
    pub async fn pause_queue(&self, name: &Name) -> Result<Queue, Fault> {
        self.engine().queues().pause(name.clone()).await?;
        self.get_queue(name).await
    }

    /// Resumes a queue.
    pub async fn resume_queue(&self, name: &Name) -> Result<Queue, Fault> {
        self.engine().queues().resume(name.clone()).await?;
        self.get_queue(name).await
    }

    /// Pauses a queue, and waits until none of its jobs runs.
    pub async fn drain_queue(&self, name: Name, wait: Option<Period>) -> Result<Drained, Fault> {
        // Paused before the race: the answer says that it is, whichever side wins.
        self.engine().queues().pause(name.clone()).await?;
        let drained = tokio::select! {
            drained = self.engine().queues().drain(name, self.granted(wait)) => drained?,
            () = self.closing() => false,
        };
        Ok(Drained { drained })
    }
}

fn add(states: &mut States, count: &Count) {
    let state = serde_json::to_value(words::State::from(count.state)).ok();
    if let Some(state) = state.as_ref().and_then(|state| state.as_str()) {
        *states.entry(state.to_owned()).or_default() += count.n;
    }
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
    }
}
