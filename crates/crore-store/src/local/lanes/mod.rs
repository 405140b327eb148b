//! Where jobs stand: queues, desks and lanes.
//!
//! A **lane** is (queue, kind, limit keys): jobs that are alike to a claim, in order. A **desk** is
//! (queue, kind): all its lanes, and a sorted run for each other state but running, which is kept by
//! queue. A lane is **open** while its head stands among the heads of its queue (and, if it has limits,
//! of its desk), in order, so a claim looks at one entry, however many lanes and jobs there are. A lane
//! that was found without a permit is **parked** at the bucket that had none and costs nothing until
//! that bucket has one again.
//!
//! What must stay true: while a bucket has a permit and lanes of a desk are parked there, the best of
//! them is open, or a better lane of the same desk that needs the same bucket is.

mod parking;
mod ready;
mod rows;
mod sweep;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

use crore_core::limit::LimitKey;
use crore_core::{JobId, Name, Spec, State, Time};

use super::permits::Permits;
use super::place::Place;
use super::run::Run;
use super::table::Table;
use ready::Ready;
use rows::{Desk, Lane, Limited, Queue};

/// The first job of a lane, and the order in which lanes are claimed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Head {
    pub(crate) priority: i32,
    pub(crate) at: Time,
    pub(crate) id: JobId,
    pub(crate) lane: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Lanes {
    numbers: HashMap<Name, u32>,
    /// Queues that once had jobs stay until pruned, and paused ones for as long as they are paused.
    pub(crate) queues: Table<Queue>,
    pub(crate) desks: Table<Desk>,
    pub(crate) lanes: Table<Lane>,
    limited: HashMap<(u32, Vec<LimitKey>), u32>,
    pub(crate) permits: Permits,
    /// Queues in which there is something to claim that was not there before.
    woken: BTreeSet<u32>,
}

/// Where a claim takes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    Queue(u32),
    Desk(u32),
}

/// All sources of a claim.
#[derive(Debug)]
pub(crate) enum Course {
    One(Source),
    /// The head of each, best first.
    Merged {
        heads: BinaryHeap<Reverse<(Head, Source)>>,
        /// The source that was drawn from last, and whose head is another by now.
        drawn: Option<Source>,
    },
}

impl Lanes {
    pub(crate) fn queue(&self, name: &Name) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    pub(crate) fn queue_or_new(&mut self, name: &Name) -> u32 {
        if let Some(no) = self.numbers.get(name) {
            return *no;
        }
        let queue = Queue {
            name: name.clone(),
            desks: BTreeMap::new(),
            paused: false,
            heads: Run::default(),
            running: Run::default(),
            timers: BTreeSet::new(),
        };
        let no = self.queues.add(queue);
        self.numbers.insert(name.clone(), no);
        no
    }

    fn desk_or_new(&mut self, queue: u32, kind: &Name) -> u32 {
        if let Some(no) = self.queues.at(queue).desks.get(kind) {
            return *no;
        }
        let no = self.desks.add(Desk {
            queue,
            kind: kind.clone(),
            lanes: BTreeSet::new(),
            plain: None,
            heads: BTreeSet::new(),
            ready: 0,
            running: 0,
            waiting: Run::default(),
            scheduled: Run::default(),
            done: Run::default(),
            dead: Run::default(),
            cancelled: Run::default(),
        });
        self.queues.at_mut(queue).desks.insert(kind.clone(), no);
        no
    }

    /// The lane for one more job like this one; it is kept while it has any.
    pub(crate) fn lane_for(&mut self, spec: &Spec) -> u32 {
        let lane = self.lane_or_new(&spec.queue, &spec.kind, &spec.limits);
        self.lanes.at_mut(lane).jobs += 1;
        lane
    }

    pub(crate) fn lane_or_new(&mut self, queue: &Name, kind: &Name, limits: &[LimitKey]) -> u32 {
        let queue = self.queue_or_new(queue);
        let desk = self.desk_or_new(queue, kind);
        let known = if limits.is_empty() {
            self.desks.at(desk).plain
        } else {
            self.limited.get(&(desk, limits.to_vec())).copied()
        };
        known.unwrap_or_else(|| self.new_lane(desk, limits))
    }

