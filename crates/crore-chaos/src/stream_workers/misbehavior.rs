//! Runs a stream from its welcome to its end, with random misbehavior of the worker.

use std::time::Duration;

use crore_wire::grpc::v1;
use tokio::time::timeout;

use super::report::StreamReport;
use super::stream::Stream;
use super::worker::{Behavior, MAX_SLOTS, StreamWorker};

/// How long a worker waits for a message before it acts by itself.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(10);

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// Closed by both sides.
    Closed,
    /// The worker was killed.
    Killed,
    /// The worker opens another stream and leaves this one open.
    Abandoned,
}

impl StreamWorker {
    /// Works on a stream until it ends.
    pub(super) async fn run_stream(&mut self, stream: &mut Stream) -> StreamEnd {
        loop {
            self.send_due_reports(stream).await;
            if stream.draining && stream.jobs.iter().all(|doing| doing.report_at.is_none()) {
                stream.sender = None;
            }
            if let Some(ending) = self.misbehave(stream).await {
                return ending;
            }
            let patience = stream.until_next_report().min(RECEIVE_TIMEOUT);
            match timeout(patience, stream.receiver.message()).await {
                // A report may be due.
                Err(_) => {}
                Ok(Ok(Some(message))) => self.receive(stream, &message),
                Ok(Ok(None)) => return StreamEnd::Closed,
                Ok(Err(status)) => {
                    self.check_status(&status);
                    return StreamEnd::Closed;
                }
            }
        }
    }

    /// Misbehaves at random.
    async fn misbehave(&mut self, stream: &mut Stream) -> Option<StreamEnd> {
        match self.rng.below(1000) {
            _ if self.behavior == Behavior::Correct => {}
            0..=9 => {
                stream.switch.cut();
                return Some(StreamEnd::Killed);
            }
            // It ends its stream and keeps its connection.
            10..=13 => return Some(StreamEnd::Killed),
            14..=19 => {
                stream.draining = true;
                stream.send(v1::WorkerSays { drain: true, ..v1::WorkerSays::default() }).await;
            }
            _ if self.behavior == Behavior::Churning => {}
            // It opens another stream before this one ends.
            20 => return Some(StreamEnd::Abandoned),
            // It stops reading and writing, and leaves the connection open.
            21 => {
                stream.switch.stop();
                return Some(StreamEnd::Abandoned);
            }
            22..=28 => {
                // Longer than most leases last.
                stream.switch.stop();
                self.context
                    .sleep_while_running(Duration::from_millis(60 + self.rng.below(340)))
                    .await;
                stream.switch.resume();
            }
            29..=44 => {
                let slots = 1 + self.rng.below(MAX_SLOTS) as u32;
                stream.slots = stream.slots.max(slots as usize);
                let slots = Some(slots);
                stream.send(v1::WorkerSays { slots, ..v1::WorkerSays::default() }).await;
            }
            45..=59 => {
                // It reports a delivery of another stream or another worker.
                if let Some(held) = self.context.take_held_delivery() {
                    let report = StreamReport::random(held, &mut self.rng, &self.context);
                    self.send_report(stream, report, true).await;
                }
            }
            // Its connection breaks while it has jobs, and it returns when most of their leases have ended.
            60..=89 if !stream.jobs.is_empty() => {
                stream.switch.cut();
                self.context
                    .sleep_while_running(Duration::from_millis(60 + self.rng.below(240)))
                    .await;
                return Some(StreamEnd::Killed);
            }
            _ => {}
        }
        None
    }

    /// Ends a stream on the worker's side; the worker keeps its jobs.
    pub(super) fn end_stream(&mut self, mut stream: Stream, ending: StreamEnd) {
        self.close_fetches();
        self.close_records(&mut stream);
        if self.behavior == Behavior::Churning {
            // After the grace period of a lost stream the server gives its jobs to others, before their leases end.
            self.held.iter().for_each(|held| self.record_left(*held));
        }
        if ending == StreamEnd::Abandoned {
            self.abandoned.push(stream);
        }
    }
}
