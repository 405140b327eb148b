//! Finish: the one entry for every report about a delivery.

use std::sync::Arc;

use crore_core::machine::{Again, Event, Outcome, Refusal, Report, decide};
use crore_core::{Batch, Caps, Delivery, Job, JobId, NewJob, Payload, Span, State, Time};
use crore_store::jobs::Which;

use crate::bug::planted;
use crate::change::Decided;
use crate::deliveries::Deliveries;
use crate::engine::{Engine, Inner};
use crate::error::Error;
use crate::push::Taken;

/// A report about a delivery.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    /// The job.
    pub job: Which,
    /// Which delivery; `None` where the wire has no word for it.
    pub delivery: Option<Delivery>,
    /// How it went.
    pub report: Report,
}

impl Finish {
    /// A report about a job that was fetched.
    pub fn of(job: &Job, outcome: Outcome) -> Self {
        let (delivery, report) = (Some(job.live.delivery), outcome.into());
        Self { job: job.id.into(), delivery, report }
    }
}

/// What became of a report.
#[derive(Debug, Clone, PartialEq)]
pub enum Finished {
    /// It counts: the job is in this state now, or gone (`None`), and these follow-ups were pushed.
    Yes {
        /// The job's state.
        state: Option<State>,
        /// The follow-ups, in order.
        pushed: Vec<Taken>,
    },
    /// The delivery does not count any more: its lease has ended, or it was reported before.
    Stale,
    /// There is no such job.
    NotFound,
}

impl Engine {
    /// Reports how a delivery went. Durable when answered, and the first report that counts wins.
    ///
    /// ```
    /// use crore::core::machine::{Again, Outcome};
    /// use crore::core::{Name, Span, State};
    /// use crore::fetch::Fetch;
    /// use crore::finish::{Finish, Finished};
    /// use crore::{Engine, block_on};
    ///
    /// # fn main() -> Result<(), crore::Error> {
    /// let engine = Engine::memory();
    /// engine.push("mail", "hello").attempts(3).wait()?;
    /// let ask = Fetch::new(Name::new("queue", "mail")?, Name::new("worker", "w1")?);
    /// let job = block_on(engine.fetch(ask))?.remove(0);
    ///
    /// let again = Again::After(Span::from_secs(60));
    /// let failed = Outcome::Failed { error: "busy".into(), detail: None, again };
    /// let finished = block_on(engine.finish(Finish::of(&job, failed)))?;
    /// assert!(matches!(finished, Finished::Yes { state: Some(State::Scheduled), .. }));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn finish(&self, finish: Finish) -> Result<Finished, Error> {
        let mut finished = self.inner.finish(vec![finish]).await?;
        Ok(finished.pop().unwrap_or(Finished::NotFound))
    }
}

impl Inner {
    pub(crate) async fn finish(&self, finishes: Vec<Finish>) -> Result<Vec<Finished>, Error> {
        let mut asked = Vec::with_capacity(finishes.len());
        for (place, mut finish) in finishes.into_iter().enumerate() {
            let checked = self.check_report(&mut finish.report);
            checked.map_err(|invalid| invalid.inside(&format!("finishes[{place}]")))?;
            let Finish { job, delivery, report } = finish;
            asked.push((job, Event::Finished { delivery, report }));
        }
        let n = asked.len();
        let decided = self.change(asked, decide).await;
        if planted!("bug-26") && decided.is_err() {
            return Ok(vec![Finished::Yes { state: None, pushed: Vec::new() }; n]);
        }
        let decided = decided.map_err(|error| self.blame(error))?;
        Ok(decided.into_iter().map(finished).collect())
    }

