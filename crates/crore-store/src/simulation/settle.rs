//! How a decision is written, as the engine does it: decide on what is known, write it guarded, and
//! if something came between, look and decide again.

use std::future::poll_fn;
use std::task::Poll;

use crore_core::machine::{Event, Next, NextLive, decide};
use crore_core::{Job, JobId, State};

use super::coverage::Sometimes;
use super::scene::Link;
use crate::Error;
use crate::jobs::{Applied, Pushed, Write};

/// More often than this nothing comes between: the others have only so many steps.
const TRIES: usize = 100;

/// What became of an event.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It changed the job.
    Applied {
        /// The job before.
        before: Box<Job>,
        /// What its record became; `None`: it is gone.
        next: Option<Box<NextLive>>,
        /// What became of the follow-ups.
        pushed: Vec<Pushed>,
    },
    /// It changed nothing.
    Refused(State),
    /// There is no such job.
    Unknown,
}

/// Has an event decided and written. `kept` is the job as the caller saw it last.
pub(super) async fn settle(
    link: &Link,
    id: JobId,
    mut kept: Option<Job>,
    event: &Event,
) -> Result<Verdict, Error> {
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
            Err(_) => return Ok(Verdict::Refused(job.live.state)),
        };
        let next = match &change.next {
            Next::Live(next) => Some(next.clone()),
            Next::Gone => None,
        };
        let answers = link.store.apply(vec![Write::Job(change)]).await?;
        match answers.into_inner().pop() {
            Some(Applied::Yes(pushed)) => {
                return Ok(Verdict::Applied { before: Box::new(job), next, pushed });
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
        poll_fn(
            |_| if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending },
        )
        .await;
    }
}