    /// The queue and kind of a lane.
    pub(crate) fn names(&self, lane: u32) -> (Name, Name) {
        let lane = self.lanes.at(lane);
        (self.queues.at(lane.queue).name.clone(), self.desks.at(lane.desk).kind.clone())
    }

    /// A job that was there when the store was open last is in its lane again; if it is running, it
    /// holds its permits.
    pub(crate) fn restore(&mut self, place: Place) {
        self.lanes.at_mut(place.lane).jobs += 1;
        if place.state == State::Running
            && let Some(buckets) = self.lanes.at(place.lane).buckets()
        {
            self.permits.hold(&buckets);
        }
    }

    fn new_lane(&mut self, desk: u32, limits: &[LimitKey]) -> u32 {
        let limited = (!limits.is_empty()).then(|| {
            let buckets = limits.iter().map(|key| self.permits.enter(key)).collect();
            Box::new(Limited { limits: limits.to_vec(), buckets })
        });
        let no = self.lanes.add(Lane {
            desk,
            queue: self.desks.at(desk).queue,
            limited,
            ready: Ready::default(),
            head: None,
            parked: None,
            jobs: 0,
        });
        if limits.is_empty() {
            self.desks.at_mut(desk).plain = Some(no);
        } else {
            self.limited.insert((desk, limits.to_vec()), no);
        }
        self.desks.at_mut(desk).lanes.insert(no);
        no
    }

    /// A job of the lane is gone.
    pub(crate) fn forget(&mut self, lane: u32) {
        let lane = self.lanes.at_mut(lane);
        lane.jobs = lane.jobs.saturating_sub(1);
    }

    /// The queues in which something to claim has appeared since this was asked last.
    pub(crate) fn woken(&mut self) -> Vec<Name> {
        let woken = std::mem::take(&mut self.woken);
        woken.iter().map(|queue| self.queues.at(*queue).name.clone()).collect()
    }

    /// Pauses a queue, or lets it go on.
    pub(crate) fn pause(&mut self, name: &Name, paused: bool) {
        let no = self.queue_or_new(name);
        let queue = self.queues.at_mut(no);
        if queue.paused && !paused {
            self.woken.insert(no);
        }
        queue.paused = paused;
    }

    /// Puts a job where its state says.
    pub(crate) fn enter(&mut self, place: Place) {
        let lane = self.lanes.at_mut(place.lane);
        let desk = self.desks.at_mut(lane.desk);
        match place.state {
            State::Ready => {
                desk.ready += 1;
                lane.ready.insert(place.priority, place.slot);
                self.woken.insert(lane.queue);
                self.refresh(place.lane);
            }
            State::Running => {
                desk.running += 1;
                self.queues.at_mut(lane.queue).running.insert(place.slot);
            }
            state => {
                if let Some(run) = desk.run_mut(state) {
                    run.insert(place.slot);
                }
            }
        }
    }

    /// Takes a job away from where its state says that it is.
    pub(crate) fn leave(&mut self, place: Place) {
        let lane = self.lanes.at_mut(place.lane);
        let desk = self.desks.at_mut(lane.desk);
        match place.state {
            State::Ready => {
                desk.ready -= 1;
                lane.ready.remove(place.priority, place.slot);
                self.refresh(place.lane);
            }
            State::Running => {
                desk.running -= 1;
                self.queues.at_mut(lane.queue).running.remove(place.slot);
            }
            state => {
                if let Some(run) = desk.run_mut(state) {
                    run.remove(place.slot);
                }
            }
        }
    }

    /// What a claim of these queues and kinds takes from.
    pub(crate) fn course(&self, queues: &[u32], kinds: Option<&[Name]>) -> Course {
        let mut open = queues.iter().filter(|queue| !self.queues.at(**queue).paused);
        let Some(kinds) = kinds else {
            return match (open.next(), open.next()) {
                (Some(queue), None) => Course::One(Source::Queue(*queue)),
                (one, other) => {
                    let queues = one.into_iter().chain(other).chain(open);
                    self.merged(queues.map(|queue| Source::Queue(*queue)))
                }
            };
        };
        let desks = |queue: &u32| {
            let desks = &self.queues.at(*queue).desks;
            kinds.iter().filter_map(|kind| desks.get(kind)).map(|desk| Source::Desk(*desk))
        };
        self.merged(open.flat_map(desks))
    }

