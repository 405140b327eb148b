//! Reading jobs.

use crore::explain::Reason;
use crore::store::jobs::JobSelector;
use crore::store::views;
use crore_core::code::excerpt;
use crore_core::job::{ClientId, EndReason};
use crore_core::{Code, Invalid, Job, JobId, Name, State, Time};
use crore_wire::api::enums;
use crore_wire::api::job::{self as wire, Explanation};
use crore_wire::api::push::CLIENT_ID_DOOR;
use crore_wire::units::Moment;

use crate::params::optional_name;
use crate::{Api, ConnectedWorker, Fault, Grant, cursor};

/// Default size of a page.
const PAGE: usize = 100;
/// A page is cut short after this many jobs outside the caller's restriction.
const MAX_LEFT_OUT: usize = 10_000;

/// A page of jobs.
#[derive(Debug)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// The cursor of the next page, if there is one.
    pub next: Option<String>,
}

impl Api {
    /// Lists jobs, page by page. Jobs outside the caller's restriction are left out; a page is short, and has a
    /// successor, if too many of them come before the next job to show.
    pub async fn list_jobs(&self, grant: &Grant, which: wire::JobsQuery) -> Result<JobPage, Fault> {
        if let Some(id) = which.client_id.clone() {
            let job = self.by_client_id(&which, id).await?;
            let jobs = job.filter(|job| grant.covers_job(&job.spec)).into_iter().collect();
            return Ok(JobPage { jobs, next: None });
        }
        let (queue, kind) = filter_names(grant, which.queue.as_deref(), which.kind.as_deref())?;
        let about =
            cursor::ListFilter { state: which.state.map(Into::into), queue: &queue, kind: &kind };
        let position = which.cursor.map(|text| cursor::decode(&text, &about)).transpose()?;
        let (mut state, mut after) = match (position, about.state) {
            (Some((state, after)), _) => (Some(state), after),
            (None, Some(state)) => (Some(state), None),
            (None, None) => (State::ALL.first().copied(), None),
        };
        let n = which.limit.unwrap_or(PAGE);
        let (mut jobs, mut left_out) = (Vec::new(), 0);
        // Without a state filter, a page continues with the next state.
        while let Some(now) = state {
            let (queue, kind) = (queue.clone(), kind.clone());
            let query = views::ListQuery { state: now, queue, kind, after, n: n - jobs.len() };
            let page = self.engine().list(query).await.map_err(name_limit)?;
            let read = page.jobs.len() + jobs.len();
            jobs.extend(page.jobs.into_iter().filter(|job| grant.covers_job(&job.spec)));
            left_out += read - jobs.len();
            after = page.next;
            if after.is_none() {
                let next = State::ALL.iter().position(|one| *one == now).map(|at| at + 1);
                state = next.and_then(|at| State::ALL.get(at)).copied();
                state = state.filter(|_| about.state.is_none());
            }
            let is_short = jobs.len() < n && left_out > 0;
            let reads_on = is_short && left_out < MAX_LEFT_OUT;
            if (after.is_some() && !reads_on) || jobs.len() >= n {
                break;
            }
        }
        let next = state.filter(|state| after.is_some() || Some(*state) != about.state);
        let next = next.map(|state| cursor::encode(state, after, &about));
        Ok(JobPage { jobs, next })
    }

    /// The job with this client id, if it exists.
    async fn by_client_id(
        &self,
        which: &wire::JobsQuery,
        id: String,
    ) -> Result<Option<Job>, Fault> {
        let alone = wire::JobsQuery { client_id: Some(id.clone()), ..wire::JobsQuery::default() };
        if *which != alone {
            let why = "cannot be combined with other conditions";
            return Err(Invalid::new(Code::Malformed, "client_id", why).into());
        }
        let max = self.engine().status().caps().key_bytes;
        let wrong = |code, why: String| Err(Invalid::new(code, "client_id", why).into());
        match id.len() {
            0 => return wrong(Code::KeyEmpty, "must not be empty".to_owned()),
            n if n > max => {
                return wrong(Code::KeyTooLong, format!("{n} bytes, at most {max} are allowed"));
            }
            _ => {}
        }
        let client = ClientId { door: Name::new("door", CLIENT_ID_DOOR)?, id: id.into() };
        Ok(self.engine().get(JobSelector::Client(client)).await?)
    }

    /// A job, by its id or its client id.
    pub async fn get_job(
        &self,
        grant: &Grant,
        which: impl Into<JobSelector>,
    ) -> Result<Job, Fault> {
        let which = which.into();
        let found = self.engine().get(which.clone()).await?;
        let job = found.ok_or_else(|| match which {
            JobSelector::Id(id) => Fault::missing(format!("job {id}")),
            JobSelector::Client(client) => Fault::missing(format!("job `{}`", excerpt(&client.id))),
        })?;
        grant.check_job(&job.spec)?;
        Ok(job)
    }

    /// Refuses jobs outside the caller's restriction. Missing jobs are left to the call.
    pub async fn check_jobs(&self, grant: &Grant, ids: &[JobId]) -> Result<(), crore::Error> {
        let which = || ids.iter().map(|id| JobSelector::Id(*id)).collect();
        self.check_selected(grant, which).await
    }

