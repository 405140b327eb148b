//! Dependencies: whether a job or a group satisfies the condition of a waiting job.
//!
//! Stores call this when a job with dependencies is pushed and when a dependency settles.

use crate::group::Group;
use crate::job::{DependencyCondition, State};
use crate::machine::Settled;

/// The status of one dependency of a waiting job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Satisfaction {
    /// The condition is met; the job no longer waits for it.
    Satisfied,
    /// The condition can still be met; the job waits.
    Open,
    /// The condition can no longer be met; the job is broken.
    Broken,
}

impl Settled {
    /// How a job in this state has settled; `None` if it has not ended.
    pub const fn of(state: State) -> Option<Self> {
        match state {
            State::Waiting | State::Scheduled | State::Ready | State::Running => None,
            State::Done => Some(Self::Succeeded),
            State::Dead => Some(Self::Failed),
            State::Cancelled => Some(Self::Gone),
        }
    }

    /// Whether a job that settled this way satisfies a dependency. A dead job leaves a dependency on its
    /// success open, because it may be retried by hand.
    pub const fn satisfaction(self, needs: DependencyCondition) -> Satisfaction {
        match (self, needs) {
            (Self::Succeeded, _) | (_, DependencyCondition::End) => Satisfaction::Satisfied,
            (Self::Failed, DependencyCondition::Success) => Satisfaction::Open,
            (Self::Gone, DependencyCondition::Success) => Satisfaction::Broken,
        }
    }
}

impl State {
    /// Whether a job in this state satisfies a dependency.
    pub const fn satisfaction(self, needs: DependencyCondition) -> Satisfaction {
        match Settled::of(self) {
            Some(settled) => settled.satisfaction(needs),
            None => Satisfaction::Open,
        }
    }
}

/// Whether a job satisfies the dependency of a new job. A missing job breaks it: how it ended is
/// unknown.
pub const fn job_satisfaction(state: Option<State>, needs: DependencyCondition) -> Satisfaction {
    match state {
        Some(state) => state.satisfaction(needs),
        None => Satisfaction::Broken,
    }
}

/// Whether a group satisfies the dependency of a new job. A missing group breaks it.
pub const fn group_satisfaction(group: Option<&Group>, needs: DependencyCondition) -> Satisfaction {
    match group {
        Some(group) => group.satisfaction(needs),
        None => Satisfaction::Broken,
    }
}

#[cfg(test)]
mod tests {
    use super::Satisfaction::{Broken, Open, Satisfied};
    use super::*;

    #[test]
    fn every_state_satisfies_holds_or_breaks_each_need() {
        let rows = [
            (Some(State::Waiting), Open, Open),
            (Some(State::Scheduled), Open, Open),
            (Some(State::Ready), Open, Open),
            (Some(State::Running), Open, Open),
            (Some(State::Done), Satisfied, Satisfied),
            (Some(State::Dead), Satisfied, Open),
            (Some(State::Cancelled), Satisfied, Broken),
            (None, Broken, Broken),
        ];
        assert_eq!(rows.len(), State::ALL.len() + 1);
        for (state, end, success) in rows {
            assert_eq!(job_satisfaction(state, DependencyCondition::End), end, "{state:?}");
            assert_eq!(job_satisfaction(state, DependencyCondition::Success), success, "{state:?}");
        }
    }

    #[test]
    fn a_job_has_settled_exactly_when_it_has_ended() {
        for state in State::ALL {
            assert_eq!(Settled::of(state).is_some(), state.has_ended(), "{state:?}");
        }
    }

    #[test]
    fn success_implies_the_end() {
        for state in State::ALL {
            if state.satisfaction(DependencyCondition::Success) == Satisfied {
                assert_eq!(state.satisfaction(DependencyCondition::End), Satisfied, "{state:?}");
            }
        }
    }

    #[test]
    fn a_missing_group_breaks_both_needs() {
        for needs in DependencyCondition::ALL {
            assert_eq!(group_satisfaction(None, needs), Broken);
            assert_eq!(group_satisfaction(Some(&Group::default()), needs), Open);
        }
    }
}
