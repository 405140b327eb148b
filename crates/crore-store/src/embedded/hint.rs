//! Hints: the content of a segment without payloads, so that opening a store and compacting a
//! segment need not read the segment.
//!
//! A hint has the last record of every key in its segment. It is derived from the segment and can
//! be rebuilt at any time.
//!
//! ```text
//! offset  0  magic "crorehni"
//!         8  format version u32
//!        12  checksum u32, over everything behind it
//!        16  segment u64, seed u64, end u64, first commit u64, last commit u64, synced u64,
//!            oldest u64, time i64
//!        80  the last id, delivery and revision in it (varints)
//!            count of lanes, each: queue, kind, count of limit keys, each: limit, value; fair key, required version
//!            count of jobs by id, each: difference of ids, then its state, record locations, costs and index keys
//!            count of side records, each: record body
//! ```

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crore_core::fair::FairKey;
use crore_core::id::JobMap;
use crore_core::job::ClientId;
use crore_core::limit::LimitKey;
use crore_core::{EventId, GroupId, IndexKey, JobId, Name, State, Time};

use super::codec::{
    ByteReader, Damaged, LiveHead, Put, SpecHead, get_costs, get_index_keys, get_version,
    peek_live, peek_spec, put_costs, put_index_keys, put_version,
};
use super::frame::{FrameHeader, NUMBER_LIMIT};
use super::record::{Hole, LogRecord, Meta, RecordLocation, read_number};
use super::segment::VERSION;
use crate::local::{LaneKey, SideKey, indexed_deadline};

/// The magic of hints with index keys. Hints of earlier versions, with another magic, do not have the keys of their jobs,
/// and are rebuilt.
const MAGIC: &[u8; 8] = b"crorehni";

/// Magics of hints without index keys.
const OUTDATED: [&[u8; 8]; 3] = [b"crorehnt", b"crorehnx", b"crorehnc"];

/// Whether these bytes are a hint of an earlier version.
pub(crate) fn is_outdated(bytes: &[u8]) -> bool {
    OUTDATED.iter().any(|magic| bytes.starts_with(*magic))
}

/// The state of one job after a segment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HintItem {
    pub(crate) id: JobId,
    /// `None` if the job was removed.
    pub(crate) job: Option<HintJob>,
}

/// Index position of a job, and the locations of its records.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HintJob {
    pub(crate) location: RecordLocation,
    /// Location of the put record; equal to `location` unless only a live record was written.
    pub(crate) base: RecordLocation,
    /// Number of its lane in this hint, if the put record is in this segment.
    pub(crate) lane: Option<u32>,
    pub(crate) priority: i32,
    pub(crate) state: State,
    pub(crate) broken: bool,
    /// Sort key among jobs of its state.
    pub(crate) at: Time,
    pub(crate) lease_until: Time,
    pub(crate) result_until: Option<Time>,
    /// The deadline that the index needs.
    pub(crate) deadline: Option<Time>,
    pub(crate) client: Option<ClientId>,
    /// Costs under its limits, if the put record is in this segment.
    pub(crate) costs: Option<Arc<[u32]>>,
    /// Index keys of its labels and payload, if the put record is in this segment.
    pub(crate) keys: Arc<[IndexKey]>,
    /// Index key of its newest error.
    pub(crate) error: Option<IndexKey>,
}

/// The fixed part of a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HintSummary {
    pub(crate) segment: u32,
    /// End of the frames.
    pub(crate) end: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) synced: u64,
    pub(crate) oldest: u64,
    pub(crate) at: i64,
    pub(crate) meta: Meta,
}

/// Builds a hint from the records of a segment.
#[derive(Debug)]
pub(crate) struct HintBuilder {
    segment: u32,
    frames: Option<(u64, FrameHeader)>,
    meta: Meta,
    lanes: Vec<LaneKey>,
    numbers: HashMap<LaneKey, u32>,
    jobs: Vec<HintItem>,
    /// Index into `jobs` by job.
    positions: JobMap<u32>,
    sides: BTreeMap<SideKey, Vec<u8>>,
}

impl HintBuilder {
    pub(crate) fn new(segment: u32) -> Self {
        Self {
            segment,
            frames: None,
            meta: Meta::default(),
            lanes: Vec::new(),
            numbers: HashMap::new(),
            jobs: Vec::new(),
            positions: JobMap::default(),
            sides: BTreeMap::new(),
        }
    }