    /// Like [`Self::check_jobs`]; the selectors are made only if the caller is restricted.
    pub(super) async fn check_selected(
        &self,
        grant: &Grant,
        which: impl FnOnce() -> Vec<JobSelector>,
    ) -> Result<(), crore::Error> {
        if grant.only().is_none() {
            return Ok(());
        }
        for job in self.engine().jobs().get_all(which()).await?.into_iter().flatten() {
            grant.check_job(&job.spec)?;
        }
        Ok(())
    }

    /// The reasons why a job is not running.
    pub async fn explain_job(&self, grant: &Grant, id: JobId) -> Result<Explanation, Fault> {
        self.check_jobs(grant, &[id]).await?;
        let why = self.engine().explain(id).await?;
        let why = why.ok_or_else(|| Fault::missing(format!("job {id}")))?;
        let mut reasons: Vec<_> = why.reasons.iter().map(reason).collect();
        if why.reasons.contains(&Reason::NoWorkerWaiting)
            && let Some(detail) = self.missing_host(id).await?
            && let Some(last) = reasons.last_mut()
        {
            last.detail = detail;
        }
        Ok(Explanation { id: id.into(), state: why.state.into(), reasons })
    }

    /// The advice for a job with a handler, if no host serves its queue.
    async fn missing_host(&self, id: JobId) -> Result<Option<String>, Fault> {
        let Some(job) = self.engine().get(id).await? else { return Ok(None) };
        let (queue, kind) = (&job.spec.queue, &job.spec.kind);
        if self.engine().handlers().get(kind).await?.is_none() {
            return Ok(None);
        }
        let serves = |worker: &ConnectedWorker| {
            worker.stream.queues.iter().any(|served| *served == queue.as_str())
        };
        if self.connected_workers().list().iter().any(serves) {
            return Ok(None);
        }
        Ok(Some(format!(
            "no host serves the channel `{queue}`, so the handler of kind `{kind}` does not run: start the server or \
             a `crore worker` with `--channel {queue}=1`, or move the job to a queue that has a channel"
        )))
    }
}

/// The queue and kind of a filter. Without them a list is filtered; naming one outside the restriction is refused.
pub(super) fn filter_names(
    grant: &Grant,
    queue: Option<&str>,
    kind: Option<&str>,
) -> Result<(Option<Name>, Option<Name>), Fault> {
    let queue = optional_name("queue", queue)?;
    let kind = optional_name("kind", kind)?;
    queue.as_ref().map_or(Ok(()), |queue| grant.check_queue(queue))?;
    kind.as_ref().map_or(Ok(()), |kind| grant.check_kind(kind))?;
    Ok((queue, kind))
}

/// The engine calls the field `n`, and the API `limit`.
fn name_limit(error: crore::Error) -> Fault {
    match error {
        crore::Error::Invalid(mut invalid) if invalid.field == "n" => {
            invalid.field = "limit".to_owned();
            invalid.into()
        }
        other => other.into(),
    }
}

fn reason(reason: &Reason) -> wire::Reason {
    let (code, detail) = match reason {
        Reason::Ended { at, why } => ("ended", ended(*at, *why)),
        Reason::Running { since, worker, lease_until, stop } => {
            let worker = worker.as_ref().map_or(String::new(), |worker| format!(" by `{worker}`"));
            let stop = if *stop { ", asked to stop" } else { "" };
            let (since, until) = (Moment(*since), Moment(*lease_until));
            ("running", format!("running since {since}{worker}, leased until {until}{stop}"))
        }
        Reason::WaitsFor { left, on, broken } => {
            let broken = if *broken { "; one of them can no longer succeed" } else { "" };
            ("waits-for", format!("waiting for {left} of {} dependencies{broken}", on.len()))
        }
        Reason::DueAt { at, after, attempts, error } => {
            let mut detail = format!("due at {}, in {}", Moment(*at), after.roughly());
            if *attempts > 0 {
                let error = error.as_deref().unwrap_or_default();
                detail.push_str(&format!(", after {attempts} attempts: {error}"));
            }
            ("due-at", detail)
        }
        Reason::Paused(queue) => ("paused", format!("queue `{queue}` is paused")),
        Reason::Limited { key, running, most } => {
            let value = key.value.as_ref().map_or(String::new(), |value| format!(" for `{value}`"));
            let most =
                most.map_or("rate".to_owned(), |most| format!("{running} of {most} running"));
            ("limited", format!("limit `{}`{value} reached: {most}", key.limit))
        }
        Reason::Behind { jobs, or_more } => {
            let more = if *or_more { " or more" } else { "" };
            ("behind", format!("{jobs}{more} jobs of its queue are ahead of it"))
        }
        Reason::NoWorkerWaiting => (
            "nobody-waits",
            "no worker on this server is waiting for jobs of its queue and kind".to_owned(),
        ),
    };
    wire::Reason { reason: code.to_owned(), detail }
}

fn ended(at: Option<Time>, why: Option<EndReason>) -> String {
    let at = at.map_or(String::new(), |at| format!(" at {}", Moment(at)));
    let text = why.and_then(|why| serde_json::to_value(enums::Why::from(why)).ok());
    let why = text.and_then(|text| text.as_str().map(|text| format!(": {text}")));
    format!("ended{at}{}", why.unwrap_or_default())
}
