//! Replays: pushes new jobs from the definitions of stored ones.

use std::collections::HashSet;

use crore_core::{Batch, Job, JobId, NewJob, OwnerId, ReplayEdits};
use crore_store::jobs::JobSelector;

use crate::actions::{BulkMode, BulkProgress, BulkTask, JobFilter};
use crate::engine::EngineInner;
use crate::error::Error;
use crate::jobs::Jobs;
use crate::push::PushResult;

/// Replays of many jobs, with the same edits.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BulkReplay {
    /// The edits.
    pub edits: ReplayEdits,
    /// The token that pushes the replays.
    pub pusher: Option<OwnerId>,
}

/// The replays of one page of jobs.
#[derive(Debug, Default)]
pub(crate) struct ReplayedPage {
    /// Number of jobs that were replayed; in a dry run, that would be.
    pub(crate) count: u64,
    /// The new jobs.
    pub(crate) new: Vec<JobId>,
}

impl Jobs<'_> {
    /// Pushes a replay of a job: a new job with its definition and these edits; see [`ReplayEdits::replay`]. The original
    /// may be in any state and stays unchanged. `None`: it does not exist.
    ///
    /// ```
    /// use crore::core::{Payload, ReplayEdits};
    /// use crore::{Engine, block_on};
    ///
    /// # fn main() -> Result<(), crore::Error> {
    /// let engine = Engine::memory();
    /// let id = engine.push("mail", "to nobody").wait()?;
    /// let edits = ReplayEdits { payload: Some(Payload::json("\"to ada\"")), ..ReplayEdits::default() };
    ///
    /// let pushed = block_on(engine.jobs().replay(id, &edits))?.and_then(|pushed| pushed.id());
    /// let replay = block_on(engine.get(pushed.expect("a new job")))?.expect("stored");
    /// assert_eq!(replay.spec.replay_of, Some(id));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn replay(
        self,
        which: impl Into<JobSelector>,
        edits: &ReplayEdits,
    ) -> Result<Option<PushResult>, Error> {
        let job = self.inner.store.get(vec![which.into()]).await?.pop().flatten();
        let Some(job) = job else { return Ok(None) };
        let mut pushed = self.inner.push(edits.replay(&job)?.into()).await?;
        Ok(pushed.jobs.pop())
    }

    /// Pushes a replay of each job that matches a filter, as [`Self::act_on_all`] applies an action. A replay is not
    /// replayed itself, even if it matches.
    pub async fn replay_all(
        self,
        filter: &JobFilter,
        replay: &BulkReplay,
        mode: BulkMode,
        progress: impl FnMut(BulkProgress) -> bool + Send,
    ) -> Result<BulkProgress, Error> {
        let task = BulkTask::Replay(Box::new(replay.clone()));
        self.run_bulk(filter, &task, mode, progress).await
    }
}

impl EngineInner {
    /// Replays the jobs of a page. Jobs whose replays are invalid, or whose unique keys are held, are left out.
    pub(crate) async fn replay_page(
        &self,
        jobs: &[Job],
        replay: &BulkReplay,
        mode: BulkMode,
    ) -> Result<ReplayedPage, Error> {
        let now = self.now();
        let mut replays: Vec<NewJob> =
            jobs.iter().filter_map(|job| replay.edits.replay(job).ok()).collect();
        let is_storable = |job: &NewJob| {
            job.spec.payload.bytes.len() <= self.caps.batch_bytes
                && job.check_from_caller(&self.caps, now).is_ok()
        };
        replays.retain(is_storable);
        if mode == BulkMode::DryRun {
            let count = self.count_storable(&replays).await?;
            return Ok(ReplayedPage { count, new: Vec::new() });
        }
        for job in &mut replays {
            job.spec.pusher = replay.pusher;
        }
        let mut replayed = ReplayedPage::default();
        for batch in self.batches(replays) {
            for pushed in self.push(batch).await?.jobs {
                if let PushResult::New(id) = pushed {
                    replayed.new.push(id);
                }
            }
        }
        replayed.count = replayed.new.len() as u64;
        Ok(replayed)
    }

    /// Number of jobs that a push would store: their unique keys are not held.
    async fn count_storable(&self, jobs: &[NewJob]) -> Result<u64, Error> {
        let keys: HashSet<_> =
            jobs.iter().filter_map(|job| Some(job.spec.unique.as_ref()?.key.clone())).collect();
        let without_key = jobs.iter().filter(|job| job.spec.unique.is_none()).count();
        if keys.is_empty() {
            return Ok(without_key as u64);
        }
        let holders = self.store.holders(keys.into_iter().collect()).await?;
        let free = holders.iter().filter(|holder| holder.is_none()).count();
        Ok((without_key + free) as u64)
    }

    /// Splits jobs into batches within the caps. Each job alone is within them.
    fn batches(&self, jobs: Vec<NewJob>) -> Vec<Batch> {
        let mut batches = Vec::new();
        let (mut batch, mut bytes) = (Batch::default(), 0);
        for job in jobs {
            let size = job.spec.payload.bytes.len();
            let is_full =
                batch.jobs.len() >= self.caps.batch_jobs || bytes + size > self.caps.batch_bytes;
            if is_full && !batch.jobs.is_empty() {
                batches.push(std::mem::take(&mut batch));
                bytes = 0;
            }
            bytes += size;
            batch.jobs.push(job);
        }
        if !batch.jobs.is_empty() {
            batches.push(batch);
        }
        batches
    }
}
