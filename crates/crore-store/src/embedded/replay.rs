//! From the segments that count to the index.

use std::collections::BTreeMap;
use std::sync::Arc;

use crore_core::Time;

use super::codec::Damaged;
use super::disk::{Disk, File, Open};
use super::frame::{HEADER, Header};
use super::hint::{Hint, Item, Summary};
use super::log::{Log, Row};
use super::record::{Meta, Record};
use super::recover::{CUT_OFF, Candidate, Found, Opening, corrupt, hint_name, unavailable};
use super::room::{Freed, Segment};
use super::scan::{self, Later};
use super::segment;
use super::side;
use super::tail::Tail;
use crate::Error;
use crate::bug::planted;
use crate::local::{Key, Local, Place, Slot, Value};

/// A segment that counts, and what it says.
struct Known {
    segment: u32,
    name: u64,
    file: Arc<dyn File>,
    summary: Summary,
    /// Its hint, if there is no file of it.
    hint: Option<Vec<u8>>,
    /// What stands behind its last good frame, if it was read from its frames.
    behind: Behind,
}

/// What stands behind the last good frame of a segment.
#[derive(Default)]
struct Behind {
    stop: Option<Damaged>,
    later: Vec<Later>,
    /// What stands there, read as the header of a frame, which may be an older use of the file's.
    header: Option<Header>,
}

/// What a recovery gives.
pub(crate) struct Recovered {
    pub(crate) local: Local<Log>,
    pub(crate) numbers: Meta,
    pub(crate) last: Time,
    pub(crate) found: Found,
}

