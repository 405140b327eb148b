//! What a store must still know: which answers certainly hold after the crashes between.

use super::super::rules::{Durability, Rules, nanos};
use super::call::Moment;

/// A stop that was not in order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crash {
    pub(crate) at: Moment,
    /// Whether the machine died, and not only the process.
    pub(crate) power: bool,
    /// Every lazy answer before this event is certainly durable: the newest beginning of a call
    /// whose durable answer came before the crash. Stores write in order.
    pub(crate) settled: u64,
}

/// Damage to a store's files, with which it was then opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Damage {
    pub(crate) at: Moment,
    /// Whether the node said that something is missing.
    pub(crate) reported: bool,
}

/// Crashes and damages in order.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) crashes: Vec<Crash>,
    pub(crate) damages: Vec<Damage>,
}

impl Memory {
    /// Whether what was answered at `from`, once durable, certainly still holds at `to`.
    pub(crate) fn holds(&self, rules: &Rules, from: Moment, to: Moment) -> bool {
        let between = |at: &Moment| from.is_before(at) && at.is_before(&to);
        if self.damages.iter().any(|damage| damage.reported && between(&damage.at)) {
            return false;
        }
        match rules.durability {
            Durability::D0 => self.first_after(from).is_none_or(|crash| to.is_before(&crash.at)),
            Durability::D1 => {
                let loss = nanos(rules.loss);
                !self.crashes.iter().any(|crash| {
                    crash.power && between(&crash.at) && from.t.saturating_add(loss) > crash.at.t
                })
            }
            Durability::D2 | Durability::D3 => true,
        }
    }

    /// Whether a claim or a renewal that was answered at `from` is certainly still known at `to`. A
    /// crash may forget it, unless something that was asked for later was durable before the crash.
    pub(crate) fn recalls(&self, rules: &Rules, from: Moment, to: Moment) -> bool {
        let forgotten = self
            .first_after(from)
            .is_some_and(|crash| crash.at.is_before(&to) && from.i >= crash.settled);
        !forgotten && self.holds(rules, from, to)
    }

    /// Whether a node stopped between two moments without being closed.
    pub(crate) fn crashed_between(&self, from: Moment, to: Moment) -> bool {
        self.first_after(from).is_some_and(|crash| crash.at.is_before(&to))
    }

    fn first_after(&self, from: Moment) -> Option<&Crash> {
        self.crashes.get(self.crashes.partition_point(|crash| crash.at.i <= from.i))
    }
}
