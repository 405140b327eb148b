//! The views of a whole store.

use crore_core::{Delivery, JobId, State};
use crore_store::registry::{Entry, Table};
use crore_store::views::{Note, Query};
use crore_store::{Error, Views};

use super::normal::{self, Said};
use super::op::{Back, View, Word};
use super::side::Side;
use super::words;

/// More pages than a test ever has.
const MAX_PAGES: usize = 1000;

impl Side<'_> {
    pub(super) async fn view(&mut self, store: &dyn Views, view: &View) -> Result<Said, Error> {
        match view {
            View::Progress(..) | View::Line(..) | View::Stat(_) => match self.note(view) {
                Some(note) => Ok(Said::Number(store.note(vec![note]).await?)),
                None => Ok(Said::Nothing),
            },
            View::Notes(back) => match self.held(*back) {
                Some((id, _)) => Ok(Said::Notes(store.notes(id).await?)),
                None => Ok(Said::Nothing),
            },
            View::Stats(step) => {
                let buckets = store.stats(words::name('s', 0), *step).await?;
                Ok(normal::stats(buckets, *step, self.now()))
            }
            View::List { state, queue, kind, n } => {
                self.list(store, (*state, *queue, *kind), *n).await
            }
            View::Counts(queue) => Ok(Said::Counts(store.counts(queue.map(words::queue)).await?)),
            View::Entries(table, n) => self.entries(*table, *n).await,
        }
    }

    fn note(&self, view: &View) -> Option<Note> {
        match view {
            View::Progress(back, percent) => {
                let (id, delivery) = self.held(*back)?;
                let text = format!("at {percent}").into();
                Some(Note::Progress { id, delivery, percent: *percent, text })
            }
            View::Line(back, n) => {
                let (id, delivery) = self.held(*back)?;
                Some(Note::Line { id, delivery, text: format!("line {n}").into() })
            }
            View::Stat(n) => Some(Note::Stat { series: words::name('s', 0), n: *n }),
            _ => None,
        }
    }

    fn held(&self, back: Back) -> Option<(JobId, Delivery)> {
        let delivery = self.known.deliveries.pick(back)?;
        Some((*self.known.holders.get(&delivery)?, delivery))
    }

    /// A list from its first page to its last. Where pages end is a store's own business.
    pub(super) async fn list(
        &mut self,
        store: &dyn Views,
        (state, queue, kind): (State, Option<Word>, Option<Word>),
        n: usize,
    ) -> Result<Said, Error> {
        let (queue, kind) = (queue.map(words::queue), kind.map(words::kind));
        let mut query = Query { state, queue, kind, after: None, n };
        let (mut jobs, now) = (Vec::new(), self.now());
        for _ in 0..MAX_PAGES {
            let page = store.list(query.clone()).await?;
            if page.jobs.len() > n {
                return Ok(Said::Wrong(format!("{} jobs on a page of {n}", page.jobs.len())));
            }
            jobs.extend(page.jobs.into_iter().map(|job| self.known.job(job, now)));
            query.after = page.next;
            if query.after.is_none() {
                return Ok(Said::Jobs(jobs));
            }
        }
        Ok(Said::Wrong("a thousand pages, and still another".to_owned()))
    }

    /// A table of the registry from its first page to its last.
    async fn entries(&mut self, table: Table, n: usize) -> Result<Said, Error> {
        let mut entries: Vec<Entry> = Vec::new();
        for _ in 0..MAX_PAGES {
            let after = entries.last().map(|entry| entry.name.clone());
            let page = self.parts.registry.entries(table, after, n).await?;
            if page.len() > n {
                return Ok(Said::Wrong(format!("{} entries on a page of {n}", page.len())));
            }
            if page.is_empty() {
                return Ok(Said::Entries(entries));
            }
            entries.extend(page.into_iter().map(|entry| self.known.entry(table, entry)));
        }
        Ok(Said::Wrong("a thousand pages, and still another".to_owned()))
    }
}
