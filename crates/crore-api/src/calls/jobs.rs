//! Reading jobs.

use crore::search::{JobSearch, SearchBudget};
use crore::store::jobs::JobSelector;
use crore_core::code::excerpt;
use crore_core::job::ClientId;
use crore_core::{Code, Invalid, Job, JobId, Name, SearchFilter};
use crore_wire::api::job as wire;
use crore_wire::api::push::CLIENT_ID_DOOR;

use crate::params::optional_name;
use crate::{Api, Fault, Grant, cursor};

/// Default size of a page.
const PAGE: usize = 100;

/// A page of jobs.
#[derive(Debug)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// The cursor of the next page, if there is one.
    pub next: Option<String>,
    /// Number of jobs read for this page.
    pub scanned: usize,
}

impl Api {
    /// Lists jobs, page by page. Jobs outside the caller's restriction are left out; a page is short, and has a
    /// successor, if too many jobs that do not match come before the next one to show. A filter cannot test masked fields.
    pub async fn list_jobs(&self, grant: &Grant, which: wire::JobsQuery) -> Result<JobPage, Fault> {
        if let Some(id) = which.client_id.clone() {
            let job = self.by_client_id(&which, id).await?;
            let jobs: Vec<_> = job.filter(|job| grant.covers_job(&job.spec)).into_iter().collect();
            return Ok(JobPage { scanned: jobs.len(), jobs: self.listed(jobs), next: None });
        }
        let filter = list_filter(grant, &which)?;
        self.mask().check_filter("q", &filter)?;
        let about = filter.to_string();
        let after = which.cursor.map(|text| cursor::decode(&text, &about)).transpose()?;
        let (within, n) = (grant.only().cloned(), which.limit.unwrap_or(PAGE));
        let search = JobSearch { filter, within, after, n, budget: SearchBudget::default() };
        let page = self.engine().search(&search).await.map_err(name_limit)?;
        let next = page.next.map(|position| cursor::encode(position, &about));
        Ok(JobPage { jobs: self.listed(page.jobs), next, scanned: page.scanned })
    }

    /// Jobs as readers may see them.
    pub(super) fn listed(&self, mut jobs: Vec<Job>) -> Vec<Job> {
        jobs.iter_mut().for_each(|job| self.mask().mask_job(job));
        jobs
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

    /// A job, by its id or its client id, with masked fields.
    pub async fn get_job(
        &self,
        grant: &Grant,
        which: impl Into<JobSelector>,
    ) -> Result<Job, Fault> {
        let mut job = self.stored_job(grant, which).await?;
        self.mask().mask_job(&mut job);
        Ok(job)
    }

    /// A job as it is stored: not for readers.
    pub(super) async fn stored_job(
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

/// The filter of a list: its terms, and the parameters that mean the same.
fn list_filter(grant: &Grant, which: &wire::JobsQuery) -> Result<SearchFilter, Fault> {
    let mut filter = SearchFilter::parse("q", which.q.as_deref().unwrap_or_default())?;
    check_names(grant, &filter).map_err(|invalid| Invalid { field: "q".to_owned(), ..invalid })?;
    let (queue, kind) = filter_names(grant, which.queue.as_deref(), which.kind.as_deref())?;
    if let Some(state) = which.state {
        filter = filter.with_states(&[state.into()]);
    }
    filter = queue.iter().fold(filter, SearchFilter::with_queue);
    Ok(kind.iter().fold(filter, SearchFilter::with_kind))
}

/// Refuses a filter that names a queue or kind outside the restriction. Other jobs outside are left out.
pub(super) fn check_names(grant: &Grant, filter: &SearchFilter) -> Result<(), Invalid> {
    let queues = filter.queues().unwrap_or_default();
    let kinds = filter.kinds().unwrap_or_default();
    queues.iter().try_for_each(|queue| grant.check_queue(queue))?;
    kinds.iter().try_for_each(|kind| grant.check_kind(kind))
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
