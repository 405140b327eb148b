//! Acts on jobs: cancel, retry, delete and change, of one job or of all that match.

use crore::act::{Act, Acted, Filter, Other, Progress, Run};
use crore_core::machine::Refusal;
use crore_core::{Code, Invalid, JobId, Name, State};
use crore_wire::api::act as wire;
use futures_util::stream::{Stream, unfold};
use tokio::sync::mpsc;

use crate::{Api, Fault};

/// An act on all jobs that match a filter.
#[derive(Debug, Clone)]
pub struct BulkAct {
    /// The jobs.
    pub filter: Filter,
    /// The act.
    pub act: Act,
    /// Whether it is done, or only counted.
    pub run: Run,
}

/// The progress of a [`BulkAct`].
#[derive(Debug)]
pub enum BulkStep {
    /// So far.
    Progress(wire::Progress),
    /// The act is done.
    Done(wire::Progress),
    /// The act failed; what was done before stays done.
    Failed(Fault),
}

impl Api {
    /// Acts on a job, and returns its new state; `None`: the job is gone.
    pub async fn act_on_job(&self, id: JobId, act: &Act) -> Result<Option<State>, Fault> {
        match self.engine().jobs().act(id.into(), act).await? {
            Acted::Yes(state) => Ok(state),
            Acted::NotFound => Err(Fault::missing(format!("job {id}"))),
            Acted::No(refusal) => {
                Err(Fault::new(Code::Refused, format!("job {id} {}", why(refusal))))
            }
        }
    }

    /// Acts on all jobs that match.
    pub async fn act_on_all(&self, bulk: &BulkAct) -> Result<wire::Progress, Fault> {
        let BulkAct { filter, act, run } = bulk;
        Ok(progress(self.engine().jobs().act_on_all(filter, act, *run, |_| true).await?))
    }

    /// Acts on all jobs that match, and reports progress. Dropping the stream stops the act.
    pub fn act_on_all_in_steps(&self, bulk: BulkAct) -> impl Stream<Item = BulkStep> + use<> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let engine = self.engine().clone();
        tokio::spawn(async move {
            let BulkAct { filter, act, run } = bulk;
            let step = |so_far| sender.send(BulkStep::Progress(progress(so_far))).is_ok();
            let last = match engine.jobs().act_on_all(&filter, &act, run, step).await {
                Ok(all) => BulkStep::Done(progress(all)),
                Err(error) => BulkStep::Failed(error.into()),
            };
            // A receiver that is gone needs no answer.
            let _ = sender.send(last);
        });
        unfold(receiver, |mut receiver| async {
            let step = receiver.recv().await?;
            Some((step, receiver))
        })
    }
}

const fn why(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Stale => "was changed meanwhile",
        Refusal::Ended => "has ended",
        Refusal::Running => "is running",
        Refusal::NotNow => "is in no state for which this means anything",
        Refusal::Nothing => "was asked for that before, or there is nothing to do",
    }
}

const fn progress(progress: Progress) -> wire::Progress {
    wire::Progress { seen: progress.seen, matched: progress.matched, done: progress.done }
}

/// Reads the change of a job.
pub fn change(change: &wire::Change) -> Result<Act, Invalid> {
    let other = Other { queue: change.queue()?, priority: change.priority, due: change.due()? };
    Ok(Act::Change(other))
}

impl TryFrom<&wire::ActOnAll> for BulkAct {
    type Error = Invalid;

    fn try_from(ask: &wire::ActOnAll) -> Result<Self, Invalid> {
        let run = if ask.dry_run { Run::Dry } else { Run::Real };
        Ok(Self { filter: filter(&ask.filter)?, act: act(ask)?, run })
    }
}

fn act(ask: &wire::ActOnAll) -> Result<Act, Invalid> {
    let malformed = |why: &str| Err(Invalid::new(Code::Malformed, "change", why));
    match (ask.act, &ask.change) {
        (wire::Verb::Change, Some(other)) => {
            change(other).map_err(|invalid| invalid.inside("change"))
        }
        (wire::Verb::Change, None) => malformed("what is to be otherwise has to be said"),
        (_, Some(_)) => malformed("`change` means nothing for this act"),
        (wire::Verb::Cancel, None) => Ok(Act::Cancel),
        (wire::Verb::Retry, None) => Ok(Act::Retry),
        (wire::Verb::Delete, None) => Ok(Act::Delete),
    }
}

/// Reads a filter. An empty one is refused unless it says `all`: it is more likely a mistake than a wish.
fn filter(filter: &wire::Filter) -> Result<Filter, Invalid> {
    let name = |field: &str, text: &Option<String>| {
        text.as_deref().map(|text| Name::new(field, text)).transpose()
    };
    let read = Filter {
        states: filter.states.iter().map(|state| (*state).into()).collect(),
        queue: name("filter.queue", &filter.queue)?,
        kind: name("filter.kind", &filter.kind)?,
        labels: filter.labels.0.clone().into_iter().collect(),
        pushed_before: filter.pushed_before.map(|moment| moment.0),
    };
    match (read == Filter::default(), filter.all) {
        (true, false) => {
            let why = "names nothing; to mean all jobs, say `\"all\": true`";
            Err(Invalid::new(Code::Malformed, "filter", why))
        }
        (false, true) => {
            let why = "either `all` or something to match, not both";
            Err(Invalid::new(Code::Malformed, "filter.all", why))
        }
        _ => Ok(read),
    }
}
