//! Groups: sets of jobs that other jobs can wait for.

use serde::{Deserialize, Serialize};

use crate::dependency::Satisfaction;
use crate::id::{GroupId, OwnerId, Revision};
use crate::job::DependencyCondition;

/// Label of a job that was stored without its group, because the group is sealed: the id of the group.
pub const SEALED_GROUP_LABEL: &str = "crore.sealed-group";

/// The origin of a new job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobOrigin {
    /// A push, whose caller gets the result.
    Push,
    /// The end of a job of this group.
    FollowUp(Option<GroupId>),
    /// A tick of a schedule.
    Tick,
}

/// How a group admits a new job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupAdmission {
    /// The job becomes a member.
    Joins,
    /// The job is stored without the group, with [`SEALED_GROUP_LABEL`].
    StoredOutside,
    /// The job is not stored.
    Refused,
}

/// The counters of a group. A group that is not sealed is incomplete and never ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Group {
    /// Number of members.
    pub size: u64,
    /// Members that have ended at least once.
    pub ran: u64,
    /// Members that are done.
    pub succeeded: u64,
    /// Whether the group is complete, so that it ends when its members have.
    pub sealed: bool,
    /// Whether a member was removed without success, so that the group can no longer succeed.
    #[serde(default)]
    pub lost: bool,
    /// Version of the record.
    pub revision: Revision,
    /// The token that created the group; `None`: it was created without a token, or before groups had this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maker: Option<OwnerId>,
}

/// Changes to the counters of a group, caused by a change of one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GroupTally {
    /// Added to the size.
    pub size: i8,
    /// Added to the members that have run.
    pub ran: i8,
    /// Added to the members that succeeded.
    pub succeeded: i8,
    /// Whether a member was removed without success.
    pub lost: bool,
}

impl Group {
    /// How the group, whose id is `id`, admits a new job. A sealed group admits only follow-ups of its members, which
    /// are added before it counts the end of the member. No caller waits for the result of another follow-up or of a
    /// tick, so that job runs without the group.
    pub fn admission(&self, id: GroupId, origin: JobOrigin) -> GroupAdmission {
        match origin {
            _ if !self.sealed => GroupAdmission::Joins,
            JobOrigin::FollowUp(group) if group == Some(id) => GroupAdmission::Joins,
            JobOrigin::FollowUp(_) | JobOrigin::Tick => GroupAdmission::StoredOutside,
            JobOrigin::Push => GroupAdmission::Refused,
        }
    }

    /// Whether this group satisfies a dependency. A group that is not sealed has not ended; a group that
    /// lost a member never succeeds.
    pub const fn satisfaction(&self, needs: DependencyCondition) -> Satisfaction {
        match needs {
            DependencyCondition::Success if self.lost => Satisfaction::Broken,
            DependencyCondition::Success if self.sealed && self.succeeded >= self.size => {
                Satisfaction::Satisfied
            }
            DependencyCondition::End if self.sealed && self.ran >= self.size => {
                Satisfaction::Satisfied
            }
            _ => Satisfaction::Open,
        }
    }

    /// Whether the group is sealed and all members have ended at least once.
    pub const fn has_ended(&self) -> bool {
        matches!(self.satisfaction(DependencyCondition::End), Satisfaction::Satisfied)
    }

    /// The group, sealed; `None` if it was sealed before.
    #[must_use]
    pub const fn seal(mut self) -> Option<Self> {
        if self.sealed {
            return None;
        }
        self.sealed = true;
        self.revision = self.revision.next();
        Some(self)
    }

