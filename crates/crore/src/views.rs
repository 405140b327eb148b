//! Looking: jobs, lists, counts, statistics, and the notes that workers leave.

use std::sync::Arc;

use crore_core::group::Group;
use crore_core::{Code, Delivery, GroupId, Invalid, Job, JobId, Name, Time};
use crore_store::jobs::{Applied, Which, Write};
use crore_store::views::{Count, JobNotes, Note, Page, Query, Step};

use crate::doubt::Doubt;
use crate::engine::Engine;
use crate::error::Error;

impl Engine {
    /// A job, if it is there.
    pub async fn get(&self, which: impl Into<Which>) -> Result<Option<Job>, Error> {
        Ok(self.get_all(vec![which.into()]).await?.pop().flatten())
    }

    /// Jobs, in the order asked for.
    pub async fn get_all(&self, which: Vec<Which>) -> Result<Vec<Option<Job>>, Error> {
        Ok(self.inner.store.get(which).await?)
    }

    /// A page of jobs in one state.
    pub async fn list(&self, query: Query) -> Result<Page, Error> {
        let most = self.inner.caps.page;
        if query.n == 0 || query.n > most {
            let message = format!("`{}` lies outside 1 to {most}", query.n);
            return Err(Invalid::new(Code::CountRange, "n", message).into());
        }
        Ok(self.inner.store.list(query).await?)
    }

    /// How many jobs there are, by queue, kind and state.
    pub async fn counts(&self, queue: Option<Name>) -> Result<Vec<Count>, Error> {
        Ok(self.inner.store.counts(queue).await?)
    }

    /// A statistic over time: `pushed`, `done`, `failed`, `dead`, `cancelled`.
    pub async fn stats(&self, series: Name, step: Step) -> Result<Vec<(Time, u64)>, Error> {
        Ok(self.inner.store.stats(series, step).await?)
    }

    /// Says how far a delivery is; `false`: it is not the one that is running.
    pub async fn progress(
        &self,
        id: JobId,
        delivery: Delivery,
        percent: u8,
        text: &str,
    ) -> Result<bool, Error> {
        if percent > 100 {
            let message = format!("`{percent}` is more than 100");
            return Err(Invalid::new(Code::CountRange, "percent", message).into());
        }
        let text = self.short(text);
        let note = Note::Progress { id, delivery, percent, text };
        Ok(self.inner.store.note(vec![note]).await? == 1)
    }

    /// Adds a line to what a delivery says; `false`: it is not the one that is running.
    pub async fn line(&self, id: JobId, delivery: Delivery, text: &str) -> Result<bool, Error> {
        let note = Note::Line { id, delivery, text: self.short(text) };
        Ok(self.inner.store.note(vec![note]).await? == 1)
    }

    /// Keeps what deliveries say, and says how much was kept: notes of deliveries that are not running
    /// are dropped.
    pub async fn note(&self, mut notes: Vec<Note>) -> Result<usize, Error> {
        let most = self.inner.caps.fetch;
        if notes.len() > most {
            let message = format!("{} at once, at most {most} are allowed", notes.len());
            return Err(Invalid::new(Code::CountRange, "notes", message).into());
        }
        for (place, note) in notes.iter_mut().enumerate() {
            match note {
                Note::Progress { percent, .. } if *percent > 100 => {
                    let message = format!("`{percent}` is more than 100");
                    let field = format!("notes[{place}].percent");
                    return Err(Invalid::new(Code::CountRange, field, message).into());
                }
                Note::Progress { text, .. } | Note::Line { text, .. } => *text = self.short(text),
                Note::Stat { .. } => {}
            }
        }
        Ok(self.inner.store.note(notes).await?)
    }

    /// What the deliveries of a job have said.
    pub async fn notes(&self, id: JobId) -> Result<JobNotes, Error> {
        Ok(self.inner.store.notes(id).await?)
    }

    /// A group's counts, if it is there.
    pub async fn group(&self, id: GroupId) -> Result<Option<Group>, Error> {
        Ok(self.inner.store.group(id).await?)
    }

    /// From now on a group ends when its members have; `false`: it was sealed before, or is not there.
    pub async fn seal(&self, id: GroupId) -> Result<bool, Error> {
        // Also if it is not known whether it took effect.
        let _released = Doubt::new(|| self.inner.released());
        let applied = self.inner.store.apply(vec![Write::Seal(id)]).await?.into_inner();
        Ok(matches!(applied.first(), Some(Applied::Yes(_))))
    }

    fn short(&self, text: &str) -> Arc<str> {
        crate::finish::cut(text, self.inner.caps.text_bytes)
    }
}
