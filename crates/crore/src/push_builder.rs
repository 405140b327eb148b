//! Builder for pushing a single job.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use crore_core::event::OnEventTimeout;
use crore_core::job::{
    DependencyCondition, DueTime, JobRetention, Lapse, ResultRetention, StartDeadline,
};
use crore_core::push::{GroupRef, NewDependency, NewDependencyTarget};
use crore_core::retry::{Backoff, Retry};
use crore_core::unique::{Unique, UniqueHold};
use crore_core::version::VersionRequirement;
use crore_core::{
    AwaitedEvent, Encoding, GroupId, Invalid, JobId, Name, NewJob, Payload, Spec, Time,
};

use crate::block::block_on;
use crate::engine::Engine;
use crate::error::Error;
use crate::idempotency::IdempotencyKey;
use crate::push::{PushResult, sealed_group};

/// A job to be pushed, with its options. Awaiting it, or calling [`wait`](Push::wait), stores the job and returns
/// its id; the write is durable then.
///
/// By default a failing job is retried immediately and without limit, and a job that is done is removed.
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
/// // The same key again: no second job is stored, and the id of the first is returned.
/// assert_eq!(engine.push("mail", "hello").unique("welcome ada").wait()?, id);
/// let job = block_on(engine.get(id))?.expect("it exists");
/// assert_eq!((job.spec.kind.as_str(), job.spec.priority), ("welcome", -5));
///
/// // An invalid push is refused, and the error names the field.
/// let refused = engine.push("", "hello").wait().expect_err("a queue has a name");
/// assert!(refused.to_string().starts_with("queue: "));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing is pushed until this is awaited or `wait` is called"]
pub struct Push<'a> {
    engine: &'a Engine,
    job: Result<NewJob, Invalid>,
    key: Option<IdempotencyKey>,
}

impl Engine {
    /// Pushes a job with a payload of bytes: `engine.push("thumbnails", bytes).priority(-5).await?`.
    pub fn push(&self, queue: &str, payload: impl Into<Vec<u8>>) -> Push<'_> {
        self.push_payload(queue, Payload::new(Encoding::Bytes, payload.into()))
    }

    /// Pushes a job whose payload has a declared encoding.
    pub fn push_payload(&self, queue: &str, payload: Payload) -> Push<'_> {
        let job = Name::new("queue", queue).map(|queue| {
            let mut spec = Spec::new(queue.clone(), queue, payload);
            spec.retry =
                Retry { backoff: Backoff::None, max_attempts: None, max_interval: None, jitter: 0 };
            spec.lapse = Lapse::Crash { quarantine: None };
            spec.retain = JobRetention::Nothing;
            NewJob::from(spec)
        });
        Push { engine: self, job, key: None }
    }
}

impl<'a> Push<'a> {
    /// A push that fails with this error.
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

    /// Sets the kind. Default: the name of the queue.
    pub fn kind(mut self, kind: &str) -> Self {
        match Name::new("kind", kind) {
            Ok(kind) => self.with(|job| job.spec.kind = kind),
            Err(invalid) => {
                self.job = self.job.and(Err(invalid));
                self
            }
        }
    }

    /// Requires a version of the kind, such as `>=2.3`: only workers that [name](crate::Worker::versions) a version
    /// which satisfies it get the job.
    pub fn worker_version(mut self, requirement: &str) -> Self {
        match VersionRequirement::parse("worker_version", requirement) {
            Ok(required) => self.with(|job| job.spec.worker_version = Some(Box::new(required))),
            Err(invalid) => {
                self.job = self.job.and(Err(invalid));
                self
            }
        }
    }

    /// Sets the priority. Smaller numbers run first; the default is 0.
    pub fn priority(self, priority: i32) -> Self {
        self.with(|job| job.spec.priority = priority)
    }

    /// Delays the job by this long from now.
    pub fn after(self, span: Duration) -> Self {
        self.with(|job| job.due = DueTime::After(span.into()))
    }

    /// Delays the job until this time.
    pub fn at(self, time: Time) -> Self {
        self.with(|job| job.due = DueTime::At(time))
    }

    /// Sets a deadline: a job that has not started within this span is cancelled as expired.
    pub fn start_within(self, span: Duration) -> Self {
        self.with(|job| job.deadline = Some(StartDeadline::Within(span.into())))
    }

    /// Sets a deadline at this time: a job that has not started by then is cancelled as expired, at once if the time is
    /// in the past.
    pub fn deadline(self, time: Time) -> Self {
        self.with(|job| job.deadline = Some(StartDeadline::At(time)))
    }

