//! A map by job id that counts on ids being given out in order.

use std::collections::{BTreeMap, VecDeque};

use crore_core::JobId;

/// Ids are given out in order, so what belongs to jobs that were pushed together lies together.
const PAGE: u64 = 64;
/// A page with fewer values left is given up, and they become strays.
const SPARSE: usize = 8;
/// The largest gap of ids, in pages, that is bridged with empty ones.
const REACH: usize = 1 << 10;

/// Values by job id: pages of ids in a row, and a map for the few that outlive their page.
#[derive(Debug)]
pub(crate) struct Dense<T> {
    pages: VecDeque<Option<Page<T>>>,
    /// The number of the first page.
    first: u64,
    strays: BTreeMap<JobId, T>,
}

#[derive(Debug)]
struct Page<T> {
    slots: Box<[Option<T>]>,
    used: usize,
}

impl<T> Default for Dense<T> {
    fn default() -> Self {
        Self { pages: VecDeque::new(), first: 0, strays: BTreeMap::new() }
    }
}

impl<T> Dense<T> {
    pub(crate) fn get(&self, id: JobId) -> Option<&T> {
        self.slot(id).or_else(|| self.strays.get(&id))
    }

    pub(crate) fn get_mut(&mut self, id: JobId) -> Option<&mut T> {
        let place = self.place(id);
        let page = place.and_then(|place| self.pages.get_mut(place)?.as_mut());
        let slot = page.and_then(|page| page.slots.get_mut((id.0 % PAGE) as usize)?.as_mut());
        slot.or_else(|| self.strays.get_mut(&id))
    }

    /// Sets a value, and gives the one that was there.
    pub(crate) fn insert(&mut self, id: JobId, value: T) -> Option<T> {
        let Some(page) = self.page_for(id) else { return self.strays.insert(id, value) };
        let slot = page.slots.get_mut((id.0 % PAGE) as usize)?;
        let old = slot.replace(value);
        page.used += usize::from(old.is_none());
        old
    }

    pub(crate) fn remove(&mut self, id: JobId) -> Option<T> {
        let place = self.place(id);
        let page = place.and_then(|place| self.pages.get_mut(place)?.as_mut());
        let value = page.and_then(|page| {
            let value = page.slots.get_mut((id.0 % PAGE) as usize)?.take()?;
            page.used -= 1;
            Some(value)
        });
        match (value, place) {
            (Some(value), Some(place)) => {
                self.tidy(place);
                Some(value)
            }
            _ => self.strays.remove(&id),
        }
    }

    /// The place of an id among the pages, if it is not before all of them.
    fn place(&self, id: JobId) -> Option<usize> {
        usize::try_from((id.0 / PAGE).checked_sub(self.first)?).ok()
    }

    fn slot(&self, id: JobId) -> Option<&T> {
        let page = self.pages.get(self.place(id)?)?.as_ref()?;
        page.slots.get((id.0 % PAGE) as usize)?.as_ref()
    }

    /// The page in which an id belongs; only those at the end are ever made. What has no page is a
    /// stray, and what is a stray has no page.
    fn page_for(&mut self, id: JobId) -> Option<&mut Page<T>> {
        if self.place(id).is_some_and(|place| place >= self.pages.len() + REACH) {
            let pages = self.pages.len();
            (0..pages).for_each(|place| self.give_up(place));
            self.pages.clear();
        }
        if self.pages.is_empty() {
            self.first = id.0 / PAGE;
        }
        let filled = self.pages.len();
        while self.pages.len() <= self.place(id)? {
            let slots = std::iter::repeat_with(|| None).take(PAGE as usize).collect();
            self.pages.push_back(Some(Page { slots, used: 0 }));
        }
        if self.pages.len() > filled && filled > 0 {
            self.leave(filled - 1);
        }
        let place = self.place(id)?;
        self.pages.get_mut(place)?.as_mut()
    }

    /// Gives a page up that was the last one until now, if it was emptied meanwhile: nobody will take
    /// anything out of it any more.
    fn leave(&mut self, place: usize) {
        let page = self.pages.get(place).and_then(Option::as_ref);
        if page.is_some_and(|page| page.used == 0) {
            self.tidy(place);
        }
    }

    /// Gives a page up that is nearly empty, unless it is the last one, which still fills.
    fn tidy(&mut self, place: usize) {
        if place + 1 >= self.pages.len() {
            return;
        }
        let page = self.pages.get(place).and_then(Option::as_ref);
        if page.is_some_and(|page| page.used < SPARSE) {
            self.give_up(place);
        }
        while let Some(None) = self.pages.front() {
            self.pages.pop_front();
            self.first += 1;
        }
    }

    /// Makes strays of what is left of a page.
    fn give_up(&mut self, place: usize) {
        let Some(page) = self.pages.get_mut(place).and_then(Option::take) else { return };
        let start = (self.first + place as u64) * PAGE;
        let left = (start..).zip(page.slots).filter_map(|(id, slot)| Some((JobId(id), slot?)));
        self.strays.extend(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_page_that_was_emptied_while_it_was_the_last_does_not_stay() {
        let mut dense = Dense::default();
        for id in (0..100 * PAGE).map(JobId) {
            dense.insert(id, ());
            dense.remove(id);
        }
        assert!(dense.pages.len() <= 2, "{} pages for nothing", dense.pages.len());
    }

    proptest! {
        /// Whatever is put in and taken out, it is a map.
        #[test]
        fn it_is_a_map(moves in proptest::collection::vec((0u8..3, 0u64..900, any::<bool>()), 0..800)) {
            let (mut dense, mut model) = (Dense::default(), BTreeMap::new());
            for (n, (what, id, far)) in (0u64..).zip(moves) {
                let id = JobId(if far { id << 40 } else { id });
                match what {
                    0 => prop_assert_eq!(dense.remove(id), model.remove(&id)),
                    1 => prop_assert_eq!(dense.get_mut(id).copied(), model.get(&id).copied()),
                    _ => prop_assert_eq!(dense.insert(id, n), model.insert(id, n)),
                }
                prop_assert_eq!(dense.get(id), model.get(&id));
            }
            for (id, n) in &model {
                prop_assert_eq!(dense.get(*id), Some(n));
            }
        }
    }
}
