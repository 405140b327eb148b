//! The log as the index sees it: records of jobs by their id, wherever their newest bytes are.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;

use crore_core::id::ById;
use crore_core::{Job, JobId, Live, Name, Revision, Spec, State, Time};

use super::ahead::Ahead;
use super::codec::{Reader, get_live, get_spec, get_spec_with};
use super::frame;
use super::record::{self, Meta, Record as Stored, Spot};
use super::room::{Freed, Segment};
use super::tail::{Flight, Tail};
use crate::Error;
use crate::bug::planted;
use crate::local::{Dense, Key, Record, Records, Value};

/// A running job is kept at hand if its payload is no larger than this: its report comes soon, and
/// should not need the disk.
const HOT_PAYLOAD: usize = 4096;

/// A job's newest record, and its lane.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) spot: Spot,
    /// One more than the lane's number: so a place without a row takes no byte more.
    lane: NonZeroU32,
}

impl Row {
    pub(crate) const fn new(spot: Spot, lane: u32) -> Self {
        Self { spot, lane: NonZeroU32::MIN.saturating_add(lane) }
    }

    pub(crate) const fn lane(self) -> u32 {
        self.lane.get() - 1
    }
}

/// The queue and kind of the jobs of a lane.
type Names = (Name, Name);

/// A running job at hand.
#[derive(Debug)]
struct Hot {
    record: Record,
    /// Where its put is.
    base: Spot,
}

/// The log.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) seed: u64,
    pub(crate) rows: Dense<Row>,
    /// Boxed, because they are large and go in and out.
    hot: ById<Box<Hot>>,
    /// By lane, as far as known: jobs share their names.
    names: Vec<Option<Names>>,
    pub(crate) tail: Tail,
    pub(crate) flight: Option<Arc<Flight>>,
    ahead: Ahead,
    pub(crate) segments: BTreeMap<u32, Segment>,
    /// The next segment, if it is ready; its head is durable.
    pub(crate) next: Option<Segment>,
    /// A file that is kept for the day when the disk is full: what is left in the oldest segment can
    /// still be moved then, and so there is room again for every job that ends.
    pub(crate) reserve: Option<Freed>,
    pub(crate) freed: VecDeque<Freed>,
    /// How many readers of whole files there are, for whom none may be used again.
    pub(crate) pins: usize,
    /// The number in the name of the next new file.
    pub(crate) next_name: u64,
    /// All bytes of newest records of jobs.
    pub(crate) live: u64,
    /// How many bytes were written for things besides jobs, and for how many of them, by their sort.
    pub(crate) side_written: [(u64, u64); 8],
    /// Whether the frame at the start of a segment has yet to say which numbers were given out.
    pub(crate) meta_due: bool,
    /// The newest commit of a job that the verb which is being done shows to its caller.
    shown: u64,
}

/// What of a record a change that is to be written changes.
#[derive(PartialEq, Eq)]
struct Mark {
    spec: *const Spec,
    revision: Revision,
    lease_until: Time,
    has_result: bool,
}

impl Mark {
    fn of(job: &Job) -> Self {
        let Live { revision, lease_until, result, .. } = &job.live;
        let (revision, lease_until) = (*revision, *lease_until);
        Self { spec: Arc::as_ptr(&job.spec), revision, lease_until, has_result: result.is_some() }
    }
}

/// What was changed of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Changed {
    Spec,
    Live,
}

/// Lets `change` change a record, and says what it has changed.
fn watched<T>(record: &mut Record, change: impl FnOnce(&mut Record) -> T) -> (T, Option<Changed>) {
    let before = Mark::of(&record.job);
    let answer = change(record);
    let after = Mark::of(&record.job);
    let what = if before.spec == after.spec { Changed::Live } else { Changed::Spec };
    let is_taken = before.has_result && !after.has_result && before.revision != after.revision;
    if planted!("bug-36") && is_taken {
        return (answer, None);
    }
    (answer, (before != after).then_some(what))
}