impl Opening<'_> {
    pub(crate) fn recover(mut self, seed: u64) -> Result<Recovered, Error> {
        let (mut known, spare) = self.known(seed)?;
        let oldest = known.first().map_or(0, |first| first.segment.into());
        let (unfinished, next) = self.cut(&mut known)?;
        self.check_unknown(seed, oldest, known.last().map_or(0, |newest| newest.summary.last))?;
        secure(&known).map_err(unavailable)?;
        let newest = known.last().ok_or_else(|| corrupt(0, 0, "no segment has a commit"))?;
        let Summary { last, at, end, .. } = newest.summary;
        let mut local = Local::with(Log::new(seed, Tail::new(last + 1, newest.segment, end)));
        let numbers = replay(&mut local, &known, self.disk, seed)?;
        let found = Found { segments: known.len(), commit: last, unfinished };
        let rolls = newest.hint.is_none();
        let log = local.records_mut();
        log.next_name = self.next_name;
        log.next = next;
        log.freed = spare.into();
        // A segment that has a hint stays as it is.
        if rolls {
            log.roll();
        }
        self.clear_away()?;
        Ok(Recovered { local, numbers, last: Time::from_millis(at), found })
    }

    /// The segments that may count, oldest first, and those that count no more.
    fn known(&mut self, seed: u64) -> Result<(Vec<Known>, Vec<Freed>), Error> {
        let mut known = Vec::<Known>::new();
        let spare = std::mem::take(&mut self.spare).into_iter().map(Candidate::freed);
        let mut spare: Vec<Freed> = spare.collect::<Result<_, _>>()?;
        let mut oldest = 0;
        for candidate in std::mem::take(&mut self.segments).into_values().rev() {
            if candidate.head.segment < oldest {
                spare.push(candidate.freed()?);
                continue;
            }
            let one = self.read(candidate, seed)?;
            if oldest == 0 && one.summary.last > 0 {
                oldest = one.summary.oldest;
            }
            known.push(one);
        }
        known.reverse();
        let expected = known.first().map_or(0, |first| first.segment).max(oldest as u32);
        for (number, one) in (expected..).zip(&known) {
            if one.segment != number {
                return Err(corrupt(
                    one.name,
                    0,
                    &format!("the file of segment {number} is missing"),
                ));
            }
        }
        if u64::from(known.first().map_or(0, |first| first.segment)) > oldest && oldest > 0 {
            let what = format!("the file of segment {oldest} is missing");
            return Err(corrupt(known.first().map_or(0, |first| first.name), 0, &what));
        }
        Ok((known, spare))
    }

    fn read(&self, candidate: Candidate, seed: u64) -> Result<Known, Error> {
        let Candidate { name, file, head } = candidate;
        let segment = u32::try_from(head.segment)
            .map_err(|_| corrupt(name, 16, "a segment's number is out of range"))?;
        let size = scan::size(&*file).map_err(unavailable)?;
        if size < head.size {
            return Err(corrupt(name, size, CUT_OFF));
        }
        if let Some(bytes) = read_hint(self.disk, segment)?
            && let Ok(hint) = Hint::read(&bytes, segment, seed)
            && hint.summary.end <= size
        {
            let summary = hint.summary;
            let behind = Behind::default();
            return Ok(Known { segment, name, file, summary, hint: None, behind });
        }
        let bytes = scan::read_all(&*file).map_err(unavailable)?;
        let scan = scan::scan(&bytes, segment, seed);
        let scan = scan.map_err(|(at, damaged)| corrupt(name, at, damaged.0))?;
        let header = scan::header(&bytes, scan.end);
        let behind = Behind { stop: Some(scan.stop), later: scan.later, header };
        let hint = scan.gathered.finish(seed, scan.end);
        let summary = Hint::read(&hint, segment, seed).map(|hint| hint.summary);
        let summary = summary.map_err(|damaged| corrupt(name, 0, damaged.0))?;
        Ok(Known { segment, name, file, summary, hint: Some(hint), behind })
    }

    /// Ends the log where its commits end. What stands behind that was not finished, and is wiped; if
    /// one of those commits says that a missing one was finished, that is damage.
    fn cut(&self, known: &mut Vec<Known>) -> Result<(Option<String>, Option<Segment>), Error> {
        let whole = (1..known.len()).take_while(|nth| follows(known, *nth)).count() + 1;
        let rest = known.split_off(whole.min(known.len()));
        let Some(end) = known.last() else { return Ok((None, None)) };
        let missing = end.summary.last + 1;
        let newest =
            rest.iter().map(Known::newest_synced).chain([end.behind.newest_synced()]).max();
        if newest.flatten().is_some_and(|synced| synced >= missing) {
            let stop = end.behind.stop.map_or("no frame", |stop| stop.0);
            let what =
                format!("{stop}, where commit {missing} should be, and later ones are there");
            return Err(corrupt(end.name, end.summary.end, &what));
        }
        let mut unfinished = std::iter::once(end).chain(&rest).filter(|one| one.has_more(missing));
        let unfinished = unfinished.next().map(|one| {
            format!("`{}`, offset {}: commit {missing}", segment::name(one.name), one.summary.end)
        });
        end.wipe_behind(missing).map_err(unavailable)?;
        let mut next = None;
        for one in rest {
            if one.summary.last == 0 && one.segment == end.segment + 1 {
                one.secure_head().map_err(unavailable)?;
                one.wipe_behind(missing).map_err(unavailable)?;
                next = Some(one.segment()?);
            } else {
                one.file.write(0, &[0; segment::HEAD]).map_err(unavailable)?;
                one.file.sync().map_err(unavailable)?;
                self.disk.remove(&segment::name(one.name)).map_err(unavailable)?;
            }
        }
        // A hint is written when the log goes on in the next segment.
        if end.hint.is_none() && next.is_none() {
            let what = format!("the file of segment {} is missing", end.segment + 1);
            return Err(corrupt(end.name, end.summary.end, &what));
        }
        Ok((unfinished, next))
    }
}

/// Writes again what no later commit knows to be durable. A sync that failed before the process ended
/// leaves bytes that can be read and count as clean, but are not on the disk; to sync them again does
/// nothing, and without this a power cut would take them from under commits that build on them.
fn secure(known: &[Known]) -> std::io::Result<()> {
    let synced = known.last().map_or(0, |newest| newest.summary.synced);
    let doubtful = |one: &&Known| one.hint.is_some() && one.summary.last > synced;
    for one in known.iter().filter(doubtful) {
        let bytes = scan::read_all(&*one.file)?;
        let bytes = bytes.get(..one.summary.end as usize).unwrap_or(&bytes);
        let mut at = segment::HEAD;
        while let Ok((_, header)) = Header::read(bytes.get(at..).unwrap_or_default())
            && header.commit <= synced
        {
            at = at.saturating_add(header.stride() as usize);
        }
        // Whoever doubts the first frame doubts the head.
        let at = if at == segment::HEAD { 0 } else { at };
        one.file.write(at as u64, bytes.get(at..).unwrap_or_default())?;
        one.file.sync()?;
    }
    Ok(())
}

