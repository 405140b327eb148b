//! One stream: what is said and heard on it, and how it is written down.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crore_core::{Code, Delivery, JobId, Payload, Time};
use crore_testkit::history::answer::{Granted, Pushed, Renewed, Reported};
use crore_testkit::history::op::Lease;
use crore_testkit::history::{Answer, Hash, Op, Pending};
use crore_wire::grpc::v1::work_client::WorkClient;
use crore_wire::grpc::{RpcStatus, v1};
use prost::Message;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::{Status, Streaming};

use super::deed::Deed;
use super::wire::{Tap, connect};
use super::worker::{Manner, Worker};
use crate::client::{Away, NEVER, STRANGE};
use crate::desk::Held;
use crate::draft::name;
use crate::pause::{LIMIT, instant};

/// A stream that is open.
pub(super) struct Stream {
    /// None: there is nothing more to say.
    pub(super) says: Option<mpsc::Sender<v1::WorkerSays>>,
    pub(super) hears: Streaming<v1::ServerSays>,
    pub(super) tap: Tap,
    /// What its worker has by this stream.
    pub(super) own: Vec<Doing>,
    /// Reports that were said, and not answered yet.
    waiting: Vec<Waiting>,
    /// The most slots that were said on it.
    pub(super) slots: usize,
    /// It is to end when everything is reported.
    pub(super) drains: bool,
}

/// A job that is being done.
#[derive(Debug, Clone, Copy)]
pub(super) struct Doing {
    pub(super) held: Held,
    /// When it is reported; none: never.
    pub(super) at: Option<Instant>,
    /// It was asked to stop.
    stop: bool,
}

#[derive(Debug)]
struct Waiting {
    deed: Deed,
    call: Pending,
    /// It is about a delivery that this stream does not have, and has no effect.
    strange: bool,
}

impl Stream {
    /// Introduces a worker; none: it was not let in.
    pub(super) async fn open(
        worker: &mut Worker,
        address: SocketAddr,
        hello: v1::Hello,
        named: Vec<Held>,
    ) -> Result<Option<Self>, Away> {
        // Who cannot connect has what he had.
        worker.held.clone_from(&named);
        let (channel, tap) = connect(address).await?;
        let lease = |held: &Held| Lease { id: held.id, delivery: held.delivery, span: None };
        let leases = named.iter().map(lease).collect();
        let call = worker.desk.recorder.invoke(worker.name.as_str(), Op::Renew { leases });
        let slots = hello.slots as usize;
        let (says, to_say) = mpsc::channel(64);
        let hello = v1::WorkerSays { hello: Some(hello), ..v1::WorkerSays::default() };
        // The channel is new, and has room.
        let _ = says.try_send(hello);
        let mut client = WorkClient::new(channel);
        let welcomed = timeout(LIMIT, async {
            let mut hears = client.stream(Said(to_say)).await?.into_inner();
            let first = hears.message().await?;
            Ok::<_, Status>((hears, first))
        });
        let (hears, first) = match welcomed.await {
            Ok(Ok((hears, Some(first)))) => (hears, first),
            Ok(Ok((_, None))) => {
                worker.desk.wrong("a stream ended without a word".to_owned());
                return Ok(None);
            }
            Ok(Err(status)) => {
                worker.broken(&status);
                worker.desk.recorder.info(call, status.message());
                return Ok(None);
            }
            Err(_) => {
                worker.desk.heard_nothing("hello", NEVER);
                return Ok(None);
            }
        };
        let Some(welcome) = &first.welcome else {
            worker.desk.wrong(format!("no welcome came first: {first:?}"));
            return Ok(None);
        };
        let is_kept = |held: &Held| {
            let held = v1::Held { id: held.id.0, delivery: held.delivery.0 };
            welcome.kept.contains(&held)
        };
        let renewed = named.iter().map(|held| match is_kept(held) {
            true => Renewed::For { span: held.lease.unwrap_or_default(), stop: false },
            false => Renewed::Stale,
        });
        worker.desk.answered(call, Answer::Renewed(renewed.collect()));
        worker.held.clear();
        let now = instant();
        let doing = |held: &Held| Doing { held: *held, at: Some(now), stop: false };
        let own = named.iter().filter(|held| is_kept(held)).map(doing).collect();
        let (says, waiting) = (Some(says), Vec::new());
        let mut stream = Self { says, hears, tap, own, waiting, slots, drains: false };
        worker.hear(&mut stream, &first);
        Ok(Some(stream))
    }

