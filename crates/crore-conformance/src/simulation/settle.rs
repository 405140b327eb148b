//! How a decision is written, as the engine does it: decide on what is known, write it guarded, and
//! if something came between, look and decide again.

use std::future::poll_fn;
use std::task::Poll;

use crore_core::machine::{Event, Next, NextState, decide};
use crore_core::{Job, JobId, State};
use crore_store::Error;
use crore_store::jobs::{Applied, Pushed, Write};

use super::coverage::Sometimes;
use super::front::Fate;
use super::scene::Link;

/// More often than this nothing comes between: the others have only so many steps.
const TRIES: usize = 100;

/// What became of an event.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It changed the job.
    Applied {
        /// The job's state before, if that is known.
        before: Option<State>,
        /// Whether it had been asked to stop before.
        was_asked: bool,
        /// Whether it runs, and is asked to stop now.
        asked: bool,
        /// What became of the follow-ups.
        pushed: Vec<Pushed>,
    },
    /// It changed nothing, in this state, if that is known.
    Refused(Option<State>),
    /// There is no such job.
    Unknown,
}

impl Verdict {
    /// What a front has told of a job that was in this state, and perhaps asked to stop.
    pub(super) fn of(fate: Fate, before: Option<(State, bool)>) -> Self {
        let (before, was_asked) =
            (before.map(|(state, _)| state), before.is_some_and(|(_, was)| was));
        match fate {
            Fate::Yes { asked, pushed } => Self::Applied { before, was_asked, asked, pushed },
            Fate::No => Self::Refused(before),
            Fate::NotFound => Self::Unknown,
        }
    }
}

/// Has an event decided and written. `kept` is the job as the caller saw it last.
pub(super) async fn settle(
    link: &Link,
    id: JobId,
    mut kept: Option<Job>,
    event: &Event,
) -> Result<Verdict, Error> {
    if let Some(front) = &link.front {
        let before = link.peek(id);
        return Ok(Verdict::of(front.tell(id, event.clone()).await?, before));
    }
    for _ in 0..TRIES {
        let job = match kept.take() {
            Some(job) => job,
            None => match link.store.get(vec![id.into()]).await?.pop().flatten() {
                Some(job) => job,
                None => return Ok(Verdict::Unknown),
            },
        };
        breath(link).await;
        let dice = link.scene().dice.roll();
        let change = match decide(&job, event, dice) {
            Ok(change) => change,
            Err(_) => return Ok(Verdict::Refused(Some(job.live.state))),
        };
        let asked = match &change.next {
            Next::Live(next) => next.state == NextState::Running && next.stop,
            Next::Gone => false,
        };
        let answers = link.store.apply(vec![Write::Job(change)]).await?;
        match answers.into_inner().pop() {
            Some(Applied::Yes(pushed)) => {
                let (before, was_asked) = (Some(job.live.state), job.live.stop);
                return Ok(Verdict::Applied { before, was_asked, asked, pushed });
            }
            _ => link.scene().happened(Sometimes::DecidedAnew),
        }
    }
    link.scene().wrong(format!("{id:?} was changed {TRIES} times while one caller looked at it"));
    Ok(Verdict::Unknown)
}

/// Lets others come between, now and then.
pub(super) async fn breath(link: &Link) {
    if link.scene().dice.one_in(3) {
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
