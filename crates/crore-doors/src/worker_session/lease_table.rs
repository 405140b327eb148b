//! The deliveries that a worker holds.

use crore_core::id::ById;
use crore_core::{Delivery, JobId};
use crore_wire::worker::Held;

/// The deliveries that a worker holds, at most one of each job, each with the terms of its lease: whatever a door has to
/// know of it.
#[derive(Debug)]
pub(crate) struct LeaseTable<T>(ById<Lease<T>>);

#[derive(Debug)]
struct Lease<T> {
    delivery: Delivery,
    terms: T,
}

impl<T> Default for LeaseTable<T> {
    fn default() -> Self {
        Self(ById::default())
    }
}

impl<T> LeaseTable<T> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a delivery. An earlier one of the same job is returned: a job that was taken from a worker may come to it
    /// again before it is told.
    pub(crate) fn insert(&mut self, held: Held, terms: T) -> Option<(Held, T)> {
        let Held { id, delivery } = held;
        let Lease { delivery, terms } = self.0.insert(id, Lease { delivery, terms })?;
        Some((Held { id, delivery }, terms))
    }

    /// Whether the worker holds exactly this delivery.
    pub(crate) fn holds(&self, held: Held) -> bool {
        self.0.get(&held.id).is_some_and(|lease| lease.delivery == held.delivery)
    }

    /// The delivery of a job, with its terms.
    pub(crate) fn get_mut(&mut self, id: JobId) -> Option<(Held, &mut T)> {
        let Lease { delivery, terms } = self.0.get_mut(&id)?;
        Some((Held { id, delivery: *delivery }, terms))
    }

    /// Removes a delivery. `None`: the worker does not hold it, and nothing changes.
    pub(crate) fn release(&mut self, held: Held) -> Option<T> {
        if !self.holds(held) {
            return None;
        }
        self.0.remove(&held.id).map(|lease| lease.terms)
    }

    /// Removes whatever delivery of a job there is.
    pub(crate) fn release_job(&mut self, id: JobId) -> Option<T> {
        self.0.remove(&id).map(|lease| lease.terms)
    }

    /// All deliveries, with their terms.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Held, &T)> {
        self.0
            .iter()
            .map(|(id, Lease { delivery, terms })| (Held { id: *id, delivery: *delivery }, terms))
    }

    /// Takes all deliveries out, with their terms.
    pub(crate) fn into_leases(self) -> impl Iterator<Item = (Held, T)> {
        self.0.into_iter().map(|(id, Lease { delivery, terms })| (Held { id, delivery }, terms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn held(id: u64, delivery: u64) -> Held {
        Held { id: JobId(id), delivery: Delivery(delivery) }
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
