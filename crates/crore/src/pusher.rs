//! Pushing one job, word by word.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use crore_core::job::{Keep, Lapse, Needs, Retain, When};
use crore_core::push::{After, AfterRef, GroupRef};
use crore_core::retry::{Backoff, Retry};
use crore_core::unique::{Hold, Unique};
use crore_core::{Encoding, GroupId, Invalid, JobId, Name, NewJob, Payload, Spec, Time};

use crate::block::block_on;
use crate::engine::Engine;
use crate::error::Error;
use crate::idempotency::IdempotencyKey;
use crate::push::Taken;

/// A job about to be pushed. Await it, or call [`wait`](Push::wait), and it is on the disk.
///
/// Unless told otherwise it is tried again without end and at once when it fails, and gone when it is
/// done.
///
/// ```
/// use std::time::Duration;
///
/// use crore::{Engine, block_on};
///
/// # fn main() -> Result<(), crore::Error> {
/// let engine = Engine::memory();
/// let id = engine
///     .push("mail", "hello")
///     .kind("welcome")
///     .priority(-5)
///     .after(Duration::from_secs(60))
///     .attempts(3)
///     .unique("welcome ada")
///     .label("tenant", "acme")
///     .wait()?;
///
/// // The same key again: no second job, and the first one is the answer.
/// assert_eq!(engine.push("mail", "hello").unique("welcome ada").wait()?, id);
/// let job = block_on(engine.get(id))?.expect("it is there");
/// assert_eq!((job.spec.kind.as_str(), job.spec.priority), ("welcome", -5));
///
/// // What breaks a rule is refused, and the field is named.
/// let refused = engine.push("", "hello").wait().expect_err("a queue has a name");
/// assert!(refused.to_string().starts_with("queue: "));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing is pushed before this is awaited or waited for"]
pub struct Push<'a> {
    engine: &'a Engine,
    job: Result<NewJob, Invalid>,
    key: Option<IdempotencyKey>,
}

impl Engine {
    /// Pushes a job: `engine.push("thumbnails", bytes).priority(-5).await?`.
    pub fn push(&self, queue: &str, payload: impl Into<Vec<u8>>) -> Push<'_> {
        self.push_payload(queue, Payload::new(Encoding::Bytes, payload.into()))
    }

    /// Pushes a job whose payload has an encoding.
    pub fn push_payload(&self, queue: &str, payload: Payload) -> Push<'_> {
        let job = Name::new("queue", queue).map(|queue| {
            let mut spec = Spec::new(queue.clone(), queue, payload);
            spec.retry =
                Retry { backoff: Backoff::None, max_attempts: None, max_interval: None, jitter: 0 };
            spec.lapse = Lapse::Crash { quarantine: None };
            spec.retain = Retain::Nothing;
            NewJob::from(spec)
        });
        Push { engine: self, job, key: None }
    }
}

impl<'a> Push<'a> {
    /// A push that will only say why it is refused.
    #[cfg(feature = "typed")]
    pub(crate) const fn refused(engine: &'a Engine, invalid: Invalid) -> Self {
        Self { engine, job: Err(invalid), key: None }
    }
}