    /// How long there is nothing to report.
    pub(super) fn silence(&self) -> Duration {
        let now = instant();
        let next = self.own.iter().filter_map(|doing| doing.at).min();
        next.map_or(Duration::MAX, |next| next.saturating_duration_since(now))
    }

    /// Says something.
    pub(super) async fn say(&self, said: v1::WorkerSays) {
        if let Some(says) = &self.says {
            // A stream that has ended is seen to have.
            let _ = timeout(LIMIT, says.send(said)).await;
        }
    }
}

impl Worker {
    /// Takes what the server says.
    pub(super) fn hear(&mut self, stream: &mut Stream, said: &v1::ServerSays) {
        for one in &said.finished {
            self.finished(stream, one);
        }
        self.never_both(said);
        // What is lost makes room for what comes with it.
        let is = |lost: &v1::Held, own: &Doing| {
            lost.id == own.held.id.0 && lost.delivery == own.held.delivery.0
        };
        stream.own.retain(|own| !said.lost.iter().any(|lost| is(lost, own)));
        for job in &said.jobs {
            let held = self.given(job);
            let at = self.until();
            stream.own.push(Doing { held, at, stop: false });
        }
        if !said.jobs.is_empty() && stream.own.len() > stream.slots {
            let (n, slots) = (stream.own.len(), stream.slots);
            self.desk.wrong(format!("{} has {slots} slots, and {n} jobs", self.name));
        }
        for own in &mut stream.own {
            if said.stop.iter().any(|stop| is(stop, own)) {
                (own.at, own.stop) = (Some(instant()), true);
            }
        }
        stream.drains |= said.drain;
    }

    /// No message gives a delivery and takes it away. A worker that takes what is lost first, to have room for what
    /// comes with it, would keep that job for good, while the server gives its slot to another.
    fn never_both(&self, said: &v1::ServerSays) {
        let is_lost = |job: &&v1::Delivered| {
            said.lost.iter().any(|lost| (lost.id, lost.delivery) == (job.id, job.delivery))
        };
        if let Some(v1::Delivered { id, delivery, .. }) = said.jobs.iter().find(is_lost) {
            let what = format!("delivery {delivery} of job {id} is given and lost in one message");
            self.desk.wrong(format!("{}: {what}", self.name));
        }
    }

    /// When a job that came now is reported.
    fn until(&mut self) -> Option<Instant> {
        let for_ = match self.dice.below(40) {
            _ if self.manner == Manner::Well => 0,
            _ if self.manner == Manner::Restless => self.dice.below(20),
            0 => return None,
            // Its lease is renewed meanwhile.
            1..=4 => self.dice.below(400),
            _ => self.dice.below(4),
        };
        Some(instant() + Duration::from_millis(for_))
    }

    /// Writes down what was given.
    fn given(&mut self, job: &v1::Delivered) -> Held {
        let encoding = v1::Encoding::read(job.encoding).unwrap_or(crore_core::Encoding::Bytes);
        let payload = Hash::of(&Payload::new(encoding, &*job.payload));
        let lease = self.desk.of(payload).and_then(|known| known.lease);
        let (id, delivery) = (JobId(job.id), Delivery(job.delivery));
        let granted = Granted {
            id,
            queue: name(&job.queue),
            attempt: job.attempt,
            delivery,
            lease,
            payload,
            priority: job.priority,
            due: Time::from_millis(job.due_ms),
        };
        if let Some(question) = self.answered() {
            self.desk.answered(question, Answer::Fetched(vec![granted]));
        }
        Held { id, delivery, lease }
    }

    /// Reports what is due; some of it twice.
    pub(super) async fn report(&mut self, stream: &mut Stream) {
        let now = instant();
        let is_due = |doing: &Doing| doing.at.is_some_and(|at| at <= now);
        let (due, own): (Vec<_>, Vec<_>) = stream.own.drain(..).partition(is_due);
        stream.own = own;
        for Doing { held, stop, .. } in due {
            let deed = match stop {
                true => Deed::stopped(held),
                false if self.manner != Manner::Badly => Deed::done(held),
                false => Deed::any(held, &mut self.dice, &self.desk),
            };
            if self.manner == Manner::Badly && self.dice.percent(3) {
                // Somebody else reports it as well, elsewhere.
                self.desk.hold(held);
            }
            let twice = self.manner == Manner::Badly && self.dice.percent(4);
            self.file(stream, deed.clone(), false).await;
            if twice {
                self.file(stream, deed, true).await;
            }
        }
    }

