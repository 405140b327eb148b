//! Finish: the one entry for every report about a delivery.

use std::sync::Arc;

use crore_core::machine::{Again, Event, Outcome, Refusal, Report, decide};
use crore_core::{Batch, Delivery, Job, JobId, NewJob, Payload, Span, State};
use crore_store::jobs::Which;

use crate::change::Decided;
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
        let mut finished = self.finish_all(vec![finish]).await?;
        Ok(finished.pop().unwrap_or(Finished::NotFound))
    }

    /// Reports how many deliveries went, each on its own: one write, and one answer for each.
    pub async fn finish_all(&self, finishes: Vec<Finish>) -> Result<Vec<Finished>, Error> {
        self.inner.finish(finishes).await
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
        let decided = self.change(asked, decide).await.map_err(|error| self.blame(error))?;
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
        self.check_follow_ups("on-done", &mut report.on_done)?;
        self.check_follow_ups("on-dead", &mut report.on_dead)
    }

    fn at_most(&self, span: Span) -> Span {
        span.min(self.caps.max_ahead)
    }

    fn check_follow_ups(
        &self,
        field: &str,
        jobs: &mut Vec<NewJob>,
    ) -> Result<(), crore_core::Invalid> {
        if jobs.is_empty() {
            return Ok(());
        }
        let now = self.now();
        let batch = Batch { groups: Vec::new(), jobs: std::mem::take(jobs) };
        batch.check(&self.caps).map_err(|invalid| invalid.inside(field))?;
        *jobs = batch.jobs;
        for (place, job) in jobs.iter_mut().enumerate() {
            let checked = job.check(&self.caps, now);
            checked.map_err(|invalid| invalid.inside(&format!("{field}[{place}]")))?;
            self.fill_in(&mut job.spec);
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

/// One delivery of a fire-and-forget job was handed over.
impl Engine {
    /// A job without a lease was handed to its worker, and is done with that.
    pub async fn handed_over(&self, id: JobId, delivery: Delivery) -> Result<Finished, Error> {
        let asked = vec![(Which::Id(id), Event::HandedOver(delivery))];
        let mut decided = self.inner.change(asked, decide).await?;
        Ok(decided.pop().map_or(Finished::NotFound, finished))
    }
}
