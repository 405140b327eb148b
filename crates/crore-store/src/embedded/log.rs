//! The log as storage beneath the index: locates and reads the newest record of each job, and
//! appends changed ones to the pending commit.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;

use crore_core::id::JobMap;
use crore_core::{Job, JobId, Live, Name, Revision, Spec, State, Time};

use super::codec::{ByteReader, get_live, get_spec, get_spec_with};
use super::frame;
use super::log_files::{FreedFile, Segment};
use super::pending_commit::{InFlightCommit, PendingCommit};
use super::read_ahead::ReadAhead;
use super::record::{self, LogRecord as Stored, Meta, RecordLocation};
use crate::Error;
use crate::bug::planted;
use crate::local::{DenseMap, JobRecord, JobRecords, SideKey, SideValue};

/// Running jobs with a payload up to this size stay in memory, so that the report, which comes
/// soon, needs no disk read.
const MAX_CACHED_PAYLOAD: usize = 4096;

/// Location of a job's newest record, and its lane.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobRow {
    pub(crate) location: RecordLocation,
    /// The lane number plus one, so that `Option<JobRow>` needs no extra byte.
    lane: NonZeroU32,
}

impl JobRow {
    pub(crate) const fn new(location: RecordLocation, lane: u32) -> Self {
        Self { location, lane: NonZeroU32::MIN.saturating_add(lane) }
    }

    pub(crate) const fn lane(self) -> u32 {
        self.lane.get() - 1
    }
}

/// Queue and kind of a lane.
type LaneNames = (Name, Name);

/// A running job kept in memory.
#[derive(Debug)]
struct CachedJob {
    record: JobRecord,
    /// Location of its put record.
    base: RecordLocation,
}

/// The log.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) seed: u64,
    pub(crate) rows: DenseMap<JobRow>,
    /// Boxed because entries are large and are moved in and out.
    cached: JobMap<Box<CachedJob>>,
    /// By lane, as far as known: jobs of a lane share the allocations of their names.
    names: Vec<Option<LaneNames>>,
    pub(crate) pending: PendingCommit,
    pub(crate) in_flight: Option<Arc<InFlightCommit>>,
    read_ahead: ReadAhead,
    pub(crate) segments: BTreeMap<u32, Segment>,
    /// The next segment, if prepared; its head is durable.
    pub(crate) next: Option<Segment>,
    /// A spare file for a full disk: it leaves room to compact the oldest segment, so that ending
    /// jobs frees space.
    pub(crate) reserve: Option<FreedFile>,
    pub(crate) freed: VecDeque<FreedFile>,
    /// Number of readers of whole files; while there are any, no file is reused.
    pub(crate) pins: usize,
    /// Number in the name of the next new file.
    pub(crate) next_name: u64,
    /// Total bytes of the newest job records.
    pub(crate) live: u64,
    /// Bytes and number of side records written, by kind.
    pub(crate) side_written: [(u64, u64); SideKey::KINDS],
    /// Whether the first frame of the segment still needs a meta record.
    pub(crate) meta_due: bool,
    /// Newest commit of a job that the current operation shows to its caller.
    shown: u64,
}

/// The parts of a job whose change has to be written.
#[derive(PartialEq, Eq)]
struct JobFingerprint {
    spec: *const Spec,
    revision: Revision,
    lease_until: Time,
    has_result: bool,
}

impl JobFingerprint {
    fn of(job: &Job) -> Self {
        let Live { revision, lease_until, result, .. } = &job.live;
        let (revision, lease_until) = (*revision, *lease_until);
        Self { spec: Arc::as_ptr(&job.spec), revision, lease_until, has_result: result.is_some() }
    }
}

/// Which record a change requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChangedPart {
    Spec,
    Live,
}

