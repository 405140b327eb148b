//! Push workers: servers of their own, to which the server posts jobs. They outlive it, and know nothing of its
//! ends but that it calls no more.
//!
//! ```text
//! place     a worker: where it is called, what it was given, what it has to say
//! shift     one life of the server, as its workers see it: calls come in, and are written down
//! deed      what a worker makes of a job: well, badly, late, or not at all
//! report    what it says later: that it is there, how a job went, once or twice
//! ```

mod deed;
mod place;
mod report;
mod shift;

use std::sync::Arc;

use crore_testkit::{Dice, Error};
use tokio::task::JoinSet;

use self::place::Worker;
use self::shift::Shift;
use crate::asked::Caller;
use crate::desk::Desk;

/// The queue of all jobs that are posted.
pub(crate) const QUEUE: &str = "lightjq";
/// How many workers there are, besides one that never answers.
const WORKERS: usize = 3;
/// How many jobs a worker takes at once.
const MAX_JOBS: u32 = 3;

/// All push workers of a run.
#[derive(Debug)]
pub(crate) struct Crew {
    workers: Vec<Arc<Worker>>,
    shifts: Vec<Shift>,
}

impl Crew {
    pub(crate) fn new(desk: &Arc<Desk>, dice: &mut Dice) -> Result<Self, Error> {
        let name = |n| if n < WORKERS { format!("posted-{n}") } else { "gone".to_owned() };
        let workers = (0..=WORKERS).map(|n| Worker::new(name(n), desk, dice.another()));
        let workers: Vec<_> = workers.collect::<Result<_, _>>()?;
        // Nobody listens where the last one says that it is.
        workers.iter().skip(WORKERS).for_each(|gone| gone.hang_up());
        Ok(Self { workers, shifts: Vec::new() })
    }

    /// A server is about to start: from now on it may call.
    pub(crate) fn begin(&mut self) -> Result<(), Error> {
        for worker in &self.workers {
            self.shifts.push(Shift::begin(worker)?);
        }
        Ok(())
    }

    /// Those who speak to the server for the workers: they register, and report.
    pub(crate) fn speak(
        &self,
        caller: impl Fn(&str) -> Caller,
        dice: &mut Dice,
        callers: &mut JoinSet<()>,
    ) {
        for worker in &self.workers {
            let speaker = caller(worker.name());
            callers.spawn(report::speak_on(Arc::clone(worker), speaker, dice.another()));
        }
    }

    /// The server is gone, and everything that it said is heard.
    pub(crate) async fn end(&mut self) {
        for shift in self.shifts.drain(..) {
            shift.end().await;
        }
    }

    /// From now on they do well.
    pub(crate) fn reform(&self) {
        self.workers.iter().for_each(|worker| worker.reform());
    }

    /// Under these ids they are not known, and have to say again that they are there.
    pub(crate) fn forget(&self, ids: &[String]) {
        self.workers.iter().for_each(|worker| worker.forget(ids));
    }

    /// The ids under which they are certainly known.
    pub(crate) fn known(&self) -> Vec<String> {
        self.workers.iter().flat_map(|worker| worker.known()).collect()
    }
}
