//! Groups: jobs that belong together. Follow-ups are ordinary jobs that wait for the group.

use serde::{Deserialize, Serialize};

use crate::dependency::Satisfaction;
use crate::id::Revision;
use crate::job::Needs;

/// What a store counts of a group. A group without a seal is still being made, and never ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Group {
    /// Its members.
    pub size: u64,
    /// Members that have come to an end at least once.
    pub ran: u64,
    /// Members that are done.
    pub succeeded: u64,
    /// Whether it is complete, so that it ends when its members have.
    pub sealed: bool,
    /// Whether a member is gone that never succeeded, so that not all can.
    #[serde(default)]
    pub lost: bool,
    /// How often the record was changed.
    pub revision: Revision,
}

/// What a change of a job does to its group's counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// To be added to the size.
    pub size: i8,
    /// To be added to those that have run.
    pub ran: i8,
    /// To be added to those that succeeded.
    pub succeeded: i8,
    /// Whether one is gone for good that did not succeed.
    pub lost: bool,
}

impl Group {
    /// Whether this group satisfies a need. A group that is not sealed has not ended, and one that has
    /// lost a member never succeeds.
    pub const fn satisfaction(&self, needs: Needs) -> Satisfaction {
        match needs {
            Needs::Success if self.lost => Satisfaction::Broken,
            Needs::Success if self.sealed && self.succeeded >= self.size => Satisfaction::Satisfied,
            Needs::End if self.sealed && self.ran >= self.size => Satisfaction::Satisfied,
            _ => Satisfaction::Open,
        }
    }

    /// Whether all members have come to an end at least once and no more are expected.
    pub const fn has_ended(&self) -> bool {
        matches!(self.satisfaction(Needs::End), Satisfaction::Satisfied)
    }

    /// The group with its seal; `None`: it was sealed before.
    #[must_use]
    pub const fn seal(mut self) -> Option<Self> {
        if self.sealed {
            return None;
        }
        self.sealed = true;
        self.revision = self.revision.next();
        Some(self)
    }

    /// The group with a tally added; counts never pass below zero.
    #[must_use]
    pub const fn tallied(mut self, tally: Tally) -> Self {
        self.size = self.size.saturating_add_signed(tally.size as i64);
        self.ran = self.ran.saturating_add_signed(tally.ran as i64);
        self.succeeded = self.succeeded.saturating_add_signed(tally.succeeded as i64);
        self.lost = self.lost || tally.lost;
        self.revision = self.revision.next();
        self
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn is_met(group: &Group, needs: Needs) -> bool {
        matches!(group.satisfaction(needs), Satisfaction::Satisfied)
    }

    #[test]
    fn an_open_group_never_ends_and_an_empty_sealed_one_has() {
        let group = Group { size: 1, ran: 1, succeeded: 1, ..Group::default() };
        assert!(!is_met(&group, Needs::End));
        assert!(is_met(&Group { sealed: true, ..Group::default() }, Needs::Success));
    }

    #[test]
    fn all_have_run_before_all_have_succeeded() {
        let sealed = Group { size: 2, sealed: true, ..Group::default() };
        let group = sealed.tallied(Tally { ran: 2, succeeded: 1, ..Tally::default() });
        assert!(is_met(&group, Needs::End) && !is_met(&group, Needs::Success));
        let group = group.tallied(Tally { succeeded: 1, ..Tally::default() });
        assert!(is_met(&group, Needs::Success));
    }

    #[test]
    fn with_a_lost_member_all_have_run_but_never_all_succeeded() {
        let group = Group { size: 2, ran: 2, succeeded: 1, sealed: true, ..Group::default() };
        let group = group.tallied(Tally { lost: true, ..Tally::default() });
        assert_eq!(group.satisfaction(Needs::End), Satisfaction::Satisfied);
        assert_eq!(group.satisfaction(Needs::Success), Satisfaction::Broken);
    }

    #[test]
    fn a_group_is_sealed_once_and_that_is_a_revision() {
        let open = Group { size: 3, ran: 1, revision: Revision(7), ..Group::default() };
        let sealed = open.seal().expect("it was open");
        assert_eq!(sealed, Group { sealed: true, revision: Revision(8), ..open });
        assert_eq!(sealed.seal(), None);
    }

    fn groups() -> impl Strategy<Value = Group> {
        (0..4_u64, 0..4_u64, 0..4_u64, any::<bool>(), any::<bool>()).prop_map(
            |(size, ran, succeeded, sealed, lost)| {
                let revision = Revision::default();
                Group { size, ran, succeeded, sealed, lost, revision }
            },
        )
    }

    proptest! {
        #[test]
        fn an_open_group_satisfies_nothing(group in groups()) {
            let open = Group { sealed: false, ..group };
            prop_assert!(Needs::ALL.iter().all(|needs| !is_met(&open, *needs)));
            prop_assert!(!open.has_ended());
        }

        /// Stores that cannot call the rule keep it as a table over these four answers.
        #[test]
        fn satisfaction_depends_on_seal_loss_and_whether_counts_reach_the_size(group in groups()) {
            let reached = |count: u64| u64::from(count >= group.size);
            let same = Group {
                size: 1,
                ran: reached(group.ran),
                succeeded: reached(group.succeeded),
                ..group
            };
            for needs in Needs::ALL {
                prop_assert_eq!(group.satisfaction(needs), same.satisfaction(needs));
            }
        }

        #[test]
        fn a_member_that_joins_takes_no_breakage_back(group in groups()) {
            let grown = group.tallied(Tally { size: 1, ..Tally::default() });
            for needs in Needs::ALL {
                let broken = group.satisfaction(needs) == Satisfaction::Broken;
                prop_assert_eq!(grown.satisfaction(needs) == Satisfaction::Broken, broken);
            }
        }
    }
}
