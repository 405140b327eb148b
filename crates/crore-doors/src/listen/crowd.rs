//! How many connections there are, in all and from each address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All connections.
#[derive(Debug, Clone)]
pub(super) struct Crowd {
    most: usize,
    most_each: usize,
    there: Arc<Mutex<There>>,
}

#[derive(Debug, Default)]
struct There {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

impl Crowd {
    pub(super) fn new(most: usize, most_each: usize) -> Self {
        Self { most, most_each, there: Arc::default() }
    }

    /// Room for one more from this address; `None`: there is none.
    pub(super) fn enter(&self, address: IpAddr) -> Option<Seat> {
        let mut there = self.lock();
        if there.all >= self.most {
            return None;
        }
        let each = there.by_address.entry(address).or_default();
        if *each >= self.most_each {
            return None;
        }
        *each += 1;
        there.all += 1;
        drop(there);
        Some(Seat { crowd: self.clone(), address })
    }

    fn lock(&self) -> MutexGuard<'_, There> {
        self.there.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Room that one connection takes, until this is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    crowd: Crowd,
    address: IpAddr,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut there = self.crowd.lock();
        there.all = there.all.saturating_sub(1);
        if let Some(each) = there.by_address.get_mut(&self.address) {
            *each = each.saturating_sub(1);
            if *each == 0 {
                there.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_counted_in_all_and_by_address() {
        let crowd = Crowd::new(3, 2);
        let (one, two) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        let seats = (crowd.enter(one), crowd.enter(one));
        assert!(seats.0.is_some() && seats.1.is_some() && crowd.enter(one).is_none());
        let third = crowd.enter(two);
        assert!(third.is_some() && crowd.enter(two).is_none());
        drop(seats);
        assert!(crowd.enter(one).is_some());
        drop(third);
        assert!(crowd.lock().by_address.is_empty() && crowd.lock().all == 0);
    }
}
