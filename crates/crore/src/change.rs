//! Changing jobs: look, decide, write; and look again if somebody was faster.

use crore_core::machine::{Change, Effect, Event, Next, NextState, Refusal, Settled};
use crore_core::{Job, State, Time};
use crore_store::jobs::{Applied, Pushed, Which, Write};

use crate::engine::Inner;
use crate::error::Error;
use crate::events::{Event as Told, Happened};
use crate::push::Taken;
use crate::results::Ended;
use crate::upkeep::Duty;

/// How often a job is looked at anew before whoever is faster is left alone.
const TRIES: usize = 8;

/// What became of a change.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Decided {
    /// It is written: the job is in this state now, or gone.
    Yes { state: Option<State>, pushed: Vec<Taken> },
    /// It changes nothing, for this reason.
    No(Refusal),
    /// There is no such job.
    NotFound,
}

/// A decision on its way into the store.
struct Made {
    place: usize,
    job: Job,
    change: Change,
}

/// Decisions of which it is open whether they were written: nobody heard the answer of the store.
struct Open<'a> {
    inner: &'a Inner,
    made: Vec<Made>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if self.made.is_empty() {
            return;
        }
        drop(self.inner.care(&[Duty::Promote, Duty::Rescue, Duty::Prune]));
        for made in &self.made {
            self.inner.running.forget(made.job.id);
            self.inner.results.look_again(made.job.id);
        }
    }
}

impl Inner {
    /// Decides about jobs and writes the decisions, all at once; each is answered singly. Who asks
    /// twice for one job is answered twice, in order.
    pub(crate) async fn change(
        &self,
        asked: Vec<(Which, Event)>,
        decide: impl Fn(&Job, &Event, u64) -> Result<Change, Refusal>,
    ) -> Result<Vec<Decided>, Error> {
        let mut answers: Vec<Option<Decided>> = vec![None; asked.len()];
        let mut jobs: Vec<Option<Job>> = asked.iter().map(|(which, _)| self.known(which)).collect();
        for attempt in 0..TRIES {
            self.look(&asked, &answers, &mut jobs).await?;
            let mut made: Vec<Made> = Vec::new();
            for (place, (_, event)) in asked.iter().enumerate() {
                if answers[place].is_some() {
                    continue;
                }
                let Some(job) = jobs[place].take() else {
                    answers[place] = Some(Decided::NotFound);
                    continue;
                };
                // The second about one job is decided when the first is written.
                if made.iter().any(|other| other.job.id == job.id) {
                    continue;
                }
                match decide(&job, event, self.dice()) {
                    Ok(change) => made.push(Made { place, job, change }),
                    // What is at hand may be old; what the store says is not.
                    Err(_) if attempt == 0 && self.running.get(job.id).is_some() => {
                        self.running.forget(job.id);
                    }
                    Err(refusal) => answers[place] = Some(Decided::No(refusal)),
                }
            }
            self.write(made, &mut answers).await?;
            if answers.iter().all(Option::is_some) {
                break;
            }
        }
        let stale = Decided::No(Refusal::Stale);
        Ok(answers.into_iter().map(|answer| answer.unwrap_or(stale.clone())).collect())
    }

    fn known(&self, which: &Which) -> Option<Job> {
        match which {
            Which::Id(id) => self.running.get(*id),
            Which::Client(_) => None,
        }
    }

