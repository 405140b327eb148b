//! A map by job id, compact because ids are allocated in order.

use std::collections::{BTreeMap, VecDeque};

use crore_core::JobId;

/// Job ids per page: jobs that were pushed together share a page.
const PAGE: u64 = 64;
/// A page with fewer values is dissolved into the overflow map.
const MIN_PAGE_VALUES: usize = 8;
/// Largest gap of ids, in pages, that is filled with empty pages.
const MAX_GAP_PAGES: usize = 1 << 10;

/// Values by job id: pages of consecutive ids, and an overflow map for the few that outlive their
/// page.
#[derive(Debug)]
pub(crate) struct DenseMap<T> {
    pages: VecDeque<Option<DensePage<T>>>,
    /// The number of the first page.
    first: u64,
    overflow: BTreeMap<JobId, T>,
}

#[derive(Debug)]
struct DensePage<T> {
    slots: Box<[Option<T>]>,
    used: usize,
}

impl<T> Default for DenseMap<T> {
    fn default() -> Self {
        Self { pages: VecDeque::new(), first: 0, overflow: BTreeMap::new() }
    }
}

impl<T> DenseMap<T> {
    pub(crate) fn get(&self, id: JobId) -> Option<&T> {
        self.slot(id).or_else(|| self.overflow.get(&id))
    }

    pub(crate) fn get_mut(&mut self, id: JobId) -> Option<&mut T> {
        let index = self.page_index(id);
        let page = index.and_then(|index| self.pages.get_mut(index)?.as_mut());
        let slot = page.and_then(|page| page.slots.get_mut((id.0 % PAGE) as usize)?.as_mut());
        slot.or_else(|| self.overflow.get_mut(&id))
    }

    /// Sets a value and returns the previous one.
    pub(crate) fn insert(&mut self, id: JobId, value: T) -> Option<T> {
        let Some(page) = self.page_for(id) else { return self.overflow.insert(id, value) };
        let slot = page.slots.get_mut((id.0 % PAGE) as usize)?;
        let old = slot.replace(value);
        page.used += usize::from(old.is_none());
        old
    }

    pub(crate) fn remove(&mut self, id: JobId) -> Option<T> {
        let index = self.page_index(id);
        let page = index.and_then(|index| self.pages.get_mut(index)?.as_mut());
        let value = page.and_then(|page| {
            let value = page.slots.get_mut((id.0 % PAGE) as usize)?.take()?;
            page.used -= 1;
            Some(value)
        });
        match (value, index) {
            (Some(value), Some(index)) => {
                self.dissolve_if_sparse(index);
                Some(value)
            }
            _ => self.overflow.remove(&id),
        }
    }

    /// Index of the page of an id; `None` if it precedes all pages.
    fn page_index(&self, id: JobId) -> Option<usize> {
        usize::try_from((id.0 / PAGE).checked_sub(self.first)?).ok()
    }

    fn slot(&self, id: JobId) -> Option<&T> {
        let page = self.pages.get(self.page_index(id)?)?.as_ref()?;
        page.slots.get((id.0 % PAGE) as usize)?.as_ref()
    }

    /// Returns the page of an id, creating pages at the end only. An id has either a page or an
    /// overflow entry, never both.
    fn page_for(&mut self, id: JobId) -> Option<&mut DensePage<T>> {
        if self.page_index(id).is_some_and(|index| index >= self.pages.len() + MAX_GAP_PAGES) {
            let pages = self.pages.len();
            (0..pages).for_each(|index| self.dissolve(index));
            self.pages.clear();
        }
        if self.pages.is_empty() {
            self.first = id.0 / PAGE;
        }
        let filled = self.pages.len();
        while self.pages.len() <= self.page_index(id)? {
            let slots = std::iter::repeat_with(|| None).take(PAGE as usize).collect();
            self.pages.push_back(Some(DensePage { slots, used: 0 }));
        }
        if self.pages.len() > filled && filled > 0 {
            self.drop_if_empty(filled - 1);
        }
        let index = self.page_index(id)?;
        self.pages.get_mut(index)?.as_mut()
    }

    /// Drops a page that was emptied while it was the last one: no later removal would trigger
    /// this.
    fn drop_if_empty(&mut self, index: usize) {
        let page = self.pages.get(index).and_then(Option::as_ref);
        if page.is_some_and(|page| page.used == 0) {
            self.dissolve_if_sparse(index);
        }
    }

    /// Dissolves a nearly empty page, unless it is the last one, which still fills.
    fn dissolve_if_sparse(&mut self, index: usize) {
        if index + 1 >= self.pages.len() {
            return;
        }
        let page = self.pages.get(index).and_then(Option::as_ref);
        if page.is_some_and(|page| page.used < MIN_PAGE_VALUES) {
            self.dissolve(index);
        }
        while let Some(None) = self.pages.front() {
            self.pages.pop_front();
            self.first += 1;
        }
    }

    /// Moves the remaining values of a page to the overflow map.
    fn dissolve(&mut self, index: usize) {
        let Some(page) = self.pages.get_mut(index).and_then(Option::take) else { return };
        let start = (self.first + index as u64) * PAGE;
        let left = (start..).zip(page.slots).filter_map(|(id, slot)| Some((JobId(id), slot?)));
        self.overflow.extend(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_emptied_last_page_is_removed() {
        let mut dense = DenseMap::default();
        for id in (0..100 * PAGE).map(JobId) {
            dense.insert(id, ());
            dense.remove(id);
        }
        assert!(dense.pages.len() <= 2, "{} pages for nothing", dense.pages.len());
    }

    proptest! {
        /// Behaves like a map under any inserts and removals.
        #[test]
        fn behaves_like_a_map(moves in proptest::collection::vec((0u8..3, 0u64..900, any::<bool>()), 0..800)) {
            let (mut dense, mut model) = (DenseMap::default(), BTreeMap::new());
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
