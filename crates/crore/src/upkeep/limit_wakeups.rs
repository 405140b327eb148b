//! Wakes fetches that wait because of a limit, when the limit may allow more jobs.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crore_core::{Name, Span, Time};

use super::Duty;
use crate::engine::EngineInner;
use crate::timers::NEVER;

/// By queue: when a limit may allow more jobs. One waiting fetch is woken then.
#[derive(Debug, Default)]
pub(crate) struct LimitWakeups(Mutex<BTreeMap<Name, Time>>);

impl EngineInner {
    /// Wakes a fetch of each of these queues at this instant or later.
    pub(crate) fn wake_limited_at(&self, queues: &[Name], at: Time) {
        // The store's estimate may be early; retrying at once would be a busy loop.
        let at = at.max(self.now().after(Span::from_millis(1)));
        {
            let mut wakeups =
                self.duties.limit_wakeups.0.lock().unwrap_or_else(PoisonError::into_inner);
            for queue in queues {
                let wakeup = wakeups.entry(queue.clone()).or_insert(at);
                *wakeup = at.min(*wakeup);
            }
        }
        self.plan_duty(Duty::WakeLimited, at);
    }

    /// Wakes the fetches that are due; returns when the next are.
    pub(super) fn wake_limited_once(&self) -> Time {
        let now = self.now();
        let (due, next_at) = {
            let mut wakeups =
                self.duties.limit_wakeups.0.lock().unwrap_or_else(PoisonError::into_inner);
            let due: Vec<Name> =
                wakeups.extract_if(.., |_, at| *at <= now).map(|(queue, _)| queue).collect();
            (due, wakeups.values().copied().min().unwrap_or(NEVER))
        };
        self.wait_list.wake(&due);
        next_at
    }
}