    /// Says a report, which is about something that this stream does not have if it is strange.
    pub(super) async fn file(&self, stream: &mut Stream, deed: Deed, strange: bool) {
        let call = self.desk.recorder.invoke(self.name.as_str(), deed.op());
        let finish = vec![deed.said.clone()];
        stream.waiting.push(Waiting { deed, call, strange });
        stream.say(v1::WorkerSays { finish, ..v1::WorkerSays::default() }).await;
    }

    fn finished(&self, stream: &mut Stream, one: &v1::Finished) {
        let is = |waiting: &Waiting| {
            let held = waiting.deed.held;
            (held.id.0, held.delivery.0) == (one.id, one.delivery)
        };
        let Some(place) = stream.waiting.iter().position(is) else {
            return self.desk.wrong(format!("an answer to nothing: {one:?}"));
        };
        let Waiting { deed, call, strange } = stream.waiting.remove(place);
        match one.verdict() {
            v1::Verdict::Finished => {
                let reported = self.accepted(one, &deed);
                self.desk.answered(call, Answer::Reported(reported));
            }
            // For this stream there is no such thing.
            v1::Verdict::Stale if strange => {
                self.desk.answered(call, Answer::Reported(Reported::Unknown));
            }
            v1::Verdict::Stale => self.desk.answered(call, Answer::Reported(Reported::Stale)),
            v1::Verdict::NotFound => self.desk.answered(call, Answer::Reported(Reported::Unknown)),
            v1::Verdict::Refused | v1::Verdict::Unspecified => {
                self.desk.wrong(format!("a good report was refused: {one:?}"));
            }
        }
    }

    fn accepted(&self, one: &v1::Finished, deed: &Deed) -> Reported {
        let state = v1::State::read(one.state).unwrap_or_default();
        if state.is_none_or(crore_core::State::has_ended) {
            self.desk.ended();
        }
        let pushed = |pushed: &v1::Pushed| match (&pushed.problem, pushed.duplicate) {
            (None, false) => Pushed::New(JobId(pushed.id)),
            (None, true) => Pushed::Duplicate(JobId(pushed.id)),
            (Some(problem), _) => {
                self.desk.wrong(format!("a good follow-up was refused: {problem:?}"));
                Pushed::Broken
            }
        };
        let pushed: Vec<_> = one.pushed.iter().map(pushed).collect();
        for (pushed, draft) in pushed.iter().zip(&deed.follow_ups) {
            if let Pushed::New(id) = pushed {
                self.desk.has(*id, self.desk.remember(draft));
            }
        }
        Reported::Accepted(pushed)
    }

    /// A stream is over, for its worker: of what was not answered nobody knows what became.
    pub(super) fn give_up(&mut self, stream: &mut Stream) {
        for Waiting { call, .. } in stream.waiting.drain(..) {
            self.desk.recorder.info(call, "the stream broke");
        }
        self.held.extend(stream.own.drain(..).map(|doing| doing.held));
    }

    /// A stream was broken: by a connection that broke, or for a reason that the server gives.
    pub(super) fn broken(&self, status: &Status) {
        let Ok(details) = RpcStatus::decode(status.details()) else { return };
        let problem = details.details.first().map(|any| v1::Problem::decode(&*any.value));
        let Some(Ok(problem)) = problem else { return };
        let code = Code::ALL.iter().find(|code| code.as_str() == problem.code);
        let said = format!("{}: {}", problem.code, problem.message);
        match code {
            Some(Code::Stopping | Code::Full | Code::TooMany) => {}
            Some(Code::Unavailable | Code::Poisoned | Code::TooSlow) => {
                self.desk.heard_nothing("stream", &said);
            }
            _ => self.desk.heard_nothing("stream", &format!("{STRANGE} {said}")),
        }
    }
}

/// What a worker says, as a stream.
struct Said(mpsc::Receiver<v1::WorkerSays>);

impl futures_util::Stream for Said {
    type Item = v1::WorkerSays;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<v1::WorkerSays>> {
        self.0.poll_recv(context)
    }
}
