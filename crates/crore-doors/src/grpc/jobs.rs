//! `crore.v1.Jobs`: pushing jobs, reading them, acting on them, and waiting for results.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Waking, Poll};

use crore::IdempotencyKey;
use crore::actions::{JobAction, JobChanges};
use crore::push::{BatchResult, PushResult};
use crore_api::audit::AuditDetails;
use crore_api::calls::{self, JobPage, ReplayCall, unreadable_job};
use crore_api::telemetry::{TraceContext, inherit};
use crore_api::{AdmittedCall, Fault, Grant};
use crore_core::job::{ClientId, DueTime};
use crore_core::push::NewGroup;
use crore_core::{Batch, Invalid, Job, JobId, Name, Span, Time};
use crore_wire::api::job::{JobView, JobsQuery};
use crore_wire::api::push::{CLIENT_ID_DOOR, PushStatus};
use crore_wire::grpc::v1::{self, change_request, job_ref, jobs_server};
use futures_util::stream::{Stream, StreamExt};
use prost::Message;
use tonic::{Request, Response, Status, Streaming};

use super::fault::{failed, invalid, missing};
use super::grant;
use crate::Doors;
use crate::worker_session::InFlight;

#[derive(Debug, Clone)]
pub(super) struct JobsService(pub(super) Doors);

type JobsReply<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl jobs_server::Jobs for JobsService {
    async fn push(&self, request: Request<v1::PushRequest>) -> JobsReply<v1::PushResponse> {
        let pusher = PushCaller::of(&self.0, &request)?;
        pusher.push(request.into_inner()).await.map(Response::new)
    }

    type PushStreamStream = PushStream;

    async fn push_stream(
        &self,
        request: Request<Streaming<v1::PushRequest>>,
    ) -> JobsReply<PushStream> {
        let meter = AdmittedCall::of(request.extensions()).map(|call| call.meter());
        Ok(Response::new(PushStream {
            pusher: PushCaller::of(&self.0, &request)?,
            requests: Some(request.into_inner()),
            in_flight: InFlight::new(meter),
        }))
    }

    async fn get(&self, request: Request<v1::JobRef>) -> JobsReply<v1::Job> {
        let grant = grant(&request)?;
        let job = get(&self.0, &grant, request.into_inner()).await?;
        Ok(Response::new(v1::Job::of(&job, JobView::Full)))
    }

    async fn list(&self, request: Request<v1::ListRequest>) -> JobsReply<v1::ListResponse> {
        let grant = grant(&request)?;
        let request = request.into_inner();
        let some = |text: String| (!text.is_empty()).then_some(text);
        let which = JobsQuery {
            state: v1::State::read(request.state).map_err(invalid)?.map(Into::into),
            queue: some(request.queue),
            kind: some(request.kind),
            q: some(request.q),
            client_id: None,
            cursor: some(request.cursor),
            limit: (request.limit > 0).then_some(request.limit as usize),
        };
        let JobPage { jobs, next, scanned } = self.0.api().list_jobs(&grant, which).await?;
        let jobs = jobs.iter().map(|job| v1::Job::of(job, JobView::Summary)).collect();
        let (complete, next) = (next.is_none(), next.unwrap_or_default());
        let scanned = scanned as u64;
        Ok(Response::new(v1::ListResponse { jobs, next, scanned, complete }))
    }

    async fn cancel(&self, request: Request<v1::JobRef>) -> JobsReply<v1::Acted> {
        let grant = grant(&request)?;
        act((&self.0, &grant), request.into_inner(), &JobAction::Cancel).await
    }

    async fn retry(&self, request: Request<v1::JobRef>) -> JobsReply<v1::Acted> {
        let grant = grant(&request)?;
        act((&self.0, &grant), request.into_inner(), &JobAction::Retry).await
    }

    async fn delete(&self, request: Request<v1::JobRef>) -> JobsReply<v1::Acted> {
        let grant = grant(&request)?;
        act((&self.0, &grant), request.into_inner(), &JobAction::Delete).await
    }

    async fn change(&self, request: Request<v1::ChangeRequest>) -> JobsReply<v1::Acted> {
        let grant = grant(&request)?;
        let request = request.into_inner();
        let queue = request.queue.as_deref().map(|queue| Name::new("queue", queue));
        let due = request.when.map(|when| match when {
            change_request::When::DueMs(due) => DueTime::At(Time::from_millis(due)),
            change_request::When::DelayMs(delay) => DueTime::After(Span::from_millis(delay)),
        });
        let queue = queue.transpose().map_err(invalid)?;
        let change = JobAction::Change(JobChanges { queue, priority: request.priority, due });
        act((&self.0, &grant), request.job.ok_or_else(|| missing("job"))?, &change).await
    }

    async fn replay(&self, request: Request<v1::ReplayRequest>) -> JobsReply<v1::Pushed> {
        let (grant, context) = (grant(&request)?, context(&request));
        let request = request.into_inner();
        let edits = request.edits().map_err(invalid)?;
        let key = read_key(&request.idempotency_key)?;
        let original = job_selector(request.job.ok_or_else(|| missing("job"))?)?;
        let (key, context) = (key.as_ref(), context.as_ref());
        let call = ReplayCall { original, edits: &edits, key, context };
        let (id, status) = self.0.api().replay_job(&grant, call).await?;
        let duplicate = status == PushStatus::Duplicate;
        Ok(Response::new(v1::Pushed { id: id.0, duplicate, problem: None }))
    }

    async fn wait(&self, request: Request<v1::WaitRequest>) -> JobsReply<v1::Ended> {
        let grant = grant(&request)?;
        let request = request.into_inner();
        let id = JobId(request.id);
        let wait = Span::from_millis(request.wait_ms).min(self.0.api().options().max_wait);
        let response = match self.0.api().wait_for_job(&grant, id, wait).await? {
            Some(ended) => v1::Ended {
                id: request.id,
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
                let job = self.0.engine().get(id).await.map_err(failed)?;
                let job = job.ok_or_else(|| Fault::missing(format!("job {id}")))?;
                v1::Ended {
                    id: request.id,
                    ended: job.live.state.has_ended(),
                    state: state(Some(job.live.state)),
                    ..v1::Ended::default()
                }
            }
        };
        Ok(Response::new(response))
    }
}