impl Log {
    pub(crate) fn new(seed: u64, tail: Tail) -> Self {
        Self {
            seed,
            rows: Dense::default(),
            hot: ById::default(),
            names: Vec::new(),
            tail,
            flight: None,
            ahead: Ahead::default(),
            segments: BTreeMap::new(),
            next: None,
            reserve: None,
            freed: VecDeque::new(),
            pins: 0,
            next_name: 1,
            live: 0,
            side_written: [(0, 0); 8],
            meta_due: false,
            shown: 0,
        }
    }

    /// The newest commit of a job that was [shown](Records::show) since this was asked last.
    pub(crate) fn take_shown(&mut self) -> u64 {
        std::mem::take(&mut self.shown)
    }

    pub(crate) fn append_side(&mut self, key: &Key, value: Option<&Value>) {
        let spot = self.tail.append(|out| record::put_side(key, value, out));
        if let Some((bytes, n)) = self.side_written.get_mut(key.sort()) {
            *bytes += u64::from(spot.len);
            *n += 1;
        }
        if let Some(segment) = self.segments.get_mut(&spot.segment) {
            segment.sides += 1;
        }
    }

    pub(crate) fn append_meta(&mut self, meta: Meta) {
        let last_id = if planted!("bug-19") { 0 } else { meta.last_id };
        self.tail.append(|out| record::put_meta(Meta { last_id, ..meta }, out));
        self.meta_due = false;
    }

    pub(crate) fn append_closed(&mut self) {
        self.tail.append(record::put_closed);
    }

    /// Counts a record as live, or as waste.
    pub(crate) fn count(&mut self, spot: Spot, sign: i64) {
        let by = i64::from(spot.len) * sign;
        self.live = self.live.saturating_add_signed(by);
        if let Some(segment) = self.segments.get_mut(&spot.segment) {
            segment.live = segment.live.saturating_add_signed(by);
        }
    }

