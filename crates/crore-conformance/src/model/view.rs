//! Views of a whole store.

use crore_core::{Delivery, JobCounter, JobId, JobStats, Span};
use crore_store::registry::{RegistryEntry, RegistryTable};
use crore_store::views::{JobStatsQuery, ListQuery, Note};
use crore_store::{Error, Views};

use super::compared_store::ComparedStore;
use super::normalize::{self, NormalResponse};
use super::op::{StepsBack, ViewOp};
use super::samples;

/// More pages than any test has.
const MAX_PAGES: usize = 1000;

impl ComparedStore<'_> {
    pub(super) async fn view(
        &mut self,
        store: &dyn Views,
        view: &ViewOp,
    ) -> Result<NormalResponse, Error> {
        match view {
            ViewOp::Progress(..) | ViewOp::Line(..) | ViewOp::Stat(_) | ViewOp::JobStat(..) => {
                match self.note(view) {
                    Some(note) => Ok(NormalResponse::Number(store.note(vec![note]).await?)),
                    None => Ok(NormalResponse::Nothing),
                }
            }
            ViewOp::Notes(back) => match self.held(*back) {
                Some((id, _)) => Ok(NormalResponse::Notes(store.notes(id).await?)),
                None => Ok(NormalResponse::Nothing),
            },
            ViewOp::Stats(step) => {
                let buckets = store.stats(samples::name('s', 0), *step).await?;
                Ok(normalize::stats(buckets, *step, self.now()))
            }
            ViewOp::JobStats { queue, kind, step, age, shape } => {
                let query = JobStatsQuery {
                    queue: queue.map(samples::queue),
                    kind: kind.map(samples::kind),
                    within: None,
                    step: *step,
                    from: self.now().before(*age),
                    to: self.now(),
                    shape: *shape,
                };
                Ok(NormalResponse::JobStats(store.job_stats(query).await?))
            }
            ViewOp::List { state, queue, kind, key, n } => {
                let key = key.map(samples::index_key);
                let (queue, kind) = (queue.map(samples::queue), kind.map(samples::kind));
                let query = ListQuery { state: *state, queue, kind, key, after: None, n: *n };
                self.list(store, query).await
            }
            ViewOp::Counts(queue) => {
                Ok(NormalResponse::Counts(store.counts(queue.map(samples::queue)).await?))
            }
            ViewOp::Entries(table, n) => self.entries(*table, *n).await,
        }
    }

    fn note(&self, view: &ViewOp) -> Option<Note> {
        match view {
            ViewOp::Progress(back, percent) => {
                let (id, delivery) = self.held(*back)?;
                let text = format!("at {percent}").into();
                Some(Note::Progress { id, delivery, percent: *percent, text })
            }
            ViewOp::Line(back, n) => {
                let (id, delivery) = self.held(*back)?;
                Some(Note::Line { id, delivery, text: format!("line {n}").into() })
            }
            ViewOp::Stat(n) => Some(Note::Stat { series: samples::name('s', 0), n: *n }),
            ViewOp::JobStat(queue, kind, n, run) => {
                let mut stats = JobStats::default();
                stats.add(JobCounter::Done, *n);
                stats.run.record(Span::from_millis(*run), *n);
                let series = Some((samples::queue(*queue), samples::kind(*kind)));
                Some(Note::Jobs { series, stats: Box::new(stats) })
            }
            _ => None,
        }
    }

    fn held(&self, back: StepsBack) -> Option<(JobId, Delivery)> {
        let delivery = self.observed.deliveries.pick(back)?;
        Some((*self.observed.holders.get(&delivery)?, delivery))
    }

    /// Reads a list page by page. Page boundaries are up to the store.
    pub(super) async fn list(
        &mut self,
        store: &dyn Views,
        mut query: ListQuery,
    ) -> Result<NormalResponse, Error> {
        let n = query.n;
        let (mut jobs, now) = (Vec::new(), self.now());
        for _ in 0..MAX_PAGES {
            let page = store.list(query.clone()).await?;
            if page.jobs.len() > n {
                return Ok(NormalResponse::Wrong(format!(
                    "{} jobs on a page of {n}",
                    page.jobs.len()
                )));
            }
            jobs.extend(page.jobs.into_iter().map(|job| self.observed.job(job, now)));
            query.after = page.next;
            if query.after.is_none() {
                return Ok(NormalResponse::Jobs(jobs));
            }
        }
        Ok(NormalResponse::Wrong("a thousand pages without an end".to_owned()))
    }

    /// Reads a table of the registry page by page.
    async fn entries(&mut self, table: RegistryTable, n: usize) -> Result<NormalResponse, Error> {
        let mut entries: Vec<RegistryEntry> = Vec::new();
        for _ in 0..MAX_PAGES {
            let after = entries.last().map(|entry| entry.name.clone());
            let page = self.traits.registry.entries(table, after, n).await?;
            if page.len() > n {
                return Ok(NormalResponse::Wrong(format!(
                    "{} entries on a page of {n}",
                    page.len()
                )));
            }
            if page.is_empty() {
                return Ok(NormalResponse::Entries(entries));
            }
            entries.extend(page.into_iter().map(|entry| self.observed.entry(table, entry)));
        }
        Ok(NormalResponse::Wrong("a thousand pages without an end".to_owned()))
    }
}
