//! Changing jobs: look, decide, write; and look again if somebody was faster.

use std::collections::HashSet;

use crore_core::machine::{Change, Effect, Event, Next, NextState, Refusal, Settled};
use crore_core::{Job, State, Time};
use crore_store::jobs::{Applied, Pushed, Which, Write};

use crate::bug::planted;
use crate::doubt::Doubt;
use crate::engine::Inner;
use crate::error::Error;
use crate::events::{Event as Told, Happened};
use crate::push::{Taken, names, taken};
use crate::results::Ended;
use crate::upkeep::{AGAIN_AFTER, Dues, Duty};
use crate::watch::Changed;

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

impl Inner {
    /// Decides about jobs and writes the decisions, all at once; each is answered singly. Who asks
    /// twice for one job is answered twice, in order.
    pub(crate) async fn change(
        &self,
        mut asked: Vec<(Which, Event)>,
        decide: impl Fn(&Job, &Event, u64) -> Result<Change, Refusal>,
    ) -> Result<Vec<Decided>, Error> {
        if let Some(decided) = self.change_one(&mut asked, &decide).await? {
            return Ok(vec![decided]);
        }
        let mut answers: Vec<Option<Decided>> = vec![None; asked.len()];
        let mut jobs = self.running.take_all(asked.iter().map(|(which, _)| which));
        let mut at_hand: Vec<bool> = jobs.iter().map(Option::is_some).collect();
        for _ in 0..TRIES {
            self.look(&asked, &answers, &mut jobs).await?;
            let (mut made, mut decided) = (Vec::with_capacity(asked.len()), HashSet::new());
            for (place, (_, event)) in asked.iter().enumerate() {
                if answers[place].is_some() {
                    continue;
                }
                let Some(job) = jobs[place].take() else {
                    answers[place] = Some(Decided::NotFound);
                    continue;
                };
                // The second about one job is decided when the first is written.
                if decided.contains(&job.id) {
                    continue;
                }
                let dice = self.dice();
                match decide(&job, event, dice) {
                    Ok(change) => {
                        let again = |event: &Event| decide(&job, event, dice);
                        let change = self.followed(&job, event, change, again);
                        decided.insert(job.id);
                        made.push(Made { place, job, change });
                    }
                    // What was at hand may be old; what the store says is not.
                    Err(_) if std::mem::take(&mut at_hand[place]) => self.running.forget(job.id),
                    Err(refusal) => answers[place] = Some(Decided::No(refusal)),
                }
            }
            self.write(made, &mut answers).await?;
            if answers.iter().all(Option::is_some) {
                break;
            }
            if planted!("bug-25") {
                asked.iter_mut().for_each(|(_, event)| drop_follow_ups(event));
            }
        }
        let stale = Decided::No(Refusal::Stale);
        Ok(answers.into_iter().map(|answer| answer.unwrap_or(stale.clone())).collect())
    }