/// Lets `change` modify a record, and returns what it changed.
fn change_tracked<T>(
    record: &mut JobRecord,
    change: impl FnOnce(&mut JobRecord) -> T,
) -> (T, Option<ChangedPart>) {
    let before = JobFingerprint::of(&record.job);
    let result = change(record);
    let after = JobFingerprint::of(&record.job);
    let what = if before.spec == after.spec { ChangedPart::Live } else { ChangedPart::Spec };
    let is_taken = before.has_result && !after.has_result && before.revision != after.revision;
    if planted!("bug-36") && is_taken {
        return (result, None);
    }
    (result, (before != after).then_some(what))
}

impl Log {
    pub(crate) fn new(seed: u64, pending: PendingCommit) -> Self {
        Self {
            seed,
            rows: DenseMap::default(),
            cached: JobMap::default(),
            names: Vec::new(),
            pending,
            in_flight: None,
            read_ahead: ReadAhead::default(),
            segments: BTreeMap::new(),
            next: None,
            reserve: None,
            freed: VecDeque::new(),
            pins: 0,
            next_name: 1,
            live: 0,
            side_written: [(0, 0); SideKey::KINDS],
            meta_due: false,
            shown: 0,
        }
    }

    /// Returns the newest commit of a job [shown](JobRecords::mark_shown) since the last call.
    pub(crate) fn take_shown(&mut self) -> u64 {
        std::mem::take(&mut self.shown)
    }

    pub(crate) fn append_side(&mut self, key: &SideKey, value: Option<&SideValue>) {
        let location = self.pending.append(|out| record::put_side(key, value, out));
        if let Some((bytes, n)) = self.side_written.get_mut(key.kind()) {
            *bytes += u64::from(location.len);
            *n += 1;
        }
        if let Some(segment) = self.segments.get_mut(&location.segment) {
            segment.sides += 1;
        }
    }

    pub(crate) fn append_meta(&mut self, meta: Meta) {
        let last_id = if planted!("bug-19") { 0 } else { meta.last_id };
        self.pending.append(|out| record::put_meta(Meta { last_id, ..meta }, out));
        self.meta_due = false;
    }

    pub(crate) fn append_closed(&mut self) {
        self.pending.append(record::put_closed);
    }

    /// Adds a record to the live bytes, or subtracts it.
    pub(crate) fn count(&mut self, location: RecordLocation, sign: i64) {
        let by = i64::from(location.len) * sign;
        self.live = self.live.saturating_add_signed(by);
        if let Some(segment) = self.segments.get_mut(&location.segment) {
            segment.live = segment.live.saturating_add_signed(by);
        }
    }

