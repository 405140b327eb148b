//! One stream: its messages, and how they are recorded.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crore_core::{Code, Delivery, JobId, Payload, Time};
use crore_testkit::history::op::RecordedLease;
use crore_testkit::history::response::{
    RecordedDelivery, RecordedPush, RecordedRenewal, RecordedReport,
};
use crore_testkit::history::{PayloadHash, PendingCall, RecordedOp, RecordedResponse};
use crore_wire::grpc::v1::work_client::WorkClient;
use crore_wire::grpc::{RpcStatus, v1};
use prost::Message;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::{Status, Streaming};

use super::connection::{ConnectionSwitch, connect};
use super::report::StreamReport;
use super::worker::{Behavior, StreamWorker};
use crate::client::{NO_RESPONSE, UNEXPECTED_RESPONSE, Unreachable};
use crate::context::HeldDelivery;
use crate::draft::name;
use crate::time::{CALL_TIMEOUT, instant};

/// An open stream.
pub(super) struct Stream {
    /// `None`: the worker has half-closed the stream.
    pub(super) sender: Option<mpsc::Sender<v1::WorkerSays>>,
    pub(super) receiver: Streaming<v1::ServerSays>,
    pub(super) switch: ConnectionSwitch,
    /// The jobs delivered on this stream.
    pub(super) jobs: Vec<RunningJob>,
    /// Reports that are sent and not answered yet.
    unanswered: Vec<UnansweredReport>,
    /// The largest number of slots announced on it.
    pub(super) slots: usize,
    /// The stream is to end once everything is reported.
    pub(super) draining: bool,
}

/// A job that the worker is running.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunningJob {
    pub(super) held: HeldDelivery,
    /// When to report it; `None`: never.
    pub(super) report_at: Option<Instant>,
    /// Whether the server has asked to stop it.
    stop: bool,
}

#[derive(Debug)]
struct UnansweredReport {
    report: StreamReport,
    call: PendingCall,
    /// The delivery does not belong to this stream, so the report has no effect.
    foreign: bool,
}

impl Stream {
    /// Opens a stream; `None`: the server did not accept the worker.
    pub(super) async fn open(
        worker: &mut StreamWorker,
        address: SocketAddr,
        hello: v1::Hello,
        named: Vec<HeldDelivery>,
    ) -> Result<Option<Self>, Unreachable> {
        // If the connection fails, the worker still holds these.
        worker.held.clone_from(&named);
        let (channel, switch) = connect(address).await?;
        let lease = |held: &HeldDelivery| RecordedLease {
            id: held.id,
            delivery: held.delivery,
            span: None,
        };
        let leases = named.iter().map(lease).collect();
        let call =
            worker.context.recorder.invoke(worker.name.as_str(), RecordedOp::Renew { leases });
        let slots = hello.slots as usize;
        let (sender, outgoing) = mpsc::channel(64);
        let hello = v1::WorkerSays { hello: Some(hello), ..v1::WorkerSays::default() };
        // The channel is new, and has room.
        let _ = sender.try_send(hello);
        let mut client = WorkClient::new(channel);
        let welcomed = timeout(CALL_TIMEOUT, async {
            let mut receiver = client.stream(OutgoingMessages(outgoing)).await?.into_inner();
            let first = receiver.message().await?;
            Ok::<_, Status>((receiver, first))
        });
        let (receiver, first) = match welcomed.await {
            Ok(Ok((receiver, Some(first)))) => (receiver, first),
            Ok(Ok((_, None))) => {
                worker.context.add_anomaly("a stream ended before its welcome".to_owned());
                return Ok(None);
            }
            Ok(Err(status)) => {
                worker.check_status(&status);
                worker.context.recorder.info(call, status.message());
                return Ok(None);
            }
            Err(_) => {
                worker.context.check_unanswered("hello", NO_RESPONSE);
                return Ok(None);
            }
        };
        let Some(welcome) = &first.welcome else {
            worker.context.add_anomaly(format!("the first message is no welcome: {first:?}"));
            return Ok(None);
        };
        let is_kept = |held: &HeldDelivery| {
            let held = v1::Held { id: held.id.0, delivery: held.delivery.0 };
            welcome.kept.contains(&held)
        };
        let renewed = named.iter().map(|held| match is_kept(held) {
            true => RecordedRenewal::For { span: held.lease.unwrap_or_default(), stop: false },
            false => RecordedRenewal::Stale,
        });
        worker.context.record_answer(call, RecordedResponse::Renewed(renewed.collect()));
        worker.held.clear();
        let now = instant();
        let to_running =
            |held: &HeldDelivery| RunningJob { held: *held, report_at: Some(now), stop: false };
        let jobs = named.iter().filter(|held| is_kept(held)).map(to_running).collect();
        let (sender, unanswered) = (Some(sender), Vec::new());
        let mut stream =
            Self { sender, receiver, switch, jobs, unanswered, slots, draining: false };
        worker.receive(&mut stream, &first);
        Ok(Some(stream))
    }

