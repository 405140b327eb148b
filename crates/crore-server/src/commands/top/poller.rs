//! The thread that calls the server, so that keys work while a call takes long.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::super::client::{ApiClient, path_segment};
use super::snapshot::{Snapshot, TopQuery, poll};

/// A change of the server's state that the user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TopAction {
    PauseQueue(String),
    ResumeQueue(String),
    RetryJob(String),
    CancelJob(String),
    DeleteJob(String),
}

impl TopAction {
    /// The question to which the user answers yes.
    pub(super) fn question(&self) -> String {
        match self {
            Self::PauseQueue(queue) => format!("Pause queue {queue}?"),
            Self::ResumeQueue(queue) => format!("Resume queue {queue}?"),
            Self::RetryJob(job) => format!("Retry job {job}?"),
            Self::CancelJob(job) => format!("Cancel job {job}?"),
            Self::DeleteJob(job) => format!("Delete job {job} and its history?"),
        }
    }

    fn run(&self, client: &mut ApiClient) -> anyhow::Result<String> {
        let none = serde_json::json!({});
        let job = |id: &str, verb: &str| format!("/v1/jobs/{}{verb}", path_segment(id));
        let queue = |name: &str, verb: &str| format!("/v1/queues/{}/{verb}", path_segment(name));
        Ok(match self {
            Self::PauseQueue(name) => {
                client.post(&queue(name, "pause"), &none)?;
                format!("queue {name} paused")
            }
            Self::ResumeQueue(name) => {
                client.post(&queue(name, "resume"), &none)?;
                format!("queue {name} resumed")
            }
            Self::RetryJob(id) => {
                client.post(&job(id, "/retry"), &none)?;
                format!("job {id} is retried")
            }
            Self::CancelJob(id) => {
                client.post(&job(id, "/cancel"), &none)?;
                format!("job {id} is cancelled, or asked to stop")
            }
            Self::DeleteJob(id) => {
                client.delete(&job(id, ""))?;
                format!("job {id} deleted")
            }
        })
    }
}

enum PollerCall {
    Query(TopQuery),
    Act(TopAction),
}

/// News from the thread.
pub(super) enum PollerReport {
    Snapshot(Box<Snapshot>),
    /// The server could not be polled.
    Failed(String),
    /// The result of an action, or its error.
    Message(String),
}

/// Handle of the thread, which ends when the handle is dropped.
pub(super) struct Poller {
    calls: Sender<PollerCall>,
    reports: Receiver<PollerReport>,
}

impl Poller {
    pub(super) fn start(mut client: ApiClient, interval: Duration, mut query: TopQuery) -> Self {
        let (calls, called) = channel();
        let (report, reports) = channel();
        std::thread::spawn(move || {
            loop {
                let news = match poll(&mut client, &query) {
                    Ok(snapshot) => PollerReport::Snapshot(Box::new(snapshot)),
                    Err(error) => PollerReport::Failed(format!("{error:#}")),
                };
                if report.send(news).is_err() {
                    return;
                }
                match called.recv_timeout(interval) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                    Ok(PollerCall::Query(new)) => query = new,
                    Ok(PollerCall::Act(action)) => {
                        let result = action.run(&mut client);
                        let message = result.unwrap_or_else(|error| format!("{error:#}"));
                        _ = report.send(PollerReport::Message(message));
                    }
                }
            }
        });
        Self { calls, reports }
    }

    pub(super) fn next_report(&self) -> Option<PollerReport> {
        self.reports.try_recv().ok()
    }

    pub(super) fn set_query(&self, query: TopQuery) {
        _ = self.calls.send(PollerCall::Query(query));
    }

    pub(super) fn act(&self, action: TopAction) {
        _ = self.calls.send(PollerCall::Act(action));
    }
}