    /// The bytes of a record, wherever they are.
    pub(crate) fn bytes(&self, spot: Spot) -> Result<Cow<'_, [u8]>, Error> {
        if let Some(bytes) = self.tail.get(spot) {
            return Ok(Cow::Borrowed(bytes));
        }
        if let Some(bytes) = self.flight.as_deref().and_then(|flight| flight.get(spot)) {
            return Ok(Cow::Borrowed(bytes));
        }
        if let Some(bytes) = self.ahead.get(spot) {
            return Ok(Cow::Borrowed(bytes));
        }
        let segment = self.segments.get(&spot.segment).ok_or_else(|| damaged(spot, "no file"))?;
        let mut bytes = vec![0; spot.len as usize];
        let n = segment.file.read(spot.offset.into(), &mut bytes);
        let n = n.map_err(|error| Error::Unavailable(Box::new(error)))?;
        if n < bytes.len() {
            return Err(damaged(spot, "the file ends before it"));
        }
        Ok(Cow::Owned(bytes))
    }

    /// Reads a job, and where its put is.
    fn read(&self, id: JobId, row: Row) -> Result<(Record, Spot), Error> {
        let bytes = self.bytes(row.spot)?;
        let (base, newer) = match stored(row.spot, &bytes)? {
            Stored::Put { id: of, spec, live } if of == id => {
                return Ok((self.record(id, row, (spec, live))?, row.spot));
            }
            Stored::Live { id: of, base, live, .. } if of == id => (base, live),
            _ => return Err(damaged(row.spot, "another record")),
        };
        let bytes = self.bytes(base)?;
        match stored(base, &bytes)? {
            Stored::Put { id: of, spec, .. } if of == id => {
                Ok((self.record(id, row, (spec, newer))?, base))
            }
            _ => Err(damaged(base, "another record")),
        }
    }

    fn record(&self, id: JobId, row: Row, (spec, live): (&[u8], &[u8])) -> Result<Record, Error> {
        let spec = &mut Reader::new(spec);
        let spec = match self.names.get(row.lane() as usize) {
            Some(Some((queue, kind))) => get_spec_with(spec, queue.clone(), kind.clone()),
            _ => get_spec(spec),
        };
        let spec = spec.map_err(|e| damaged(row.spot, e.0))?;
        let live = get_live(&mut Reader::new(live)).map_err(|e| damaged(row.spot, e.0))?;
        let priority = spec.priority;
        Ok(Record { lane: row.lane(), priority, job: Job { id, spec: Arc::new(spec), live } })
    }

    /// A job is about to be read, and those behind it may soon be.
    fn reach(&mut self, spot: Spot) {
        let flight = self.flight.as_ref().filter(|flight| flight.segment == spot.segment);
        let Some(segment) = self.segments.get(&spot.segment) else { return };
        let end = flight.map_or(segment.end, |flight| flight.at);
        if u64::from(spot.offset) < end {
            self.ahead.reach(spot, &*segment.file, end);
        }
    }

    /// The record of a job, from memory if it is at hand.
    fn fetch(&mut self, id: JobId) -> Result<Option<Box<Hot>>, Error> {
        if let Some(hot) = self.hot.remove(&id) {
            return Ok(Some(hot));
        }
        let Some(row) = self.rows.get(id).copied() else { return Ok(None) };
        self.reach(row.spot);
        let (record, base) = self.read(id, row)?;
        Ok(Some(Box::new(Hot { record, base })))
    }

    /// Writes a job that has changed, and keeps it at hand if it is running.
    fn save(&mut self, mut hot: Box<Hot>, changed: Changed) {
        self.write(&mut hot, changed == Changed::Spec);
        self.keep_if_hot(hot);
    }

    /// Writes a job that has changed; with another spec, whole.
    fn write(&mut self, hot: &mut Hot, spec_is_new: bool) {
        let job = &hot.record.job;
        let old = self.rows.get(job.id).map(|row| row.spot);
        let spot = if spec_is_new {
            self.tail.append(|out| record::put_job(job, out))
        } else {
            let base = hot.base;
            self.tail.append(|out| record::put_change(job.id, &job.spec, base, &job.live, out))
        };
        self.count(spot, 1);
        if let Some(old) = old.filter(|old| spec_is_new || *old != hot.base) {
            self.count(old, -1);
        }
        if spec_is_new {
            if old != Some(hot.base) {
                self.count(hot.base, -1);
            }
            hot.base = spot;
        }
        if spec_is_new {
            self.learn_names(&hot.record);
        }
        self.rows.insert(hot.record.job.id, Row::new(spot, hot.record.lane));
    }

    /// Remembers the names of a job's lane. A lane's number is that of another only after all its jobs
    /// are gone, and then it is learned anew with the first one.
    fn learn_names(&mut self, record: &Record) {
        let (lane, spec) = (record.lane as usize, &record.job.spec);
        if lane >= self.names.len() {
            self.names.resize(lane + 1, None);
        }
        if let Some(slot) = self.names.get_mut(lane)
            && slot.as_ref().is_none_or(|(queue, kind)| *queue != spec.queue || *kind != spec.kind)
        {
            *slot = Some((spec.queue.clone(), spec.kind.clone()));
        }
    }

    fn keep_if_hot(&mut self, hot: Box<Hot>) {
        let job = &hot.record.job;
        let small = job.spec.payload.bytes.len() <= HOT_PAYLOAD;
        if job.live.state == State::Running && small {
            self.hot.insert(job.id, hot);
        }
    }

    /// Where a job's newest record is, and its put; `None`: it is gone.
    pub(crate) fn spots(&self, id: JobId) -> Option<Result<[Spot; 2], Error>> {
        let spot = self.rows.get(id)?.spot;
        if let Some(hot) = self.hot.get(&id) {
            return Some(Ok([spot, hot.base]));
        }
        let base = |bytes: Cow<'_, [u8]>| match stored(spot, &bytes)? {
            Stored::Live { base, .. } => Ok([spot, base]),
            _ => Ok([spot, spot]),
        };
        Some(self.bytes(spot).and_then(base))
    }

    /// Moves a job's put to the end of the log, because its segment is to be given up.
    pub(crate) fn move_job(&mut self, id: JobId) -> Result<(), Error> {
        let Some(row) = self.rows.get(id).copied() else { return Ok(()) };
        let bytes = self.bytes(row.spot)?.into_owned();
        let (base, spec, live) = match stored(row.spot, &bytes)? {
            Stored::Put { spec, live, .. } => (row.spot, Cow::Borrowed(spec), live),
            Stored::Live { base, live, .. } => match stored(base, &self.bytes(base)?)? {
                Stored::Put { spec, .. } => (base, Cow::Owned(spec.to_vec()), live),
                _ => return Err(damaged(base, "another record")),
            },
            _ => return Err(damaged(row.spot, "another record")),
        };
        let spot = self.tail.append(|out| record::put_parts(id, &spec, live, out));
        self.count(spot, 1);
        self.count(row.spot, -1);
        if base != row.spot {
            self.count(base, -1);
        }
        self.rows.insert(id, Row { spot, ..row });
        if let Some(hot) = self.hot.get_mut(&id) {
            hot.base = spot;
        }
        Ok(())
    }
}