    /// Time until the next report is due.
    pub(super) fn until_next_report(&self) -> Duration {
        let now = instant();
        let next = self.jobs.iter().filter_map(|job| job.report_at).min();
        next.map_or(Duration::MAX, |next| next.saturating_duration_since(now))
    }

    /// Sends a message.
    pub(super) async fn send(&self, message: v1::WorkerSays) {
        if let Some(sender) = &self.sender {
            // The receiving side notices a stream that has ended.
            let _ = timeout(CALL_TIMEOUT, sender.send(message)).await;
        }
    }
}

impl StreamWorker {
    /// Processes a message of the server.
    pub(super) fn receive(&mut self, stream: &mut Stream, message: &v1::ServerSays) {
        for one in &message.finished {
            self.record_finished(stream, one);
        }
        self.check_given_and_lost(message);
        // Lost deliveries free their slots before new ones are counted.
        let is = |lost: &v1::Held, own: &RunningJob| {
            lost.id == own.held.id.0 && lost.delivery == own.held.delivery.0
        };
        stream.jobs.retain(|own| !message.lost.iter().any(|lost| is(lost, own)));
        for job in &message.jobs {
            let held = self.record_delivery(job);
            let report_at = self.report_time();
            stream.jobs.push(RunningJob { held, report_at, stop: false });
        }
        if !message.jobs.is_empty() && stream.jobs.len() > stream.slots {
            let (n, slots) = (stream.jobs.len(), stream.slots);
            self.context.add_anomaly(format!("{} has {slots} slots and {n} jobs", self.name));
        }
        for own in &mut stream.jobs {
            if message.stop.iter().any(|stop| is(stop, own)) {
                (own.report_at, own.stop) = (Some(instant()), true);
            }
        }
        stream.draining |= message.drain;
    }

    /// Checks that no message both gives and takes away a delivery. A worker processes lost deliveries first, to free
    /// their slots; it would keep that job forever while the server gives its slot to another.
    fn check_given_and_lost(&self, message: &v1::ServerSays) {
        let is_lost = |job: &&v1::Delivered| {
            message.lost.iter().any(|lost| (lost.id, lost.delivery) == (job.id, job.delivery))
        };
        if let Some(v1::Delivered { id, delivery, .. }) = message.jobs.iter().find(is_lost) {
            let what = format!("delivery {delivery} of job {id} is given and lost in one message");
            self.context.add_anomaly(format!("{}: {what}", self.name));
        }
    }

    /// When to report a job that arrives now.
    fn report_time(&mut self) -> Option<Instant> {
        let delay_ms = match self.rng.below(40) {
            _ if self.behavior == Behavior::Correct => 0,
            _ if self.behavior == Behavior::Churning => self.rng.below(20),
            0 => return None,
            // Its lease is renewed meanwhile.
            1..=4 => self.rng.below(400),
            _ => self.rng.below(4),
        };
        Some(instant() + Duration::from_millis(delay_ms))
    }

    /// Records a delivery.
    fn record_delivery(&mut self, job: &v1::Delivered) -> HeldDelivery {
        let encoding = v1::Encoding::read(job.encoding).unwrap_or(crore_core::Encoding::Bytes);
        let payload = PayloadHash::of(&Payload::new(encoding, &*job.payload));
        let lease = self.context.job_by_payload(payload).and_then(|known| known.lease);
        let (id, delivery) = (JobId(job.id), Delivery(job.delivery));
        let granted = RecordedDelivery {
            id,
            queue: name(&job.queue),
            attempt: job.attempt,
            delivery,
            lease,
            payload,
            priority: job.priority,
            due: Time::from_millis(job.due_ms),
        };
        if let Some(fetch) = self.next_open_fetch() {
            self.context.record_answer(fetch, RecordedResponse::Fetched(vec![granted]));
        }
        HeldDelivery { id, delivery, lease }
    }

    /// Sends the reports that are due, some of them twice.
    pub(super) async fn send_due_reports(&mut self, stream: &mut Stream) {
        let now = instant();
        let is_due = |job: &RunningJob| job.report_at.is_some_and(|at| at <= now);
        let (due, rest): (Vec<_>, Vec<_>) = stream.jobs.drain(..).partition(is_due);
        stream.jobs = rest;
        for RunningJob { held, stop, .. } in due {
            let report = match stop {
                true => StreamReport::stopped(held),
                false if self.behavior != Behavior::Faulty => StreamReport::done(held),
                false => StreamReport::random(held, &mut self.rng, &self.context),
            };
            if self.behavior == Behavior::Faulty && self.rng.percent(3) {
                // Another worker reports it as well.
                self.context.hold_delivery(held);
            }
            let twice = self.behavior == Behavior::Faulty && self.rng.percent(4);
            self.send_report(stream, report.clone(), false).await;
            if twice {
                self.send_report(stream, report, true).await;
            }
        }
    }