    /// Bytes of a record, from memory or disk.
    pub(crate) fn bytes(&self, location: RecordLocation) -> Result<Cow<'_, [u8]>, Error> {
        if let Some(bytes) = self.pending.get(location) {
            return Ok(Cow::Borrowed(bytes));
        }
        if let Some(bytes) = self.in_flight.as_deref().and_then(|flight| flight.get(location)) {
            return Ok(Cow::Borrowed(bytes));
        }
        if let Some(bytes) = self.read_ahead.get(location) {
            return Ok(Cow::Borrowed(bytes));
        }
        let segment =
            self.segments.get(&location.segment).ok_or_else(|| damaged(location, "no file"))?;
        let mut bytes = vec![0; location.len as usize];
        let n = segment.file.read(location.offset.into(), &mut bytes);
        let n = n.map_err(|error| Error::Unavailable(Box::new(error)))?;
        if n < bytes.len() {
            return Err(damaged(location, "the file is truncated"));
        }
        Ok(Cow::Owned(bytes))
    }

    /// Reads a job and the location of its put record.
    fn read(&self, id: JobId, row: JobRow) -> Result<(JobRecord, RecordLocation), Error> {
        let bytes = self.bytes(row.location)?;
        let (base, newer) = match stored(row.location, &bytes)? {
            Stored::Put { id: record_id, spec, live } if record_id == id => {
                return Ok((self.record(id, row, (spec, live))?, row.location));
            }
            Stored::Live { id: record_id, base, live, .. } if record_id == id => (base, live),
            _ => return Err(damaged(row.location, "record of another job")),
        };
        let bytes = self.bytes(base)?;
        match stored(base, &bytes)? {
            Stored::Put { id: record_id, spec, .. } if record_id == id => {
                Ok((self.record(id, row, (spec, newer))?, base))
            }
            _ => Err(damaged(base, "record of another job")),
        }
    }

    fn record(
        &self,
        id: JobId,
        row: JobRow,
        (spec, live): (&[u8], &[u8]),
    ) -> Result<JobRecord, Error> {
        let spec = &mut ByteReader::new(spec);
        let spec = match self.names.get(row.lane() as usize) {
            Some(Some((queue, kind))) => get_spec_with(spec, queue.clone(), kind.clone()),
            _ => get_spec(spec),
        };
        let spec = spec.map_err(|e| damaged(row.location, e.0))?;
        let live = get_live(&mut ByteReader::new(live)).map_err(|e| damaged(row.location, e.0))?;
        let priority = spec.priority;
        Ok(JobRecord { lane: row.lane(), priority, job: Job { id, spec: Arc::new(spec), live } })
    }

    /// Announces the read of a record, so that following ones may be read with it.
    fn prefetch(&mut self, location: RecordLocation) {
        let flight = self.in_flight.as_ref().filter(|flight| flight.segment == location.segment);
        let Some(segment) = self.segments.get(&location.segment) else { return };
        let end = flight.map_or(segment.end, |flight| flight.at);
        if u64::from(location.offset) < end {
            self.read_ahead.prefetch(location, &*segment.file, end);
        }
    }

    /// Takes a record out of memory, or reads it.
    fn take_record(&mut self, id: JobId) -> Result<Option<Box<CachedJob>>, Error> {
        if let Some(cached) = self.cached.remove(&id) {
            return Ok(Some(cached));
        }
        let Some(row) = self.rows.get(id).copied() else { return Ok(None) };
        self.prefetch(row.location);
        let (record, base) = self.read(id, row)?;
        Ok(Some(Box::new(CachedJob { record, base })))
    }

    /// Writes a changed job, and keeps it in memory if it is running.
    fn save(&mut self, mut cached: Box<CachedJob>, changed: ChangedPart) {
        self.write(&mut cached, changed == ChangedPart::Spec);
        self.cache_if_running(cached);
    }

    /// Writes a changed job: a full put if the spec is new, else a live record.
    fn write(&mut self, cached: &mut CachedJob, spec_is_new: bool) {
        let job = &cached.record.job;
        let old = self.rows.get(job.id).map(|row| row.location);
        let location = if spec_is_new {
            self.pending.append(|out| record::put_job(job, out))
        } else {
            let base = cached.base;
            self.pending.append(|out| record::put_change(job.id, &job.spec, base, &job.live, out))
        };
        self.count(location, 1);
        if let Some(old) = old.filter(|old| spec_is_new || *old != cached.base) {
            self.count(old, -1);
        }
        if spec_is_new {
            if old != Some(cached.base) {
                self.count(cached.base, -1);
            }
            cached.base = location;
        }
        if spec_is_new {
            self.remember_names(&cached.record);
        }
        self.rows.insert(cached.record.job.id, JobRow::new(location, cached.record.lane));
    }

    /// Remembers the names of a job's lane. A lane number is reused only after all its jobs are
    /// gone; the first job of the new lane then overwrites the names.
    fn remember_names(&mut self, record: &JobRecord) {
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

    fn cache_if_running(&mut self, cached: Box<CachedJob>) {
        let job = &cached.record.job;
        let small = job.spec.payload.bytes.len() <= MAX_CACHED_PAYLOAD;
        if job.live.state == State::Running && small {
            self.cached.insert(job.id, cached);
        }
    }

    /// Locations of a job's newest record and of its put record; `None` if the job is gone.
    pub(crate) fn locations(&self, id: JobId) -> Option<Result<[RecordLocation; 2], Error>> {
        let location = self.rows.get(id)?.location;
        if let Some(cached) = self.cached.get(&id) {
            return Some(Ok([location, cached.base]));
        }
        let base = |bytes: Cow<'_, [u8]>| match stored(location, &bytes)? {
            Stored::Live { base, .. } => Ok([location, base]),
            _ => Ok([location, location]),
        };
        Some(self.bytes(location).and_then(base))
    }

    /// Moves a job to the end of the log, because its segment is being compacted.
    pub(crate) fn move_job(&mut self, id: JobId) -> Result<(), Error> {
        let Some(row) = self.rows.get(id).copied() else { return Ok(()) };
        let bytes = self.bytes(row.location)?.into_owned();
        let (base, spec, live) = match stored(row.location, &bytes)? {
            Stored::Put { spec, live, .. } => (row.location, Cow::Borrowed(spec), live),
            Stored::Live { base, live, .. } => match stored(base, &self.bytes(base)?)? {
                Stored::Put { spec, .. } => (base, Cow::Owned(spec.to_vec()), live),
                _ => return Err(damaged(base, "record of another job")),
            },
            _ => return Err(damaged(row.location, "record of another job")),
        };
        let location = self.pending.append(|out| record::put_parts(id, &spec, live, out));
        self.count(location, 1);
        self.count(row.location, -1);
        if base != row.location {
            self.count(base, -1);
        }
        self.rows.insert(id, JobRow { location, ..row });
        if let Some(cached) = self.cached.get_mut(&id) {
            cached.base = location;
        }
        Ok(())
    }
}