    /// Sets the follow-up that is pushed if the job misses its deadline.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use crore::core::{Name, Payload, Spec};
    /// use crore::Engine;
    ///
    /// # fn main() -> Result<(), crore::Error> {
    /// let engine = Engine::memory();
    /// let (queue, kind) = (Name::new("queue", "alerts")?, Name::new("kind", "late-report")?);
    /// let alert = Spec::new(queue, kind, Payload::json("{}"));
    /// engine
    ///     .push("reports", "weekly")
    ///     .start_within(Duration::from_secs(600))
    ///     .on_expired(alert)
    ///     .wait()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_expired(self, follow_up: impl Into<NewJob>) -> Self {
        self.with(|job| job.spec.on_expired = Some(Box::new(follow_up.into())))
    }

    /// Holds the job until an event of this name is sent, or is found to be kept. The job receives its payload.
    pub fn wait_for(mut self, event: &str) -> Self {
        match Name::new("wait-for.event", event) {
            Ok(name) => self.with(|job| {
                let (timeout, on_timeout) = (None, OnEventTimeout::default());
                job.spec.wait_for = Some(Box::new(AwaitedEvent { name, timeout, on_timeout }));
            }),
            Err(invalid) => {
                self.job = self.job.and(Err(invalid));
                self
            }
        }
    }

    /// Limits the wait for the event, and says what happens then.
    pub fn wait_timeout(self, span: Duration, then: OnEventTimeout) -> Self {
        self.with(|job| {
            if let Some(awaited) = &mut job.spec.wait_for {
                (awaited.timeout, awaited.on_timeout) = (Some(span.into()), then);
            }
        })
    }

    /// Sets the retry policy. A job that has used up its attempts is kept as dead.
    pub fn retry(self, retry: Retry) -> Self {
        self.with(|job| job.spec.retry = retry)
    }

    /// Limits the number of attempts, with exponential back-off in between; then the job is dead.
    pub fn attempts(self, n: u32) -> Self {
        self.retry(Retry { max_attempts: Some(n), ..Retry::default() })
    }

    /// Timeout of a run, after which it counts as failed.
    pub fn timeout(self, span: Duration) -> Self {
        self.with(|job| job.spec.timeout = Some(span.into()))
    }

    /// Sets the lease: a worker that does not renew it for this long loses the job to another. For jobs that run in
    /// this process the engine renews it.
    pub fn lease(self, span: Duration) -> Self {
        self.with(|job| job.spec.lease = Some(span.into()))
    }

    /// Makes the job unique: until a job with this key has ended, further pushes with the key return its id and
    /// store nothing.
    pub fn unique(self, key: &str) -> Self {
        let unique = Unique { key: key.into(), hold: UniqueHold::UntilEnd, window: None };
        self.with(|job| job.spec.unique = Some(Box::new(unique)))
    }

    /// Makes the push idempotent: repeated under the same key within 24 hours, it returns the first job and stores
    /// no second one. A different push under the same key is refused, see [`Engine::push_once`].
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

    /// Keeps the result for this long after the job is done, for callers that [wait](Engine::wait) for it.
    pub fn keep_result(self, span: Duration) -> Self {
        self.with(|job| job.spec.keep = ResultRetention::For(span.into()))
    }

    /// Keeps the job after it is done, for as long as the settings of its queue say.
    pub fn retain(self) -> Self {
        self.with(|job| job.spec.retain = JobRetention::AsQueue)
    }

    /// Adds a label, by which jobs can be filtered.
    pub fn label(self, name: &str, value: &str) -> Self {
        self.with(|job| drop(job.spec.labels.insert(name.to_owned(), value.to_owned())))
    }

    /// Holds the job until another job has succeeded.
    pub fn after_job(self, id: JobId) -> Self {
        self.with(|job| {
            job.after.push(NewDependency {
                on: NewDependencyTarget::Job(id),
                needs: DependencyCondition::Success,
            });
        })
    }

    /// Adds the job to a group.
    pub fn group(self, id: GroupId) -> Self {
        self.with(|job| job.group = Some(GroupRef::Id(id)))
    }

    /// Changes any other field of the job.
    pub fn spec(self, change: impl FnOnce(&mut Spec)) -> Self {
        self.with(|job| change(&mut job.spec))
    }

    /// Pushes the job and blocks until the write is durable.
    pub fn wait(self) -> Result<JobId, Error> {
        block_on(self.into_future())
    }

    async fn store(self) -> Result<JobId, Error> {
        let Self { engine, job, key } = self;
        let batch = job?.into();
        let pushes = match &key {
            Some(key) => engine.push_once(key, batch).await?,
            None => engine.push_all(batch).await?,
        };
        let taken = pushes.jobs.into_iter().next();
        match taken {
            Some(PushResult::New(id) | PushResult::Duplicate(id)) => Ok(id),
            Some(PushResult::Invalid(mut invalid)) => {
                // The caller pushed a single job and knows no index.
                if let Some(field) = invalid.field.strip_prefix("jobs[0].") {
                    invalid.field = field.to_owned();
                }
                Err(invalid.into())
            }
            Some(PushResult::Broken(target)) => {
                Err(Error::NotFound { what: format!("{target:?}") })
            }
            Some(PushResult::Sealed(id)) => Err(sealed_group(id).into()),
            Some(PushResult::BrokenBy(_)) | None => {
                Err(Error::NotFound { what: "a dependency of the job".to_owned() })
            }
        }
    }
}

impl<'a> IntoFuture for Push<'a> {
    type Output = Result<JobId, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.store())
    }
}
