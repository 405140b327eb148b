//! Groups: jobs that belong together. Follow-ups are ordinary jobs that wait for the group.

use serde::{Deserialize, Serialize};

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

/// Whether what somebody needs of a group has come true, still can, or cannot any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    /// It has.
    True,
    /// It can.
    Open,
    /// It cannot.
    Never,
}

impl Group {
    /// How what a follow-up needs of this group stands.
    pub const fn outlook(&self, needs: Needs) -> Outlook {
        match needs {
            Needs::Success if self.lost => Outlook::Never,
            Needs::Success if self.sealed && self.succeeded >= self.size => Outlook::True,
            Needs::End if self.sealed && self.ran >= self.size => Outlook::True,
            _ => Outlook::Open,
        }
    }

    /// Whether what a follow-up needs of this group has come true.
    pub const fn satisfies(&self, needs: Needs) -> bool {
        matches!(self.outlook(needs), Outlook::True)
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
    use super::*;

    #[test]
    fn an_open_group_never_ends_and_an_empty_sealed_one_has() {
        let group = Group { size: 1, ran: 1, succeeded: 1, ..Group::default() };
        assert!(!group.satisfies(Needs::End));
        assert!(Group { sealed: true, ..Group::default() }.satisfies(Needs::Success));
    }

    #[test]
    fn all_have_run_before_all_have_succeeded() {
        let sealed = Group { size: 2, sealed: true, ..Group::default() };
        let group = sealed.tallied(Tally { ran: 2, succeeded: 1, ..Tally::default() });
        assert!(group.satisfies(Needs::End) && !group.satisfies(Needs::Success));
        let group = group.tallied(Tally { succeeded: 1, ..Tally::default() });
        assert!(group.satisfies(Needs::Success));
    }

    #[test]
    fn with_a_lost_member_all_have_run_but_never_all_succeeded() {
        let group = Group { size: 2, ran: 2, succeeded: 1, sealed: true, ..Group::default() };
        let group = group.tallied(Tally { lost: true, ..Tally::default() });
        assert_eq!(group.outlook(Needs::End), Outlook::True);
        assert_eq!(group.outlook(Needs::Success), Outlook::Never);
    }
}
