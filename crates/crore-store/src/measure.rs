//! Access to the index alone, without records, for its benchmark.

use std::sync::Arc;

use crore_core::{Batch, JobId, NewJob, Time};

use crate::Error;
use crate::local::{JobRecord, JobRecords, LocalIndex};

/// Records that are not stored.
#[derive(Debug, Default)]
struct NoRecords;

impl JobRecords for NoRecords {
    fn load(&self, _: JobId) -> Result<Option<JobRecord>, Error> {
        Ok(None)
    }

    fn insert(&mut self, _: JobRecord) -> Result<(), Error> {
        Ok(())
    }

    fn update<T>(
        &mut self,
        _: JobId,
        _: impl FnOnce(&mut JobRecord) -> T,
    ) -> Result<Option<T>, Error> {
        Ok(None)
    }

    fn remove(&mut self, _: JobId) -> Result<Option<JobRecord>, Error> {
        Ok(None)
    }
}

/// Builds an index of `n` jobs, each from its number.
pub fn index_of(n: u64, job: impl Fn(u64) -> NewJob) -> Result<Arc<dyn Send + Sync>, Error> {
    let mut index = LocalIndex::<NoRecords>::default();
    for nth in 0..n {
        index.push(Batch::from(job(nth)), Time::from_millis(nth as i64))?;
    }
    Ok(Arc::new(index))
}
