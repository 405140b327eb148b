//! Where jobs stand: queues, desks and lanes.
//!
//! A **lane** is (queue, kind, limit keys): jobs that are alike to a claim, in order. A **desk** is
//! (queue, kind): all its lanes, and a sorted run for each state other than ready. The head of every
//! lane that may be claimed from stands in an ordered set of its desk and of its queue, so a claim
//! looks at one entry, however many lanes and jobs there are. A lane that was found without a permit
//! is **parked** at the bucket that had none and costs nothing until that bucket has one again.
//!
//! What must stay true: while a bucket has a permit and lanes of a desk are parked there, the best of
//! them is open, or a better lane of the same desk that needs the same bucket is.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crore_core::limit::LimitKey;
use crore_core::{JobId, Name, Spec, State, Time};

use super::permits::{Blocked, Permits};
use super::place::Place;
use super::run::{Run, Slot};
use super::table::Table;

/// The first job of a lane, and the order in which lanes are claimed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Head {
    pub(crate) priority: i32,
    pub(crate) at: Time,
    pub(crate) id: JobId,
    pub(crate) lane: u32,
}

/// The ready jobs of a lane by priority. Nearly all lanes have one priority at a time; it stands
/// apart so that it is at hand.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    /// The priority of `run`; it means nothing while the run is empty.
    priority: i32,
    run: Run,
    others: BTreeMap<i32, Run>,
}

impl Ready {
    fn insert(&mut self, priority: i32, slot: Slot) {
        if self.run.len() == 0 && self.others.is_empty() {
            self.priority = priority;
        }
        self.run_mut(priority).insert(slot);
    }

    fn remove(&mut self, priority: i32, slot: Slot) {
        self.run_mut(priority).remove(slot);
        self.others.retain(|_, run| run.len() > 0);
    }

    fn run_mut(&mut self, priority: i32) -> &mut Run {
        if priority == self.priority {
            &mut self.run
        } else {
            self.others.entry(priority).or_default()
        }
    }

    fn first(&self) -> Option<(i32, Slot)> {
        let one = self.run.first().map(|slot| (self.priority, slot));
        if self.others.is_empty() {
            return one;
        }
        let other = self.others.iter().next();
        let other = other.and_then(|(priority, run)| Some((*priority, run.first()?)));
        one.into_iter().chain(other).min()
    }

    pub(crate) fn runs(&self) -> impl Iterator<Item = (i32, &Run)> {
        let others = self.others.iter().map(|(priority, run)| (*priority, run));
        std::iter::once((self.priority, &self.run)).chain(others)
    }
}

#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) desk: u32,
    queue: u32,
    limits: Vec<LimitKey>,
    buckets: Box<[u32]>,
    pub(crate) ready: Ready,
    /// The head as it stands in the sets.
    head: Option<Head>,
    /// The bucket at which it is parked.
    parked: Option<u32>,
    /// Jobs of this lane, in any state.
    jobs: u64,
}

#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) queue: u32,
    pub(crate) kind: Name,
    pub(crate) lanes: BTreeSet<u32>,
    /// The lane without limits, which most jobs are in.
    plain: Option<u32>,
    /// The heads of the open lanes that have limits.
    heads: BTreeSet<Head>,
    ready: usize,
    running: usize,
    waiting: Run,
    scheduled: Run,
    done: Run,
    dead: Run,
    cancelled: Run,
}

impl Desk {
    /// The run of a state; ready jobs are in lanes, and running ones with the queue.
    pub(crate) const fn run(&self, state: State) -> Option<&Run> {
        match state {
            State::Ready | State::Running => None,
            State::Waiting => Some(&self.waiting),
            State::Scheduled => Some(&self.scheduled),
            State::Done => Some(&self.done),
            State::Dead => Some(&self.dead),
            State::Cancelled => Some(&self.cancelled),
        }
    }

    const fn run_mut(&mut self, state: State) -> Option<&mut Run> {
        match state {
            State::Ready | State::Running => None,
            State::Waiting => Some(&mut self.waiting),
            State::Scheduled => Some(&mut self.scheduled),
            State::Done => Some(&mut self.done),
            State::Dead => Some(&mut self.dead),
            State::Cancelled => Some(&mut self.cancelled),
        }
    }

    pub(crate) fn count(&self, state: State) -> usize {
        match state {
            State::Ready => self.ready,
            State::Running => self.running,
            _ => self.run(state).map_or(0, Run::len),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) name: Name,
    pub(crate) desks: BTreeMap<Name, u32>,
    pub(crate) paused: bool,
    heads: BTreeSet<Head>,
    /// Running jobs, by id.
    pub(crate) running: Run,
    /// Buckets whose rate lets the next one through then, with lanes of this queue parked there.
    timers: BTreeSet<(Time, u32)>,
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
}

/// Where a claim takes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    Queue(u32),
    Desk(u32),
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
            heads: BTreeSet::new(),
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

