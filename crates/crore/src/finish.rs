//! Finish: the single entry point for reports about deliveries.

use std::sync::Arc;

use crore_core::limit::PauseEnd;
use crore_core::machine::{JobEvent, Outcome, Report, RetryDirective, decide};
use crore_core::{
    Batch, Caps, Code, Delivery, Invalid, Job, JobId, NewJob, Payload, Span, State, Time,
};
use crore_store::jobs::JobSelector;

use crate::bug::planted;
use crate::change::ChangeResult;
use crate::deliveries::Deliveries;
use crate::engine::{Engine, EngineInner};
use crate::error::Error;
use crate::push::PushResult;

/// Maximum number of costs in a report.
const MAX_COSTS: usize = 100;

/// A report about a delivery.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    /// The job.
    pub job: JobSelector,
    /// The delivery; `None` for protocols that do not carry its number.
    pub delivery: Option<Delivery>,
    /// The outcome and its follow-ups.
    pub report: Report,
}

impl Finish {
    /// A report about a fetched job.
    pub fn of(job: &Job, report: impl Into<Report>) -> Self {
        let (delivery, report) = (Some(job.live.delivery), report.into());
        Self { job: job.id.into(), delivery, report }
    }
}

/// Result of a report.
#[derive(Debug, Clone, PartialEq)]
pub enum FinishResult {
    /// Accepted and durable.
    Accepted {
        /// The state of the job afterwards; `None`: it was removed.
        state: Option<State>,
        /// The follow-ups that were pushed, in order.
        pushed: Vec<PushResult>,
    },
    /// The delivery is over: its lease has ended, or it was reported before.
    Stale,
    /// The job does not exist.
    NotFound,
}

impl Engine {
    /// Reports the outcome of a delivery. The result is durable when this returns; the first valid report of a
    /// delivery wins, later ones are [stale](FinishResult::Stale).
    ///
    /// ```
    /// use crore::core::machine::{Outcome, RetryDirective};
    /// use crore::core::{Name, Span, State};
    /// use crore::fetch::Fetch;
    /// use crore::finish::{Finish, FinishResult};
    /// use crore::{Engine, block_on};
    ///
    /// # fn main() -> Result<(), crore::Error> {
    /// let engine = Engine::memory();
    /// engine.push("mail", "hello").attempts(3).wait()?;
    /// let fetch = Fetch::new(Name::new("queue", "mail")?, Name::new("worker", "w1")?);
    /// let job = block_on(engine.fetch(fetch))?.remove(0);
    ///
    /// let again = RetryDirective::After(Span::from_secs(60));
    /// let failed = Outcome::Failed { error: "busy".into(), detail: None, again };
    /// let finished = block_on(engine.finish(Finish::of(&job, failed)))?;
    /// assert!(matches!(finished, FinishResult::Accepted { state: Some(State::Scheduled), .. }));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn finish(&self, finish: Finish) -> Result<FinishResult, Error> {
        let mut finished = self.inner.finish(vec![finish]).await?;
        Ok(finished.pop().unwrap_or(FinishResult::NotFound))
    }
}

impl EngineInner {
    pub(crate) async fn finish(&self, finishes: Vec<Finish>) -> Result<Vec<FinishResult>, Error> {
        let mut requests = Vec::with_capacity(finishes.len());
        for (index, mut finish) in finishes.into_iter().enumerate() {
            let checked = self.check_report(&mut finish.report);
            checked.map_err(|invalid| invalid.inside(&format!("finishes[{index}]")))?;
            let Finish { job, delivery, report } = finish;
            requests.push((job, JobEvent::Finished { delivery, report }));
        }
        let n = requests.len();
        let decided = self.change(requests, decide).await;
        if planted!("bug-26") && decided.is_err() {
            return Ok(vec![FinishResult::Accepted { state: None, pushed: Vec::new() }; n]);
        }
        let decided = decided.map_err(|error| self.map_stopping(error))?;
        Ok(decided.into_iter().map(finish_result).collect())
    }

