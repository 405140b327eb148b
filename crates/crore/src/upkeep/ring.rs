use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crore_core::{Name, Span, Time};

use super::Duty;
use crate::engine::Inner;
use crate::timers::NEVER;

/// When a limit may let jobs of a queue through for which somebody waits: one of them is woken then,
/// and not all.
#[derive(Debug, Default)]
pub(crate) struct Rings(Mutex<BTreeMap<Name, Time>>);

impl Inner {
    /// Whoever waits for these queues looks again at an instant, or later.
    pub(crate) fn ring_at(&self, queues: &[Name], at: Time) {
        // What a store says may be early; to ask it again at once would be to ask it for ever.
        let at = at.max(self.now().after(Span::from_millis(1)));
        {
            let mut rings = self.duties.rings.0.lock().unwrap_or_else(PoisonError::into_inner);
            for queue in queues {
                let ring = rings.entry(queue.clone()).or_insert(at);
                *ring = at.min(*ring);
            }
        }
        self.want(Duty::Ring, at);
    }

    /// Wakes those whose time has come; gives when the next one's has.
    pub(super) fn ring_once(&self) -> Time {
        let now = self.now();
        let (due, next_at) = {
            let mut rings = self.duties.rings.0.lock().unwrap_or_else(PoisonError::into_inner);
            let due: Vec<Name> =
                rings.extract_if(.., |_, at| *at <= now).map(|(queue, _)| queue).collect();
            (due, rings.values().copied().min().unwrap_or(NEVER))
        };
        self.dispatch.wake(&due);
        next_at
    }
}
