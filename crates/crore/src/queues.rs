//! Queues: settings, and pausing.

use crore_core::Name;
use crore_store::registry::{Define, Definition, Entry, Guard, QueueSettings, Table, Value};

use crate::engine::{Engine, Inner};
use crate::error::Error;

impl Engine {
    /// The settings of a queue; the defaults, if it has none of its own.
    pub async fn queue(&self, queue: &Name) -> Result<QueueSettings, Error> {
        Ok(self.inner.queue_entry(queue).await?.0)
    }

    /// All queues with settings of their own.
    pub async fn queues(&self) -> Result<Vec<Entry>, Error> {
        self.inner.entries(Table::Queues).await
    }

    /// Sets the settings of a queue.
    pub async fn set_queue(&self, queue: Name, settings: QueueSettings) -> Result<(), Error> {
        self.inner.define(Define::set(queue, Value::Queue(settings))).await.map(drop)
    }

    /// Hands out no more jobs of a queue; those that are running go on.
    pub async fn pause(&self, queue: Name) -> Result<(), Error> {
        self.inner.set_paused(queue, true).await
    }

    /// Hands out jobs of a queue again.
    pub async fn resume(&self, queue: Name) -> Result<(), Error> {
        self.inner.set_paused(queue, false).await
    }
}

impl Inner {
    async fn set_paused(&self, queue: Name, paused: bool) -> Result<(), Error> {
        loop {
            let (settings, guard) = self.queue_entry(&queue).await?;
            let to = Definition::Set(Value::Queue(QueueSettings { paused, ..settings }));
            let define = Define { name: queue.clone(), to, guard, expires_after: None };
            match self.define(define).await {
                // Somebody else has set it meanwhile: what he set stays.
                Err(Error::Refused { .. }) => {}
                defined => return defined.map(drop),
            }
        }
    }

    async fn queue_entry(&self, queue: &Name) -> Result<(QueueSettings, Guard), Error> {
        let all = self.entries(Table::Queues).await?;
        let entry = all.into_iter().find(|entry| entry.name == *queue);
        Ok(match entry {
            Some(Entry { value: Value::Queue(settings), revision, .. }) => {
                (settings, Guard::At(revision))
            }
            _ => (QueueSettings::default(), Guard::Absent),
        })
    }
}
