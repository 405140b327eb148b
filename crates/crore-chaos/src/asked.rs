//! What one can ask a server, and how the question and its answer are written down.
//!
//! A call is recorded before it is sent and when its answer came. One that was refused in so many words
//! has no effect; of one without an answer nobody knows.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crore_core::{Code, Delivery, JobId, Payload};
use crore_testkit::history::answer::{Changed, Granted, Look, Pushed, Renewed, Reported};
use crore_testkit::history::op::{Item, Lease, Outcome, Want};
use crore_testkit::history::{Answer, Hash, Op, Pending};
use crore_wire::api::act::{Acted, Change};
use crore_wire::api::fetch::{self, Delivered, Fetched};
use crore_wire::api::finish::{Finish, FinishOne, Finished, FinishedOne};
use crore_wire::api::job::{Ended, Job};
use crore_wire::api::push::{self, PushedAll};
use crore_wire::api::words::{Encoding, State};
use crore_wire::{Format, Raw};

use crate::client::{Ask, Client, Heard};
use crate::desk::{Desk, Held, Unanswered};
use crate::draft::{Draft, QUEUES, name};

/// Somebody who asks: a name, a connection, and what all share.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) name: String,
    pub(crate) desk: Arc<Desk>,
    pub(crate) client: Client,
}

/// A report to be sent: what is said, and what is written down.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    pub(crate) said: FinishOne,
    pub(crate) outcome: Outcome,
    pub(crate) follow_ups: Vec<Draft>,
}

impl Caller {
    fn begin(&self, op: Op) -> Pending {
        self.desk.recorder.invoke(self.name.as_str(), op)
    }

    fn format(&self) -> Format {
        self.client.format
    }

    /// Writes down how a call ended, if not by an answer.
    fn unheard<T>(&self, call: Pending, what: &str, heard: &Heard<T>) {
        match heard {
            Heard::Yes(_) => {}
            Heard::No(_, why) => self.desk.recorder.fail(call, why.as_str()),
            Heard::Nothing(why) => {
                self.desk.heard_nothing(what, why);
                self.desk.recorder.info(call, why.as_str());
            }
        }
    }

    fn answered(&self, call: Pending, answer: Answer) {
        self.desk.answered(call, answer);
    }

    /// Pushes one job; under a name, it is said again until it is answered.
    pub(crate) async fn push(&mut self, draft: Draft, key: Option<String>) {
        let draft = if let Some(key) = &key { draft.under(key) } else { draft };
        let known = self.desk.remember(&draft);
        let mut ask = Ask::post("/v1/jobs", self.format(), &draft.said(self.format()));
        ask.key = key;
        let call = self.begin(Op::Push { groups: 0, items: vec![draft.item()] });
        let format = self.format();
        self.push_said(Unanswered { ask, format, call, known }).await;
    }

    /// Sends a push, perhaps not for the first time.
    pub(crate) async fn push_said(&mut self, push: Unanswered) {
        let heard = self.client.call::<push::Pushed>(&push.ask).await;
        match heard {
            Heard::Yes(pushed) => {
                let items = vec![self.pushed(&pushed)];
                if let Pushed::New(id) = items[0] {
                    self.desk.has(id, push.known);
                }
                self.answered(push.call, Answer::Pushed { groups: Vec::new(), items });
            }
            // A refusal of what is said again says nothing of what was said before.
            Heard::No(..) | Heard::Nothing(_) if push.ask.key.is_some() => {
                if let Heard::Nothing(why) = &heard {
                    self.desk.heard_nothing("push", why);
                }
                self.desk.unanswered(push);
            }
            heard => self.unheard(push.call, "push", &heard),
        }
    }

    /// Pushes a batch.
    pub(crate) async fn push_all(&mut self, drafts: &[Draft]) {
        let known: Vec<_> = drafts.iter().map(|draft| self.desk.remember(draft)).collect();
        let format = self.format();
        let raw = |draft: &Draft| Raw::new(format, format.encode(&draft.said(format)));
        let jobs = drafts.iter().map(raw).collect();
        let ask = Ask::post("/v1/jobs", format, &push::NewJobs { jobs, groups: Vec::new() });
        let items = drafts.iter().map(Draft::item).collect();
        let call = self.begin(Op::Push { groups: 0, items });
        match self.client.call::<PushedAll>(&ask).await {
            Heard::Yes(pushed) => {
                let items: Vec<_> = pushed.jobs.iter().map(|pushed| self.pushed(pushed)).collect();
                for (item, known) in items.iter().zip(known) {
                    if let Pushed::New(id) = item {
                        self.desk.has(*id, known);
                    }
                }
                self.answered(call, Answer::Pushed { groups: Vec::new(), items });
            }
            heard => self.unheard(call, "push", &heard),
        }
    }

