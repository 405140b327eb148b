//! The jobs and groups that a job waits for, and what would end the wait.

use crore::explain::{AwaitedDependency, AwaitedTarget};
use crore_core::group::Group;
use crore_core::job::DependencyCondition;
use crore_core::{GroupId, JobId, State};
use crore_wire::api::job as wire;

/// Maximum dependencies that the description names.
const MAX_NAMED: usize = 5;

/// Adds what is waited for to the description of a wait.
pub(super) fn with_awaited(mut detail: String, on: &[wire::Awaited]) -> String {
    for (n, one) in on.iter().take(MAX_NAMED).enumerate() {
        detail.push_str(if n == 0 { ": " } else { "; " });
        detail.push_str(&one.detail);
    }
    if on.len() > MAX_NAMED {
        detail.push_str(&format!("; and {} more", on.len() - MAX_NAMED));
    }
    detail
}

/// A dependency that is not satisfied. Without `is_visible` its state is left out.
pub(super) fn awaited(one: &AwaitedDependency, is_visible: bool) -> wire::Awaited {
    let needs = one.needs;
    let (job, group) = match one.on {
        AwaitedTarget::Job(id, _) => (Some(id.into()), None),
        AwaitedTarget::Group(id, _) => (None, Some(id.into())),
    };
    let (state, detail) = match one.on {
        AwaitedTarget::Job(id, _) if !is_visible => (None, format!("job {id}")),
        AwaitedTarget::Group(id, _) if !is_visible => (None, format!("group {id}")),
        AwaitedTarget::Job(id, state) => (Some(job_state(state)), of_job(id, state, needs)),
        AwaitedTarget::Group(id, group) => {
            (Some(group_state(group).to_owned()), of_group(id, group, needs))
        }
    };
    wire::Awaited { job, group, needs: needs.into(), state, detail }
}

fn job_state(state: Option<State>) -> String {
    state.map_or("removed", State::word).to_owned()
}

const fn group_state(group: Option<Group>) -> &'static str {
    match group {
        None => "removed",
        Some(group) if group.sealed => "sealed",
        Some(_) => "open",
    }
}

fn of_job(id: JobId, state: Option<State>, needs: DependencyCondition) -> String {
    let until = match needs {
        DependencyCondition::Success => "is done",
        DependencyCondition::End => "has ended",
    };
    let what = format!("job {id} is {}", job_state(state));
    match state {
        Some(State::Dead) => format!(
            "{what}, and the wait ends when it is done: retry it with `crore job retry {id}`, or delete it, which \
             cancels the waiting job"
        ),
        None | Some(State::Cancelled) => format!("{what} and can no longer succeed"),
        Some(_) => format!("{what}, and the wait ends when it {until}"),
    }
}

fn of_group(id: GroupId, group: Option<Group>, needs: DependencyCondition) -> String {
    let Some(Group { size, ran, succeeded, sealed, lost, .. }) = group else {
        return format!("group {id} was removed");
    };
    let what = format!(
        "group {id} is {}, {ran} of {size} members have ended and {succeeded} are done",
        group_state(group)
    );
    if lost && needs == DependencyCondition::Success {
        return format!(
            "{what}; a member was removed before it was done, so it can no longer succeed"
        );
    }
    let until = match needs {
        DependencyCondition::Success if ran > succeeded => {
            "all members are done: retry or delete those that are dead or cancelled"
        }
        DependencyCondition::Success => "all members are done",
        DependencyCondition::End => "all members have ended",
    };
    match sealed {
        true => format!("{what}, and the wait ends when {until}"),
        false => format!(
            "{what}, and the wait ends when {until} and the group is sealed (`crore group seal {id}`)"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_cut_short() {
        let one = AwaitedDependency {
            needs: DependencyCondition::End,
            on: AwaitedTarget::Job(JobId(7), Some(State::Ready)),
        };
        let all: Vec<_> = (0..7).map(|_| awaited(&one, true)).collect();
        let detail = with_awaited("waiting".to_owned(), &all);
        assert!(
            detail.starts_with("waiting: job 7 is ready, and the wait ends when it has ended; ")
        );
        assert!(detail.ends_with("; and 2 more"), "{detail}");
    }

    #[test]
    fn the_state_of_a_job_that_the_caller_may_not_see_is_left_out() {
        let one = AwaitedDependency {
            needs: DependencyCondition::Success,
            on: AwaitedTarget::Job(JobId(7), Some(State::Dead)),
        };
        let shown = awaited(&one, false);
        assert_eq!((shown.state, shown.detail.as_str()), (None, "job 7"));
    }
}