    /// Begins the next frame.
    pub(crate) fn begin_frame(&mut self, header: FrameHeader) {
        let first = self.frames.map_or(header.commit, |(first, _)| first);
        self.frames = Some((first, header));
    }

    /// Adds the next record, with its location and body.
    pub(crate) fn add_record(
        &mut self,
        location: RecordLocation,
        body: &[u8],
    ) -> Result<(), Damaged> {
        match LogRecord::read(body)? {
            LogRecord::Put { id, spec, live } => {
                let head = peek_spec(&mut ByteReader::new(spec))?;
                let lane = self.lane(&head)?;
                let live = self.live(id, live)?;
                let item = job_item((location, location), (Some(lane), head.priority), live);
                let (client, costs, keys) = (head.client_id, head.costs, head.keys.into());
                self.set(id, Some(HintJob { client, costs, keys, ..item }));
            }
            LogRecord::Live { id, priority, base, live } => {
                let live = self.live(id, live)?;
                let put = self.job(id).filter(|job| job.base == base);
                let lane = put.and_then(|put| put.lane);
                let client = put.and_then(|put| put.client.clone());
                let costs = put.and_then(|put| put.costs.clone());
                let keys = put.map(|put| Arc::clone(&put.keys)).unwrap_or_default();
                let item = job_item((location, base), (lane, priority), live);
                self.set(id, Some(HintJob { client, costs, keys, ..item }));
            }
            LogRecord::Gone(id) => self.set(id, None),
            LogRecord::Side { key, .. } => {
                if let SideKey::Group(GroupId(id)) | SideKey::Event(EventId(id)) = key {
                    self.meta.last_id = self.meta.last_id.max(id);
                }
                self.sides.insert(key, body.to_vec());
            }
            LogRecord::Meta(meta) => self.meta = self.meta.max_each(meta),
            LogRecord::Hole(hole) => self.add_hole(hole),
            LogRecord::Closed => {}
        }
        Ok(())
    }

    /// The state of a job so far.
    fn job(&self, id: JobId) -> Option<&HintJob> {
        let index = *self.positions.get(&id)?;
        self.jobs.get(index as usize)?.job.as_ref()
    }

    fn set(&mut self, id: JobId, job: Option<HintJob>) {
        let next = u32::try_from(self.jobs.len()).unwrap_or(u32::MAX);
        let index = *self.positions.entry(id).or_insert(next);
        match self.jobs.get_mut(index as usize) {
            Some(item) => item.job = job,
            None => self.jobs.push(HintItem { id, job }),
        }
    }

    /// Continues as if the missing commits had been there without any record.
    fn add_hole(&mut self, hole: Hole) {
        self.meta = self.meta.max_each(hole.meta);
        if let (Some((_, last)), Some((_, header))) = (hole.commits, &mut self.frames) {
            header.commit = header.commit.max(last);
        }
    }

    /// The largest numbers so far.
    pub(crate) const fn meta(&self) -> Meta {
        self.meta
    }

    /// The newest commit so far.
    pub(crate) fn last(&self) -> Option<u64> {
        self.frames.map(|(_, header)| header.commit)
    }

    fn live(&mut self, id: JobId, live: &[u8]) -> Result<LiveHead, Damaged> {
        let head = peek_live(&mut ByteReader::new(live))?;
        if head.delivery.0 >= NUMBER_LIMIT {
            return Err(Damaged("number out of range"));
        }
        self.meta.last_id = self.meta.last_id.max(id.0);
        self.meta.last_delivery = self.meta.last_delivery.max(head.delivery.0);
        Ok(head)
    }

    fn lane(&mut self, head: &SpecHead<'_>) -> Result<u32, Damaged> {
        // Jobs of one lane tend to be adjacent.
        let same = |lane: &LaneKey| {
            lane.queue.as_str() == head.queue
                && lane.kind.as_str() == head.kind
                && lane.limits == head.limits
                && lane.fair == head.fair
                && lane.version == head.version
        };
        if let Some(last) = self.lanes.last().filter(|lane| same(lane)) {
            return Ok(self.numbers.get(last).copied().unwrap_or_default());
        }
        let name = |text| Name::new("name", text).map_err(|_| Damaged("invalid name"));
        let (queue, kind, limits) = (name(head.queue)?, name(head.kind)?, head.limits.clone());
        let key = LaneKey { queue, kind, limits, fair: head.fair.clone(), version: head.version };
        if let Some(number) = self.numbers.get(&key) {
            return Ok(*number);
        }
        let number = u32::try_from(self.lanes.len()).unwrap_or(u32::MAX);
        self.lanes.push(key.clone());
        self.numbers.insert(key, number);
        Ok(number)
    }

