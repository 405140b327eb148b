//! Where the jobs themselves live, under the index.

use crore_core::{Job, JobId};

use super::dense::Dense;
use crate::Error;

/// A job, and what the index wants to know of its spec without looking there.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) lane: u32,
    pub(crate) priority: i32,
    pub(crate) job: Job,
}

/// What keeps the records: a map, or a log.
pub(crate) trait Records {
    /// A job is shown to a caller as it is, before it is changed for him.
    fn show(&mut self, _: JobId) {}

    /// The record, as it was saved last.
    fn load(&self, id: JobId) -> Result<Option<Record>, Error>;

    /// Adds a record.
    fn insert(&mut self, record: Record) -> Result<(), Error>;

    /// Lets `change` look at a record and change it; `None`: it is not there.
    fn update<T>(
        &mut self,
        id: JobId,
        change: impl FnOnce(&mut Record) -> T,
    ) -> Result<Option<T>, Error>;

    /// Removes a record, and gives it.
    fn remove(&mut self, id: JobId) -> Result<Option<Record>, Error>;
}

/// Records in memory.
pub(crate) type Map = Dense<Record>;

impl Records for Map {
    fn load(&self, id: JobId) -> Result<Option<Record>, Error> {
        Ok(self.get(id).cloned())
    }

    fn insert(&mut self, record: Record) -> Result<(), Error> {
        Self::insert(self, record.job.id, record);
        Ok(())
    }

    fn update<T>(
        &mut self,
        id: JobId,
        change: impl FnOnce(&mut Record) -> T,
    ) -> Result<Option<T>, Error> {
        Ok(self.get_mut(id).map(change))
    }

    fn remove(&mut self, id: JobId) -> Result<Option<Record>, Error> {
        Ok(Self::remove(self, id))
    }
}