    /// The lane for jobs like this one; it is kept while it has any.
    pub(crate) fn lane_for(&mut self, spec: &Spec) -> u32 {
        let queue = self.queue_or_new(&spec.queue);
        let desk = self.desk_or_new(queue, &spec.kind);
        let known = if spec.limits.is_empty() {
            self.desks.at(desk).plain
        } else {
            self.limited.get(&(desk, spec.limits.clone())).copied()
        };
        let lane = known.unwrap_or_else(|| self.new_lane(desk, &spec.limits));
        self.lanes.at_mut(lane).jobs += 1;
        lane
    }

    fn new_lane(&mut self, desk: u32, limits: &[LimitKey]) -> u32 {
        let no = self.lanes.add(Lane {
            desk,
            queue: self.desks.at(desk).queue,
            limits: limits.to_vec(),
            buckets: limits.iter().map(|key| self.permits.enter(key)).collect(),
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

    /// The name of the queue of a lane.
    pub(crate) fn queue_of(&self, lane: u32) -> &Name {
        &self.queues.at(self.lanes.at(lane).queue).name
    }

    /// Puts a job where its state says.
    pub(crate) fn enter(&mut self, place: Place) {
        let lane = self.lanes.at_mut(place.lane);
        let desk = self.desks.at_mut(lane.desk);
        match place.state {
            State::Ready => {
                desk.ready += 1;
                lane.ready.insert(place.priority, place.slot);
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

    /// The places that a claim of these queues and kinds looks at.
    pub(crate) fn sources(&self, queue: &Name, kinds: Option<&[Name]>) -> Vec<Source> {
        let Some(no) = self.queue(queue).filter(|no| !self.queues.at(*no).paused) else {
            return Vec::new();
        };
        let desks = &self.queues.at(no).desks;
        match kinds {
            None => vec![Source::Queue(no)],
            Some(kinds) => {
                kinds.iter().filter_map(|kind| desks.get(kind)).map(|d| Source::Desk(*d)).collect()
            }
        }
    }

    pub(crate) fn head(&self, source: Source) -> Option<Head> {
        match source {
            Source::Queue(no) => self.queues.at(no).heads.first().copied(),
            Source::Desk(no) => {
                let desk = self.desks.at(no);
                let plain = desk.plain.and_then(|lane| self.lanes.at(lane).head);
                plain.into_iter().chain(desk.heads.first().copied()).min()
            }
        }
    }

    /// The best head of several sources, with its permits taken; lanes without one are parked.
    pub(crate) fn take(&mut self, sources: &[Source], now: Time) -> Option<Head> {
        loop {
            let head = sources.iter().filter_map(|source| self.head(*source)).min()?;
            let lane = self.lanes.at(head.lane);
            if lane.buckets.is_empty() {
                return Some(head);
            }
            match self.permits.take(&lane.buckets, now) {
                Ok(()) => return Some(head),
                Err((bucket, blocked)) => self.park(head.lane, bucket, blocked, now),
            }
        }
    }

    /// After the head of a lane was claimed: others of its desk that need the same buckets may come
    /// in their turn.
    pub(crate) fn taken(&mut self, lane: u32, now: Time) {
        let row = self.lanes.at(lane);
        let (desk, buckets) = (row.desk, row.buckets.clone());
        for bucket in buckets {
            self.try_best(bucket, desk, now);
        }
    }

    /// A delivery of the lane's job gives its permits back.
    pub(crate) fn give_back(&mut self, lane: u32, now: Time) {
        for bucket in self.lanes.at(lane).buckets.clone() {
            self.permits.give_back(bucket);
            self.reopen(bucket, now);
        }
    }

    /// Tries what is parked at a bucket that may have a permit again, at every desk.
    pub(crate) fn reopen(&mut self, bucket: u32, now: Time) {
        let desks: Vec<u32> = self.permits.buckets.at(bucket).parked.keys().copied().collect();
        for desk in desks {
            self.try_best(bucket, desk, now);
        }
    }

    /// Tries what waits in a queue for a rate whose time has come.
    pub(crate) fn ring(&mut self, queue: u32, now: Time) {
        while let Some((at, bucket)) = self.queues.at(queue).timers.first().copied()
            && at <= now
        {
            self.queues.at_mut(queue).timers.pop_first();
            self.reopen(bucket, now);
        }
    }

    /// When a rate may let the next one of a queue through.
    pub(crate) fn next_ring(&self, queue: u32) -> Option<Time> {
        self.queues.at(queue).timers.first().map(|(at, _)| *at)
    }

    fn park(&mut self, lane: u32, bucket: u32, blocked: Blocked, now: Time) {
        self.close(lane);
        let row = self.lanes.at_mut(lane);
        row.parked = Some(bucket);
        let (desk, buckets, head) = (row.desk, row.buckets.clone(), row.head);
        let parked = &mut self.permits.buckets.at_mut(bucket).parked;
        parked.entry(desk).or_default().extend(head);
        if let Blocked::Until(at) = blocked {
            let queue = self.desks.at(desk).queue;
            self.queues.at_mut(queue).timers.insert((at, bucket));
        }
        for other in buckets {
            if other != bucket {
                self.try_best(other, desk, now);
            }
        }
    }

    /// Opens the best lane of a desk that is parked at a bucket, if the bucket has a permit.
    fn try_best(&mut self, bucket: u32, desk: u32, now: Time) {
        let parked = &self.permits.buckets.at(bucket).parked;
        let Some(head) = parked.get(&desk).and_then(|heads| heads.first().copied()) else { return };
        if self.permits.blocked(bucket, now).is_none() {
            self.unpark(head.lane);
            self.open(head.lane);
        }
    }

    fn unpark(&mut self, lane: u32) {
        let row = self.lanes.at_mut(lane);
        let (Some(bucket), Some(head), desk) = (row.parked.take(), row.head, row.desk) else {
            return;
        };
        let parked = &mut self.permits.buckets.at_mut(bucket).parked;
        if let Some(heads) = parked.get_mut(&desk) {
            heads.remove(&head);
            if heads.is_empty() {
                parked.remove(&desk);
            }
        }
    }

    fn open(&mut self, lane: u32) {
        let row = self.lanes.at(lane);
        let Some(head) = row.head else { return };
        self.queues.at_mut(row.queue).heads.insert(head);
        if !row.buckets.is_empty() {
            self.desks.at_mut(row.desk).heads.insert(head);
        }
    }

    fn close(&mut self, lane: u32) {
        let row = self.lanes.at(lane);
        let Some(head) = row.head else { return };
        self.queues.at_mut(row.queue).heads.remove(&head);
        if !row.buckets.is_empty() {
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
        let (old, parked, limited) = (lane.head, lane.parked, !lane.buckets.is_empty());
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

    /// A lane with limits has stepped back in the order, or is empty: whoever is parked behind it may
    /// be better now. Whether there is a permit is found out when a claim comes to it.
    fn step_back(&mut self, lane: u32) {
        let row = self.lanes.at(lane);
        let (desk, buckets) = (row.desk, row.buckets.clone());
        for bucket in buckets {
            let parked = &self.permits.buckets.at(bucket).parked;
            let best = parked.get(&desk).and_then(|heads| heads.first().copied());
            if let Some(head) = best {
                self.unpark(head.lane);
                self.open(head.lane);
            }
        }
    }

    /// Drops lanes, desks and queues that nothing stands in. Gives how many.
    pub(crate) fn prune(&mut self, now: Time) -> usize {
        let empty: Vec<u32> =
            self.lanes.iter().filter(|(_, lane)| lane.jobs == 0).map(|(no, _)| no).collect();
        for no in &empty {
            let lane = self.lanes.at(*no);
            let (desk, limits, buckets) = (lane.desk, lane.limits.clone(), lane.buckets.clone());
            for bucket in buckets {
                self.permits.leave(bucket);
            }
            let row = self.desks.at_mut(desk);
            row.lanes.remove(no);
            if limits.is_empty() {
                row.plain = None;
            } else {
                self.limited.remove(&(desk, limits));
            }
            if row.lanes.is_empty() {
                let queue = self.queues.at_mut(row.queue);
                queue.desks.remove(&row.kind);
                self.desks.remove(desk);
            }
            self.lanes.remove(*no);
        }
        self.prune_timers();
        self.prune_queues();
        empty.len() + self.permits.prune(now)
    }

    fn prune_queues(&mut self) {
        let empty = self.queues.iter().filter(|(_, queue)| queue.desks.is_empty() && !queue.paused);
        let empty: Vec<(u32, Name)> = empty.map(|(no, queue)| (no, queue.name.clone())).collect();
        for (no, name) in empty {
            self.numbers.remove(&name);
            self.queues.remove(no);
        }
    }

    /// Drops timers of buckets that no lane of the queue is parked at, before their number is used
    /// for another.
    fn prune_timers(&mut self) {
        let queues: Vec<u32> = self.queues.iter().map(|(no, _)| no).collect();
        for no in queues {
            let mut timers = std::mem::take(&mut self.queues.at_mut(no).timers);
            timers.retain(|(_, bucket)| {
                let parked = &self.permits.buckets.at(*bucket).parked;
                parked.keys().any(|desk| self.desks.at(*desk).queue == no)
            });
            self.queues.at_mut(no).timers = timers;
        }
    }
}
