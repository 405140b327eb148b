//! Queues: settings, pause, resume and drain.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use crore_core::{Name, QueueIndex, Span, State, Time};
use crore_store::registry::{
    Define, DefineGuard, QueueSettings, RegistryEntry, RegistryTable, RegistryValue,
};
use crore_store::views::ShareCount;

use crate::drop_guard::DropGuard;
use crate::engine::EngineInner;
use crate::error::Error;
use crate::events::{EventListener, EventType, ListenerItem};

/// Queues; see [`Engine::queues`](crate::Engine::queues).
///
/// ```
/// use crore::core::{Name, Span};
/// use crore::{Engine, block_on};
///
/// # fn main() -> Result<(), crore::Error> {
/// let engine = Engine::memory();
/// let mail = Name::new("queue", "mail")?;
/// engine.push("mail", "hello").wait()?;
///
/// // None of its jobs is running, so it is drained at once.
/// assert!(block_on(engine.queues().drain(mail.clone(), Span::ZERO))?);
/// let send = || engine.pop_blocking("mail", |_| Ok::<(), String>(()));
/// assert_eq!(send()?, None);
///
/// block_on(engine.queues().resume(mail))?;
/// assert_eq!(send()?, Some(Ok(())));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Queues<'a> {
    pub(crate) inner: &'a EngineInner,
}

impl Queues<'_> {
    /// The settings of a queue, or the defaults if it has none of its own.
    pub async fn get(self, queue: &Name) -> Result<QueueSettings, Error> {
        Ok(self.inner.queue_entry(queue).await?.0)
    }

    /// The entries of all queues that have settings of their own.
    pub async fn list(self) -> Result<Vec<RegistryEntry>, Error> {
        self.inner.entries(RegistryTable::Queues).await
    }

    /// Since when the oldest ready job of each queue is due; `None`: the queue has no ready job.
    pub async fn oldest_ready(self, queues: Vec<Name>) -> Result<Vec<Option<Time>>, Error> {
        Ok(self.inner.store.oldest_ready(queues).await?)
    }

    /// The `n` fair keys of a shared queue with most ready jobs, the largest first.
    pub async fn largest_shares(self, queue: Name, n: usize) -> Result<Vec<ShareCount>, Error> {
        Ok(self.inner.store.largest_shares(queue, n).await?)
    }

    /// Sets the settings of a queue. If they change how it is shared, upkeep shortly applies this to jobs that are
    /// already waiting. If they change its indexed fields, upkeep adds all jobs of the queue to the index; searches
    /// use it when it is complete.
    pub async fn set(self, queue: Name, settings: QueueSettings) -> Result<(), Error> {
        self.inner.define_queue(queue, settings, DefineGuard::Any).await
    }

    /// Changes some settings of a queue by compare-and-set: settings that other callers change concurrently are
    /// kept, and `change` may be called more than once.
    pub async fn change(
        self,
        queue: Name,
        change: impl Fn(&mut QueueSettings) + Send + Sync,
    ) -> Result<QueueSettings, Error> {
        self.inner.change_queue(queue, change).await
    }

    /// Like [`change`](Self::change), if `accepts` holds for the current entry (`None`: the queue has no settings of
    /// its own); `false`: it does not.
    pub async fn change_if(
        self,
        queue: Name,
        change: impl Fn(&mut QueueSettings) + Send + Sync,
        accepts: impl Fn(Option<&RegistryEntry>) -> bool + Send + Sync,
    ) -> Result<bool, Error> {
        Ok(self.inner.change_queue_if(queue, change, accepts).await?.is_some())
    }

    /// The entry of a queue; `None`: it has no settings of its own.
    pub async fn entry(self, queue: &Name) -> Result<Option<RegistryEntry>, Error> {
        self.inner.entry(RegistryTable::Queues, queue).await
    }

    /// Pauses a queue: its jobs are not handed out. Running jobs continue.
    pub async fn pause(self, queue: Name) -> Result<(), Error> {
        self.inner.set_paused(queue, true).await
    }

    /// Resumes a queue: its jobs are handed out again.
    pub async fn resume(self, queue: Name) -> Result<(), Error> {
        self.inner.set_paused(queue, false).await
    }

    /// Pauses a queue and waits until none of its jobs is running, or until the timeout; `false`: some still are.
    /// The queue stays paused either way.
    pub async fn drain(self, queue: Name, timeout: Span) -> Result<bool, Error> {
        self.inner.drain(queue, timeout).await
    }
}

impl EngineInner {
    async fn set_paused(&self, queue: Name, paused: bool) -> Result<(), Error> {
        self.change_queue(queue, |settings| settings.paused = paused).await.map(drop)
    }

    async fn change_queue(
        &self,
        queue: Name,
        change: impl Fn(&mut QueueSettings) + Send + Sync,
    ) -> Result<QueueSettings, Error> {
        let changed = self.change_queue_if(queue, change, |_| true).await?;
        Ok(changed.unwrap_or_else(|| self.queues.clone()))
    }