/// Whether a segment's commits follow those of the segment before.
fn follows(known: &[Known], nth: usize) -> bool {
    let (Some(before), Some(one)) = (known.get(nth - 1), known.get(nth)) else { return false };
    one.summary.last > 0 && one.summary.first == before.summary.last + 1 && before.behind.is_clean()
}

impl Behind {
    fn newest_synced(&self) -> Option<u64> {
        self.later.iter().map(|later| later.header.synced).max()
    }

    const fn is_clean(&self) -> bool {
        self.later.is_empty()
    }

    /// Whether there is the beginning of a frame for this segment or of this commit. One bit that is
    /// flipped cannot hide both.
    fn is_torn(&self, segment: u32, commit: u64) -> bool {
        let segment = u64::from(segment);
        let ours = |header: &Header| header.segment == segment || header.commit == commit;
        self.header.as_ref().is_some_and(ours)
    }
}

impl Known {
    /// Whether there is anything of a commit, of which this is the first that is missing, behind the
    /// good frames.
    fn has_more(&self, missing: u64) -> bool {
        self.summary.last >= missing
            || !self.behind.is_clean()
            || self.behind.is_torn(self.segment, missing)
    }

    /// The newest commit that a commit in here knows to be durable.
    fn newest_synced(&self) -> Option<u64> {
        if self.hint.is_none() {
            return Some(u64::MAX);
        }
        let good = (self.summary.last > 0).then_some(self.summary.synced);
        good.max(self.behind.newest_synced())
    }

    /// Writes the head again, for the same reason: frames that come behind it do not make it durable.
    fn secure_head(&self) -> std::io::Result<()> {
        let mut head = [0; segment::HEAD];
        self.file.read(0, &mut head)?;
        self.file.write(0, &head)?;
        self.file.sync()
    }

    /// Wipes the headers of frames that do not count, so that none of them ever will.
    fn wipe_behind(&self, missing: u64) -> std::io::Result<()> {
        let torn = self.behind.is_torn(self.segment, missing).then_some(self.summary.end);
        let later = self.behind.later.iter().map(|later| later.at);
        let all: Vec<u64> = torn.into_iter().chain(later).collect();
        for at in &all {
            self.file.write(*at, &[0; HEADER])?;
        }
        if all.is_empty() { Ok(()) } else { self.file.sync() }
    }

    fn segment(&self) -> Result<Segment, Error> {
        let size = scan::size(&*self.file).map_err(unavailable)?;
        let (name, hinted) = (self.name, self.hint.is_none());
        let Summary { end, last, .. } = self.summary;
        Ok(Segment {
            name,
            file: Arc::clone(&self.file),
            size,
            end,
            live: 0,
            sides: 0,
            last,
            hinted,
        })
    }
}

/// A segment's hint, if there is one.
pub(crate) fn read_hint(disk: &dyn Disk, segment: u32) -> Result<Option<Vec<u8>>, Error> {
    match disk.open(&hint_name(segment), Open::Existing) {
        Ok(file) => scan::read_all(&*file).map(Some).map_err(unavailable),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unavailable(error)),
    }
}

/// Removes a hint, so that no power cut brings it back.
pub(crate) fn drop_hint(disk: &dyn Disk, segment: u32) -> Result<(), Error> {
    let name = hint_name(segment);
    let file = disk.open(&name, Open::Create).map_err(unavailable)?;
    file.write(0, &[0; segment::HEAD]).map_err(unavailable)?;
    file.sync().map_err(unavailable)?;
    disk.remove(&name).map_err(unavailable)
}

