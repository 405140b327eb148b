//! Dependencies: whether a job or a group satisfies what a waiting job needs of it.
//!
//! Every store asks here, when a job that waits is pushed and when the thing that it waits for settles.

use crate::group::Group;
use crate::job::{Needs, State};
use crate::machine::Settled;

/// How one need of a waiting job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Satisfaction {
    /// It has come true: the job waits for it no longer.
    Satisfied,
    /// It may still come true: the job waits.
    Open,
    /// It can no longer come true: the job is broken.
    Broken,
}

impl Settled {
    /// How a job in this state has settled; `None`: it has not ended.
    pub const fn of(state: State) -> Option<Self> {
        match state {
            State::Waiting | State::Scheduled | State::Ready | State::Running => None,
            State::Done => Some(Self::Succeeded),
            State::Dead => Some(Self::Failed),
            State::Cancelled => Some(Self::Gone),
        }
    }

    /// Whether a job that has settled like this satisfies a need. A dead job leaves the need for its
    /// success open, since it may be retried by hand.
    pub const fn satisfaction(self, needs: Needs) -> Satisfaction {
        match (self, needs) {
            (Self::Succeeded, _) | (_, Needs::End) => Satisfaction::Satisfied,
            (Self::Failed, Needs::Success) => Satisfaction::Open,
            (Self::Gone, Needs::Success) => Satisfaction::Broken,
        }
    }
}

impl State {
    /// Whether a job in this state satisfies a need.
    pub const fn satisfaction(self, needs: Needs) -> Satisfaction {
        match Settled::of(self) {
            Some(settled) => settled.satisfaction(needs),
            None => Satisfaction::Open,
        }
    }
}

/// Whether the job that a new one waits for satisfies its need. A job that is not there breaks both
/// needs: how it ended is not known.
pub const fn of_job(state: Option<State>, needs: Needs) -> Satisfaction {
    match state {
        Some(state) => state.satisfaction(needs),
        None => Satisfaction::Broken,
    }
}

/// Whether the group that a new job waits for satisfies its need; a group that is not there breaks it.
pub const fn of_group(group: Option<&Group>, needs: Needs) -> Satisfaction {
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
            assert_eq!(of_job(state, Needs::End), end, "{state:?}");
            assert_eq!(of_job(state, Needs::Success), success, "{state:?}");
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
            if state.satisfaction(Needs::Success) == Satisfied {
                assert_eq!(state.satisfaction(Needs::End), Satisfied, "{state:?}");
            }
        }
    }

    #[test]
    fn a_group_that_is_not_there_breaks_both_needs() {
        for needs in Needs::ALL {
            assert_eq!(of_group(None, needs), Broken);
            assert_eq!(of_group(Some(&Group::default()), needs), Open);
        }
    }
}