impl Records for Log {
    fn show(&mut self, id: JobId) {
        let Some(row) = self.rows.get(id) else { return };
        if self.tail.get(row.spot).is_some() {
            self.shown = self.tail.commit;
        } else if let Some(flight) = self.flight.as_ref().filter(|f| f.get(row.spot).is_some()) {
            self.shown = self.shown.max(flight.commit);
        }
    }

    fn load(&self, id: JobId) -> Result<Option<Record>, Error> {
        if let Some(hot) = self.hot.get(&id) {
            return Ok(Some(hot.record.clone()));
        }
        let Some(row) = self.rows.get(id).copied() else { return Ok(None) };
        Ok(Some(self.read(id, row)?.0))
    }

    fn insert(&mut self, record: Record) -> Result<(), Error> {
        let spot = self.tail.append(|out| record::put_job(&record.job, out));
        self.count(spot, 1);
        self.learn_names(&record);
        self.rows.insert(record.job.id, Row::new(spot, record.lane));
        Ok(())
    }

    fn update<T>(
        &mut self,
        id: JobId,
        change: impl FnOnce(&mut Record) -> T,
    ) -> Result<Option<T>, Error> {
        if let Some(hot) = self.hot.get_mut(&id) {
            let (answer, changed) = watched(&mut hot.record, change);
            if let Some(changed) = changed
                && let Some(hot) = self.hot.remove(&id)
            {
                self.save(hot, changed);
            }
            return Ok(Some(answer));
        }
        let Some(mut hot) = self.fetch(id)? else { return Ok(None) };
        let (answer, changed) = watched(&mut hot.record, change);
        match changed {
            Some(changed) => self.save(hot, changed),
            None => self.keep_if_hot(hot),
        }
        Ok(Some(answer))
    }

    fn remove(&mut self, id: JobId) -> Result<Option<Record>, Error> {
        let Some(hot) = self.fetch(id)? else { return Ok(None) };
        if let Some(row) = self.rows.remove(id) {
            self.count(row.spot, -1);
            if row.spot != hot.base {
                self.count(hot.base, -1);
            }
        }
        self.tail.append(|out| record::put_gone(id, out));
        Ok(Some(hot.record))
    }
}

fn stored(spot: Spot, bytes: &[u8]) -> Result<Stored<'_>, Error> {
    let body = frame::body(bytes).map_err(|error| damaged(spot, error.0))?;
    Stored::read(body).map_err(|error| damaged(spot, error.0))
}

/// A record that cannot be read.
pub(crate) fn damaged(spot: Spot, what: &str) -> Error {
    let Spot { segment, offset, .. } = spot;
    Error::Corrupt { what: format!("segment {segment}, offset {offset}: {what}") }
}
