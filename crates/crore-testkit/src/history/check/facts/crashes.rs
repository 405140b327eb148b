//! Crashes and damage of a store, and which responses certainly hold after them.

use super::super::rules::{CheckRules, DurabilityClass, nanos};
use super::call::HistoryMoment;

/// A stop without a clean close.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeCrash {
    pub(crate) at: HistoryMoment,
    /// Whether the machine died, and not only the process.
    pub(crate) power: bool,
    /// Every claim and renewal answered before this event is certainly durable: the newest beginning of a
    /// call whose durable response came before the crash. Stores write in order.
    pub(crate) settled: u64,
}

/// Damage to a store's files, after which the store was opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoreFileDamage {
    pub(crate) at: HistoryMoment,
    /// Whether the node reported missing data.
    pub(crate) reported: bool,
}

/// Crashes and damage, in order.
#[derive(Debug, Default)]
pub(crate) struct CrashHistory {
    pub(crate) crashes: Vec<NodeCrash>,
    pub(crate) damages: Vec<StoreFileDamage>,
}

impl CrashHistory {
    /// Whether a durable write acknowledged at `from` certainly still holds at `to`.
    pub(crate) fn write_still_holds(
        &self,
        rules: &CheckRules,
        from: HistoryMoment,
        to: HistoryMoment,
    ) -> bool {
        let between = |at: &HistoryMoment| from.is_before(at) && at.is_before(&to);
        if self.damages.iter().any(|damage| damage.reported && between(&damage.at)) {
            return false;
        }
        match rules.durability {
            DurabilityClass::D0 => {
                self.first_after(from).is_none_or(|crash| to.is_before(&crash.at))
            }
            DurabilityClass::D1 => {
                let loss = nanos(rules.loss);
                !self.crashes.iter().any(|crash| {
                    crash.power && between(&crash.at) && from.t.saturating_add(loss) > crash.at.t
                })
            }
            DurabilityClass::D2 | DurabilityClass::D3 => true,
        }
    }

    /// Whether a claim or renewal answered at `from` certainly still holds at `to`. A crash may lose it,
    /// unless a later request became durable before the crash.
    pub(crate) fn claim_still_holds(
        &self,
        rules: &CheckRules,
        from: HistoryMoment,
        to: HistoryMoment,
    ) -> bool {
        let forgotten = self
            .first_after(from)
            .is_some_and(|crash| crash.at.is_before(&to) && from.i >= crash.settled);
        !forgotten && self.write_still_holds(rules, from, to)
    }

    /// Whether a node stopped without a clean close between two moments.
    pub(crate) fn crashed_between(&self, from: HistoryMoment, to: HistoryMoment) -> bool {
        self.first_after(from).is_some_and(|crash| crash.at.is_before(&to))
    }

    fn first_after(&self, from: HistoryMoment) -> Option<&NodeCrash> {
        self.crashes.get(self.crashes.partition_point(|crash| crash.at.i <= from.i))
    }
}
