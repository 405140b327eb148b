//! Reports: how deliveries went.

use axum::extract::State;
use axum::response::Response;
use crore::finish::{Finish, Finished};
use crore_core::Invalid;
use crore_wire::api::finish::{self as api, FinishOne, FinishedOne};

use super::body::Read;
use super::fault::Fault;
use super::fetch::count;
use super::push::answer;
use super::wants::Reply;
use crate::Doors;

/// Reports how deliveries went, each on its own.
///
/// What is answered is on the disk. The first report about a delivery that counts wins; any other is
/// answered `stale`. If one of the reports breaks a rule, none is taken.
#[utoipa::path(
    post, path = "/v1/finish", operation_id = "finish", tag = "work",
    request_body = api::Finish,
    responses((status = 200, description = "One answer for each report, in order.", body = api::Finished)),
)]
pub(super) async fn finish(
    State(doors): State<Doors>,
    reply: Reply,
    Read { format, value: ask }: Read<api::Finish>,
) -> Result<Response, Fault> {
    count(&doors, ask.jobs.len())?;
    let read = |(n, one): (usize, FinishOne)| -> Result<Finish, Invalid> {
        let (job, delivery) = (crore_core::JobId::from(one.id).into(), Some(one.delivery.into()));
        let report = one.read(format).map_err(|invalid| invalid.inside(&format!("jobs[{n}]")))?;
        Ok(Finish { job, delivery, report })
    };
    let reports = ask.jobs.into_iter().enumerate().map(read).collect::<Result<_, _>>()?;
    let finished = doors.engine().finish_all(reports).await.map_err(ours)?;
    let jobs = finished.into_iter().map(|finished| match finished {
        Finished::Yes { state, pushed } => FinishedOne::Finished {
            state: state.map(Into::into),
            pushed: pushed.into_iter().enumerate().map(|(n, taken)| answer(n, taken)).collect(),
        },
        Finished::Stale => FinishedOne::Stale,
        Finished::NotFound => FinishedOne::NotFound,
    });
    Ok(reply.ok(&api::Finished { jobs: jobs.collect() }))
}

/// The engine calls the list `finishes`, and this API `jobs`.
fn ours(error: crore::Error) -> Fault {
    match error {
        crore::Error::Invalid(mut invalid) => {
            if let Some(rest) = invalid.field.strip_prefix("finishes") {
                invalid.field = format!("jobs{rest}");
            }
            invalid.into()
        }
        other => other.into(),
    }
}
