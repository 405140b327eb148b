//! A sorted run: what every state of a (queue, kind) is kept in, at 16 bytes a job, and the heads of
//! lanes.

use std::collections::VecDeque;

use crore_core::{JobId, Time};

/// A job's place in a run: by time, then by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot {
    pub(crate) at: Time,
    pub(crate) id: JobId,
}

/// How many entries a chunk holds: 4 KiB of slots.
const CHUNK: usize = 256;

/// Slots in order. Appending and taking the first cost next to nothing, since that is what a queue
/// does; anything in between costs a search and moving at most a chunk. Chunks filled by appending
/// are full, so a long run takes 16 bytes a job.
#[derive(Debug)]
pub(crate) struct Run<T = Slot> {
    /// The first chunk. It stands apart from the others so that a short run, which most are, is one
    /// step away. It is empty only if the run is.
    front: Vec<T>,
    /// All other chunks.
    #[expect(clippy::box_collection, reason = "most runs have none, and there are many runs")]
    rest: Option<Box<VecDeque<Vec<T>>>>,
    /// How many slots at the beginning of `front` are taken already.
    taken: u32,
    len: u32,
}

impl<T> Default for Run<T> {
    fn default() -> Self {
        Self { front: Vec::new(), rest: None, taken: 0, len: 0 }
    }
}

impl<T: Ord + Copy + 'static> Run<T> {
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
        let place = chunk.partition_point(|other| *other < slot);
        chunk.insert(place, slot);
        if chunk.len() > CHUNK {
            let upper = chunk.split_off(chunk.len() / 2);
            self.rest.get_or_insert_default().insert(nth, upper);
        }
    }

    /// Takes a slot out; says whether it was there.
    pub(crate) fn remove(&mut self, slot: T) -> bool {
        if self.first() == Some(slot) {
            self.taken += 1;
        } else {
            let nth = self.chunk_of(slot);
            let Some(chunk) = self.chunk_mut(nth) else { return false };
            let Ok(place) = chunk.binary_search(&slot) else { return false };
            chunk.remove(place);
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

    /// Once the first chunk is used up, the next one takes its place; an empty run keeps its first
    /// chunk's room, unless it is large.
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

    /// The slots after `after`, or all of them.
    pub(crate) fn iter_after(&self, after: Option<T>) -> impl Iterator<Item = T> + '_ {
        let from = after.map_or(0, |slot| self.chunk_of(slot));
        let chunks = self.chunks().skip(from).flatten().copied();
        chunks.skip_while(move |slot| after.is_some_and(|after| *slot <= after))
    }

    /// The slots before `before`, or all of them, last first.
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

    /// The number of the chunk in which a slot is or would be; the first one is 0.
    fn chunk_of(&self, slot: T) -> usize {
        let rest = self.rest();
        if rest.is_empty() || self.front.last().is_some_and(|last| *last >= slot) {
            return 0;
        }
        let before = |chunk: &Vec<T>| chunk.last().is_some_and(|last| *last < slot);
        1 + rest.partition_point(before)
    }

    /// A chunk, without what is taken already.
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

    fn slot(n: u64) -> Slot {
        Slot { at: Time::from_millis((n / 7) as i64), id: JobId(n) }
    }

    proptest! {
        /// Whatever is put in and taken out, a run is a sorted set.
        #[test]
        fn a_run_is_a_sorted_set(
            start in 0u64..700,
            moves in proptest::collection::vec((0u8..4, 0u64..2000), 0..1500),
        ) {
            let mut run = Run::default();
            let mut model = BTreeSet::new();
            for n in 0..start {
                run.insert(slot(n));
                model.insert(slot(n));
            }
            for (what, n) in moves {
                let slot = if what == 3 { model.first().copied().unwrap_or(slot(n)) } else { slot(n) };
                if what == 0 && model.insert(slot) {
                    run.insert(slot);
                } else if what != 0 {
                    prop_assert_eq!(run.remove(slot), model.remove(&slot));
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
