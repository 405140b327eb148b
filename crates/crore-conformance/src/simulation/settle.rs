//! Writes a decision as the engine does: decides on the known version, writes it guarded, and if a concurrent
//! write came first, reads and decides again.

use std::future::poll_fn;
use std::task::Poll;

use crore_core::machine::{JobEvent, NextRecord, NextState, decide};
use crore_core::{Job, JobId, State};
use crore_store::Error;
use crore_store::jobs::{Applied, Pushed, StoreWrite};

use super::context::CallerLink;
use super::coverage::RareSituation;
use super::engine::EventResult;

/// More retries than concurrent writers can cause.
const TRIES: usize = 100;

/// The result of an event.
#[derive(Debug)]
pub(super) enum SettleResult {
    /// It changed the job.
    Applied {
        /// The job's previous state, if known.
        before: Option<State>,
        /// Whether it had been asked to stop before.
        was_asked: bool,
        /// Whether it runs, and is asked to stop now.
        asked: bool,
        /// Result of each follow-up.
        pushed: Vec<Pushed>,
    },
    /// It changed nothing in this state, if known.
    Refused(Option<State>),
    /// No such job.
    Unknown,
}

impl SettleResult {
    /// The result from an engine, for a job that was in this state, and perhaps asked to stop.
    pub(super) fn of(fate: EventResult, before: Option<(State, bool)>) -> Self {
        let (before, was_asked) =
            (before.map(|(state, _)| state), before.is_some_and(|(_, was)| was));
        match fate {
            EventResult::Yes { asked, pushed } => {
                Self::Applied { before, was_asked, asked, pushed }
            }
            EventResult::No => Self::Refused(before),
            EventResult::NotFound => Self::Unknown,
        }
    }
}

/// Decides an event and writes the decision. `kept` is the version that the caller saw last.
pub(super) async fn settle(
    link: &CallerLink,
    id: JobId,
    mut kept: Option<Job>,
    event: &JobEvent,
) -> Result<SettleResult, Error> {
    if let Some(engine) = &link.engine {
        let before = link.peek(id);
        return Ok(SettleResult::of(engine.report_event(id, event.clone()).await?, before));
    }
    for _ in 0..TRIES {
        let job = match kept.take() {
            Some(job) => job,
            None => match link.store.get(vec![id.into()]).await?.pop().flatten() {
                Some(job) => job,
                None => return Ok(SettleResult::Unknown),
            },
        };
        maybe_yield(link).await;
        let rng = link.context().rng.next_u64();
        let change = match decide(&job, event, rng) {
            Ok(change) => change,
            Err(_) => return Ok(SettleResult::Refused(Some(job.live.state))),
        };
        let asked = match &change.next {
            NextRecord::Live(next) => next.state == NextState::Running && next.stop,
            NextRecord::Gone => false,
        };
        let answers = link.store.apply(vec![StoreWrite::Job(change)]).await?;
        match answers.into_inner().pop() {
            Some(Applied::Yes(pushed)) => {
                let (before, was_asked) = (Some(job.live.state), job.live.stop);
                return Ok(SettleResult::Applied { before, was_asked, asked, pushed });
            }
            _ => link.context().cover_situation(RareSituation::DecidedAgain),
        }
    }
    link.context().violation(format!("{id:?}: {TRIES} writes in a row were stale"));
    Ok(SettleResult::Unknown)
}

/// Sometimes yields, so that other operations can interleave.
pub(super) async fn maybe_yield(link: &CallerLink) {
    if link.context().rng.one_in(3) {
        let mut waited = false;
        poll_fn(|context| {
            if std::mem::replace(&mut waited, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}
