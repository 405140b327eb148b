//! For the benchmark of the index alone, without records under it.

use std::sync::Arc;

use crore_core::{Batch, JobId, NewJob, Time};

use crate::Error;
use crate::local::{Local, Record, Records};

/// Records that are not kept.
#[derive(Debug, Default)]
struct Nowhere;

impl Records for Nowhere {
    fn load(&self, _: JobId) -> Result<Option<Record>, Error> {
        Ok(None)
    }

    fn insert(&mut self, _: Record) -> Result<(), Error> {
        Ok(())
    }

    fn update<T>(
        &mut self,
        _: JobId,
        _: impl FnOnce(&mut Record) -> T,
    ) -> Result<Option<T>, Error> {
        Ok(None)
    }

    fn remove(&mut self, _: JobId) -> Result<Option<Record>, Error> {
        Ok(None)
    }
}

/// An index with `n` jobs like this one in it, and nothing else.
pub fn index_of(n: u64, job: &NewJob) -> Result<Arc<dyn Send + Sync>, Error> {
    let mut index = Local::<Nowhere>::default();
    for nth in 0..n {
        index.push(Batch::from(job.clone()), Time::from_millis(nth as i64))?;
    }
    Ok(Arc::new(index))
}