    fn pushed(&self, pushed: &push::Pushed) -> Pushed {
        match (pushed.status, pushed.id) {
            (push::Took::New, Some(id)) => Pushed::New(id.into()),
            (push::Took::Duplicate, Some(id)) => Pushed::Duplicate(id.into()),
            _ => {
                self.desk.wrong(format!("a good job was refused: {pushed:?}"));
                Pushed::Broken
            }
        }
    }

    /// Fetches jobs.
    pub(crate) async fn fetch(&mut self, ask: &fetch::Fetch) -> Vec<Held> {
        let op = Op::Fetch {
            queues: ask.queues.iter().map(|queue| name(queue)).collect(),
            kinds: None,
            n: ask.n.unwrap_or(1),
            strict: ask.order == fetch::Order::Strict,
        };
        let call = self.begin(op);
        let ask = Ask::post("/v1/fetch", self.format(), ask);
        match self.client.call::<Fetched>(&ask).await {
            Heard::Yes(fetched) => {
                let granted: Vec<_> =
                    fetched.jobs.iter().map(|delivered| self.granted(delivered)).collect();
                let held = granted.iter().map(|granted| Held {
                    id: granted.id,
                    delivery: granted.delivery,
                    lease: granted.lease,
                });
                let held = held.collect();
                self.answered(call, Answer::Fetched(granted));
                held
            }
            heard => {
                self.unheard(call, "fetch", &heard);
                Vec::new()
            }
        }
    }

    fn granted(&self, job: &Delivered) -> Granted {
        let payload = seen(self.format(), job.payload.as_ref(), job.payload_base64.as_deref());
        let payload = Hash::of(&payload(job.encoding));
        Granted {
            id: job.id.into(),
            queue: name(&job.queue),
            attempt: job.attempt,
            delivery: job.delivery.into(),
            lease: self.desk.of(payload).and_then(|known| known.lease),
            payload,
            priority: job.priority,
            due: job.due.0,
        }
    }

    /// Extends leases.
    pub(crate) async fn renew(&mut self, held: &[Held]) {
        let leases =
            held.iter().map(|one| Lease { id: one.id, delivery: one.delivery, span: None });
        let call = self.begin(Op::Renew { leases: leases.collect() });
        let jobs =
            held.iter().map(|one| fetch::Held { id: one.id.into(), delivery: one.delivery.into() });
        let ask = fetch::Renew { jobs: jobs.collect(), lease: None };
        let ask = Ask::post("/v1/renew", self.format(), &ask);
        match self.client.call::<fetch::Renewed>(&ask).await {
            Heard::Yes(renewed) => {
                let renewed = renewed.jobs.iter().zip(held).map(|(lease, held)| match lease {
                    fetch::Lease::Renewed { stop, .. } => {
                        Renewed::For { span: held.lease.unwrap_or_default(), stop: *stop }
                    }
                    fetch::Lease::Stale => Renewed::Stale,
                });
                self.answered(call, Answer::Renewed(renewed.collect()));
            }
            heard => self.unheard(call, "renew", &heard),
        }
    }

    /// Reports; each report is a call of its own in the history.
    pub(crate) async fn finish(&mut self, reports: &[Report]) {
        let calls: Vec<_> = reports.iter().map(|report| self.begin(reported(report))).collect();
        let jobs = reports.iter().map(|report| report.said.clone()).collect();
        let ask = Ask::post("/v1/finish", self.format(), &Finish { jobs });
        match self.client.call::<Finished>(&ask).await {
            Heard::Yes(finished) => {
                for ((call, one), report) in calls.into_iter().zip(finished.jobs).zip(reports) {
                    let answer = self.accepted(one, report);
                    self.answered(call, Answer::Reported(answer));
                }
            }
            heard => {
                // Reports that go together may be refused after some of them have counted, and one
                // with follow-ups needs room.
                let is_plain = reports.len() == 1 && reports[0].follow_ups.is_empty();
                let heard: Heard<Finished> = match heard {
                    Heard::No(_, why) if !is_plain => Heard::Nothing(why),
                    heard => heard,
                };
                calls.into_iter().for_each(|call| self.unheard(call, "finish", &heard));
            }
        }
    }

    fn accepted(&self, finished: FinishedOne, report: &Report) -> Reported {
        match finished {
            FinishedOne::Finished { state, pushed } => {
                if state.is_none_or(|state| crore_core::State::from(state).has_ended()) {
                    self.desk.ended();
                }
                let pushed: Vec<_> = pushed.iter().map(|pushed| self.pushed(pushed)).collect();
                for (pushed, draft) in pushed.iter().zip(&report.follow_ups) {
                    if let Pushed::New(id) = pushed {
                        self.desk.has(*id, self.desk.remember(draft));
                    }
                }
                Reported::Accepted(pushed)
            }
            FinishedOne::Stale => Reported::Stale,
            FinishedOne::NotFound => Reported::Unknown,
        }
    }

