//! A sorted run: holds the jobs of one (queue, kind, state) at 16 bytes each, and the heads of
//! lanes.

use std::collections::VecDeque;

use crore_core::{JobId, Time};

/// Sort key of a job in a run: time, then id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RunSlot {
    pub(crate) at: Time,
    pub(crate) id: JobId,
}

/// Entries per chunk: 4 KiB of slots.
const CHUNK: usize = 256;

/// Slots in order. Appending and removing the first slot, which is what a queue does, are cheap;
/// any other change costs a search and moves at most one chunk. Chunks filled by appending are
/// full, so a long run takes 16 bytes per job.
#[derive(Debug)]
pub(crate) struct SortedRun<T = RunSlot> {
    /// The first chunk, stored inline because most runs are short. Empty only if the run is.
    front: Vec<T>,
    /// The other chunks.
    #[expect(clippy::box_collection, reason = "most runs have none, and there are many runs")]
    rest: Option<Box<VecDeque<Vec<T>>>>,
    /// Number of slots at the start of `front` that are already removed.
    taken: u32,
    len: u32,
}

impl<T> Default for SortedRun<T> {
    fn default() -> Self {
        Self { front: Vec::new(), rest: None, taken: 0, len: 0 }
    }
}

impl<T: Ord + Copy + 'static> SortedRun<T> {
    pub(crate) const fn len(&self) -> usize {
        self.len as usize
    }

    pub(crate) fn first(&self) -> Option<T> {
        self.front.get(self.taken as usize).copied()
    }

    pub(crate) fn insert(&mut self, slot: T) {
        self.len += 1;
        let rest = self.rest.as_deref_mut().and_then(VecDeque::back_mut);
        let back = rest.unwrap_or(&mut self.front);
        if back.last().is_some_and(|last| *last > slot) && self.len > 1 {
            self.insert_between(slot);
        } else if back.len() < CHUNK {
            if back.capacity() == 0 {
                // Many runs have one slot only.
                back.reserve_exact(1);
            }
            back.push(slot);
        } else {
            let mut chunk = Vec::with_capacity(CHUNK);
            chunk.push(slot);
            self.rest.get_or_insert_default().push_back(chunk);
        }
    }

    fn insert_between(&mut self, slot: T) {
        if self.taken > 0 && self.first().is_some_and(|first| slot < first) {
            self.taken -= 1;
            if let Some(free) = self.front.get_mut(self.taken as usize) {
                *free = slot;
            }
            return;
        }
        let nth = self.chunk_of(slot);
        let Some(chunk) = self.chunk_mut(nth) else { return };
        let index = chunk.partition_point(|other| *other < slot);
        chunk.insert(index, slot);
        if chunk.len() > CHUNK {
            let upper = chunk.split_off(chunk.len() / 2);
            self.rest.get_or_insert_default().insert(nth, upper);
        }
    }

    /// Replaces a slot by another one, or by none. The first slot is replaced in place if its successor stays behind.
    pub(crate) fn replace(&mut self, old: Option<T>, new: Option<T>) {
        if let (Some(old), Some(new)) = (old, new)
            && let Some([first, rest @ ..]) = self.front.get_mut(self.taken as usize..)
            && *first == old
            && (rest.first().is_some_and(|second| new < *second) || self.len == 1)
        {
            *first = new;
            return;
        }
        old.into_iter().for_each(|old| _ = self.remove(old));
        new.into_iter().for_each(|new| self.insert(new));
    }

    /// Removes a slot; returns whether it was present.
    pub(crate) fn remove(&mut self, slot: T) -> bool {
        if self.first() == Some(slot) {
            self.taken += 1;
        } else {
            let nth = self.chunk_of(slot);
            let Some(chunk) = self.chunk_mut(nth) else { return false };
            let Ok(index) = chunk.binary_search(&slot) else { return false };
            chunk.remove(index);
            if chunk.is_empty()
                && nth > 0
                && let Some(rest) = &mut self.rest
            {
                rest.remove(nth - 1);
            }
        }
        self.len -= 1;
        if self.taken as usize >= self.front.len() {
            self.next_front();
        }
        true
    }

    /// Replaces a used-up first chunk by the next one. An empty run keeps a small allocation.
    fn next_front(&mut self) {
        self.taken = 0;
        match self.rest.as_mut().and_then(|rest| rest.pop_front()) {
            Some(chunk) => self.front = chunk,
            None => {
                self.rest = None;
                self.front.clear();
                self.front.shrink_to(16);
            }
        }
    }

    /// Slots after `after`, or all.
    pub(crate) fn iter_after(&self, after: Option<T>) -> impl Iterator<Item = T> + '_ {
        let from = after.map_or(0, |slot| self.chunk_of(slot));
        let chunks = self.chunks().skip(from).flatten().copied();
        chunks.skip_while(move |slot| after.is_some_and(|after| *slot <= after))
    }

    /// Slots before `before`, or all, in descending order.
    pub(crate) fn iter_before(&self, before: Option<T>) -> impl Iterator<Item = T> + '_ {
        let upto = before.map_or(usize::MAX, |slot| self.chunk_of(slot) + 1);
        let past = (self.rest().len() + 1).saturating_sub(upto);
        let chunks = self.chunks().rev().skip(past).flat_map(|chunk| chunk.iter().rev().copied());
        chunks.skip_while(move |slot| before.is_some_and(|before| *slot >= before))
    }

    fn chunks(&self) -> impl DoubleEndedIterator<Item = &[T]> + '_ {
        let front = self.front.get(self.taken as usize..).unwrap_or_default();
        std::iter::once(front).chain(self.rest().iter().map(Vec::as_slice))
    }

    const NONE: &VecDeque<Vec<T>> = &VecDeque::new();

    fn rest(&self) -> &VecDeque<Vec<T>> {
        self.rest.as_deref().unwrap_or(Self::NONE)
    }

    /// Number of the chunk that has the slot or would have it; the first chunk is 0.
    fn chunk_of(&self, slot: T) -> usize {
        let rest = self.rest();
        if rest.is_empty() || self.front.last().is_some_and(|last| *last >= slot) {
            return 0;
        }
        let before = |chunk: &Vec<T>| chunk.last().is_some_and(|last| *last < slot);
        1 + rest.partition_point(before)
    }

    /// Returns a chunk, after dropping its removed slots.
    fn chunk_mut(&mut self, nth: usize) -> Option<&mut Vec<T>> {
        if nth > 0 {
            return self.rest.as_mut()?.get_mut(nth - 1);
        }
        self.front.drain(..self.taken as usize);
        self.taken = 0;
        Some(&mut self.front)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn slot(n: u64) -> RunSlot {
        RunSlot { at: Time::from_millis((n / 7) as i64), id: JobId(n) }
    }

    proptest! {
        /// A run behaves like a sorted set under any inserts and removals.
        #[test]
        fn a_run_is_a_sorted_set(
            start in 0u64..700,
            moves in proptest::collection::vec((0u8..6, 0u64..2000), 0..1500),
        ) {
            let mut run = SortedRun::default();
            let mut model = BTreeSet::new();
            for n in 0..start {
                run.insert(slot(n));
                model.insert(slot(n));
            }
            for (what, n) in moves {
                let first = model.first().copied();
                match what {
                    0 if model.insert(slot(n)) => run.insert(slot(n)),
                    0 => {}
                    1 | 2 => prop_assert_eq!(run.remove(slot(n)), model.remove(&slot(n))),
                    3 => _ = first.map(|first| (run.remove(first), model.remove(&first))),
                    _ => {
                        let old = if what == 4 { first } else { model.range(slot(n)..).next().copied() };
                        old.map(|old| model.remove(&old));
                        let new = model.insert(slot(n / 2)).then_some(slot(n / 2));
                        run.replace(old, new);
                    }
                }
                prop_assert_eq!((run.len(), run.first()), (model.len(), model.first().copied()));
            }
            prop_assert!(run.iter_after(None).eq(model.iter().copied()));
            prop_assert!(run.iter_before(None).eq(model.iter().rev().copied()));
            let middle = slot(1000);
            prop_assert!(run.iter_after(Some(middle)).eq(model.iter().copied().filter(|s| *s > middle)));
            prop_assert!(run.iter_before(Some(middle)).eq(model.iter().rev().copied().filter(|s| *s < middle)));
        }
    }
}