impl Push<'_> {
    fn with(mut self, change: impl FnOnce(&mut NewJob)) -> Self {
        if let Ok(job) = &mut self.job {
            change(job);
        }
        self
    }

    /// What it is to do; the name of its queue, unless told otherwise.
    pub fn kind(mut self, kind: &str) -> Self {
        match Name::new("kind", kind) {
            Ok(kind) => self.with(|job| job.spec.kind = kind),
            Err(invalid) => {
                self.job = self.job.and(Err(invalid));
                self
            }
        }
    }

    /// Smaller first; 0 unless told otherwise.
    pub fn priority(self, priority: i32) -> Self {
        self.with(|job| job.spec.priority = priority)
    }

    /// Not before this long from now.
    pub fn after(self, span: Duration) -> Self {
        self.with(|job| job.due = When::After(span.into()))
    }

    /// Not before this instant.
    pub fn at(self, time: Time) -> Self {
        self.with(|job| job.due = When::At(time))
    }

    /// How often and when it is tried again; and it is kept when it has failed for good.
    pub fn retry(self, retry: Retry) -> Self {
        self.with(|job| job.spec.retry = retry)
    }

    /// How often it is tried in all, with growing delays in between; then it is dead.
    pub fn attempts(self, n: u32) -> Self {
        self.retry(Retry { max_attempts: Some(n), ..Retry::default() })
    }

    /// How long a run may take; then it counts as failed.
    pub fn timeout(self, span: Duration) -> Self {
        self.with(|job| job.spec.timeout = Some(span.into()))
    }

    /// How long a worker may be silent before another one gets the job. The engine renews the leases
    /// of what runs in its own process.
    pub fn lease(self, span: Duration) -> Self {
        self.with(|job| job.spec.lease = Some(span.into()))
    }

    /// At most one such job at a time: while another one with the key has not ended, it is answered
    /// instead.
    pub fn unique(self, key: &str) -> Self {
        let unique = Unique { key: key.into(), hold: Hold::UntilEnd, window: None };
        self.with(|job| job.spec.unique = Some(unique))
    }

    /// A name for this push, under which it may be repeated for a day: the first job is answered again, and
    /// no second one is stored. Another push under the same key is refused, see [`Engine::push_once`].
    ///
    /// ```
    /// use crore::{Engine, Error};
    ///
    /// # fn main() -> Result<(), Error> {
    /// let engine = Engine::memory();
    /// let id = engine.push("mail", "hello").idempotent("order 17").wait()?;
    /// assert_eq!(engine.push("mail", "hello").idempotent("order 17").wait()?, id);
    /// let refused = engine.push("mail", "other").idempotent("order 17").wait();
    /// assert!(matches!(refused, Err(Error::KeyReused { first, .. }) if first == Some(id)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn idempotent(mut self, key: &str) -> Self {
        match IdempotencyKey::new("key", key) {
            Ok(key) => self.key = Some(key),
            Err(invalid) => self.job = self.job.and(Err(invalid)),
        }
        self
    }

    /// Its result is kept so long for whoever [waits](Engine::wait) for it.
    pub fn keep_result(self, span: Duration) -> Self {
        self.with(|job| job.spec.keep = Keep::For(span.into()))
    }

    /// It is kept when it is done, as long as its queue's settings say.
    pub fn retain(self) -> Self {
        self.with(|job| job.spec.retain = Retain::AsQueue)
    }

    /// A mark to find it by.
    pub fn label(self, name: &str, value: &str) -> Self {
        self.with(|job| drop(job.spec.labels.insert(name.to_owned(), value.to_owned())))
    }

    /// It waits until another job has succeeded.
    pub fn after_job(self, id: JobId) -> Self {
        self.with(|job| job.after.push(After { on: AfterRef::Job(id), needs: Needs::Success }))
    }

    /// It belongs to a group.
    pub fn group(self, id: GroupId) -> Self {
        self.with(|job| job.group = Some(GroupRef::Id(id)))
    }

    /// Anything else about it.
    pub fn spec(self, change: impl FnOnce(&mut Spec)) -> Self {
        self.with(|job| change(&mut job.spec))
    }

    /// Pushes it, and waits until it is on the disk.
    pub fn wait(self) -> Result<JobId, Error> {
        block_on(self.into_future())
    }

    async fn now(self) -> Result<JobId, Error> {
        let Self { engine, job, key } = self;
        let batch = job?.into();
        let pushes = match &key {
            Some(key) => engine.push_once(key, batch).await?,
            None => engine.push_all(batch).await?,
        };
        let taken = pushes.jobs.into_iter().next();
        match taken {
            Some(Taken::New(id) | Taken::Duplicate(id)) => Ok(id),
            Some(Taken::Invalid(mut invalid)) => {
                // There is only one job, and its caller has not numbered it.
                if let Some(field) = invalid.field.strip_prefix("jobs[0].") {
                    invalid.field = field.to_owned();
                }
                Err(invalid.into())
            }
            Some(Taken::Broken(thing)) => Err(Error::NotFound { what: format!("{thing:?}") }),
            Some(Taken::BrokenBy(_)) | None => {
                Err(Error::NotFound { what: "what the job waits for".to_owned() })
            }
        }
    }
}

impl<'a> IntoFuture for Push<'a> {
    type Output = Result<JobId, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.now())
    }
}
