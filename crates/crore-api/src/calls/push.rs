//! Pushing jobs, and the results of a push.

use crore::IdempotencyKey;
use crore::push::{BatchResult, PushResult};
use crore_core::job::{DependencyTarget, Spec};
use crore_core::{Batch, Code, Encoding, Invalid, JobId, Name, NewJob, Payload};
use crore_wire::api::Problem;
use crore_wire::api::push::{PushStatus, Pushed};

use crate::planted;
use crate::status::status;
use crate::{Api, Fault};

impl Api {
    /// Pushes a batch, under an idempotency key if there is one.
    pub async fn push(
        &self,
        batch: Batch,
        key: Option<&IdempotencyKey>,
    ) -> Result<BatchResult, Fault> {
        let pushes = match key {
            Some(key) if !planted!("bug-33") => self.engine().push_once(key, batch).await,
            _ => self.engine().push_all(batch).await,
        };
        Ok(pushes?)
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
