//! Pushing jobs, and asking what became of them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Waking, Poll};

use crore::IdempotencyKey;
use crore::act::{Act, Other};
use crore::push::{Pushes, Taken};
use crore_api::audit::About;
use crore_api::calls::{self, JobPage, unreadable_job};
use crore_api::telemetry::{Context, inherit};
use crore_core::job::{ClientId, When};
use crore_core::push::NewGroup;
use crore_core::{Batch, Invalid, Job, JobId, Name, Span, Time};
use crore_wire::api::job::{Show, Which};
use crore_wire::api::push::{DOOR, Took};
use crore_wire::grpc::v1::{self, change_request, job_ref, jobs_server};
use futures_util::stream::{Stream, StreamExt};
use prost::Message;
use tonic::{Request, Response, Status, Streaming};

use super::fault::{failed, invalid, missing};
use crate::Doors;
use crate::worker_session::InFlight;

/// The service.
#[derive(Debug, Clone)]
pub(super) struct Service(pub(super) Doors);

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl jobs_server::Jobs for Service {
    async fn push(&self, request: Request<v1::PushRequest>) -> Answer<v1::PushResponse> {
        let context = context(&request);
        push(self.0.clone(), request.into_inner(), context).await.map(Response::new)
    }

    type PushStreamStream = Pushing;

    async fn push_stream(&self, request: Request<Streaming<v1::PushRequest>>) -> Answer<Pushing> {
        let context = context(&request);
        Ok(Response::new(Pushing {
            doors: self.0.clone(),
            context,
            comes: Some(request.into_inner()),
            in_flight: InFlight::new(),
        }))
    }

    async fn get(&self, request: Request<v1::JobRef>) -> Answer<v1::Job> {
        let job = get(&self.0, request.into_inner()).await?;
        Ok(Response::new(v1::Job::of(&job, Show::Whole)))
    }

    async fn list(&self, request: Request<v1::ListRequest>) -> Answer<v1::ListResponse> {
        let ask = request.into_inner();
        let some = |text: String| (!text.is_empty()).then_some(text);
        let which = Which {
            state: v1::State::read(ask.state).map_err(invalid)?.map(Into::into),
            queue: some(ask.queue),
            kind: some(ask.kind),
            client_id: None,
            cursor: some(ask.cursor),
            limit: (ask.limit > 0).then_some(ask.limit as usize),
        };
        let JobPage { jobs, next } = self.0.api().list_jobs(which).await?;
        let jobs = jobs.iter().map(|job| v1::Job::of(job, Show::Brief)).collect();
        Ok(Response::new(v1::ListResponse { jobs, next: next.unwrap_or_default() }))
    }

    async fn cancel(&self, request: Request<v1::JobRef>) -> Answer<v1::Acted> {
        act(&self.0, request.into_inner(), &Act::Cancel).await
    }

    async fn retry(&self, request: Request<v1::JobRef>) -> Answer<v1::Acted> {
        act(&self.0, request.into_inner(), &Act::Retry).await
    }

    async fn delete(&self, request: Request<v1::JobRef>) -> Answer<v1::Acted> {
        act(&self.0, request.into_inner(), &Act::Delete).await
    }

    async fn change(&self, request: Request<v1::ChangeRequest>) -> Answer<v1::Acted> {
        let ask = request.into_inner();
        let queue = ask.queue.as_deref().map(|queue| Name::new("queue", queue));
        let due = ask.when.map(|when| match when {
            change_request::When::DueMs(due) => When::At(Time::from_millis(due)),
            change_request::When::DelayMs(delay) => When::After(Span::from_millis(delay)),
        });
        let queue = queue.transpose().map_err(invalid)?;
        let change = Act::Change(Other { queue, priority: ask.priority, due });
        act(&self.0, ask.job.ok_or_else(|| missing("job"))?, &change).await
    }

    async fn wait(&self, request: Request<v1::WaitRequest>) -> Answer<v1::Ended> {
        let ask = request.into_inner();
        let id = JobId(ask.id);
        let wait = Span::from_millis(ask.wait_ms).min(self.0.api().options().max_wait);
        let said = match self.0.api().wait_for_job(id, wait).await? {
            Some(ended) => v1::Ended {
                id: ask.id,
                ended: true,
                state: state(ended.state),
                encoding: ended
                    .result
                    .as_ref()
                    .map_or(0, |result| v1::Encoding::from(result.encoding).into()),
                result: ended.result.map(|result| result.bytes.to_vec().into()),
                error: ended.error.as_deref().unwrap_or_default().to_owned(),
            },
            None => {
                let job = self.0.api().get_job(id).await?;
                v1::Ended {
                    id: ask.id,
                    ended: job.live.state.has_ended(),
                    state: state(Some(job.live.state)),
                    ..v1::Ended::default()
                }
            }
        };
        Ok(Response::new(said))
    }
}

fn state(state: Option<crore_core::State>) -> i32 {
    state.map_or(0, |state| v1::State::from(state).into())
}

/// The job that is meant, if it is named by the id of its pusher.
fn which(job: v1::JobRef) -> Result<crore::store::jobs::Which, Status> {
    match job.which {
        Some(job_ref::Which::Id(id)) => Ok(JobId(id).into()),
        Some(job_ref::Which::ClientId(id)) => {
            let door = Name::new("door", DOOR).map_err(invalid)?;
            Ok(crore::store::jobs::Which::Client(ClientId { door, id: id.into() }))
        }
        None => Err(missing("which")),
    }
}

