//! Reports of a worker, from its message to the answers.

use std::sync::Arc;

use crore::finish::{self, Finish};
use crore::{Engine, Error};
use crore_api::calls::pushed as told;
use crore_api::planted;
use crore_core::Delivery;
use crore_wire::api::push::Took;
use crore_wire::worker::{Finished, Held, Pushed, Report, Verdict};

use super::incarnation::Incarnation;

/// Applies the reports of one message, and answers them in order. Those about deliveries that the worker does not hold
/// are stale without a look; deliveries whose reports are refused are its own again.
pub(super) fn report(
    engine: Engine,
    incarnation: Arc<Incarnation>,
    mut reports: Vec<Report>,
) -> impl Future<Output = Result<Vec<Finished>, Error>> {
    // The slots are free from now on, not when the report is durable.
    let foreign = incarnation.release_reported(&mut reports);
    async move {
        let own = match reports.is_empty() {
            true => Vec::new(),
            false => report_own(&engine, &incarnation, reports).await?,
        };
        if foreign.is_empty() {
            return Ok(own);
        }
        let mut finished = Vec::with_capacity(own.len() + foreign.len());
        let mut own = own.into_iter();
        for (place, held) in foreign {
            finished.extend(own.by_ref().take(place - finished.len()));
            finished.push(Finished { held, verdict: Verdict::Stale });
        }
        finished.extend(own);
        Ok(finished)
    }
}

async fn report_own(
    engine: &Engine,
    incarnation: &Incarnation,
    reports: Vec<Report>,
) -> Result<Vec<Finished>, Error> {
    if planted!("bug-32") && reports.iter().all(has_no_follow_up) {
        return Ok(too_early(engine.clone(), reports));
    }
    let finished = finish(engine, reports).await?;
    let is_refused = |one: &&Finished| matches!(one.verdict, Verdict::Refused(_));
    for one in finished.iter().filter(is_refused) {
        let job = engine.get(one.held.id).await?;
        incarnation.take(job.filter(|job| job.live.delivery == one.held.delivery).as_slice());
    }
    Ok(finished)
}

fn has_no_follow_up(report: &Report) -> bool {
    report.report.as_ref().is_ok_and(|report| report.on_done.is_empty())
}

/// The planted mistake: answers before the reports are durable.
fn too_early(engine: Engine, reports: Vec<Report>) -> Vec<Finished> {
    let verdict = Verdict::Finished { state: None, pushed: Vec::new() };
    let answer = |report: &Report| Finished { held: report.held, verdict: verdict.clone() };
    let answers = reports.iter().map(answer).collect();
    drop(tokio::spawn(async move { drop(finish(&engine, reports).await) }));
    answers
}

/// Applies reports, each on its own: a report that breaks a rule is refused alone.
pub(crate) async fn finish(engine: &Engine, reports: Vec<Report>) -> Result<Vec<Finished>, Error> {
    let asked: Vec<_> = reports.into_iter().map(asked).collect();
    let good = asked.iter().filter_map(|(_, asked)| asked.as_ref().ok()).cloned().collect();
    match engine.deliveries().finish_all(good).await {
        Ok(finished) => {
            let mut finished = finished.into_iter();
            let answer = |(held, asked): (Held, Result<_, _>)| {
                let verdict = match asked {
                    Ok(_) => verdict(finished.next().unwrap_or(finish::Finished::NotFound)),
                    Err(invalid) => Verdict::Refused(invalid),
                };
                Finished { held, verdict }
            };
            Ok(asked.into_iter().map(answer).collect())
        }
        // One of them breaks a rule, and none was applied.
        Err(Error::Invalid(_)) => finish_singly(engine, asked).await,
        Err(error) => Err(error),
    }
}

type Asked = (Held, Result<Finish, crore_core::Invalid>);

fn asked(Report { held, report }: Report) -> Asked {
    let (job, delivery): (_, Option<Delivery>) = (held.id.into(), Some(held.delivery));
    (held, report.map(|report| Finish { job, delivery, report }))
}

async fn finish_singly(engine: &Engine, asked: Vec<Asked>) -> Result<Vec<Finished>, Error> {
    let mut answers = Vec::with_capacity(asked.len());
    for (held, asked) in asked {
        let finished = match asked {
            Ok(asked) => engine.finish(asked).await,
            Err(invalid) => Err(invalid.into()),
        };
        let verdict = match finished {
            Ok(finished) => verdict(finished),
            Err(Error::Invalid(mut invalid)) => {
                if let Some(field) = invalid.field.strip_prefix("finishes[0].") {
                    invalid.field = field.to_owned();
                }
                Verdict::Refused(invalid)
            }
            Err(error) => return Err(error),
        };
        answers.push(Finished { held, verdict });
    }
    Ok(answers)
}

fn verdict(finished: finish::Finished) -> Verdict {
    match finished {
        finish::Finished::Yes { state, pushed } => {
            let follow_up = |(place, taken)| {
                let (id, took) = told(place, taken)?;
                Ok(Pushed { id, duplicate: took == Took::Duplicate })
            };
            let pushed = pushed.into_iter().enumerate().map(follow_up).collect();
            Verdict::Finished { state, pushed }
        }
        finish::Finished::Stale => Verdict::Stale,
        finish::Finished::NotFound => Verdict::NotFound,
    }
}
