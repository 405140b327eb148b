//! What a program asks for that the history has no call for, because the engine does several things for
//! it: to pop a job, to run a worker, to act on all that match. What the engine then asks of its store is
//! written down in the program's name.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};

use crore::core::machine::{Change, Next, NextState};
use crore::store::jobs::{Applied, Claim, Claimed, Order};
use crore_core::{Delivery, Job, JobId};
use crore_testkit::history::answer::{Changed, Granted, Reported};
use crore_testkit::history::op::{Outcome, Want};
use crore_testkit::history::{Answer, Op, Pending, Recorder};

use super::scribe::told;

/// Who such a program is, in the history.
const WHO: &str = "program";

/// What a program is doing.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Doing {
    /// It takes jobs and runs them.
    Work,
    /// It wants this of many.
    Sweep(Want),
    /// It wants to know of how many it would.
    DryRun,
}

#[derive(Debug)]
pub(super) struct Desk {
    recorder: Arc<Recorder>,
    doing: Mutex<Option<Doing>>,
    /// How runs went, which are about to be reported.
    ended: Mutex<BTreeMap<(JobId, Delivery), Outcome>>,
}

/// A call in the name of a program.
#[derive(Debug)]
pub(super) enum Call {
    /// About this run.
    Report(Pending, (JobId, Delivery)),
    Admin(Pending, Changed),
}

impl Desk {
    pub(super) fn new(recorder: Arc<Recorder>) -> Arc<Self> {
        Arc::new(Self { recorder, doing: Mutex::default(), ended: Mutex::default() })
    }

    fn doing(&self) -> MutexGuard<'_, Option<Doing>> {
        self.doing.lock().expect("no panic")
    }

    /// Whatever is asked of the store while this goes on is asked for the program.
    pub(super) async fn does<T>(&self, doing: Doing, call: impl Future<Output = T>) -> T {
        let mut call = pin!(call);
        poll_fn(|context| {
            *self.doing() = Some(doing.clone());
            let polled = call.as_mut().poll(context);
            *self.doing() = None;
            polled
        })
        .await
    }

    /// How a run went.
    pub(super) fn ended(&self, job: &Job, outcome: Outcome) {
        let key = (job.id, job.live.delivery);
        self.ended.lock().expect("no panic").insert(key, outcome);
    }

    /// The run that is reported: that of the delivery which was seen, or an older one that may be
    /// reported still. What becomes of the job tells two of those apart.
    fn reported(&self, change: &Change) -> Option<(Delivery, Outcome)> {
        let is_done = match &change.next {
            Next::Gone => true,
            Next::Live(next) => next.state == NextState::Done,
        };
        let ended = self.ended.lock().expect("no panic");
        let (first, last) = ((change.id, Delivery(0)), (change.id, change.seen.delivery));
        let runs = ended.range(first..=last).rev();
        let mut fits = runs.filter(|(_, o)| matches!(o, Outcome::Done { .. }) == is_done);
        fits.next().map(|((_, delivery), outcome)| (*delivery, *outcome))
    }

    pub(super) fn claims(&self, ask: &Claim) -> Option<Pending> {
        if *self.doing() != Some(Doing::Work) {
            return None;
        }
        let (queues, kinds, n) = (ask.queues.clone(), ask.kinds.clone(), ask.n);
        let strict = ask.order == Order::Strict;
        Some(self.recorder.invoke(WHO, Op::Fetch { queues, kinds, n, strict }))
    }

    pub(super) fn claimed(&self, call: Option<Pending>, claimed: &Claimed) {
        let Some(call) = call else { return };
        let granted = claimed.jobs.iter().map(Granted::of).collect();
        self.recorder.ok(call, Some(claimed.now), Answer::Fetched(granted));
    }

    /// A change is about to be written.
    pub(super) fn writes(&self, change: &Change) -> Option<Call> {
        let id = change.id;
        let doing = self.doing().clone()?;
        match doing {
            Doing::DryRun => panic!("a dry run changes {id}"),
            Doing::Sweep(want) => {
                let is_asked =
                    matches!(&change.next, Next::Live(next) if next.state == NextState::Running);
                let changed = if is_asked { Changed::Asked } else { Changed::Yes };
                Some(Call::Admin(self.recorder.invoke(WHO, Op::Admin { id, want }), changed))
            }
            Doing::Work => {
                let (run, outcome) = self.reported(change)?;
                let (delivery, on_done, on_dead) = (Some(run), Vec::new(), Vec::new());
                let report = Op::Report { id, delivery, outcome, on_done, on_dead };
                Some(Call::Report(self.recorder.invoke(WHO, report), (id, run)))
            }
        }
    }

    /// It was, or it was not: what is stale is decided anew, and is another call.
    pub(super) fn written(&self, call: Call, applied: &Applied) {
        let (pending, answer) = match (call, applied) {
            (Call::Report(pending, run), Applied::Yes(pushed)) => {
                self.ended.lock().expect("no panic").remove(&run);
                let pushed = pushed.iter().copied().map(told).collect();
                (pending, Answer::Reported(Reported::Accepted(pushed)))
            }
            (Call::Admin(pending, changed), Applied::Yes(_)) => (pending, Answer::Changed(changed)),
            (Call::Report(pending, _) | Call::Admin(pending, _), Applied::Stale) => {
                return self.recorder.fail(pending, "stale");
            }
        };
        self.recorder.ok(pending, None, answer);
    }
}
