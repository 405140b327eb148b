//! A listener that compares what the engine tells with what its store has answered: every event and
//! every end that a caller waits for is durable by then, and a listener that keeps up misses no event.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard};

use crore::core::machine::{Change, Next, NextState};
use crore::core::{Job, JobId, State};
use crore::events::{Event, Happened, Heard, Listener};
use crore::store::jobs::{Applied, Pushed, Write};

use super::Lie;

/// A lie is told about each so-many-th event.
const NOW_AND_THEN: u64 = 7;

#[derive(Debug, Default)]
pub(super) struct Ear {
    heard: Mutex<Option<Listener>>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// What is durable, and has yet to be told of, in order.
    due: VecDeque<(JobId, Expected)>,
    /// What the store has said of jobs when it was asked, which the engine may tell when it was in
    /// doubt.
    looked: HashMap<JobId, Happened>,
    /// Jobs that have ended, as the store answered.
    ended: HashSet<JobId>,
    /// How many things were durable, and how many were told of.
    counts: (u64, u64),
}

/// What must be told of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    This(Happened),
    /// It waits: in which of the three states, the store's clock decides.
    Waits,
}

impl Expected {
    fn is(self, what: Happened) -> bool {
        match self {
            Self::This(expected) => expected == what,
            Self::Waits => {
                matches!(what, Happened::Became(State::Waiting | State::Scheduled | State::Ready))
            }
        }
    }
}

impl Known {
    fn expect(&mut self, id: JobId, what: Expected, lie: Lie) {
        self.counts.0 += 1;
        if lie != Lie::EventsComeEarly || !self.counts.0.is_multiple_of(NOW_AND_THEN) {
            self.due.push_back((id, what));
        }
    }
}

impl Known {
    /// Remembers a durable end of a job.
    fn note_end(&mut self, id: JobId, what: Expected) {
        let has_ended = match what {
            Expected::This(Happened::Became(state)) => state.has_ended(),
            Expected::This(what) => what == Happened::Removed,
            Expected::Waits => false,
        };
        if has_ended {
            self.ended.insert(id);
        }
    }
}

fn meant(change: &Change) -> Option<Expected> {
    let Next::Live(next) = &change.next else { return Some(Expected::This(Happened::Removed)) };
    let state = match next.state {
        NextState::Pending => return Some(Expected::Waits),
        NextState::Running => return Some(Expected::This(Happened::AskedToStop)),
        NextState::Done => State::Done,
        NextState::Dead => State::Dead,
        NextState::Cancelled => State::Cancelled,
    };
    // Otherwise its result was taken, and it has ended long before.
    (state != change.seen.state).then_some(Expected::This(Happened::Became(state)))
}

impl Ear {
    pub(super) fn listen(&self, listener: Listener) {
        *self.heard.lock().expect("no panic") = Some(listener);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no panic")
    }

    /// The store has answered that these are stored.
    pub(super) fn stored(&self, pushed: &[Pushed], lie: Lie) {
        for one in pushed {
            if let Pushed::New(id) = one {
                self.known().expect(*id, Expected::This(Happened::Pushed), lie);
            }
        }
    }

    /// The store has given these out.
    pub(super) fn started(&self, jobs: &[Job], lie: Lie) {
        for job in jobs {
            self.known().expect(job.id, Expected::This(Happened::Started), lie);
        }
    }

    /// The store has answered that this is written.
    pub(super) fn written(&self, write: &Write, applied: &Applied, lie: Lie) {
        let Applied::Yes(pushed) = applied else { return };
        if let Write::Job(change) = write
            && let Some(what) = meant(change)
        {
            let mut known = self.known();
            known.expect(change.id, what, lie);
            known.note_end(change.id, what);
        }
        self.stored(pushed, lie);
    }

    /// The store has said what a job is, or that it is not there.
    pub(super) fn looked(&self, id: JobId, job: Option<&Job>) {
        let what = match job {
            None => Happened::Removed,
            Some(job) if job.live.stop => Happened::AskedToStop,
            Some(job) => Happened::Became(job.live.state),
        };
        let mut known = self.known();
        known.looked.insert(id, what);
        known.note_end(id, Expected::This(what));
    }

    /// A caller was told that a job has ended, which has to be durable.
    pub(super) fn told_of_end(&self, id: JobId) {
        let is_durable = self.known().ended.contains(&id);
        assert!(is_durable, "a caller is told that {id} has ended, and that is not durable");
    }

    /// Listens until there is nothing more to hear. Whatever was durable before is told by then.
    pub(super) fn judge(&self, lie: Lie) {
        let mut heard = self.heard.lock().expect("no panic");
        let Some(listener) = heard.as_mut() else { return };
        while let Some(heard) = listener.try_next() {
            match heard {
                Heard::Missed(n) => panic!("a listener who keeps up has missed {n} events"),
                Heard::Event(event) => self.hear(&event, lie),
            }
        }
        let left = self.known().due.pop_front();
        assert!(left.is_none(), "durable, and never told: {left:?}");
    }

    fn hear(&self, event: &Event, lie: Lie) {
        let mut known = self.known();
        known.counts.1 += 1;
        if lie == Lie::EventsAreLost && known.counts.1.is_multiple_of(NOW_AND_THEN) {
            return;
        }
        let is_due =
            known.due.front().is_some_and(|(id, what)| *id == event.id && what.is(event.what));
        if is_due {
            known.due.pop_front();
        } else {
            let looked = known.looked.get(&event.id).copied();
            assert_eq!(looked, Some(event.what), "told of {}, and it is not durable", event.id);
        }
    }
}