    /// The short way, which nearly every report takes: one job, at hand, about which it can be decided.
    /// `None`: the long way has to be taken, by a look into the store.
    async fn change_one(
        &self,
        asked: &mut [(Which, Event)],
        decide: impl Fn(&Job, &Event, u64) -> Result<Change, Refusal>,
    ) -> Result<Option<Decided>, Error> {
        let [(Which::Id(id), event)] = asked else { return Ok(None) };
        let Some(job) = self.running.take(*id) else { return Ok(None) };
        let dice = self.dice();
        let Ok(change) = decide(&job, event, dice) else { return Ok(None) };
        let change = self.followed(&job, event, change, |event| decide(&job, event, dice));
        let mut answer = [None];
        self.write(vec![Made { place: 0, job, change }], &mut answer).await?;
        let [decided] = answer;
        if planted!("bug-25") && decided.is_none() {
            drop_follow_ups(event);
        }
        Ok(decided)
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

    async fn write(
        &self,
        mut made: Vec<Made>,
        answers: &mut [Option<Decided>],
    ) -> Result<(), Error> {
        if made.is_empty() {
            return Ok(());
        }
        made.iter_mut().for_each(|made| self.pass_trace_on(made));
        let writes = made.iter().map(|made| Write::Job(made.change.clone())).collect();
        let doubt = Doubt::new(|| self.in_doubt(made.iter().map(|made| &made.job), self.now()));
        let begun_at = self.now();
        if planted!("bug-22") {
            made.iter().for_each(|made| self.tell_early(made));
        }
        let applied = self.writes.apply(writes).await;
        doubt.over();
        // A store that errs is left alone for a while.
        let applied = applied.inspect_err(|_| {
            self.in_doubt(made.iter().map(|made| &made.job), self.now().after(AGAIN_AFTER));
        });
        let applied = applied?;
        let now = self.now();
        for (made, applied) in made.into_iter().zip(applied) {
            self.running.forget(made.job.id);
            if let Applied::Yes(pushed) = applied {
                let state = made.change.state_after(&made.job, now);
                if state != Some(State::Running) {
                    self.running.ended(&made.job);
                }
                self.tell(&made, state, (begun_at, now));
                self.tell_follow_ups(&made.change, &pushed, (begun_at, now));
                let pushed = pushed.into_iter().map(taken).collect();
                answers[made.place] = Some(Decided::Yes { state, pushed });
            }
        }
        Ok(())
    }

    /// Follow-ups that bring no trace context belong to the trace of the job that they follow.
    fn pass_trace_on(&self, made: &mut Made) {
        for effect in &mut made.change.effects {
            let Effect::Push(jobs) = effect else { continue };
            let context = match self.watch.get() {
                Some(watch) => watch.trace_of(&made.job).map(Into::into),
                None => made.job.spec.trace.clone(),
            };
            for job in jobs.iter_mut().filter(|job| job.spec.trace.is_none()) {
                job.spec.trace.clone_from(&context);
            }
        }
    }

    /// Tells everybody whom a change that is durable concerns.
    fn tell(&self, made: &Made, state: Option<State>, (begun_at, now): (Time, Time)) {
        let Made { job, change, .. } = made;
        if state == Some(job.live.state) && job.live.state.has_ended() {
            // Its result was taken, and nothing else.
            return;
        }
        self.tell_upkeep(job, change, state, (begun_at, now));
        let breaks = |effect: &Effect| match effect {
            Effect::Settle(settled) => *settled == Settled::Gone,
            Effect::Tally(tally) => tally.lost,
            _ => false,
        };
        if change.effects.iter().any(breaks) {
            self.want(Duty::Rescue, now);
        }
        if change.effects.iter().any(|effect| matches!(effect, Effect::Settle(_))) {
            self.released();
        }
        let has_ended = state.is_none_or(State::has_ended);
        if has_ended {
            self.want_prune_soon(now);
            self.end_waiters.tell(job.id, || Ended::of(job, change, state));
        }
        self.count_change(job, change, state);
        if let Some(watch) = self.watch.get() {
            watch.changed(&Changed::of(job, change, state, (begun_at, now)));
        }
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

    /// The mistake `bug-22`: callers that wait for a job hear of its end before the write.
    fn tell_early(&self, Made { job, change, .. }: &Made) {
        let state = change.state_after(job, self.now());
        if state.is_none_or(State::has_ended) {
            self.end_waiters.tell(job.id, || Ended::of(job, change, state));
        }
    }

    /// Tells upkeep of a job that waits now: when it is due, and if the limits have changed since it was
    /// given its own. The store has decided since the write began: a job that was due later by then may be
    /// due by now, and is scheduled all the same.
    fn tell_upkeep(
        &self,
        job: &Job,
        change: &Change,
        state: Option<State>,
        (begun_at, now): (Time, Time),
    ) {
        let Next::Live(next) = &change.next else { return };
        if next.state != NextState::Pending {
            return;
        }
        if next.due.resolve(begun_at, job.live.due) > begun_at {
            match state {
                Some(State::Waiting) => self.expect_held(),
                _ => self.want(Duty::Promote, next.due.resolve(now, job.live.due)),
            }
        }
        let spec = next.spec.as_ref().unwrap_or(&job.spec);
        if self.limits.keys(spec) != spec.limits {
            self.relimit(std::iter::once(job.id));
        }
    }

    fn tell_follow_ups(&self, change: &Change, pushed: &[Pushed], (begun_at, now): (Time, Time)) {
        for effect in &change.effects {
            if let Effect::Push(jobs) = effect {
                self.expect(Dues::of(jobs, begun_at));
                let seen = self.is_seen();
                let names: Vec<_> =
                    if seen { jobs.iter().map(names).collect() } else { Vec::new() };
                self.tell_pushed((now, now), pushed, &names);
            }
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

/// A part of the mistake `bug-25`: what a report brings is used up by the first decision.
fn drop_follow_ups(event: &mut Event) {
    if let Event::Finished { report, .. } = event {
        report.on_done.clear();
        report.on_dead.clear();
    }
}
