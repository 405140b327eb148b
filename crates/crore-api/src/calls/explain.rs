//! Explaining why a job is not running.

mod waits;

use crore::explain::{AwaitedDependency, AwaitedTarget, Reason};
use crore_core::event::OnEventTimeout;
use crore_core::job::EndReason;
use crore_core::{AwaitedEvent, JobId, Time};
use crore_wire::api::enums;
use crore_wire::api::job::{self as wire, Explanation};
use crore_wire::units::Moment;

use crate::{Api, ConnectedWorker, Fault, Grant};
use waits::with_awaited;

impl Api {
    /// The reasons why a job is not running.
    pub async fn explain_job(&self, grant: &Grant, id: JobId) -> Result<Explanation, Fault> {
        self.check_jobs(grant, &[id]).await?;
        let why = self.engine().explain(id).await?;
        let why = why.ok_or_else(|| Fault::missing(format!("job {id}")))?;
        let mut reasons = Vec::with_capacity(why.reasons.len());
        for one in &why.reasons {
            let mut shown = reason(one);
            if let Reason::WaitsFor { on, .. } = one {
                shown.on = self.awaited(grant, on).await?;
                shown.detail = with_awaited(shown.detail, &shown.on);
            }
            reasons.push(shown);
        }
        if why.reasons.contains(&Reason::NoWorkerWaiting)
            && let Some(detail) = self.missing_host(id).await?
            && let Some(last) = reasons.last_mut()
        {
            last.detail = detail;
        }
        let (state, deadline) = (why.state.into(), why.deadline.map(Moment));
        Ok(Explanation { id: id.into(), state, deadline, reasons })
    }

    /// The jobs and groups that a job waits for, without the states of those that the caller may not see.
    async fn awaited(
        &self,
        grant: &Grant,
        on: &[AwaitedDependency],
    ) -> Result<Vec<wire::Awaited>, Fault> {
        let mut shown = Vec::with_capacity(on.len());
        for one in on {
            let is_visible = match one.on {
                AwaitedTarget::Job(id, _) => self.check_jobs(grant, &[id]).await.is_ok(),
                AwaitedTarget::Group(_, group) => {
                    grant.only().is_none()
                        || group.is_some_and(|group| group.maker == grant.owner())
                }
            };
            shown.push(waits::awaited(one, is_visible));
        }
        Ok(shown)
    }

    /// Explains that a job has a handler, but no host serves its queue; `None`: that is not the reason.
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

fn reason(reason: &Reason) -> wire::Reason {
    let (code, detail) = match reason {
        Reason::Ended { at, why } => ("ended", ended(*at, *why)),
        Reason::Running { since, worker, lease_until, stop } => {
            let worker = worker.as_ref().map_or(String::new(), |worker| format!(" by `{worker}`"));
            let stop = if *stop { ", asked to stop" } else { "" };
            let (since, until) = (Moment(*since), Moment(*lease_until));
            ("running", format!("running since {since}{worker}, leased until {until}{stop}"))
        }
        Reason::WaitsFor { left, of, broken, .. } => {
            let broken = match *broken {
                true => "; one of them can no longer succeed, so the job will be cancelled",
                false => "",
            };
            let of =
                if *of == 1 { "1 dependency".to_owned() } else { format!("{of} dependencies") };
            ("waits-for", format!("waiting for {left} of {of}{broken}"))
        }
        Reason::WaitsForEvent { awaited, until } => {
            ("waits-for-event", waits_for_event(awaited, *until))
        }
        Reason::DueAt { at, after, attempts, error } => {
            let mut detail = format!("due at {}, in {}", Moment(*at), after.roughly());
            if *attempts > 0 {
                let error = error.as_deref().unwrap_or_default();
                let plural = if *attempts == 1 { "" } else { "s" };
                detail.push_str(&format!(", after {attempts} attempt{plural}: {error}"));
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
        Reason::KeyPaused { key, until } => {
            let value = key.value.as_ref().map_or(String::new(), |value| format!(" for `{value}`"));
            let detail =
                format!("limit `{}`{value} is exhausted until {}", key.limit, Moment(*until));
            ("limit-paused", detail)
        }
        Reason::Behind { jobs, or_more } => {
            let detail = match (*jobs, *or_more) {
                (1, false) => "1 job of its queue is ahead of it".to_owned(),
                (n, false) => format!("{n} jobs of its queue are ahead of it"),
                (n, true) => format!("{n} or more jobs of its queue are ahead of it"),
            };
            ("behind", detail)
        }
        Reason::Shared { key, weight, place, keys, or_more } => {
            let (key, more) = (key.as_str(), if *or_more { " or more" } else { "" });
            let detail = format!(
                "the queue is shared: key `{key}` has weight {weight}; other keys with ready jobs: {keys}{more}; jobs \
                 of its key ahead of it: {place}{more}"
            );
            ("shared", detail)
        }
        Reason::NoWorkerVersion { kind, required, connected } => {
            let connected: Vec<String> = connected.iter().map(|one| format!("`{one}`")).collect();
            let connected = match connected.as_slice() {
                [] => "none names a version of it".to_owned(),
                some => format!("connected: {}", some.join(", ")),
            };
            let detail = format!(
                "no connected worker runs version `{required}` of kind `{kind}` in its queue; {connected}"
            );
            ("no-worker-version", detail)
        }
        Reason::NoWorkerWaiting => (
            "nobody-waits",
            "no worker on this server is waiting for jobs of its queue and kind".to_owned(),
        ),
    };
    wire::Reason { reason: code.to_owned(), detail, on: Vec::new() }
}

fn waits_for_event(awaited: &AwaitedEvent, until: Option<Time>) -> String {
    let name = &awaited.name;
    let then = match awaited.on_timeout {
        OnEventTimeout::Run => "then it runs without the event",
        OnEventTimeout::Cancel => "then it is cancelled",
        OnEventTimeout::Dead => "then it is dead",
    };
    let until = until.map_or("without a time-out".to_owned(), |until| {
        format!("until {}, {then}", Moment(until))
    });
    format!("waiting for the event `{name}`, {until}; release it: crore event send '{name}'")
}

fn ended(at: Option<Time>, why: Option<EndReason>) -> String {
    let at = at.map_or(String::new(), |at| format!(" at {}", Moment(at)));
    let text = why.and_then(|why| serde_json::to_value(enums::Why::from(why)).ok());
    let why = text.and_then(|text| text.as_str().map(|text| format!(": {text}")));
    format!("ended{at}{}", why.unwrap_or_default())
}
