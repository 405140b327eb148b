//! Taking jobs and reporting how they went.

use crore::fetch::Fetch;
use crore::finish::{Finish, Finished};
use crore::store::jobs::{Order, Renew, Renewed};
use crore_api::params::names;
use crore_core::{Delivery, Invalid, Job, JobId, Name, Span};
use crore_wire::grpc::v1::{self, work_server};
use tonic::{Request, Response, Status, Streaming};

use super::fault::{failed, invalid};
use super::jobs::pushed;
use super::stream::Session;
use crate::Doors;

/// The service.
#[derive(Debug, Clone)]
pub(super) struct Service(pub(super) Doors);

/// Who asks, if he does not say.
const NOBODY: &str = "anonymous";

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl work_server::Work for Service {
    type StreamStream = Session<Streaming<v1::WorkerSays>>;

    async fn stream(
        &self,
        request: Request<Streaming<v1::WorkerSays>>,
    ) -> Answer<Self::StreamStream> {
        Ok(Response::new(Session::new(self.0.clone(), request.into_inner())))
    }

    async fn fetch(&self, request: Request<v1::FetchRequest>) -> Answer<v1::FetchResponse> {
        let ask = request.into_inner();
        let worker = if ask.worker.is_empty() { NOBODY } else { &ask.worker };
        let wait = Span::from_millis(ask.wait_ms).min(self.0.api().options().max_wait.0);
        let fetch = Fetch {
            n: ask.n.max(1) as usize,
            wait,
            ..wanted(&ask.queues, &ask.kinds, ask.strict, worker).map_err(invalid)?
        };
        let jobs = self.0.engine().fetch(fetch).await.map_err(failed)?;
        let jobs = self.0.engine().hand_over(jobs).await.map_err(failed)?;
        let jobs = jobs.iter().map(|job| delivered(&self.0, job)).collect();
        Ok(Response::new(v1::FetchResponse { jobs }))
    }

    async fn renew(&self, request: Request<v1::RenewRequest>) -> Answer<v1::RenewResponse> {
        let ask = request.into_inner();
        self.0.api().check_count(ask.jobs.len()).map_err(invalid)?;
        let span = ask.lease_ms.map(Span::from_millis);
        let renew = |held: &v1::Held| {
            let (id, delivery) = (JobId(held.id), Delivery(held.delivery));
            Renew { id, delivery, span }
        };
        let renewed = self.0.engine().renew(ask.jobs.iter().map(renew).collect()).await;
        let jobs = renewed.map_err(failed)?.into_iter().map(|renewed| match renewed {
            Renewed::Until { until, stop } => v1::Lease { until_ms: until.as_millis(), stop },
            Renewed::Stale => v1::Lease::default(),
        });
        Ok(Response::new(v1::RenewResponse { jobs: jobs.collect() }))
    }

    async fn finish(&self, request: Request<v1::FinishRequest>) -> Answer<v1::FinishResponse> {
        let reports = request.into_inner().jobs;
        self.0.api().check_count(reports.len()).map_err(invalid)?;
        let jobs = finish(&self.0, reports).await?;
        Ok(Response::new(v1::FinishResponse { jobs }))
    }
}

/// What a worker wants.
pub(super) fn wanted(
    queues: &[String],
    kinds: &[String],
    strict: bool,
    worker: &str,
) -> Result<Fetch, Invalid> {
    Ok(Fetch {
        queues: names("queues", queues)?,
        kinds: (!kinds.is_empty()).then(|| names("kinds", kinds)).transpose()?,
        handled: None,
        n: 1,
        order: if strict { Order::Strict } else { Order::Merged },
        worker: Name::new("worker", worker)?,
        wait: Span::ZERO,
    })
}

/// A job, as it is handed over.
pub(super) fn delivered(doors: &Doors, job: &Job) -> v1::Delivered {
    v1::Delivered::of(job, doors.api().trace_of(job))
}

/// What was last told of how jobs are run: the next one is mostly of the same handler.
#[derive(Debug, Default)]
pub(super) struct Told(Option<(Name, v1::Handled)>);

impl Told {
    /// How a job is to be run; `None`: its handler is gone since it was fetched.
    pub(super) fn handled(&mut self, doors: &Doors, job: &Job) -> Option<v1::Handled> {
        let (kind, known) = doors.engine().handler_of(job)?;
        // Whoever runs jobs keeps runners by kind: one that waited under an old name has none of those.
        let is_pooled = known.handler.pooled && kind == job.spec.kind;
        if let Some((last, told)) = &self.0
            && (last, told.revision) == (&kind, known.revision.0)
        {
            return Some(v1::Handled { pooled: is_pooled, ..told.clone() });
        }
        let told = v1::Handled {
            revision: known.revision.0,
            runner: known.handler.runner.to_string(),
            settings: serde_json::Value::Object(known.handler.settings.clone()).to_string(),
            pooled: is_pooled,
        };
        self.0 = Some((kind, told.clone()));
        Some(told)
    }
}

/// Reports, each on its own: one that breaks a rule is refused alone.
pub(super) async fn finish(
    doors: &Doors,
    reports: Vec<v1::Report>,
) -> Result<Vec<v1::Finished>, Status> {
    let mut answers = Vec::with_capacity(reports.len());
    let mut asked = Vec::with_capacity(reports.len());
    for report in reports {
        let (id, delivery) = (report.id, report.delivery);
        answers.push(v1::Finished { id, delivery, ..v1::Finished::default() });
        asked.push(report.read().map(|report| Finish {
            job: JobId(id).into(),
            delivery: Some(Delivery(delivery)),
            report,
        }));
    }
    let good = asked.iter().filter_map(|asked| asked.as_ref().ok()).cloned().collect();
    match doors.engine().finish_all(good).await {
        Ok(finished) => {
            let mut finished = finished.into_iter();
            for (answer, asked) in answers.iter_mut().zip(asked) {
                match asked {
                    Ok(_) => say(answer, finished.next().unwrap_or(Finished::NotFound)),
                    Err(invalid) => refuse(answer, &invalid),
                }
            }
        }
        // One of them breaks a rule, and none was taken.
        Err(crore::Error::Invalid(_)) => {
            for (answer, asked) in answers.iter_mut().zip(asked) {
                let finished = match asked {
                    Ok(finish) => doors.engine().finish(finish).await,
                    Err(invalid) => Err(invalid.into()),
                };
                match finished {
                    Ok(finished) => say(answer, finished),
                    Err(crore::Error::Invalid(mut invalid)) => {
                        if let Some(field) = invalid.field.strip_prefix("finishes[0].") {
                            invalid.field = field.to_owned();
                        }
                        refuse(answer, &invalid);
                    }
                    Err(error) => return Err(failed(error)),
                }
            }
        }
        Err(error) => return Err(failed(error)),
    }
    Ok(answers)
}

fn say(answer: &mut v1::Finished, finished: Finished) {
    let verdict = match finished {
        Finished::Yes { state, pushed: follow_ups } => {
            answer.state = state.map_or(0, |state| v1::State::from(state).into());
            let follow_ups = follow_ups.into_iter().enumerate();
            answer.pushed = follow_ups.map(|(n, taken)| pushed(n, taken)).collect();
            v1::Verdict::Finished
        }
        Finished::Stale => v1::Verdict::Stale,
        Finished::NotFound => v1::Verdict::NotFound,
    };
    answer.verdict = verdict.into();
}

fn refuse(answer: &mut v1::Finished, invalid: &Invalid) {
    answer.verdict = v1::Verdict::Refused.into();
    answer.problem = Some(invalid.into());
}