/// Brings everything that the segments say into the index, and gives the last numbers.
///
/// The first pass finds the newest record of every key, the second brings the jobs in; what is in
/// memory between them is what stays there.
fn replay(
    local: &mut Local<Log>,
    known: &[Known],
    disk: &dyn Disk,
    seed: u64,
) -> Result<Meta, Error> {
    let mut numbers = Meta::default();
    let mut sides: BTreeMap<Key, Option<Value>> = BTreeMap::new();
    for one in known {
        local.records_mut().segments.insert(one.segment, one.segment()?);
        let mut n = 0;
        with_hint(one, disk, seed, |hint| {
            numbers = numbers.or_later(hint.summary.meta);
            let lanes = local.restore_lanes(&hint.lanes);
            hint.walk(
                |item| find(local, item, &lanes),
                |body| {
                    n += 1;
                    gather_side(&mut sides, body)
                },
            )
        })?;
        local.records_mut().segments.entry(one.segment).and_modify(|segment| segment.sides = n);
    }
    for one in known {
        with_hint(one, disk, seed, |hint| hint.walk(|item| enter(local, item), |_| Ok(())))?;
    }
    for (key, value) in sides {
        // Notes go with their job.
        let of_job = match key {
            Key::Progress(id) | Key::Line(id, _) => Some(id),
            _ => None,
        };
        let is_left = of_job.is_some_and(|id| local.records().rows.get(id).is_none());
        if let Some(value) = value.filter(|_| !is_left) {
            local.restore(key, value);
        }
    }
    local.touched();
    local.woken();
    Ok(numbers)
}

/// Why a hint was not walked to its end.
struct Stop(&'static str);

impl From<Damaged> for Stop {
    fn from(damaged: Damaged) -> Self {
        Self(damaged.0)
    }
}

fn with_hint(
    one: &Known,
    disk: &dyn Disk,
    seed: u64,
    walk: impl FnOnce(&Hint<'_>) -> Result<(), Stop>,
) -> Result<(), Error> {
    let read;
    let bytes = match &one.hint {
        Some(bytes) => bytes,
        None => {
            read = read_hint(disk, one.segment)?.unwrap_or_default();
            &read
        }
    };
    let hint = Hint::read(bytes, one.segment, seed).map_err(|e| corrupt(one.name, 0, e.0))?;
    walk(&hint).map_err(|stop| corrupt(one.name, 0, stop.0))
}

/// Notes where a job's newest record is, up to this segment.
fn find(local: &mut Local<Log>, item: Item, lanes: &[u32]) -> Result<(), Stop> {
    let rows = &mut local.records_mut().rows;
    let Some(job) = item.job else {
        if !planted!("bug-15") {
            rows.remove(item.id);
        }
        return Ok(());
    };
    let lane = match job.lane {
        Some(nth) => lanes.get(nth as usize).copied(),
        None => rows.get(item.id).map(|row| row.lane()),
    };
    // Without its put a job cannot be told; a repair may have had to leave it out.
    let Some(lane) = lane else {
        rows.remove(item.id);
        return Ok(());
    };
    rows.insert(item.id, Row::new(job.spot, lane));
    Ok(())
}

/// Brings a job into the index, if this is its newest record.
fn enter(local: &mut Local<Log>, item: Item) -> Result<(), Stop> {
    let log = local.records_mut();
    let (Some(job), Some(row)) = (item.job, log.rows.get(item.id).copied()) else { return Ok(()) };
    if row.spot == job.spot {
        log.count(job.spot, 1);
        if job.base != job.spot {
            log.count(job.base, 1);
        }
        local.restore_job(Place {
            lane: row.lane(),
            state: job.state,
            broken: job.broken,
            priority: job.priority,
            slot: Slot { at: job.at, id: item.id },
            lease_until: job.lease_until,
            result_until: job.result_until,
        });
    }
    if let Some(client) = job.client {
        local.restore_client(&client, item.id);
    }
    Ok(())
}

fn gather_side(sides: &mut BTreeMap<Key, Option<Value>>, body: &[u8]) -> Result<(), Stop> {
    if let Record::Side { key, value } = Record::read(body)? {
        let value = side::get_value(&key, value)?;
        sides.insert(key, value);
    }
    Ok(())
}