    /// Serializes the hint; `end` is the end of the segment's frames.
    pub(crate) fn finish(self, seed: u64, end: u64) -> Vec<u8> {
        let (first, header) = self.frames.map_or((1, None), |(first, last)| (first, Some(last)));
        let mut out = Vec::with_capacity(self.jobs.len() * 40 + 1024);
        out.put_u64(self.segment.into());
        out.put_u64(seed);
        out.put_u64(end);
        out.put_u64(first);
        out.put_u64(header.map_or(0, |header| header.commit));
        out.put_u64(header.map_or(0, |header| header.synced));
        out.put_u64(header.map_or(0, |header| header.oldest));
        out.put_u64(header.map_or(0, |header| header.at).cast_unsigned());
        out.put_var(self.meta.last_id);
        out.put_var(self.meta.last_delivery);
        out.put_var(self.meta.revision);
        out.put_var(self.lanes.len() as u64);
        self.lanes.iter().for_each(|lane| put_lane(lane, &mut out));
        out.put_var(self.jobs.len() as u64);
        let mut before = JobId(0);
        let mut order: Vec<(JobId, u32)> = self.positions.into_iter().collect();
        order.sort_unstable();
        for (id, index) in order {
            out.put_var(id.0 - before.0);
            before = id;
            put_job(self.jobs.get(index as usize).and_then(|item| item.job.as_ref()), &mut out);
        }
        out.put_var(self.sides.len() as u64);
        self.sides.values().for_each(|body| out.put_chunk(body));
        let mut all = Vec::with_capacity(out.len() + 16);
        all.extend_from_slice(MAGIC);
        all.put_u32(VERSION);
        all.put_u32(crc32c::crc32c(&out));
        all.extend_from_slice(&out);
        all
    }
}

fn job_item(
    (location, base): (RecordLocation, RecordLocation),
    (lane, priority): (Option<u32>, i32),
    live: LiveHead,
) -> HintJob {
    let at = match live.state {
        State::Ready | State::Scheduled => live.due,
        State::Waiting | State::Running => Time::ZERO,
        State::Done | State::Dead | State::Cancelled => live.ended_at.unwrap_or_default(),
    };
    let LiveHead { state, broken, lease_until, result_until, deadline, error, .. } = live;
    HintJob {
        location,
        base,
        lane,
        priority,
        state,
        broken,
        at,
        lease_until,
        result_until,
        deadline: indexed_deadline(state, broken, deadline),
        client: None,
        costs: None,
        keys: Arc::default(),
        error,
    }
}

fn put_lane(lane: &LaneKey, out: &mut Vec<u8>) {
    out.put_text(lane.queue.as_str());
    out.put_text(lane.kind.as_str());
    out.put_var(lane.limits.len() as u64);
    for key in &lane.limits {
        out.put_text(key.limit.as_str());
        out.put_option(key.value.as_deref(), Put::put_text);
    }
    out.put_option(lane.fair.as_ref().map(FairKey::as_str), Put::put_text);
    out.put_option(lane.version.as_ref(), |out, version| put_version(version, out));
}

fn put_spot(location: RecordLocation, out: &mut Vec<u8>) {
    out.put_u32(location.segment);
    out.put_u32(location.offset);
    out.put_u32(location.len);
}

const BROKEN: u32 = 1;
const LEASED: u32 = 1 << 1;
const RESULT: u32 = 1 << 2;
const MOVED: u32 = 1 << 3;
const LANE: u32 = 1 << 4;
const CLIENT: u32 = 1 << 5;
const DEADLINE: u32 = 1 << 6;
const COSTS: u32 = 1 << 7;
const KEYS: u32 = 1 << 8;
const ERROR: u32 = 1 << 9;

