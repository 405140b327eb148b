//! Pushing jobs, and the answers to a push.

use crore::IdempotencyKey;
use crore::push::{Pushes, Taken};
use crore_core::job::{Spec, Thing};
use crore_core::{Batch, Code, Encoding, Invalid, JobId, Name, NewJob, Payload};
use crore_wire::api::Problem;
use crore_wire::api::push::{Pushed, Took};

use crate::planted;
use crate::status::status;
use crate::{Api, Fault};

impl Api {
    /// Pushes a batch, under an idempotency key if there is one.
    pub async fn push(&self, batch: Batch, key: Option<&IdempotencyKey>) -> Result<Pushes, Fault> {
        let pushes = match key {
            Some(key) if !planted!("bug-33") => self.engine().push_once(key, batch).await,
            _ => self.engine().push_all(batch).await,
        };
        Ok(pushes?)
    }
}

/// A job that every check refuses: its payload is no JSON. It keeps the place of a job in a batch that could not be
/// decoded, so that references by position stay right.
pub fn unreadable_job() -> Result<NewJob, Invalid> {
    let name = Name::new("kind", "unreadable")?;
    Ok(Spec::new(name.clone(), name, Payload::new(Encoding::Json, &b""[..])).into())
}

/// The id of a job at a place in a batch and whether it is new, or why it was refused.
pub fn pushed(n: usize, taken: Taken) -> Result<(JobId, Took), Invalid> {
    let inside = |invalid: Invalid| Err(invalid.inside(&format!("jobs[{n}]")));
    match taken {
        Taken::New(id) => Ok((id, Took::New)),
        Taken::Duplicate(id) => Ok((id, Took::Duplicate)),
        // The engine has named the field.
        Taken::Invalid(invalid) => Err(invalid),
        Taken::Broken(thing) => inside(broken(thing)),
        Taken::BrokenBy(n) => {
            let why = format!("`jobs[{n}]` was refused, and this one waits for it");
            inside(Invalid::new(Code::Refused, "after", why))
        }
    }
}

/// The same in the structure of the native API.
pub fn pushed_answer(n: usize, taken: Taken) -> Pushed {
    match pushed(n, taken) {
        Ok((id, status)) => Pushed { status, id: Some(id.into()), problem: None },
        Err(invalid) => refused_answer(invalid),
    }
}

/// The answer to a job that was refused.
pub fn refused_answer(invalid: Invalid) -> Pushed {
    let status = status(invalid.code).as_u16();
    let problem = Some(Problem::invalid(invalid, status));
    Pushed { status: Took::Refused, id: None, problem }
}

/// The error of a job that refers to a thing that does not exist.
pub fn broken(thing: Thing) -> Invalid {
    let (field, what) = match thing {
        Thing::Job(id) => ("after", format!("job {id}")),
        Thing::Group(id) => ("group", format!("group {id}")),
    };
    let why = format!("{what} is not there, or can no longer become what is needed");
    Invalid::new(Code::Refused, field, why)
}
