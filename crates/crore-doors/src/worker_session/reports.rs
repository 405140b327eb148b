//! Reports of a worker, from the message to the responses.

use std::sync::Arc;

use crore::Error;
use crore::finish::{self, Finish};
use crore_api::calls::pushed as push_status;
use crore_api::{Api, Grant, planted};
use crore_core::Delivery;
use crore_wire::api::push::PushStatus;
use crore_wire::worker::{
    DeliveryRef, PushedFollowUp, ReportResponse, ReportVerdict, WorkerReport,
};

use super::incarnation::Incarnation;

/// Applies the reports of one message, and returns the responses in order. A report about a delivery that the worker
/// does not hold is stale, without a read. A delivery whose report is refused is held again.
pub(super) fn report(
    api: Api,
    grant: Grant,
    incarnation: Arc<Incarnation>,
    mut reports: Vec<WorkerReport>,
) -> impl Future<Output = Result<Vec<ReportResponse>, Error>> {
    // Slots are free from now on, not when the report is durable.
    let foreign = incarnation.release_reported(&mut reports);
    async move {
        let own = match reports.is_empty() {
            true => Vec::new(),
            false => report_own((&api, &grant), &incarnation, reports).await?,
        };
        if foreign.is_empty() {
            return Ok(own);
        }
        let mut finished = Vec::with_capacity(own.len() + foreign.len());
        let mut own = own.into_iter();
        for (index, held) in foreign {
            finished.extend(own.by_ref().take(index - finished.len()));
            finished.push(ReportResponse { held, verdict: ReportVerdict::Stale });
        }
        finished.extend(own);
        Ok(finished)
    }
}

async fn report_own(
    (api, grant): (&Api, &Grant),
    incarnation: &Incarnation,
    reports: Vec<WorkerReport>,
) -> Result<Vec<ReportResponse>, Error> {
    if planted!("bug-32") && reports.iter().all(has_no_follow_up) {
        return Ok(respond_before_durable(api.clone(), grant.clone(), reports));
    }
    let finished = finish(api, grant, reports).await?;
    let is_refused = |one: &&ReportResponse| matches!(one.verdict, ReportVerdict::Refused(_));
    for one in finished.iter().filter(is_refused) {
        let job = api.engine().get(one.held.id).await?;
        incarnation.add_jobs(job.filter(|job| job.live.delivery == one.held.delivery).as_slice());
    }
    Ok(finished)
}

fn has_no_follow_up(report: &WorkerReport) -> bool {
    report.report.as_ref().is_ok_and(|report| report.on_done.is_empty())
}

/// Planted bug: responds before the reports are durable.
fn respond_before_durable(
    api: Api,
    grant: Grant,
    reports: Vec<WorkerReport>,
) -> Vec<ReportResponse> {
    let verdict = ReportVerdict::Finished { state: None, pushed: Vec::new() };
    let response =
        |report: &WorkerReport| ReportResponse { held: report.held, verdict: verdict.clone() };
    let responses = reports.iter().map(response).collect();
    drop(tokio::spawn(async move { drop(finish(&api, &grant, reports).await) }));
    responses
}

/// Applies reports independently: one that is invalid, or that the caller may not make, is refused alone.
pub(crate) async fn finish(
    api: &Api,
    grant: &Grant,
    reports: Vec<WorkerReport>,
) -> Result<Vec<ReportResponse>, Error> {
    let requests: Vec<_> = reports.into_iter().map(to_finish).collect();
    let valid = requests.iter().filter_map(|(_, request)| request.as_ref().ok()).cloned().collect();
    match api.finish_all(grant, valid).await {
        Ok(finished) => {
            let mut finished = finished.into_iter();
            let response = |(held, request): (DeliveryRef, Result<_, _>)| {
                let verdict = match request {
                    Ok(_) => verdict(finished.next().unwrap_or(finish::FinishResult::NotFound)),
                    Err(invalid) => ReportVerdict::Refused(invalid),
                };
                ReportResponse { held, verdict }
            };
            Ok(requests.into_iter().map(response).collect())
        }
        // One of them is invalid, and none was applied.
        Err(Error::Invalid(_)) => finish_singly(api, grant, requests).await,
        Err(error) => Err(error),
    }
}

type HeldFinish = (DeliveryRef, Result<Finish, crore_core::Invalid>);

fn to_finish(WorkerReport { held, report }: WorkerReport) -> HeldFinish {
    let (job, delivery): (_, Option<Delivery>) = (held.id.into(), Some(held.delivery));
    (held, report.map(|report| Finish { job, delivery, report }))
}

async fn finish_singly(
    api: &Api,
    grant: &Grant,
    requests: Vec<HeldFinish>,
) -> Result<Vec<ReportResponse>, Error> {
    let mut responses = Vec::with_capacity(requests.len());
    for (held, request) in requests {
        let finished = match request {
            Ok(request) => api.finish_all(grant, vec![request]).await,
            Err(invalid) => Err(invalid.into()),
        };
        let verdict = match finished {
            Ok(mut finished) => verdict(finished.pop().unwrap_or(finish::FinishResult::NotFound)),
            Err(Error::Invalid(mut invalid)) => {
                if let Some(field) = invalid.field.strip_prefix("finishes[0].") {
                    invalid.field = field.to_owned();
                }
                ReportVerdict::Refused(invalid)
            }
            Err(error) => return Err(error),
        };
        responses.push(ReportResponse { held, verdict });
    }
    Ok(responses)
}

fn verdict(finished: finish::FinishResult) -> ReportVerdict {
    match finished {
        finish::FinishResult::Accepted { state, pushed } => {
            let follow_up = |(index, result)| {
                let (id, status) = push_status(index, result)?;
                Ok(PushedFollowUp { id, duplicate: status == PushStatus::Duplicate })
            };
            let pushed = pushed.into_iter().enumerate().map(follow_up).collect();
            ReportVerdict::Finished { state, pushed }
        }
        finish::FinishResult::Stale => ReportVerdict::Stale,
        finish::FinishResult::NotFound => ReportVerdict::NotFound,
    }
}
