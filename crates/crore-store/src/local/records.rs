//! Storage of the jobs themselves, beneath the index.

use crore_core::{Job, JobId};

use super::dense_map::DenseMap;
use crate::Error;

/// A job, with the parts of its spec that the index needs at hand.
#[derive(Debug, Clone)]
pub(crate) struct JobRecord {
    pub(crate) lane: u32,
    pub(crate) priority: i32,
    pub(crate) job: Job,
}

/// Storage of records: a map or the log.
pub(crate) trait JobRecords {
    /// Announces that a caller is about to see a job as stored, before the job is changed.
    fn mark_shown(&mut self, _: JobId) {}

    /// Returns the record as last saved.
    fn load(&self, id: JobId) -> Result<Option<JobRecord>, Error>;

    /// Adds a record.
    fn insert(&mut self, record: JobRecord) -> Result<(), Error>;

    /// Lets `change` read and modify a record; `None` if it does not exist. After `None` or an error, `change` was not
    /// called.
    fn update<T>(
        &mut self,
        id: JobId,
        change: impl FnOnce(&mut JobRecord) -> T,
    ) -> Result<Option<T>, Error>;

    /// Removes a record and returns it.
    fn remove(&mut self, id: JobId) -> Result<Option<JobRecord>, Error>;
}

/// Records in memory.
pub(crate) type MemoryRecords = DenseMap<JobRecord>;

impl JobRecords for MemoryRecords {
    fn load(&self, id: JobId) -> Result<Option<JobRecord>, Error> {
        Ok(self.get(id).cloned())
    }

    fn insert(&mut self, record: JobRecord) -> Result<(), Error> {
        Self::insert(self, record.job.id, record);
        Ok(())
    }

    fn update<T>(
        &mut self,
        id: JobId,
        change: impl FnOnce(&mut JobRecord) -> T,
    ) -> Result<Option<T>, Error> {
        Ok(self.get_mut(id).map(change))
    }

    fn remove(&mut self, id: JobId) -> Result<Option<JobRecord>, Error> {
        Ok(Self::remove(self, id))
    }
}