    /// `None`: `accepts` does not hold.
    async fn change_queue_if(
        &self,
        queue: Name,
        change: impl Fn(&mut QueueSettings) + Send + Sync,
        accepts: impl Fn(Option<&RegistryEntry>) -> bool + Send + Sync,
    ) -> Result<Option<QueueSettings>, Error> {
        loop {
            let entry = self.entry(RegistryTable::Queues, &queue).await?;
            if !accepts(entry.as_ref()) {
                return Ok(None);
            }
            let (mut settings, guard) = self.settings_of(entry.as_ref());
            change(&mut settings);
            match self.define_queue(queue.clone(), settings.clone(), guard).await {
                // Another caller changed the settings meanwhile: apply the change to the new ones.
                Err(Error::Refused { .. }) => {}
                defined => return defined.map(|()| Some(settings)),
            }
        }
    }

    async fn define_queue(
        &self,
        queue: Name,
        mut settings: QueueSettings,
        guard: DefineGuard,
    ) -> Result<(), Error> {
        if let Some(fair) = &settings.fair {
            fair.check()?;
        }
        self.ensure_limits_current().await?;
        let before = self.limits.index(&queue);
        settings.index = settings.index.take_if(|index| !index.fields().is_empty());
        if let Some(index) = &mut settings.index {
            index.check()?;
            // Only upkeep completes an index.
            *index = Arc::new(index.continuing(before.as_deref()));
        }
        let is_indexed_as_before = before == settings.index;
        // Also on error: the change may have taken effect.
        let _sweep = DropGuard::new(|| {
            if !is_indexed_as_before {
                self.start_index_sweep(&queue);
            }
        });
        let is_as_before = is_indexed_as_before && self.limits.share(&queue) == settings.fair;
        let set = Define::set(queue.clone(), RegistryValue::Queue(settings));
        let define = Define { guard, ..set };
        if is_as_before {
            self.define(define).await.map(drop)
        } else {
            self.change_limits(define).await.map(drop)
        }
    }

    /// Records that all jobs of a queue have the keys of this index, unless it has been changed.
    pub(crate) async fn complete_index(
        &self,
        queue: Name,
        index: &QueueIndex,
    ) -> Result<(), Error> {
        loop {
            let (mut settings, guard) = self.queue_entry(&queue).await?;
            if settings.index.as_deref().is_none_or(|now| now.fields() != index.fields()) {
                return Ok(());
            }
            settings.index = Some(Arc::new(index.completed()));
            let set = Define::set(queue.clone(), RegistryValue::Queue(settings));
            match self.define(Define { guard, ..set }).await {
                Err(Error::Refused { .. }) => {}
                defined => {
                    defined?;
                    return self.reload_limits().await;
                }
            }
        }
    }

    async fn drain(&self, queue: Name, timeout: Span) -> Result<bool, Error> {
        let mut sleep = pin!(self.timers.sleep(timeout));
        // Subscribe before counting, so that no end is missed in between.
        let mut listener = self.events.listen();
        self.set_paused(queue.clone(), true).await?;
        loop {
            let counts = self.store.counts(Some(queue.clone())).await?;
            if counts.iter().all(|count| count.state != State::Running) {
                return Ok(true);
            }
            let mut ended = pin!(one_ended(&mut listener, &queue));
            let is_over = poll_fn(|context| match ended.as_mut().poll(context) {
                Poll::Ready(ended) => Poll::Ready(ended.map(|()| false)),
                Poll::Pending => sleep.as_mut().poll(context).map(|()| Ok(true)),
            });
            if is_over.await? {
                return Ok(false);
            }
        }
    }

    pub(crate) async fn queue_entry(
        &self,
        queue: &Name,
    ) -> Result<(QueueSettings, DefineGuard), Error> {
        Ok(self.settings_of(self.entry(RegistryTable::Queues, queue).await?.as_ref()))
    }

    fn settings_of(&self, entry: Option<&RegistryEntry>) -> (QueueSettings, DefineGuard) {
        match entry {
            Some(RegistryEntry { value: RegistryValue::Queue(settings), revision, .. }) => {
                (settings.clone(), DefineGuard::At(*revision))
            }
            _ => (self.queues.clone(), DefineGuard::Absent),
        }
    }
}

/// Waits until a job of a queue may have stopped running.
async fn one_ended(listener: &mut EventListener, queue: &Name) -> Result<(), Error> {
    loop {
        match listener.next().await {
            None => return Err(Error::Stopping),
            Some(ListenerItem::Sent(_)) => {}
            Some(ListenerItem::Event(event)) if event.queue != *queue => {}
            Some(ListenerItem::Event(event)) if event.what == EventType::Pushed => {}
            Some(ListenerItem::Event(_) | ListenerItem::Missed(_)) => return Ok(()),
        }
    }
}
