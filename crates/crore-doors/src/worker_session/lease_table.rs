//! The deliveries that a worker holds.

use crore_core::id::JobMap;
use crore_core::{Delivery, JobId};
use crore_wire::worker::DeliveryRef;

/// The deliveries that a worker holds, at most one per job, each with the terms of its lease: data of the door.
#[derive(Debug)]
pub(crate) struct LeaseTable<T>(JobMap<LeaseEntry<T>>);

#[derive(Debug)]
struct LeaseEntry<T> {
    delivery: Delivery,
    terms: T,
}

impl<T> Default for LeaseTable<T> {
    fn default() -> Self {
        Self(JobMap::default())
    }
}

impl<T> LeaseTable<T> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a delivery, and returns an earlier one of the same job: a worker may be given a job again before it is
    /// notified that it lost the earlier delivery.
    pub(crate) fn insert(&mut self, held: DeliveryRef, terms: T) -> Option<(DeliveryRef, T)> {
        let DeliveryRef { id, delivery } = held;
        let LeaseEntry { delivery, terms } = self.0.insert(id, LeaseEntry { delivery, terms })?;
        Some((DeliveryRef { id, delivery }, terms))
    }

    /// Whether the worker holds exactly this delivery.
    pub(crate) fn holds(&self, held: DeliveryRef) -> bool {
        self.0.get(&held.id).is_some_and(|lease| lease.delivery == held.delivery)
    }

    /// The delivery of a job, with its terms.
    pub(crate) fn get_mut(&mut self, id: JobId) -> Option<(DeliveryRef, &mut T)> {
        let LeaseEntry { delivery, terms } = self.0.get_mut(&id)?;
        Some((DeliveryRef { id, delivery: *delivery }, terms))
    }

    /// Removes a delivery. `None`: the worker does not hold it, and nothing changes.
    pub(crate) fn release(&mut self, held: DeliveryRef) -> Option<T> {
        if !self.holds(held) {
            return None;
        }
        self.0.remove(&held.id).map(|lease| lease.terms)
    }

    /// Removes any delivery of a job.
    pub(crate) fn release_job(&mut self, id: JobId) -> Option<T> {
        self.0.remove(&id).map(|lease| lease.terms)
    }

    /// All deliveries, with their terms.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (DeliveryRef, &T)> {
        self.0.iter().map(|(id, LeaseEntry { delivery, terms })| {
            (DeliveryRef { id: *id, delivery: *delivery }, terms)
        })
    }

    /// Takes all deliveries out, with their terms.
    pub(crate) fn into_leases(self) -> impl Iterator<Item = (DeliveryRef, T)> {
        self.0
            .into_iter()
            .map(|(id, LeaseEntry { delivery, terms })| (DeliveryRef { id, delivery }, terms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn held(id: u64, delivery: u64) -> DeliveryRef {
        DeliveryRef { id: JobId(id), delivery: Delivery(delivery) }
    }

    #[test]
    fn a_later_delivery_of_a_job_replaces_the_earlier_one() {
        let mut table = LeaseTable::default();
        assert_eq!(table.insert(held(1, 1), 'a'), None);
        assert_eq!(table.insert(held(1, 2), 'b'), Some((held(1, 1), 'a')));
        assert_eq!(table.len(), 1);
        assert!(!table.holds(held(1, 1)) && table.holds(held(1, 2)));
    }

    #[test]
    fn another_delivery_of_a_job_releases_nothing() {
        let mut table = LeaseTable::default();
        table.insert(held(1, 2), ());
        assert_eq!(table.release(held(1, 1)), None);
        assert_eq!(table.release(held(2, 2)), None);
        assert!(table.holds(held(1, 2)));
        assert_eq!(table.release(held(1, 2)), Some(()));
        assert!(table.is_empty());
    }
}
