//! Looking at jobs.

use axum::extract::State;
use axum::response::Response;
use crore::explain::Reason;
use crore::store::views;
use crore_core::job::{ClientId, Why};
use crore_core::{Code, Invalid, Name, State as JobState};
use crore_wire::api::job::{Explanation, Job, Jobs, Reason as Said, Show, Which};
use crore_wire::api::push::DOOR;
use crore_wire::api::words;
use crore_wire::words::{Moment, Period};

use super::cursor;
use super::fault::Fault;
use super::query::{Query, Segment, name};
use super::wants::Reply;
use crate::Doors;

/// How many jobs a page has, if nothing is said.
const PAGE: usize = 100;

/// Lists jobs, without their payloads.
#[utoipa::path(
    get, path = "/v1/jobs", operation_id = "listJobs", tag = "jobs",
    params(Which),
    responses((status = 200, description = "A page of jobs.", body = Jobs)),
)]
pub(super) async fn list(
    State(doors): State<Doors>,
    reply: Reply,
    Query(which): Query<Which>,
) -> Result<Response, Fault> {
    let (found, next) = find(&doors, which).await?;
    let jobs = found.iter().map(|job| Job::of(job, reply.0, Show::Brief)).collect();
    Ok(reply.ok(&Jobs { jobs, next }))
}

/// A page of jobs, and where to go on.
pub(crate) async fn find(
    doors: &Doors,
    which: Which,
) -> Result<(Vec<crore_core::Job>, Option<String>), Fault> {
    if let Some(id) = which.client_id.clone() {
        return Ok((by_client(doors, &which, id).await?.into_iter().collect(), None));
    }
    let queue = name("queue", which.queue.as_deref())?;
    let kind = name("kind", which.kind.as_deref())?;
    let about = cursor::About { state: which.state.map(Into::into), queue: &queue, kind: &kind };
    let place = which.cursor.map(|text| cursor::read(&text, &about)).transpose()?;
    let (mut state, mut after) = match (place, about.state) {
        (Some((state, after)), _) => (Some(state), after),
        (None, Some(state)) => (Some(state), None),
        (None, None) => (JobState::ALL.first().copied(), None),
    };
    let n = which.limit.unwrap_or(PAGE);
    let mut found = Vec::new();
    // Without a state, a page goes on in the next one.
    while let Some(now) = state {
        let (queue, kind) = (queue.clone(), kind.clone());
        let query = views::Query { state: now, queue, kind, after, n: n - found.len() };
        let page = doors.engine().list(query).await.map_err(limit)?;
        found.extend(page.jobs);
        after = page.next;
        if after.is_none() {
            let next = JobState::ALL.iter().position(|one| *one == now).map(|at| at + 1);
            state = next.and_then(|at| JobState::ALL.get(at)).copied();
            state = state.filter(|_| about.state.is_none());
        }
        if after.is_some() || found.len() >= n {
            break;
        }
    }
    let next = state.filter(|state| after.is_some() || Some(*state) != about.state);
    let next = next.map(|state| cursor::write(state, after, &about));
    Ok((found, next))
}

/// The job to which its caller gave this id, if it is there.
async fn by_client(
    doors: &Doors,
    which: &Which,
    id: String,
) -> Result<Option<crore_core::Job>, Fault> {
    let alone = Which { client_id: Some(id.clone()), ..Which::default() };
    if *which != alone {
        let why = "a job that is named is not looked for by anything else";
        return Err(Invalid::new(Code::Malformed, "client_id", why).into());
    }
    let most = doors.engine().caps().key_bytes;
    let wrong = |code, why: String| Err(Invalid::new(code, "client_id", why).into());
    match id.len() {
        0 => return wrong(Code::KeyEmpty, "a key must not be empty".to_owned()),
        n if n > most => {
            return wrong(Code::KeyTooLong, format!("{n} bytes, at most {most} are allowed"));
        }
        _ => {}
    }
    let client = ClientId { door: Name::new("door", DOOR)?, id: id.into() };
    Ok(doors.engine().get(crore::store::jobs::Which::Client(client)).await?)
}

