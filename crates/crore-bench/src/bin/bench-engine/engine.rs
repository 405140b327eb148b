//! The engine as a contender: the same work as the store's own, through the engine's calls.

use std::path::Path;

use crore::core::machine::Outcome;
use crore::core::{NewJob, Span};
use crore::fetch::Fetch;
use crore::finish::{Finish, FinishResult};
use crore::push::PushResult;
use crore::{Engine, block_on};

use crore_bench::contender::Contender;
use crore_bench::driver::{RunFigures, Until, drive};
use crore_bench::embedded;

/// An engine on the embedded store.
pub(crate) struct DrivenEngine {
    pub(crate) engine: Engine,
    job: NewJob,
}

impl DrivenEngine {
    pub(crate) fn open(dir: &Path) -> Self {
        Self { engine: Engine::open(dir).unwrap(), job: embedded::job("work") }
    }

    pub(crate) fn close(self) {
        self.engine.stop().unwrap();
    }

    /// Pushes jobs, and returns when they are durable.
    pub(crate) async fn push_jobs(&self, jobs: Vec<NewJob>) {
        let n = jobs.len();
        let taken = self.engine.push_all(jobs.into()).await.unwrap().jobs;
        assert!(taken.len() == n && taken.iter().all(|one| matches!(one, PushResult::New(_))));
    }

    /// Fetches jobs and finishes them; returns their number.
    pub(crate) async fn fetch_and_finish(&self, ask: Fetch) -> usize {
        let jobs = self.engine.fetch(ask).await.unwrap();
        let done = |job| Finish::of(job, Outcome::Done { result: None });
        let finished =
            self.engine.deliveries().finish_all(jobs.iter().map(done).collect()).await.unwrap();
        assert!(
            finished.iter().all(|one| matches!(one, FinishResult::Accepted { .. })),
            "{finished:?}"
        );
        jobs.len()
    }
}

/// A fetch of up to `n` jobs from a queue, with a wait.
pub(crate) fn fetch_from(queue: &str, n: usize, wait: Span) -> Fetch {
    Fetch { n, wait, ..Fetch::new(embedded::name(queue), embedded::name("bench")) }
}

impl Contender for DrivenEngine {
    fn name(&self) -> &'static str {
        "engine"
    }

    fn push(&self, until: Until, in_flight: usize, batch: usize) -> RunFigures {
        drive(until, in_flight, move |state| async move {
            while let Some(begun_at) = state.begin() {
                self.push_jobs(vec![self.job.clone(); batch]).await;
                state.record_latency(begun_at);
                state.count_jobs(batch);
            }
        })
    }

    fn cycle(&self, until: Until, in_flight: usize) -> RunFigures {
        let ask = &fetch_from("work", 1, Span::ZERO);
        drive(until, in_flight, move |state| async move {
            while let Some(begun_at) = state.begin() {
                self.push_jobs(vec![self.job.clone()]).await;
                state.record_latency(begun_at);
                assert_eq!(self.fetch_and_finish(ask.clone()).await, 1, "every fetch finds a job");
                state.count_jobs(1);
            }
        })
    }

    fn count(&self) -> u64 {
        block_on(self.engine.jobs().counts(None)).unwrap().iter().map(|count| count.n).sum()
    }

    fn drain(&self) {
        let ask = fetch_from("work", 1000, Span::ZERO);
        block_on(async { while self.fetch_and_finish(ask.clone()).await > 0 {} });
        assert_eq!(self.count(), 0, "nothing is left");
    }
}