impl JobRecords for Log {
    fn mark_shown(&mut self, id: JobId) {
        let Some(row) = self.rows.get(id) else { return };
        if self.pending.get(row.location).is_some() {
            self.shown = self.pending.commit;
        } else if let Some(flight) =
            self.in_flight.as_ref().filter(|f| f.get(row.location).is_some())
        {
            self.shown = self.shown.max(flight.commit);
        }
    }

    fn load(&self, id: JobId) -> Result<Option<JobRecord>, Error> {
        if let Some(cached) = self.cached.get(&id) {
            return Ok(Some(cached.record.clone()));
        }
        let Some(row) = self.rows.get(id).copied() else { return Ok(None) };
        Ok(Some(self.read(id, row)?.0))
    }

    fn insert(&mut self, record: JobRecord) -> Result<(), Error> {
        let location = self.pending.append(|out| record::put_job(&record.job, out));
        self.count(location, 1);
        self.remember_names(&record);
        self.rows.insert(record.job.id, JobRow::new(location, record.lane));
        Ok(())
    }

    fn update<T>(
        &mut self,
        id: JobId,
        change: impl FnOnce(&mut JobRecord) -> T,
    ) -> Result<Option<T>, Error> {
        if let Some(cached) = self.cached.get_mut(&id) {
            let (result, changed) = change_tracked(&mut cached.record, change);
            if let Some(changed) = changed
                && let Some(cached) = self.cached.remove(&id)
            {
                self.save(cached, changed);
            }
            return Ok(Some(result));
        }
        let Some(mut cached) = self.take_record(id)? else { return Ok(None) };
        let (result, changed) = change_tracked(&mut cached.record, change);
        match changed {
            Some(changed) => self.save(cached, changed),
            None => self.cache_if_running(cached),
        }
        Ok(Some(result))
    }

    fn remove(&mut self, id: JobId) -> Result<Option<JobRecord>, Error> {
        let Some(cached) = self.take_record(id)? else { return Ok(None) };
        if let Some(row) = self.rows.remove(id) {
            self.count(row.location, -1);
            if row.location != cached.base {
                self.count(cached.base, -1);
            }
        }
        self.pending.append(|out| record::put_gone(id, out));
        Ok(Some(cached.record))
    }
}

fn stored(location: RecordLocation, bytes: &[u8]) -> Result<Stored<'_>, Error> {
    let body = frame::body(bytes).map_err(|error| damaged(location, error.0))?;
    Stored::read(body).map_err(|error| damaged(location, error.0))
}

/// Error for an unreadable record.
pub(crate) fn damaged(location: RecordLocation, what: &str) -> Error {
    let RecordLocation { segment, offset, .. } = location;
    Error::Corrupt { what: format!("segment {segment}, offset {offset}: {what}") }
}