    /// The group with the changes applied; counters saturate at zero.
    #[must_use]
    pub const fn tallied(mut self, tally: GroupTally) -> Self {
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

    const fn is_met(group: &Group, needs: DependencyCondition) -> bool {
        matches!(group.satisfaction(needs), Satisfaction::Satisfied)
    }

    #[test]
    fn an_open_group_never_ends_and_an_empty_sealed_one_has() {
        let group = Group { size: 1, ran: 1, succeeded: 1, ..Group::default() };
        assert!(!is_met(&group, DependencyCondition::End));
        assert!(is_met(&Group { sealed: true, ..Group::default() }, DependencyCondition::Success));
    }

    #[test]
    fn the_end_of_a_group_does_not_need_success() {
        let sealed = Group { size: 2, sealed: true, ..Group::default() };
        let group = sealed.tallied(GroupTally { ran: 2, succeeded: 1, ..GroupTally::default() });
        assert!(
            is_met(&group, DependencyCondition::End)
                && !is_met(&group, DependencyCondition::Success)
        );
        let group = group.tallied(GroupTally { succeeded: 1, ..GroupTally::default() });
        assert!(is_met(&group, DependencyCondition::Success));
    }

    #[test]
    fn a_group_with_a_lost_member_can_end_but_not_succeed() {
        let group = Group { size: 2, ran: 2, succeeded: 1, sealed: true, ..Group::default() };
        let group = group.tallied(GroupTally { lost: true, ..GroupTally::default() });
        assert_eq!(group.satisfaction(DependencyCondition::End), Satisfaction::Satisfied);
        assert_eq!(group.satisfaction(DependencyCondition::Success), Satisfaction::Broken);
    }

    #[test]
    fn sealing_a_group_is_one_revision_and_happens_once() {
        let open = Group { size: 3, ran: 1, revision: Revision(7), ..Group::default() };
        let sealed = open.seal().expect("it was open");
        assert_eq!(sealed, Group { sealed: true, revision: Revision(8), ..open });
        assert_eq!(sealed.seal(), None);
    }

    #[test]
    fn a_sealed_group_admits_only_follow_ups_of_its_members() {
        let (id, open) = (GroupId(7), Group::default());
        let sealed = Group { sealed: true, ..open };
        let origins = [JobOrigin::Push, JobOrigin::Tick, JobOrigin::FollowUp(Some(id))];
        for origin in origins.into_iter().chain([JobOrigin::FollowUp(None)]) {
            assert_eq!(open.admission(id, origin), GroupAdmission::Joins);
        }
        let of_other = JobOrigin::FollowUp(Some(GroupId(8)));
        assert_eq!(sealed.admission(id, JobOrigin::FollowUp(Some(id))), GroupAdmission::Joins);
        assert_eq!(sealed.admission(id, of_other), GroupAdmission::StoredOutside);
        assert_eq!(sealed.admission(id, JobOrigin::FollowUp(None)), GroupAdmission::StoredOutside);
        assert_eq!(sealed.admission(id, JobOrigin::Tick), GroupAdmission::StoredOutside);
        assert_eq!(sealed.admission(id, JobOrigin::Push), GroupAdmission::Refused);
    }

    fn groups() -> impl Strategy<Value = Group> {
        (0..4_u64, 0..4_u64, 0..4_u64, any::<bool>(), any::<bool>()).prop_map(
            |(size, ran, succeeded, sealed, lost)| {
                let revision = Revision::default();
                Group { size, ran, succeeded, sealed, lost, revision, maker: None }
            },
        )
    }

    proptest! {
        #[test]
        fn an_open_group_satisfies_nothing(group in groups()) {
            let open = Group { sealed: false, ..group };
            prop_assert!(DependencyCondition::ALL.iter().all(|needs| !is_met(&open, *needs)));
            prop_assert!(!open.has_ended());
        }

        /// Stores that cannot call this function implement it as a lookup table over these four inputs.
        #[test]
        fn satisfaction_depends_on_seal_loss_and_whether_counts_reach_the_size(group in groups()) {
            let reached = |count: u64| u64::from(count >= group.size);
            let same = Group {
                size: 1,
                ran: reached(group.ran),
                succeeded: reached(group.succeeded),
                ..group
            };
            for needs in DependencyCondition::ALL {
                prop_assert_eq!(group.satisfaction(needs), same.satisfaction(needs));
            }
        }

        #[test]
        fn a_joining_member_does_not_change_brokenness(group in groups()) {
            let grown = group.tallied(GroupTally { size: 1, ..GroupTally::default() });
            for needs in DependencyCondition::ALL {
                let broken = group.satisfaction(needs) == Satisfaction::Broken;
                prop_assert_eq!(grown.satisfaction(needs) == Satisfaction::Broken, broken);
            }
        }
    }
}
