//! Reading jobs.

use crore::store::jobs::JobSelector;
use crore::store::views;
use crore_core::code::excerpt;
use crore_core::job::ClientId;
use crore_core::{Code, Invalid, Job, JobId, Name, State};
use crore_wire::api::job as wire;
use crore_wire::api::push::CLIENT_ID_DOOR;

use crate::params::optional_name;
use crate::{Api, Fault, Grant, cursor};

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