    /// Looks at a job of which no result is kept, so that what is shown is all that there is.
    pub(crate) async fn look(&mut self, id: JobId) {
        let call = self.begin(Op::Get { id });
        match self.client.call::<Job>(&Ask::get(format!("/v1/jobs/{id}"))).await {
            Heard::Yes(job) => {
                let payload =
                    seen(self.format(), job.payload.as_ref(), job.payload_base64.as_deref());
                let look = Look {
                    state: job.state.into(),
                    attempt: job.attempt,
                    delivery: job.delivery.map_or(Delivery::NONE, Into::into),
                    payload: Hash::of(&payload(job.encoding)),
                    result: None,
                };
                self.answered(call, Answer::Job(Some(look)));
            }
            Heard::No(Code::NotFound, _) => self.answered(call, Answer::Job(None)),
            heard => self.unheard(call, "look", &heard),
        }
    }

    /// Reads a result, and with that takes it away if it can be read once.
    pub(crate) async fn take(&mut self, id: JobId) {
        let call = self.begin(Op::TakeResult { id });
        match self.client.call::<Ended>(&Ask::get(format!("/v1/jobs/{id}/result"))).await {
            Heard::Yes(ended) => {
                let (value, base64) = (ended.result.as_ref(), ended.result_base64.as_deref());
                let result = ended
                    .encoding
                    .map(|encoding| Hash::of(&seen(self.format(), value, base64)(encoding)));
                self.answered(call, Answer::Result(result));
            }
            Heard::No(Code::NotFound, _) => self.answered(call, Answer::Result(None)),
            heard => self.unheard(call, "take", &heard),
        }
    }

    /// Meddles with a job by hand.
    pub(crate) async fn want(&mut self, id: JobId, want: Want) {
        let path = format!("/v1/jobs/{id}");
        let ask = match &want {
            Want::Cancel => Ask { method: "POST", ..Ask::get(path + "/cancel") },
            Want::Retry => Ask { method: "POST", ..Ask::get(path + "/retry") },
            Want::Delete => Ask { method: "DELETE", ..Ask::get(path) },
            Want::Edit { priority, .. } => {
                let change = Change { priority: *priority, ..Change::default() };
                Ask { method: "PATCH", ..Ask::post(&path, self.format(), &change) }
            }
        };
        let cancels = want == Want::Cancel;
        let call = self.begin(Op::Admin { id, want });
        match self.client.call::<Acted>(&ask).await {
            Heard::Yes(acted) => {
                let asked = cancels && acted.state == Some(State::Running);
                let changed = if asked { Changed::Asked } else { Changed::Yes };
                self.answered(call, Answer::Changed(changed));
            }
            Heard::No(Code::NotFound, _) => {
                self.answered(call, Answer::Changed(Changed::Unknown));
            }
            Heard::No(Code::Refused, _) => {
                self.answered(call, Answer::Changed(Changed::Refused));
            }
            heard => self.unheard(call, "change", &heard),
        }
    }
}

fn reported(report: &Report) -> Op {
    let items: Vec<Item> = report.follow_ups.iter().map(Draft::item).collect();
    let (id, delivery) = (report.said.id.into(), Some(report.said.delivery.into()));
    let on_dead = Vec::new();
    Op::Report { id, delivery, outcome: report.outcome, on_done: items, on_dead }
}

/// A payload as its pusher gave it, from how it is shown: as a value of the encoding of the answer, or as
/// bytes.
fn seen<'a>(
    format: Format,
    value: Option<&'a Raw>,
    base64: Option<&'a str>,
) -> impl FnOnce(Encoding) -> Payload + 'a {
    move |encoding| {
        let encoding = crore_core::Encoding::from(encoding);
        let from = [Format::Json, Format::Msgpack].into_iter().find(|f| f.encoding() == encoding);
        let bytes = match (value, base64) {
            (Some(value), _) => from
                .and_then(|from| Raw::new(format, value.bytes()).convert(from))
                .map(|raw| raw.bytes().to_vec()),
            (None, Some(text)) => STANDARD.decode(text).ok(),
            (None, None) => None,
        };
        Payload::new(encoding, bytes.unwrap_or_default())
    }
}

/// A fetch from some queues.
pub(crate) fn fetch_from(queues: &[&str], n: usize) -> fetch::Fetch {
    fetch::Fetch {
        queues: queues.iter().map(|queue| (*queue).to_owned()).collect(),
        kinds: None,
        n: Some(n),
        wait: None,
        worker: None,
        lease: None,
        order: fetch::Order::Merged,
    }
}

/// A fetch from everywhere.
pub(crate) fn fetch_all(n: usize) -> fetch::Fetch {
    fetch_from(&QUEUES, n)
}

/// A report that says that it went well.
pub(crate) fn done(held: Held) -> Report {
    let said = FinishOne {
        id: held.id.into(),
        delivery: held.delivery.into(),
        outcome: crore_wire::api::finish::Outcome::Done,
        result: None,
        result_base64: None,
        encoding: None,
        error: None,
        detail: None,
        after: None,
        retry: None,
        on_done: Vec::new(),
        on_dead: Vec::new(),
    };
    Report { said, outcome: Outcome::Done { result: None }, follow_ups: Vec::new() }
}