fn state(state: Option<crore_core::State>) -> i32 {
    state.map_or(0, |state| v1::State::from(state).into())
}

/// The job that a reference names, by its id or the client's id.
fn job_selector(job: v1::JobRef) -> Result<crore::store::jobs::JobSelector, Status> {
    match job.which {
        Some(job_ref::Which::Id(id)) => Ok(JobId(id).into()),
        Some(job_ref::Which::ClientId(id)) => {
            let door = Name::new("door", CLIENT_ID_DOOR).map_err(invalid)?;
            Ok(crore::store::jobs::JobSelector::Client(ClientId { door, id: id.into() }))
        }
        None => Err(missing("which")),
    }
}

async fn get(doors: &Doors, grant: &Grant, job: v1::JobRef) -> Result<Job, Status> {
    Ok(doors.api().get_job(grant, job_selector(job)?).await?)
}

async fn act(
    (doors, grant): (&Doors, &Grant),
    job: v1::JobRef,
    act: &JobAction,
) -> JobsReply<v1::Acted> {
    let id = match job.which {
        Some(job_ref::Which::Id(id)) => JobId(id),
        _ => get(doors, grant, job).await?.id,
    };
    let state = state(doors.api().act_on_job(grant, id, act).await?);
    let mut response = Response::new(v1::Acted { id: id.0, state });
    // For the audit log: the path does not name the job.
    response.extensions_mut().insert(AuditDetails(format!("job {id}")));
    Ok(response)
}

/// The trace context of a call.
fn context<T>(request: &Request<T>) -> Option<Arc<str>> {
    request.extensions().get::<TraceContext>().map(|context| context.to_string().into())
}

/// The caller of a push, or of a stream of pushes.
#[derive(Clone)]
struct PushCaller {
    doors: Doors,
    grant: Grant,
    context: Option<Arc<str>>,
}

impl PushCaller {
    fn of<T>(doors: &Doors, request: &Request<T>) -> Result<Self, Status> {
        Ok(Self { doors: doors.clone(), grant: grant(request)?, context: context(request) })
    }

