//! Reading jobs.

use crore::explain::Reason;
use crore::store::jobs::Which;
use crore::store::views;
use crore_core::code::excerpt;
use crore_core::job::{ClientId, Why};
use crore_core::{Code, Invalid, Job, JobId, Name, State, Time};
use crore_wire::api::job::{self as wire, Explanation};
use crore_wire::api::push::DOOR;
use crore_wire::api::words;
use crore_wire::words::Moment;

use crate::params::optional_name;
use crate::{Api, Fault, cursor};

/// Default size of a page.
const PAGE: usize = 100;

/// A page of jobs.
#[derive(Debug)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// The cursor of the next page, if there is one.
    pub next: Option<String>,
}

impl Api {
    /// Lists jobs, page by page.
    pub async fn list_jobs(&self, which: wire::Which) -> Result<JobPage, Fault> {
        if let Some(id) = which.client_id.clone() {
            let jobs = self.by_client_id(&which, id).await?.into_iter().collect();
            return Ok(JobPage { jobs, next: None });
        }
        let queue = optional_name("queue", which.queue.as_deref())?;
        let kind = optional_name("kind", which.kind.as_deref())?;
        let about =
            cursor::About { state: which.state.map(Into::into), queue: &queue, kind: &kind };
        let place = which.cursor.map(|text| cursor::read(&text, &about)).transpose()?;
        let (mut state, mut after) = match (place, about.state) {
            (Some((state, after)), _) => (Some(state), after),
            (None, Some(state)) => (Some(state), None),
            (None, None) => (State::ALL.first().copied(), None),
        };
        let n = which.limit.unwrap_or(PAGE);
        let mut jobs = Vec::new();
        // Without a state, a page goes on in the next one.
        while let Some(now) = state {
            let (queue, kind) = (queue.clone(), kind.clone());
            let query = views::Query { state: now, queue, kind, after, n: n - jobs.len() };
            let page = self.engine().list(query).await.map_err(name_limit)?;
            jobs.extend(page.jobs);
            after = page.next;
            if after.is_none() {
                let next = State::ALL.iter().position(|one| *one == now).map(|at| at + 1);
                state = next.and_then(|at| State::ALL.get(at)).copied();
                state = state.filter(|_| about.state.is_none());
            }
            if after.is_some() || jobs.len() >= n {
                break;
            }
        }
        let next = state.filter(|state| after.is_some() || Some(*state) != about.state);
        let next = next.map(|state| cursor::write(state, after, &about));
        Ok(JobPage { jobs, next })
    }

    /// The job with this client id, if it exists.
    async fn by_client_id(&self, which: &wire::Which, id: String) -> Result<Option<Job>, Fault> {
        let alone = wire::Which { client_id: Some(id.clone()), ..wire::Which::default() };
        if *which != alone {
            let why = "a job that is named is not looked for by anything else";
            return Err(Invalid::new(Code::Malformed, "client_id", why).into());
        }
        let most = self.engine().status().caps().key_bytes;
        let wrong = |code, why: String| Err(Invalid::new(code, "client_id", why).into());
        match id.len() {
            0 => return wrong(Code::KeyEmpty, "a key must not be empty".to_owned()),
            n if n > most => {
                return wrong(Code::KeyTooLong, format!("{n} bytes, at most {most} are allowed"));
            }
            _ => {}
        }
        let client = ClientId { door: Name::new("door", DOOR)?, id: id.into() };
        Ok(self.engine().get(Which::Client(client)).await?)
    }

    /// A job, by its id or its client id.
    pub async fn get_job(&self, which: impl Into<Which>) -> Result<Job, Fault> {
        let which = which.into();
        let found = self.engine().get(which.clone()).await?;
        found.ok_or_else(|| match which {
            Which::Id(id) => Fault::missing(format!("job {id}")),
            Which::Client(client) => Fault::missing(format!("a job `{}`", excerpt(&client.id))),
        })
    }

    /// The reasons why a job is not running.
    pub async fn explain_job(&self, id: JobId) -> Result<Explanation, Fault> {
        let why = self.engine().explain(id).await?;
        let why = why.ok_or_else(|| Fault::missing(format!("job {id}")))?;
        let reasons = why.reasons.iter().map(reason).collect();
        Ok(Explanation { id: id.into(), state: why.state.into(), reasons })
    }
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
            let mut detail = format!("it is due at {}, in {}", Moment(*at), after.roughly());
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
    wire::Reason { reason: word.to_owned(), detail }
}

fn ended(at: Option<Time>, why: Option<Why>) -> String {
    let at = at.map_or(String::new(), |at| format!(" at {}", Moment(at)));
    let word = why.and_then(|why| serde_json::to_value(words::Why::from(why)).ok());
    let why = word.and_then(|word| word.as_str().map(|word| format!(": {word}")));
    format!("it has ended{at}{}", why.unwrap_or_default())
}