    fn merged(&self, sources: impl Iterator<Item = Source>) -> Course {
        let head = |source| Some(Reverse((self.head(source)?, source)));
        Course::Merged { heads: sources.filter_map(head).collect(), drawn: None }
    }

    fn head(&self, source: Source) -> Option<Head> {
        match source {
            Source::Queue(no) => self.queues.at(no).heads.first(),
            Source::Desk(no) => {
                let desk = self.desks.at(no);
                let plain = desk.plain.and_then(|lane| self.lanes.at(lane).head);
                plain.into_iter().chain(desk.heads.first().copied()).min()
            }
        }
    }

    /// The best head of a course, with its permits taken; lanes without one are parked. The job is
    /// to be moved away before the next is asked for.
    pub(crate) fn take(&mut self, course: &mut Course, now: Time) -> Option<Head> {
        loop {
            let head = self.best(course)?;
            let Some(buckets) = self.lanes.at(head.lane).buckets() else { return Some(head) };
            match self.permits.take(&buckets, now) {
                Ok(()) => return Some(head),
                Err((bucket, blocked)) => self.park(head.lane, bucket, blocked, now),
            }
        }
    }

    /// The best head of a course. A source's head changes only when that source was drawn from, or
    /// the same queue or desk that was named a second time; so what is known of the others holds.
    fn best(&self, course: &mut Course) -> Option<Head> {
        let (heads, drawn) = match course {
            Course::One(source) => return self.head(*source),
            Course::Merged { heads, drawn } => (heads, drawn),
        };
        loop {
            if let Some(source) = drawn.take() {
                heads.extend(self.head(source).map(|head| Reverse((head, source))));
            }
            let Reverse((head, source)) = heads.pop()?;
            *drawn = Some(source);
            if self.head(source) == Some(head) {
                return Some(head);
            }
        }
    }

    /// Opens a lane that is not open: a head stands in a run as often as it is put there.
    fn open(&mut self, lane: u32) {
        let row = self.lanes.at(lane);
        let Some(head) = row.head else { return };
        self.queues.at_mut(row.queue).heads.insert(head);
        if row.limited.is_some() {
            self.desks.at_mut(row.desk).heads.insert(head);
        }
    }

    fn close(&mut self, lane: u32) {
        let row = self.lanes.at(lane);
        let Some(head) = row.head else { return };
        self.queues.at_mut(row.queue).heads.remove(head);
        if row.limited.is_some() {
            self.desks.at_mut(row.desk).heads.remove(&head);
        }
    }

    /// Brings the sets up to date after a lane's ready jobs have changed.
    fn refresh(&mut self, no: u32) {
        let lane = self.lanes.at(no);
        let head = lane.ready.first().map(|(priority, slot)| Head {
            priority,
            at: slot.at,
            id: slot.id,
            lane: no,
        });
        let (old, parked, limited) = (lane.head, lane.parked, lane.limited.is_some());
        if head == old {
            return;
        }
        let better = head.is_some_and(|head| old.is_none_or(|old| head < old));
        match parked {
            // A better head may have come to a lane whose bucket was passed over; worse ones wait.
            Some(bucket) if head.is_some() && !better => {
                self.unpark(no);
                let row = self.lanes.at_mut(no);
                (row.head, row.parked) = (head, Some(bucket));
                let desk = row.desk;
                let parked = &mut self.permits.buckets.at_mut(bucket).parked;
                parked.entry(desk).or_default().extend(head);
            }
            Some(_) => {
                self.unpark(no);
                self.lanes.at_mut(no).head = head;
                self.open(no);
            }
            None => {
                self.close(no);
                self.lanes.at_mut(no).head = head;
                self.open(no);
                if limited && !better {
                    self.step_back(no);
                }
            }
        }
    }
}
