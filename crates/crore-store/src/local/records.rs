//! Where the jobs themselves live, under the index.

use std::collections::{BTreeMap, VecDeque};

use crore_core::{Job, JobId};

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

/// Ids are given out in order, so records of jobs that were pushed together lie together.
const PAGE: u64 = 64;
/// A page with fewer records left is given up, and they become strays.
const SPARSE: usize = 8;

/// Records in memory: pages of ids in a row, and a map for the few that outlive their page.
#[derive(Debug, Default)]
pub(crate) struct Map {
    pages: VecDeque<Option<Page>>,
    /// The number of the first page.
    first: u64,
    strays: BTreeMap<JobId, Record>,
}

#[derive(Debug)]
struct Page {
    slots: Box<[Option<Record>]>,
    used: usize,
}

impl Map {
    /// The place of an id among the pages, if it is not before all of them.
    fn place(&self, id: JobId) -> Option<usize> {
        usize::try_from((id.0 / PAGE).checked_sub(self.first)?).ok()
    }

    fn slot(&self, id: JobId) -> Option<&Record> {
        let page = self.pages.get(self.place(id)?)?.as_ref()?;
        page.slots.get((id.0 % PAGE) as usize)?.as_ref()
    }

    fn slot_mut(&mut self, id: JobId) -> Option<&mut Record> {
        let place = self.place(id)?;
        let page = self.pages.get_mut(place)?.as_mut()?;
        page.slots.get_mut((id.0 % PAGE) as usize)?.as_mut()
    }

    /// The page in which a new id belongs; only the last one is ever made.
    fn page_for(&mut self, id: JobId) -> Option<&mut Page> {
        if self.pages.is_empty() {
            self.first = id.0 / PAGE;
        }
        let place = self.place(id)?;
        while self.pages.len() <= place {
            let slots = std::iter::repeat_with(|| None).take(PAGE as usize).collect();
            self.pages.push_back(Some(Page { slots, used: 0 }));
        }
        self.pages.get_mut(place)?.as_mut()
    }

    /// Gives a page up that is nearly empty, unless it is the last one, which still fills.
    fn tidy(&mut self, place: usize) {
        if place + 1 >= self.pages.len() {
            return;
        }
        let sparse = |page: &mut Page| page.used < SPARSE;
        let given_up = self.pages.get_mut(place).and_then(|page| page.take_if(sparse));
        if let Some(page) = given_up {
            let left = page.slots.into_iter().flatten();
            self.strays.extend(left.map(|record| (record.job.id, record)));
        }
        while let Some(None) = self.pages.front() {
            self.pages.pop_front();
            self.first += 1;
        }
    }
}

impl Records for Map {
    fn load(&self, id: JobId) -> Result<Option<Record>, Error> {
        Ok(self.slot(id).or_else(|| self.strays.get(&id)).cloned())
    }

    fn insert(&mut self, record: Record) -> Result<(), Error> {
        let id = record.job.id;
        let Some(page) = self.page_for(id) else {
            self.strays.insert(id, record);
            return Ok(());
        };
        page.used += 1;
        if let Some(slot) = page.slots.get_mut((id.0 % PAGE) as usize) {
            *slot = Some(record);
        }
        Ok(())
    }

    fn update<T>(
        &mut self,
        id: JobId,
        change: impl FnOnce(&mut Record) -> T,
    ) -> Result<Option<T>, Error> {
        if let Some(record) = self.slot_mut(id) {
            return Ok(Some(change(record)));
        }
        Ok(self.strays.get_mut(&id).map(change))
    }

    fn remove(&mut self, id: JobId) -> Result<Option<Record>, Error> {
        let place = self.place(id);
        let page = place.and_then(|place| self.pages.get_mut(place)?.as_mut());
        let record = page.and_then(|page| {
            let record = page.slots.get_mut((id.0 % PAGE) as usize)?.take()?;
            page.used -= 1;
            Some(record)
        });
        match (record, place) {
            (Some(record), Some(place)) => {
                self.tidy(place);
                Ok(Some(record))
            }
            _ => Ok(self.strays.remove(&id)),
        }
    }
}