fn put_job(job: Option<&HintJob>, out: &mut Vec<u8>) {
    let Some(job) = job else {
        out.put_u8(0);
        return;
    };
    let bit = |set: bool, bit: u32| if set { bit } else { 0 };
    let nth = State::ALL.iter().position(|state| *state == job.state).unwrap_or_default();
    out.put_u8(1 + nth as u8);
    let bits = bit(job.broken, BROKEN)
        | bit(job.state == State::Running, LEASED)
        | bit(job.result_until.is_some(), RESULT)
        | bit(job.location != job.base, MOVED)
        | bit(job.lane.is_some(), LANE)
        | bit(job.client.is_some(), CLIENT)
        | bit(job.deadline.is_some(), DEADLINE)
        | bit(job.costs.is_some(), COSTS)
        | bit(!job.keys.is_empty(), KEYS)
        | bit(job.error.is_some(), ERROR);
    out.put_var(bits.into());
    put_spot(job.location, out);
    if job.location != job.base {
        put_spot(job.base, out);
    }
    if let Some(lane) = job.lane {
        out.put_var(lane.into());
    }
    out.put_zig(job.priority.into());
    out.put_time(Time::ZERO, job.at);
    if job.state == State::Running {
        out.put_time(Time::ZERO, job.lease_until);
    }
    if let Some(until) = job.result_until {
        out.put_time(Time::ZERO, until);
    }
    if let Some(deadline) = job.deadline {
        out.put_time(Time::ZERO, deadline);
    }
    if let Some(client) = &job.client {
        out.put_text(client.door.as_str());
        out.put_text(&client.id);
    }
    if let Some(costs) = &job.costs {
        put_costs(costs, out);
    }
    if !job.keys.is_empty() {
        put_index_keys(&job.keys, out);
    }
    if let Some(IndexKey(key)) = job.error {
        out.put_u64(key);
    }
}

/// A hint, read incrementally.
#[derive(Debug)]
pub(crate) struct Hint<'a> {
    pub(crate) summary: HintSummary,
    pub(crate) lanes: Vec<LaneKey>,
    reader: ByteReader<'a>,
}

impl<'a> Hint<'a> {
    /// Checks the hint of this segment and reads its fixed part and lanes.
    pub(crate) fn read(bytes: &'a [u8], segment: u32, seed: u64) -> Result<Self, Damaged> {
        let mut reader = ByteReader::new(bytes);
        if reader.bytes(MAGIC.len())? != MAGIC || reader.u32()? != VERSION {
            return Err(Damaged("not a hint"));
        }
        if reader.u32()? != crc32c::crc32c(reader.rest()) {
            return Err(Damaged("hint with a wrong checksum"));
        }
        if reader.u64()? != u64::from(segment) || reader.u64()? != seed {
            return Err(Damaged("hint of another segment"));
        }
        let (end, first, last) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let (synced, oldest, at) = (reader.u64()?, reader.u64()?, reader.u64()?.cast_signed());
        if last >= NUMBER_LIMIT || first > last.saturating_add(1) || oldest > segment.into() {
            return Err(Damaged("number out of range"));
        }
        let meta = Meta::read(&mut reader)?;
        let lanes = reader.list(5, get_lane)?;
        let summary = HintSummary { segment, end, first, last, synced, oldest, at, meta };
        Ok(Self { summary, lanes, reader })
    }

    /// Calls `job` for every job, then `side` for the body of every side record.
    pub(crate) fn walk<E: From<Damaged>>(
        &self,
        mut job: impl FnMut(HintItem) -> Result<(), E>,
        mut side: impl FnMut(&'a [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut walk = HintCursor::begin(self)?;
        while let Some(item) = walk.next_job()? {
            job(item)?;
        }
        while let Some(body) = walk.next_side()? {
            side(body)?;
        }
        Ok(())
    }
}

fn get_lane(reader: &mut ByteReader<'_>) -> Result<LaneKey, Damaged> {
    let (queue, kind, limits) = (reader.name()?, reader.name()?, reader.list(2, limit_key)?);
    let (fair, version) = (reader.option(ByteReader::text)?, reader.option(get_version)?);
    let fair = fair.map(|text| FairKey::new(Some(text.into())));
    Ok(LaneKey { queue, kind, limits, fair, version })
}

fn limit_key(reader: &mut ByteReader<'_>) -> Result<LimitKey, Damaged> {
    let limit = reader.name()?;
    Ok(LimitKey { limit, value: reader.option(ByteReader::text)?.map(Into::into) })
}

/// A cursor over the jobs and side records of a hint.
#[derive(Debug)]
pub(crate) struct HintCursor<'a> {
    reader: ByteReader<'a>,
    mark: HintPosition,
}