    async fn push(self, mut request: v1::PushRequest) -> Result<v1::PushResponse, Status> {
        let tag = std::mem::take(&mut request.tag);
        let key = read_key(&request.idempotency_key)?;
        let (batch, faults) = read(request, self.context.as_ref()).map_err(invalid)?;
        let pushed = self.doors.api().push(&self.grant, batch, key.as_ref()).await;
        Ok(v1::PushResponse { tag, ..push_response(pushed.map_err(failed)?, faults) })
    }
}

/// The idempotency key of a call, if there is one.
fn read_key(text: &str) -> Result<Option<IdempotencyKey>, Status> {
    match text {
        "" => Ok(None),
        key => IdempotencyKey::new("idempotency_key", key).map(Some).map_err(invalid),
    }
}

/// Jobs that could not be read, with their positions.
type UnreadableJobs = Vec<(usize, Invalid)>;

/// Reads the jobs of a batch one by one. An unreadable job is replaced by one that fails every check, so that the
/// others keep their positions and references to it are refused.
fn read(
    request: v1::PushRequest,
    context: Option<&Arc<str>>,
) -> Result<(Batch, UnreadableJobs), Invalid> {
    let groups = request
        .groups
        .into_iter()
        .map(|group| NewGroup { open: group.open, maker: None })
        .collect();
    let (mut jobs, mut faults) = (Vec::with_capacity(request.jobs.len()), UnreadableJobs::new());
    for (n, job) in request.jobs.into_iter().enumerate() {
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

fn push_response(pushes: BatchResult, faults: UnreadableJobs) -> v1::PushResponse {
    let mut jobs: Vec<v1::Pushed> =
        pushes.jobs.into_iter().enumerate().map(|(n, result)| pushed(n, result)).collect();
    for (n, invalid) in faults {
        if let Some(job) = jobs.get_mut(n) {
            job.problem = Some((&invalid).into());
        }
    }
    let refused = jobs.iter().filter(|job| job.problem.is_some()).count() as u32;
    let groups = pushes.groups.into_iter().map(|id| id.0).collect();
    v1::PushResponse { jobs, groups, refused, tag: 0 }
}

/// The result of one pushed job.
pub(super) fn pushed(index: usize, result: PushResult) -> v1::Pushed {
    match calls::pushed(index, result) {
        Ok((id, status)) => {
            v1::Pushed { id: id.0, duplicate: status == PushStatus::Duplicate, problem: None }
        }
        Err(invalid) => v1::Pushed { problem: Some((&invalid).into()), ..v1::Pushed::default() },
    }
}

/// A stream of batches. Each is pushed when it arrives; its response is sent when it is durable.
pub(super) struct PushStream {
    pusher: PushCaller,
    /// `None`: the client has closed the stream.
    requests: Option<Streaming<v1::PushRequest>>,
    in_flight: InFlight<Result<v1::PushResponse, Status>>,
}

impl Stream for PushStream {
    type Item = Result<v1::PushResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, waking: &mut Waking<'_>) -> Poll<Option<Self::Item>> {
        while self.in_flight.has_room()
            && let Some(requests) = &mut self.requests
            && let Poll::Ready(received) = requests.poll_next_unpin(waking)
        {
            match received {
                Some(Ok(request)) if self.pusher.doors.engine().lifecycle().is_stopping() => {
                    drop(request);
                    self.requests = None;
                    self.in_flight.push(0, async { Err(failed(crore::Error::Stopping)) });
                }
                Some(Ok(request)) => {
                    let bytes = request.encoded_len();
                    if let Err(fault) = self.in_flight.reserve(bytes) {
                        self.requests = None;
                        self.in_flight.push(0, async { Err(fault.into()) });
                        break;
                    }
                    let pushed = self.pusher.clone().push(request);
                    self.in_flight.push(bytes, pushed);
                }
                // Batches received before the error still get their responses.
                Some(Err(status)) => {
                    self.requests = None;
                    self.in_flight.push(0, async { Err(status) });
                }
                None => self.requests = None,
            }
        }
        match self.in_flight.poll_next(waking) {
            Poll::Ready(None) if self.requests.is_some() => Poll::Pending,
            polled => polled,
        }
    }
}