    /// Looks for the jobs that are not at hand.
    async fn look(
        &self,
        asked: &[(Which, Event)],
        answers: &[Option<Decided>],
        jobs: &mut [Option<Job>],
    ) -> Result<(), Error> {
        let missing: Vec<usize> =
            (0..asked.len()).filter(|n| answers[*n].is_none() && jobs[*n].is_none()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let which = missing.iter().map(|n| asked[*n].0.clone()).collect();
        let found = self.store.get(which).await?;
        for (place, job) in missing.into_iter().zip(found) {
            jobs[place] = job;
        }
        Ok(())
    }

    async fn write(&self, made: Vec<Made>, answers: &mut [Option<Decided>]) -> Result<(), Error> {
        if made.is_empty() {
            return Ok(());
        }
        let mut open = Open { inner: self, made };
        let writes = open.made.iter().map(|made| Write::Job(made.change.clone())).collect();
        let applied = self.store.apply(writes).await?.into_inner();
        for (made, applied) in std::mem::take(&mut open.made).into_iter().zip(applied) {
            self.running.forget(made.job.id);
            if let Applied::Yes(pushed) = applied {
                let state = state_after(&made.change, self.now());
                self.tell(&made.job, &made.change, state);
                let pushed = pushed.into_iter().map(taken).collect();
                answers[made.place] = Some(Decided::Yes { state, pushed });
            }
        }
        Ok(())
    }

    /// Tells everybody whom a change that is durable concerns.
    fn tell(&self, job: &Job, change: &Change, state: Option<State>) {
        let now = self.now();
        if let Next::Live(next) = &change.next
            && matches!(state, Some(State::Scheduled))
        {
            self.want(Duty::Promote, next.due.resolve(now, job.live.due));
        }
        let pushed = change.effects.iter().filter_map(|effect| match effect {
            Effect::Push(jobs) => Some(jobs),
            _ => None,
        });
        self.want(Duty::Promote, self.first_due(pushed.flatten()));
        if change.effects.iter().any(|effect| matches!(effect, Effect::Settle(_))) {
            self.want_released(now);
        }
        let breaks = |effect: &Effect| match effect {
            Effect::Settle(settled) => *settled == Settled::Gone,
            Effect::Tally(tally) => tally.lost,
            _ => false,
        };
        if change.effects.iter().any(breaks) {
            self.want(Duty::Rescue, now);
        }
        let has_ended = state.is_none_or(State::has_ended);
        if has_ended {
            self.want_prune_soon(now);
            self.results.tell(job.id, || Ended::of(job, change, state));
        }
        self.count_change(job, change, state);
        if self.events.is_heard() {
            let what = match state {
                None => Happened::Removed,
                Some(State::Running) => Happened::AskedToStop,
                Some(state) => Happened::Became(state),
            };
            let (queue, kind) = (job.spec.queue.clone(), job.spec.kind.clone());
            self.events.tell(&[Told { id: job.id, queue, kind, what, at: now }]);
        }
    }

    fn count_change(&self, job: &Job, change: &Change, state: Option<State>) {
        if job.live.state != State::Running {
            return;
        }
        let failed = || match &change.next {
            Next::Live(next) => next.ended.as_ref().is_some_and(|(_, error)| error.is_some()),
            Next::Gone => false,
        };
        match state {
            None | Some(State::Done) => self.count("done", 1),
            Some(State::Dead) => self.count("dead", 1),
            Some(State::Cancelled) => self.count("cancelled", 1),
            _ if failed() => self.count("failed", 1),
            _ => {}
        }
    }
}

/// The state that a change leads to, as far as it can be known without the store's clock.
fn state_after(change: &Change, now: Time) -> Option<State> {
    let Next::Live(next) = &change.next else { return None };
    Some(match next.state {
        NextState::Pending if next.due.resolve(now, now) > now => State::Scheduled,
        NextState::Pending => State::Ready,
        NextState::Running => State::Running,
        NextState::Done => State::Done,
        NextState::Dead => State::Dead,
        NextState::Cancelled => State::Cancelled,
    })
}

fn taken(pushed: Pushed) -> Taken {
    match pushed {
        Pushed::New(id) => Taken::New(id),
        Pushed::Duplicate(id) => Taken::Duplicate(id),
        Pushed::Broken(thing) => Taken::Broken(thing),
        Pushed::BrokenBy(n) => Taken::BrokenBy(n),
    }
}