/// Position of a cursor, to resume it later.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HintPosition {
    /// Bytes left.
    left: usize,
    jobs: u64,
    sides: Option<u64>,
    before: JobId,
}

impl<'a> HintCursor<'a> {
    pub(crate) fn begin(hint: &Hint<'a>) -> Result<Self, Damaged> {
        let mut reader = hint.reader.clone();
        let jobs = reader.var()?;
        let left = reader.rest().len();
        Ok(Self { reader, mark: HintPosition { left, jobs, sides: None, before: JobId(0) } })
    }

    /// Continues at a saved position in the same hint.
    pub(crate) fn resume(hint: &'a [u8], mark: HintPosition) -> Self {
        let done = hint.len().saturating_sub(mark.left);
        Self { reader: ByteReader::new(hint.get(done..).unwrap_or_default()), mark }
    }

    pub(crate) const fn mark(&self) -> HintPosition {
        HintPosition { left: self.reader.rest().len(), ..self.mark }
    }

    /// Returns the next job; `None` after the last one.
    pub(crate) fn next_job(&mut self) -> Result<Option<HintItem>, Damaged> {
        let Some(left) = self.mark.jobs.checked_sub(1) else { return Ok(None) };
        self.mark.jobs = left;
        let reader = &mut self.reader;
        let id = JobId(self.mark.before.0.saturating_add(read_number(reader)?));
        self.mark.before = id;
        let Some(nth) = usize::from(reader.u8()?).checked_sub(1) else {
            return Ok(Some(HintItem { id, job: None }));
        };
        let state = *State::ALL.get(nth).ok_or(Damaged("unknown state"))?;
        Ok(Some(HintItem { id, job: Some(get_job(reader, state)?) }))
    }

    /// Returns the next side record. Call it only after all jobs.
    pub(crate) fn next_side(&mut self) -> Result<Option<&'a [u8]>, Damaged> {
        let sides = match self.mark.sides {
            Some(sides) => sides,
            None => self.reader.var()?,
        };
        self.mark.sides = Some(sides.saturating_sub(1));
        if sides == 0 {
            return Ok(None);
        }
        self.reader.chunk().map(Some)
    }
}

fn get_job(reader: &mut ByteReader<'_>, state: State) -> Result<HintJob, Damaged> {
    let bits = reader.var32()?;
    let has = |bit: u32| bits & bit != 0;
    let location = get_spot(reader)?;
    let base = if has(MOVED) { get_spot(reader)? } else { location };
    let lane = if has(LANE) { Some(reader.var32()?) } else { None };
    let (priority, at) = (reader.zig32()?, reader.time(Time::ZERO)?);
    let lease_until = if has(LEASED) { reader.time(Time::ZERO)? } else { Time::ZERO };
    let result_until = if has(RESULT) { Some(reader.time(Time::ZERO)?) } else { None };
    let deadline = if has(DEADLINE) { Some(reader.time(Time::ZERO)?) } else { None };
    let client = if has(CLIENT) {
        Some(ClientId { door: reader.name()?, id: reader.text()?.into() })
    } else {
        None
    };
    let costs = if has(COSTS) { Some(get_costs(reader)?) } else { None };
    let keys = if has(KEYS) { get_index_keys(reader)?.into() } else { Arc::default() };
    let error = if has(ERROR) { Some(IndexKey(reader.u64()?)) } else { None };
    let broken = has(BROKEN);
    Ok(HintJob {
        location,
        base,
        lane,
        priority,
        state,
        broken,
        at,
        lease_until,
        result_until,
        deadline,
        client,
        costs,
        keys,
        error,
    })
}

fn get_spot(reader: &mut ByteReader<'_>) -> Result<RecordLocation, Damaged> {
    Ok(RecordLocation { segment: reader.u32()?, offset: reader.u32()?, len: reader.u32()? })
}