/// The engine says `n`, and this API `limit`.
fn limit(error: crore::Error) -> Fault {
    match error {
        crore::Error::Invalid(mut invalid) if invalid.field == "n" => {
            invalid.field = "limit".to_owned();
            invalid.into()
        }
        other => other.into(),
    }
}

/// A job.
#[utoipa::path(
    get, path = "/v1/jobs/{id}", operation_id = "getJob", tag = "jobs",
    params(("id" = crore_wire::api::Id, Path, description = "The job.")),
    responses((status = 200, description = "The job.", body = Job)),
)]
pub(super) async fn get(
    State(doors): State<Doors>,
    reply: Reply,
    id: Segment,
) -> Result<Response, Fault> {
    let id = id.job()?;
    let job = doors.engine().get(id).await?;
    let job = job.ok_or_else(|| Fault::missing(format!("job {id}")))?;
    Ok(reply.ok(&Job::of(&job, reply.0, Show::Whole)))
}

/// Why a job is not running.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/explain", operation_id = "explainJob", tag = "jobs",
    params(("id" = crore_wire::api::Id, Path, description = "The job.")),
    responses((status = 200, description = "What holds it.", body = Explanation)),
)]
pub(super) async fn explain(
    State(doors): State<Doors>,
    reply: Reply,
    id: Segment,
) -> Result<Response, Fault> {
    let id = id.job()?;
    let why = doors.engine().explain(id).await?;
    let why = why.ok_or_else(|| Fault::missing(format!("job {id}")))?;
    let reasons = why.reasons.iter().map(said).collect();
    Ok(reply.ok(&Explanation { id: id.into(), state: why.state.into(), reasons }))
}

fn said(reason: &Reason) -> Said {
    let (word, detail) = match reason {
        Reason::Ended { at, why } => ("ended", ended(*at, *why)),
        Reason::Running { since, worker, lease_until, stop } => {
            let worker = worker.as_ref().map_or(String::new(), |worker| format!(" by `{worker}`"));
            let stop = if *stop { ", and it was asked to stop" } else { "" };
            let (since, until) = (Moment(*since), Moment(*lease_until));
            ("running", format!("it runs since {since}{worker}, under a lease until {until}{stop}"))
        }
        Reason::WaitsFor { left, on, broken } => {
            let broken = if *broken { "; one of them can no longer succeed" } else { "" };
            ("waits-for", format!("it waits for {left} of {} things{broken}", on.len()))
        }
        Reason::DueAt { at, after, attempts, error } => {
            let mut detail =
                format!("it is due at {}, in {}", Moment(*at), Period(*after).roughly());
            if *attempts > 0 {
                let error = error.as_deref().unwrap_or_default();
                detail.push_str(&format!(", after {attempts} attempts: {error}"));
            }
            ("due-at", detail)
        }
        Reason::Paused(queue) => ("paused", format!("the queue `{queue}` is paused")),
        Reason::Limited { key, running, most } => {
            let value = key.value.as_ref().map_or(String::new(), |value| format!(" at `{value}`"));
            let most = most.map_or("a rate".to_owned(), |most| format!("{running} of {most} run"));
            ("limited", format!("the limit `{}`{value} holds it: {most}", key.limit))
        }
        Reason::Behind { jobs, or_more } => {
            let more = if *or_more { " or more" } else { "" };
            ("behind", format!("{jobs}{more} jobs of its queue come before it"))
        }
        Reason::NobodyWaits => {
            ("nobody-waits", "no worker waits here for jobs of its queue and kind".to_owned())
        }
    };
    Said { reason: word.to_owned(), detail }
}

fn ended(at: Option<crore_core::Time>, why: Option<Why>) -> String {
    let at = at.map_or(String::new(), |at| format!(" at {}", Moment(at)));
    let word = why.and_then(|why| serde_json::to_value(words::Why::from(why)).ok());
    let why = word.and_then(|word| word.as_str().map(|word| format!(": {word}")));
    format!("it has ended{at}{}", why.unwrap_or_default())
}