    /// Sends a report; `foreign` marks a delivery that does not belong to this stream.
    pub(super) async fn send_report(
        &self,
        stream: &mut Stream,
        report: StreamReport,
        foreign: bool,
    ) {
        let call = self.context.recorder.invoke(self.name.as_str(), report.to_op());
        let finish = vec![report.message.clone()];
        stream.unanswered.push(UnansweredReport { report, call, foreign });
        stream.send(v1::WorkerSays { finish, ..v1::WorkerSays::default() }).await;
    }

    fn record_finished(&self, stream: &mut Stream, one: &v1::Finished) {
        let is = |unanswered: &UnansweredReport| {
            let held = unanswered.report.held;
            (held.id.0, held.delivery.0) == (one.id, one.delivery)
        };
        let Some(index) = stream.unanswered.iter().position(is) else {
            return self.context.add_anomaly(format!("an answer without a report: {one:?}"));
        };
        let UnansweredReport { report, call, foreign } = stream.unanswered.remove(index);
        match one.verdict() {
            v1::Verdict::Finished => {
                let reported = self.accepted(one, &report);
                self.context.record_answer(call, RecordedResponse::Reported(reported));
            }
            // This stream does not hold the delivery.
            v1::Verdict::Stale if foreign => {
                self.context
                    .record_answer(call, RecordedResponse::Reported(RecordedReport::Unknown));
            }
            v1::Verdict::Stale => {
                self.context.record_answer(call, RecordedResponse::Reported(RecordedReport::Stale));
            }
            v1::Verdict::NotFound => self
                .context
                .record_answer(call, RecordedResponse::Reported(RecordedReport::Unknown)),
            v1::Verdict::Refused | v1::Verdict::Unspecified => {
                self.context.add_anomaly(format!("a valid report was refused: {one:?}"));
            }
        }
    }

    fn accepted(&self, one: &v1::Finished, report: &StreamReport) -> RecordedReport {
        let state = v1::State::read(one.state).unwrap_or_default();
        if state.is_none_or(crore_core::State::has_ended) {
            self.context.record_ended();
        }
        let pushed = |pushed: &v1::Pushed| match (&pushed.problem, pushed.duplicate) {
            (None, false) => RecordedPush::New(JobId(pushed.id)),
            (None, true) => RecordedPush::Duplicate(JobId(pushed.id)),
            (Some(problem), _) => {
                self.context.add_anomaly(format!("a valid follow-up was refused: {problem:?}"));
                RecordedPush::Broken
            }
        };
        let pushed: Vec<_> = one.pushed.iter().map(pushed).collect();
        for (pushed, draft) in pushed.iter().zip(&report.follow_ups) {
            if let RecordedPush::New(id) = pushed {
                self.context.record_pushed(*id, self.context.remember(draft));
            }
        }
        RecordedReport::Accepted(pushed)
    }

    /// Closes the records of a stream that has ended: whether unanswered reports took effect is unknown.
    pub(super) fn close_records(&mut self, stream: &mut Stream) {
        for UnansweredReport { call, .. } in stream.unanswered.drain(..) {
            self.context.recorder.info(call, "the stream broke");
        }
        self.held.extend(stream.jobs.drain(..).map(|job| job.held));
    }

    /// Records an anomaly if the server ended a stream with an error that no fault explains.
    pub(super) fn check_status(&self, status: &Status) {
        let Ok(details) = RpcStatus::decode(status.details()) else { return };
        let problem = details.details.first().map(|any| v1::Problem::decode(&*any.value));
        let Some(Ok(problem)) = problem else { return };
        let code = Code::ALL.iter().find(|code| code.as_str() == problem.code);
        let text = format!("{}: {}", problem.code, problem.message);
        match code {
            Some(Code::Stopping | Code::Full | Code::TooMany) => {}
            Some(Code::Unavailable | Code::Poisoned | Code::TooSlow) => {
                self.context.check_unanswered("stream", &text);
            }
            _ => self.context.check_unanswered("stream", &format!("{UNEXPECTED_RESPONSE} {text}")),
        }
    }
}

/// The outgoing messages, as a stream.
struct OutgoingMessages(mpsc::Receiver<v1::WorkerSays>);

impl futures_util::Stream for OutgoingMessages {
    type Item = v1::WorkerSays;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<v1::WorkerSays>> {
        self.0.poll_recv(context)
    }
}
