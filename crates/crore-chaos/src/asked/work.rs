//! Working: fetching, renewing and reporting.

use crore_testkit::history::answer::{Granted, Pushed, Renewed, Reported};
use crore_testkit::history::op::{Item, Lease, Outcome};
use crore_testkit::history::{Answer, Hash, Op};
use crore_wire::api::fetch::{self, Delivered, Fetched};
use crore_wire::api::finish::{self, Finish, FinishOne, Finished, FinishedOne};

use super::{Caller, seen};
use crate::client::{Ask, Heard};
use crate::desk::Held;
use crate::draft::{Draft, QUEUES, name};

/// A report to be sent: what is said, and what is written down.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    pub(crate) said: FinishOne,
    pub(crate) outcome: Outcome,
    pub(crate) follow_ups: Vec<Draft>,
}

impl Caller {
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
}

fn reported(report: &Report) -> Op {
    let items: Vec<Item> = report.follow_ups.iter().map(Draft::item).collect();
    let (id, delivery) = (report.said.id.into(), Some(report.said.delivery.into()));
    let on_dead = Vec::new();
    Op::Report { id, delivery, outcome: report.outcome, on_done: items, on_dead }
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
        outcome: finish::Outcome::Done,
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
