//! Converts jobs to messages.

use crore_core::job::{self, DependencyTarget, ResultRetention};
use crore_core::{Delivery, GroupId};
use crore_core::{EventWait, Fingerprint};

use super::v1::{self, after};
use super::{enum_text, epoch_millis, millis};
use crate::api::enums::{ActionName, HowEnded, Why};
use crate::api::job::JobView;

impl v1::Job {
    /// Converts from the core type.
    pub fn of(job: &job::Job, show: JobView) -> Self {
        let (spec, live) = (&job.spec, &job.live);
        let is_running = live.state == job::State::Running;
        let was_started = live.delivery != Delivery::NONE;
        Self {
            id: job.id.0,
            queue: spec.queue.to_string(),
            kind: spec.kind.to_string(),
            state: v1::State::from(live.state).into(),
            priority: spec.priority,
            payload: (show == JobView::Full).then(|| spec.payload.bytes.to_vec().into()),
            encoding: v1::Encoding::from(spec.payload.encoding).into(),
            attempt: live.attempt,
            crashes: live.crashes,
            delivery: live.delivery.0,
            worker: live.worker.as_ref().map_or_else(String::new, ToString::to_string),
            stop: live.stop,
            pushed_at_ms: epoch_millis(live.pushed_at),
            due_ms: epoch_millis(live.due),
            started_at_ms: was_started.then_some(epoch_millis(live.started_at)),
            lease_until_ms: is_running.then_some(epoch_millis(live.lease_until)),
            ended_at_ms: live.ended_at.map(epoch_millis),
            why: live.why.map_or_else(String::new, |why| enum_text(&Why::from(why))),
            retry: Some((&spec.retry).into()),
            lease_ms: spec.lease.map(millis),
            timeout_ms: spec.timeout.map(millis),
            keep_result_ms: match spec.keep {
                ResultRetention::Discard => None,
                ResultRetention::Once(span) | ResultRetention::For(span) => Some(millis(span)),
            },
            retain: v1::Retain::from(spec.retain).into(),
            has_result: live.result.is_some(),
            unique: spec.unique.as_deref().map(Into::into),
            client_id: spec.client_id.as_ref().map_or_else(String::new, |id| id.id.to_string()),
            group: spec.group.map_or(0, |GroupId(id)| id),
            parent: spec.parent.map_or(0, |(id, _)| id.0),
            replay_of: spec.replay_of.map_or(0, |id| id.0),
            after: spec.after.iter().map(Into::into).collect(),
            labels: spec.labels.clone(),
            trace: spec.trace.as_ref().map_or_else(String::new, ToString::to_string),
            history: live.history.iter().map(Into::into).collect(),
            actions: live.actions.iter().map(Into::into).collect(),
            deadline_ms: live.deadline.map(epoch_millis),
            on_expired: spec
                .on_expired
                .as_ref()
                .filter(|_| show == JobView::Full)
                .map(|next| v1::NewJob::of(next)),
            wait_for: spec.wait_for.as_deref().map(v1::WaitFor::of),
            wait_until_ms: match live.event.as_deref() {
                Some(EventWait::Open { until }) => until.map(epoch_millis),
                _ => None,
            },
            event: v1::ReceivedEvent::of(job, show),
            worker_version: spec
                .worker_version
                .as_ref()
                .map_or_else(String::new, ToString::to_string),
        }
    }
}

impl v1::ReceivedEvent {
    /// The event of a job.
    pub fn of(job: &job::Job, show: JobView) -> Option<Self> {
        let received = job.live.event.as_deref().and_then(EventWait::received)?;
        let payload = received.payload.as_ref().filter(|_| show == JobView::Full);
        Some(Self {
            name: job.spec.wait_for.as_ref()?.name.to_string(),
            sent_at_ms: epoch_millis(received.sent_at),
            payload: payload.map(|payload| payload.bytes.to_vec().into()),
            encoding: payload.map_or(0, |payload| v1::Encoding::from(payload.encoding).into()),
        })
    }
}

impl From<&job::Dependency> for v1::After {
    fn from(dependency: &job::Dependency) -> Self {
        let on = match dependency.on {
            DependencyTarget::Job(id) => after::On::Job(id.0),
            DependencyTarget::Group(id) => after::On::Group(id.0),
        };
        Self { on: Some(on), needs: v1::Needs::from(dependency.needs).into() }
    }
}

impl From<&job::ManualAction> for v1::JobActionRecord {
    fn from(action: &job::ManualAction) -> Self {
        Self {
            at_ms: epoch_millis(action.at),
            action: enum_text(&ActionName::from(action.action)),
            by: action.by.to_string(),
            detail: action.detail.as_ref().map_or_else(String::new, ToString::to_string),
        }
    }
}

impl From<&job::Attempt> for v1::Attempt {
    fn from(attempt: &job::Attempt) -> Self {
        Self {
            delivery: attempt.delivery.0,
            started_at_ms: epoch_millis(attempt.started_at),
            ended_at_ms: epoch_millis(attempt.ended_at),
            worker: attempt.worker.as_ref().map_or_else(String::new, ToString::to_string),
            ended: enum_text(&HowEnded::from(attempt.ended)),
            error: attempt.error.as_ref().map_or_else(String::new, ToString::to_string),
            fingerprint: attempt
                .error
                .as_ref()
                .map_or_else(String::new, |error| Fingerprint::of(error).to_string()),
        }
    }
}