    /// Holds a report to the caps: texts are cut, spans are shortened, and what is too large is
    /// refused. Follow-ups are checked like any push, and filled in.
    fn check_report(&self, report: &mut Report) -> Result<(), crore_core::Invalid> {
        let result = |field: &str, payload: &Option<Payload>| match payload {
            Some(payload) => payload.check(field, self.caps.result_bytes, self.caps.depth),
            None => Ok(()),
        };
        match &mut report.outcome {
            Outcome::Done { result: payload } => result("result", payload)?,
            Outcome::Failed { error, detail, again } => {
                result("detail", detail)?;
                if error.len() > self.caps.text_bytes {
                    *error = cut(error, self.caps.text_bytes);
                }
                if let Again::After(span) = again {
                    *span = self.at_most(*span);
                }
            }
            Outcome::Snooze(span) => *span = self.at_most(*span),
            Outcome::Cancel | Outcome::Interrupted => {}
        }
        let check = NewJob::check_brought;
        self.check_follow_ups("on-done", &mut report.on_done, check)?;
        self.check_follow_ups("on-dead", &mut report.on_dead, check)
    }

    fn at_most(&self, span: Span) -> Span {
        span.min(self.caps.max_ahead)
    }

    pub(crate) fn check_follow_ups(
        &self,
        field: &str,
        jobs: &mut Vec<NewJob>,
        check: impl Fn(&NewJob, &Caps, Time) -> Result<(), crore_core::Invalid>,
    ) -> Result<(), crore_core::Invalid> {
        if jobs.is_empty() {
            return Ok(());
        }
        let now = self.now();
        let batch = Batch { groups: Vec::new(), jobs: std::mem::take(jobs) };
        batch.check(&self.caps).map_err(|invalid| invalid.inside(field))?;
        *jobs = batch.jobs;
        for (place, job) in jobs.iter_mut().enumerate() {
            let checked = check(job, &self.caps, now);
            checked.map_err(|invalid| invalid.inside(&format!("{field}[{place}]")))?;
            self.fill_in(job);
        }
        Ok(())
    }
}

/// The start of a text that is too long.
pub(crate) fn cut(text: &str, max_bytes: usize) -> Arc<str> {
    if text.len() <= max_bytes {
        return text.into();
    }
    let end = (0..=max_bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or_default().into()
}

fn finished(decided: Decided) -> Finished {
    match decided {
        Decided::Yes { state, pushed } => Finished::Yes { state, pushed },
        Decided::NotFound => Finished::NotFound,
        Decided::No(Refusal::Stale | Refusal::Ended | Refusal::NotNow | Refusal::Running)
        | Decided::No(Refusal::Nothing) => Finished::Stale,
    }
}

impl Deliveries<'_> {
    /// Reports several deliveries, each on its own: one write, and one answer for each.
    pub async fn finish_all(self, finishes: Vec<Finish>) -> Result<Vec<Finished>, Error> {
        self.inner.finish(finishes).await
    }

    /// A job without a lease was handed to its worker, and is done with that.
    pub async fn handed_over(self, id: JobId, delivery: Delivery) -> Result<Finished, Error> {
        let mut finished = self.inner.handed_over(std::iter::once((id, delivery))).await?;
        Ok(finished.pop().unwrap_or(Finished::NotFound))
    }

    /// Jobs that were fetched are about to be handed to a worker: those without a lease are done with that, all in
    /// one write. Gives those that the worker may have, without those that belong to another worker by now. After an
    /// error of the store it leaves out those without a lease; if that leaves none, it gives the error.
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
            job.spec.lease.is_some() || matches!(finished.next(), Some(Finished::Yes { .. }))
        });
        match error {
            Some(error) if jobs.is_empty() => Err(error),
            _ => Ok(jobs),
        }
    }
}

impl Inner {
    async fn handed_over(
        &self,
        held: impl Iterator<Item = (JobId, Delivery)>,
    ) -> Result<Vec<Finished>, Error> {
        let event = |(id, delivery)| (Which::Id(id), Event::HandedOver(delivery));
        let decided = self.change(held.map(event).collect(), decide).await?;
        Ok(decided.into_iter().map(finished).collect())
    }
}