    /// Enforces the caps: long texts are truncated, long spans shortened, large payloads refused. Follow-ups are
    /// checked and filled in like any push.
    fn check_report(&self, report: &mut Report) -> Result<(), Invalid> {
        let result = |field: &str, payload: &Option<Payload>| match payload {
            Some(payload) => payload.check(field, self.caps.result_bytes, self.caps.depth),
            None => Ok(()),
        };
        match &mut report.outcome {
            Outcome::Done { result: payload } => result("result", payload)?,
            Outcome::Failed { error, detail, again } => {
                result("detail", detail)?;
                if error.len() > self.caps.text_bytes {
                    *error = truncate(error, self.caps.text_bytes);
                }
                if let RetryDirective::After(span) = again {
                    *span = self.cap_span(*span);
                }
            }
            Outcome::Snooze(span) => *span = self.cap_span(*span),
            Outcome::Exhausted { until, .. } => {
                *until = PauseEnd::At(until.resolve(self.now()));
            }
            Outcome::Cancel | Outcome::Interrupted => {}
        }
        if report.costs.len() > MAX_COSTS {
            let n = report.costs.len();
            let message = format!("{n} costs, at most {MAX_COSTS} are allowed");
            return Err(Invalid::new(Code::CountRange, "costs", message));
        }
        if let Some(reason) = &mut report.details.reason
            && reason.len() > self.caps.text_bytes
        {
            *reason = truncate(reason, self.caps.text_bytes);
        }
        let check = NewJob::check_from_caller;
        self.check_follow_ups("on-done", &mut report.on_done, check)?;
        self.check_follow_ups("on-dead", &mut report.on_dead, check)
    }

    fn cap_span(&self, span: Span) -> Span {
        span.min(self.caps.max_ahead)
    }

    pub(crate) fn check_follow_ups(
        &self,
        field: &str,
        jobs: &mut Vec<NewJob>,
        check: impl Fn(&NewJob, &Caps, Time) -> Result<(), Invalid>,
    ) -> Result<(), Invalid> {
        if jobs.is_empty() {
            return Ok(());
        }
        let now = self.now();
        let batch = Batch { groups: Vec::new(), jobs: std::mem::take(jobs) };
        batch.check(&self.caps).map_err(|invalid| invalid.inside(field))?;
        *jobs = batch.jobs;
        for (index, job) in jobs.iter_mut().enumerate() {
            let checked = check(job, &self.caps, now);
            let checked = checked.and_then(|()| self.check_costs(job));
            checked.map_err(|invalid| invalid.inside(&format!("{field}[{index}]")))?;
            self.fill_in(job);
        }
        Ok(())
    }
}

/// Truncates a text at a character boundary.
pub(crate) fn truncate(text: &str, max_bytes: usize) -> Arc<str> {
    if text.len() <= max_bytes {
        return text.into();
    }
    let end = (0..=max_bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or_default().into()
}

fn finish_result(decided: ChangeResult) -> FinishResult {
    match decided {
        ChangeResult::Applied { state, pushed } => FinishResult::Accepted { state, pushed },
        ChangeResult::NotFound => FinishResult::NotFound,
        ChangeResult::Refused(..) => FinishResult::Stale,
    }
}

impl Deliveries<'_> {
    /// Reports several deliveries in one write, with one result for each.
    pub async fn finish_all(self, finishes: Vec<Finish>) -> Result<Vec<FinishResult>, Error> {
        self.inner.finish(finishes).await
    }

    /// Marks a job without a lease as done, because it was handed to its worker.
    pub async fn handed_over(self, id: JobId, delivery: Delivery) -> Result<FinishResult, Error> {
        let mut finished = self.inner.handed_over(std::iter::once((id, delivery))).await?;
        Ok(finished.pop().unwrap_or(FinishResult::NotFound))
    }

    /// Prepares fetched jobs for hand-over to a worker: jobs without a lease are marked as done, in one write.
    /// Returns the jobs that the worker may run; jobs that another worker has by now are left out. If the write
    /// fails, all jobs without a lease are left out, and if none remain the error is returned.
    pub async fn hand_over(self, mut jobs: Vec<Job>) -> Result<Vec<Job>, Error> {
        let free = jobs.iter().filter(|job| job.spec.lease.is_none());
        let free: Vec<_> = free.map(|job| (job.id, job.live.delivery)).collect();
        if free.is_empty() {
            return Ok(jobs);
        }
        let (finished, error) = match self.inner.handed_over(free.into_iter()).await {
            Ok(finished) => (finished, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let mut finished = finished.iter();
        jobs.retain(|job| {
            job.spec.lease.is_some()
                || matches!(finished.next(), Some(FinishResult::Accepted { .. }))
        });
        match error {
            Some(error) if jobs.is_empty() => Err(error),
            _ => Ok(jobs),
        }
    }
}

impl EngineInner {
    async fn handed_over(
        &self,
        held: impl Iterator<Item = (JobId, Delivery)>,
    ) -> Result<Vec<FinishResult>, Error> {
        let event = |(id, delivery)| (JobSelector::Id(id), JobEvent::Delivered(delivery));
        let decided = self.change(held.map(event).collect(), decide).await?;
        Ok(decided.into_iter().map(finish_result).collect())
    }
}
