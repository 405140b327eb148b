//! Deliveries to remote workers: progress, log lines, and the number of waiting fetches.
//!
//! The other methods of [`Deliveries`] are next to the everyday call that each of them extends: `fetch.rs`,
//! `finish.rs` and `leases.rs`.

use std::sync::Arc;

use crore_core::{Code, Delivery, Invalid, JobId, Name};
use crore_store::views::Note;

use crate::engine::EngineInner;
use crate::error::Error;

/// Deliveries to remote workers; see [`Engine::deliveries`](crate::Engine::deliveries).
///
/// ```
/// use crore::core::Name;
/// use crore::core::machine::Outcome;
/// use crore::fetch::Fetch;
/// use crore::finish::{Finish, FinishResult};
/// use crore::{Engine, block_on};
///
/// # fn main() -> Result<(), crore::Error> {
/// let engine = Engine::memory();
/// for to in ["ada", "bob"] {
///     engine.push("mail", to).wait()?;
/// }
/// let fetch = Fetch::new(Name::new("queue", "mail")?, Name::new("worker", "w1")?);
/// let jobs = block_on(engine.fetch(Fetch { n: 10, ..fetch }))?;
///
/// let (id, delivery) = (jobs[0].id, jobs[0].live.delivery);
/// assert!(block_on(engine.deliveries().progress(id, delivery, 50, "half of it"))?);
///
/// // Both reports are one write.
/// let done = jobs.iter().map(|job| Finish::of(job, Outcome::Done { result: None })).collect();
/// let finished = block_on(engine.deliveries().finish_all(done))?;
/// assert!(finished.iter().all(|one| matches!(one, FinishResult::Accepted { .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Deliveries<'a> {
    pub(crate) inner: &'a EngineInner,
}

impl Deliveries<'_> {
    /// Records the progress of a delivery; `false`: the delivery is no longer running.
    pub async fn progress(
        self,
        id: JobId,
        delivery: Delivery,
        percent: u8,
        text: &str,
    ) -> Result<bool, Error> {
        self.inner.progress((id, delivery), percent, text).await
    }

    /// Adds a line to the log of a delivery; `false`: the delivery is no longer running.
    pub async fn line(self, id: JobId, delivery: Delivery, text: &str) -> Result<bool, Error> {
        self.inner.line((id, delivery), text).await
    }

    /// Records notes of deliveries and returns how many were kept. Notes of deliveries that are no longer running
    /// are dropped.
    pub async fn note(self, mut notes: Vec<Note>) -> Result<usize, Error> {
        let max = self.inner.caps.fetch;
        if notes.len() > max {
            let message = format!("{} at once, at most {max} are allowed", notes.len());
            return Err(Invalid::new(Code::CountRange, "notes", message).into());
        }
        for (index, note) in notes.iter_mut().enumerate() {
            match note {
                Note::Progress { percent, .. } if *percent > 100 => {
                    let message = format!("`{percent}` is more than 100");
                    let field = format!("notes[{index}].percent");
                    return Err(Invalid::new(Code::CountRange, field, message).into());
                }
                Note::Progress { text, .. } | Note::Line { text, .. } => {
                    *text = self.inner.truncated(text);
                }
                Note::Stat { .. } | Note::Jobs { .. } => {}
            }
        }
        Ok(self.inner.store.note(notes).await?)
    }

    /// Whether a fetch waits for jobs of this queue, of any kind.
    pub fn waits_for_queue(self, queue: &Name) -> bool {
        self.inner.wait_list.is_queue_waited_for(queue)
    }

    /// The number of fetches that wait for a job.
    pub fn waiting(self) -> usize {
        self.inner.wait_list.waiting()
    }
}

impl EngineInner {
    pub(crate) async fn progress(
        &self,
        (id, delivery): (JobId, Delivery),
        percent: u8,
        text: &str,
    ) -> Result<bool, Error> {
        if percent > 100 {
            let message = format!("`{percent}` is more than 100");
            return Err(Invalid::new(Code::CountRange, "percent", message).into());
        }
        let text = self.truncated(text);
        let note = Note::Progress { id, delivery, percent, text };
        Ok(self.store.note(vec![note]).await? == 1)
    }

    pub(crate) async fn line(
        &self,
        (id, delivery): (JobId, Delivery),
        text: &str,
    ) -> Result<bool, Error> {
        let note = Note::Line { id, delivery, text: self.truncated(text) };
        Ok(self.store.note(vec![note]).await? == 1)
    }

    fn truncated(&self, text: &str) -> Arc<str> {
        crate::finish::truncate(text, self.caps.text_bytes)
    }
}
