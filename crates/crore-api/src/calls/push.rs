//! Pushing jobs, and the results of a push.

use crore::IdempotencyKey;
use crore::push::{BatchResult, PushResult, sealed_group};
use crore_core::job::{DependencyTarget, Spec};
use crore_core::push::{GroupRef, NewDependencyTarget};
use crore_core::{Batch, Code, Encoding, Invalid, JobId, Name, NewJob, OwnerId, Payload};
use crore_wire::api::Problem;
use crore_wire::api::push::{PushStatus, Pushed};

use crate::planted;
use crate::status::status;
use crate::{Api, Grant, Scope};

impl Api {
    /// Pushes a batch, under an idempotency key if there is one. Jobs that the caller may not push are refused
    /// individually.
    pub async fn push(
        &self,
        grant: &Grant,
        mut batch: Batch,
        key: Option<&IdempotencyKey>,
    ) -> Result<BatchResult, crore::Error> {
        let refused = match grant.owner() {
            None => Vec::new(),
            Some(owner) => self.own_batch(grant, owner, &mut batch).await?,
        };
        let mut pushes = match key {
            Some(key) if !planted!("bug-33") => self.engine().push_once(key, batch).await,
            _ => self.engine().push_all(batch).await,
        }?;
        for (n, invalid) in refused {
            if let Some(result) = pushes.jobs.get_mut(n) {
                *result = PushResult::Invalid(invalid.inside(&format!("jobs[{n}]")));
            }
        }
        Ok(pushes)
    }

    /// Marks jobs and groups as created by the caller. Jobs that it may not push are replaced by one that fails every
    /// check, and returned with their positions.
    async fn own_batch(
        &self,
        grant: &Grant,
        owner: OwnerId,
        batch: &mut Batch,
    ) -> Result<Vec<(usize, Invalid)>, crore::Error> {
        for group in &mut batch.groups {
            group.maker = Some(owner);
        }
        let mut refused = Vec::new();
        for (n, job) in batch.jobs.iter_mut().enumerate() {
            match self.check_push(grant, job).await {
                Ok(()) => set_pusher(job, owner),
                Err(crore::Error::Invalid(invalid)) => {
                    refused.push((n, invalid));
                    *job = unreadable_job()?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(refused)
    }

    /// Refuses a job that the caller may not push: by its queue or kind, by the group that it joins, and, if the
    /// caller is restricted, by the jobs and groups that it waits for.
    pub(super) async fn check_push(
        &self,
        grant: &Grant,
        job: &mut NewJob,
    ) -> Result<(), crore::Error> {
        if grant.only().is_some() {
            // The queue that the handler would supply is the one to check.
            self.engine().handlers().settle_queue(job).await?;
        }
        grant.may(Scope::Push, &job.spec.queue, &job.spec.kind)?;
        self.check_relations(grant, job).await?;
        match &mut job.spec.on_expired {
            Some(next) => self.check_on_expired(grant, next).await,
            None => Ok(()),
        }
    }

    /// Refuses a follow-up for a missed deadline that the caller may not push.
    async fn check_on_expired(&self, grant: &Grant, next: &mut NewJob) -> Result<(), crore::Error> {
        if grant.only().is_some() {
            self.engine().handlers().settle_queue(next).await?;
        }
        let inside = |error: crore::Error| match error {
            crore::Error::Invalid(invalid) => invalid.inside("on-expired").into(),
            other => other,
        };
        let may = grant.may(Scope::Push, &next.spec.queue, &next.spec.kind);
        may.map_err(|refused| inside(refused.into()))?;
        self.check_relations(grant, next).await.map_err(inside)
    }

    /// Refuses a job that joins a group of another token, or, if the caller is restricted, waits for jobs and groups
    /// that it may not see.
    pub(super) async fn check_relations(
        &self,
        grant: &Grant,
        job: &NewJob,
    ) -> Result<(), crore::Error> {
        if let Some(GroupRef::Id(id)) = job.group {
            self.check_group(grant, id).await?;
        }
        match grant.only() {
            Some(_) => self.check_waits(grant, job).await,
            None => Ok(()),
        }
    }

    async fn check_waits(&self, grant: &Grant, job: &NewJob) -> Result<(), crore::Error> {
        let inside = |error: crore::Error| match error {
            crore::Error::Invalid(invalid) => invalid.inside("after").into(),
            other => other,
        };
        let mut jobs = Vec::new();
        for dependency in &job.after {
            match dependency.on {
                NewDependencyTarget::Job(id) => jobs.push(id),
                NewDependencyTarget::Group(GroupRef::Id(id)) => {
                    self.check_group(grant, id).await.map_err(inside)?;
                }
                NewDependencyTarget::Earlier(_) | NewDependencyTarget::Group(GroupRef::New(_)) => {}
            }
        }
        self.check_jobs(grant, &jobs).await.map_err(inside)
    }
}

/// Marks a job and its follow-up for a missed deadline as pushed by the caller.
pub(super) fn set_pusher(job: &mut NewJob, owner: OwnerId) {
    job.spec.pusher = Some(owner);
    if let Some(next) = &mut job.spec.on_expired {
        next.spec.pusher = Some(owner);
    }
}

/// A placeholder for a job of a batch that could not be decoded: its payload is not JSON, so every check refuses it.
/// It keeps the indices of the other jobs valid.
pub fn unreadable_job() -> Result<NewJob, Invalid> {
    let name = Name::new("kind", "unreadable")?;
    Ok(Spec::new(name.clone(), name, Payload::new(Encoding::Json, &b""[..])).into())
}

/// The id of the job at index `n` of a batch and whether it is new, or why it was refused.
pub fn pushed(n: usize, result: PushResult) -> Result<(JobId, PushStatus), Invalid> {
    let inside = |invalid: Invalid| Err(invalid.inside(&format!("jobs[{n}]")));
    match result {
        PushResult::New(id) => Ok((id, PushStatus::New)),
        PushResult::Duplicate(id) => Ok((id, PushStatus::Duplicate)),
        // The engine has already added the index.
        PushResult::Invalid(invalid) => Err(invalid),
        PushResult::Broken(thing) => inside(broken_dependency(thing)),
        PushResult::Sealed(id) => inside(sealed_group(id)),
        PushResult::BrokenBy(n) => {
            let why = format!("it depends on `jobs[{n}]`, which was refused");
            inside(Invalid::new(Code::Refused, "after", why))
        }
    }
}

/// Like [`pushed`], as a type of the native API.
pub fn pushed_result(n: usize, result: PushResult) -> Pushed {
    match pushed(n, result) {
        Ok((id, status)) => Pushed { status, id: Some(id.into()), problem: None },
        Err(invalid) => refused_result(invalid),
    }
}

/// The result of a refused job.
pub fn refused_result(invalid: Invalid) -> Pushed {
    let status = status(invalid.code).as_u16();
    let problem = Some(Problem::invalid(invalid, status));
    Pushed { status: PushStatus::Refused, id: None, problem }
}

/// The error of a job whose dependency or group does not exist.
pub fn broken_dependency(thing: DependencyTarget) -> Invalid {
    let (field, what) = match thing {
        DependencyTarget::Job(id) => ("after", format!("job {id}")),
        DependencyTarget::Group(id) => ("group", format!("group {id}")),
    };
    let why = format!("{what} does not exist, or can no longer reach the required state");
    Invalid::new(Code::Refused, field, why)
}