async fn get(doors: &Doors, job: v1::JobRef) -> Result<Job, Status> {
    Ok(doors.api().get_job(which(job)?).await?)
}

async fn act(doors: &Doors, job: v1::JobRef, act: &Act) -> Answer<v1::Acted> {
    let id = match job.which {
        Some(job_ref::Which::Id(id)) => JobId(id),
        _ => get(doors, job).await?.id,
    };
    let state = state(doors.api().act_on_job(id, act).await?);
    let mut response = Response::new(v1::Acted { id: id.0, state });
    // The path does not say which.
    response.extensions_mut().insert(About(format!("job {id}")));
    Ok(response)
}

/// The trace context of a call.
fn context<T>(request: &Request<T>) -> Option<Arc<str>> {
    request.extensions().get::<Context>().map(|context| context.to_string().into())
}

async fn push(
    doors: Doors,
    mut ask: v1::PushRequest,
    context: Option<Arc<str>>,
) -> Result<v1::PushResponse, Status> {
    let tag = std::mem::take(&mut ask.tag);
    let key = match ask.idempotency_key.as_str() {
        "" => None,
        key => Some(IdempotencyKey::new("idempotency_key", key).map_err(invalid)?),
    };
    let (batch, faults) = read(ask, context.as_ref()).map_err(invalid)?;
    let pushes = doors.api().push(batch, key.as_ref()).await?;
    Ok(v1::PushResponse { tag, ..answer(pushes, faults) })
}

/// Jobs that could not be read, by their place.
type Faults = Vec<(usize, Invalid)>;

/// Reads the jobs of a batch one by one. One that cannot be read stands in the batch as one that no check
/// lets through, so that each keeps its place and whoever refers to it is told.
fn read(ask: v1::PushRequest, context: Option<&Arc<str>>) -> Result<(Batch, Faults), Invalid> {
    let groups = ask.groups.into_iter().map(|group| NewGroup { open: group.open }).collect();
    let (mut jobs, mut faults) = (Vec::with_capacity(ask.jobs.len()), Faults::new());
    for (n, job) in ask.jobs.into_iter().enumerate() {
        let read = job.read().map(|mut job| {
            inherit(&mut job.spec, context);
            job
        });
        jobs.push(match read {
            Ok(job) => job,
            Err(invalid) => {
                faults.push((n, invalid.inside(&format!("jobs[{n}]"))));
                unreadable_job()?
            }
        });
    }
    Ok((Batch { groups, jobs }, faults))
}

fn answer(pushes: Pushes, faults: Faults) -> v1::PushResponse {
    let mut jobs: Vec<v1::Pushed> =
        pushes.jobs.into_iter().enumerate().map(|(n, taken)| pushed(n, taken)).collect();
    for (n, invalid) in faults {
        if let Some(job) = jobs.get_mut(n) {
            job.problem = Some((&invalid).into());
        }
    }
    let refused = jobs.iter().filter(|job| job.problem.is_some()).count() as u32;
    let groups = pushes.groups.into_iter().map(|id| id.0).collect();
    v1::PushResponse { jobs, groups, refused, tag: 0 }
}

/// What became of a job, for its pusher.
pub(super) fn pushed(place: usize, taken: Taken) -> v1::Pushed {
    match calls::pushed(place, taken) {
        Ok((id, took)) => {
            v1::Pushed { id: id.0, duplicate: took == Took::Duplicate, problem: None }
        }
        Err(invalid) => v1::Pushed { problem: Some((&invalid).into()), ..v1::Pushed::default() },
    }
}

/// A stream of batches: each is pushed as soon as it is here, and answered when it is on the disk.
pub(super) struct Pushing {
    doors: Doors,
    context: Option<Arc<str>>,
    /// `None`: there will be nothing more.
    comes: Option<Streaming<v1::PushRequest>>,
    in_flight: InFlight<Result<v1::PushResponse, Status>>,
}

impl Stream for Pushing {
    type Item = Result<v1::PushResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, waking: &mut Waking<'_>) -> Poll<Option<Self::Item>> {
        while self.in_flight.has_room()
            && let Some(comes) = &mut self.comes
            && let Poll::Ready(came) = comes.poll_next_unpin(waking)
        {
            match came {
                Some(Ok(ask)) if self.doors.engine().lifecycle().is_stopping() => {
                    drop(ask);
                    self.comes = None;
                    self.in_flight.push(0, async { Err(failed(crore::Error::Stopping)) });
                }
                Some(Ok(ask)) => {
                    let bytes = ask.encoded_len();
                    let pushed = push(self.doors.clone(), ask, self.context.clone());
                    self.in_flight.push(bytes, pushed);
                }
                // What came before is answered all the same.
                Some(Err(status)) => {
                    self.comes = None;
                    self.in_flight.push(0, async { Err(status) });
                }
                None => self.comes = None,
            }
        }
        match self.in_flight.poll_next(waking) {
            Poll::Ready(None) if self.comes.is_some() => Poll::Pending,
            polled => polled,
        }
    }
}
