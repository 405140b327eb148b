//! Records the calls of an embedding program that the history has no operation for, because the engine makes
//! several store calls for each: popping a job, running a worker, bulk actions. Those store calls are recorded as
//! the program's.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};

use crore::core::machine::{Change, NextRecord, NextState};
use crore::store::jobs::{Applied, Claim, Claimed, QueueOrder};
use crore_core::version::KindVersions;
use crore_core::{Delivery, Job, JobId};
use crore_testkit::history::op::{AdminAction, RecordedOutcome};
use crore_testkit::history::response::{RecordedChange, RecordedDelivery, RecordedReport};
use crore_testkit::history::{PendingCall, RecordedOp, RecordedResponse, Recorder};

use super::recording_store::history_pushed;

/// The program's name in the history.
const PROGRAM: &str = "program";

/// The current activity of the program.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ProgramActivity {
    /// Running jobs.
    Work,
    /// A bulk action.
    Sweep(AdminAction),
    /// A dry run of a bulk action.
    DryRun,
}

#[derive(Debug)]
pub(super) struct ProgramRecorder {
    recorder: Arc<Recorder>,
    doing: Mutex<Option<ProgramActivity>>,
    /// Outcomes of runs that are about to be reported.
    ended: Mutex<BTreeMap<(JobId, Delivery), RecordedOutcome>>,
}

/// A recorded call of the program.
#[derive(Debug)]
pub(super) enum ProgramCall {
    /// A report about this run.
    Report(PendingCall, (JobId, Delivery)),
    Admin(PendingCall, RecordedChange),
}

impl ProgramRecorder {
    pub(super) fn new(recorder: Arc<Recorder>) -> Arc<Self> {
        Arc::new(Self { recorder, doing: Mutex::default(), ended: Mutex::default() })
    }

    fn doing(&self) -> MutexGuard<'_, Option<ProgramActivity>> {
        self.doing.lock().expect("no panic")
    }

    /// Attributes the store calls of `call` to the program.
    pub(super) async fn run_as<T>(
        &self,
        doing: ProgramActivity,
        call: impl Future<Output = T>,
    ) -> T {
        let mut call = pin!(call);
        poll_fn(|context| {
            *self.doing() = Some(doing.clone());
            let polled = call.as_mut().poll(context);
            *self.doing() = None;
            polled
        })
        .await
    }

    /// Notes the outcome of a run.
    pub(super) fn ended(&self, job: &Job, outcome: RecordedOutcome) {
        let key = (job.id, job.live.delivery);
        self.ended.lock().expect("no panic").insert(key, outcome);
    }

    /// The run that a change reports: that of the delivery that was seen, or an older one that may still be
    /// reported. The new state of the job distinguishes the two.
    fn reported(&self, change: &Change) -> Option<(Delivery, RecordedOutcome)> {
        let is_done = match &change.next {
            NextRecord::Gone => true,
            NextRecord::Live(next) => next.state == NextState::Done,
        };
        let ended = self.ended.lock().expect("no panic");
        let (first, last) = ((change.id, Delivery(0)), (change.id, change.seen.delivery));
        let runs = ended.range(first..=last).rev();
        let mut fits = runs.filter(|(_, o)| matches!(o, RecordedOutcome::Done { .. }) == is_done);
        fits.next().map(|((_, delivery), outcome)| (*delivery, *outcome))
    }

    pub(super) fn claim_started(&self, ask: &Claim) -> Option<PendingCall> {
        if *self.doing() != Some(ProgramActivity::Work) {
            return None;
        }
        let (queues, kinds, n) = (ask.queues.clone(), ask.kinds.clone(), ask.n);
        let strict = ask.order == QueueOrder::Strict;
        Some(self.recorder.invoke(
            PROGRAM,
            RecordedOp::Fetch { queues, kinds, versions: KindVersions::default(), n, strict },
        ))
    }

    pub(super) fn claimed(&self, call: Option<PendingCall>, claimed: &Claimed) {
        let Some(call) = call else { return };
        let granted = claimed.jobs.iter().map(RecordedDelivery::of).collect();
        self.recorder.ok(call, Some(claimed.now), RecordedResponse::Fetched(granted));
    }

    /// A change is about to be written.
    pub(super) fn write_started(&self, change: &Change) -> Option<ProgramCall> {
        let id = change.id;
        let doing = self.doing().clone()?;
        match doing {
            ProgramActivity::DryRun => panic!("a dry run changes {id}"),
            ProgramActivity::Sweep(want) => {
                let is_asked = matches!(&change.next, NextRecord::Live(next) if next.state == NextState::Running);
                let changed = if is_asked { RecordedChange::Asked } else { RecordedChange::Yes };
                Some(ProgramCall::Admin(
                    self.recorder.invoke(PROGRAM, RecordedOp::Admin { id, want }),
                    changed,
                ))
            }
            ProgramActivity::Work => {
                let (run, outcome) = self.reported(change)?;
                let (delivery, on_done, on_dead) = (Some(run), Vec::new(), Vec::new());
                let report = RecordedOp::Report { id, delivery, outcome, on_done, on_dead };
                Some(ProgramCall::Report(self.recorder.invoke(PROGRAM, report), (id, run)))
            }
        }
    }

    /// Records the result of a write. A stale write is decided again, as another call.
    pub(super) fn written(&self, call: ProgramCall, applied: &Applied) {
        let (pending, answer) = match (call, applied) {
            (ProgramCall::Report(pending, run), Applied::Yes(pushed)) => {
                self.ended.lock().expect("no panic").remove(&run);
                let pushed = pushed.iter().copied().map(history_pushed).collect();
                (pending, RecordedResponse::Reported(RecordedReport::Accepted(pushed)))
            }
            (ProgramCall::Admin(pending, changed), Applied::Yes(_)) => {
                (pending, RecordedResponse::Changed(changed))
            }
            (ProgramCall::Report(pending, _) | ProgramCall::Admin(pending, _), Applied::Stale) => {
                return self.recorder.fail(pending, "stale");
            }
        };
        self.recorder.ok(pending, None, answer);
    }
}
