//! Opening: what the files say becomes the index, or a clear refusal.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex};

use crore_core::{Clock, Time};

use super::backup;
use super::commit::{Pen, Sync};
use super::disk::{Disk, File, Open};
use super::durable::Durable;
use super::inner::{Hooks, Inner, Sleep, State};
use super::log::Log;
use super::options::Options;
use super::record::Meta;
use super::replay::Recovered;
use super::room::{Freed, Segment};
use super::scan;
use super::segment::{self, HEAD, Head, Kind};
use super::tail::Tail;
use crate::Error;
use crate::bug::planted;
use crate::local::Local;
use crate::vitals::Pulse;

/// Deliveries of one opening of the store: the numbers of the next begin beyond all that this one can
/// have given out and forgotten.
const EPOCH_BITS: u32 = 40;

/// What is said of a file that is shorter than it was.
pub(crate) const CUT_OFF: &str = "the end of the file is cut off";

/// What was found when a store was opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// How many files hold the log.
    pub segments: usize,
    /// The newest commit.
    pub commit: u64,
    /// Where the log ended in a commit that was not finished, which is not there any more.
    pub unfinished: Option<String>,
}

/// A file that says that it is a segment.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) name: u64,
    pub(crate) file: Arc<dyn File>,
    pub(crate) head: Head,
}

impl Candidate {
    /// A segment that counts no more.
    pub(crate) fn freed(self) -> Result<Freed, Error> {
        let size = scan::size(&*self.file).map_err(unavailable)?;
        let segment = u32::try_from(self.head.segment).unwrap_or(u32::MAX);
        Ok(Freed { commit: 0, name: self.name, segment, file: self.file, size })
    }
}

impl Inner {
    /// Opens a store, or makes a new one in an empty directory.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        options: Options,
        seed: u64,
    ) -> Result<(Self, Found), Error> {
        let opening = Opening::look(&*disk, options)?;
        let Recovered { mut local, numbers, last, found } = match opening.seed() {
            None => opening.create(seed)?,
            Some(seed) => opening.recover(seed)?,
        };
        let commit = local.records().tail.commit - 1;
        local.restore_numbers(numbers.last_id, next_epoch(numbers.last_delivery), numbers.revision);
        local.set_defaults(options.queues);
        let meta = local.meta();
        local.records_mut().append_meta(meta);
        let state = State {
            local,
            last,
            full: None,
            stopping: false,
            committer: Sleep::Awake,
            waited: false,
            closed: None,
            keeper: Sleep::Awake,
        };
        let inner = Self {
            disk,
            clock,
            options,
            state: Mutex::new(state),
            pen: Mutex::new(Pen::default()),
            keeper: Mutex::default(),
            to_commit: Condvar::new(),
            to_keep: Condvar::new(),
            durable: Durable::up_to(commit),
            hooks: Hooks::default(),
            pulse: Pulse::default(),
        };
        // No delivery is handed out before it is on the disk that these numbers are used.
        inner.commit_once(Sync::Now)?;
        Ok((inner, found))
    }
}

/// The delivery after which an opening begins to count.
fn next_epoch(last: u64) -> u64 {
    if planted!("bug-16") {
        return last;
    }
    ((last >> EPOCH_BITS) + 1) << EPOCH_BITS
}

/// The files of a directory, as far as their first bytes tell.
#[derive(Debug)]
pub(crate) struct Opening<'a> {
    pub(crate) disk: &'a dyn Disk,
    options: Options,
    /// By the segment that they say they are.
    pub(crate) segments: BTreeMap<u64, Candidate>,
    /// Files that are kept for later.
    pub(crate) spare: Vec<Candidate>,
    /// Files whose first bytes say nothing, or cannot be read.
    unknown: Vec<(u64, Kind, Arc<dyn File>)>,
    pub(crate) next_name: u64,
}

impl<'a> Opening<'a> {
    fn look(disk: &'a dyn Disk, options: Options) -> Result<Self, Error> {
        let names = disk.list().map_err(unavailable)?;
        backup::check_mark(disk, &names)?;
        let numbers: Vec<u64> = names.iter().filter_map(|name| segment::number(name)).collect();
        let strange = |name: &&String| segment::number(name).is_none() && !is_hint(name);
        if let Some(name) = names.iter().filter(strange).min().filter(|_| numbers.is_empty()) {
            let what = format!("there is `{name}`, and nothing of a store");
            return Err(Error::Foreign { what });
        }
        let next_name = numbers.iter().max().map_or(1, |n| n + 1);
        let (segments, spare, unknown) = (BTreeMap::new(), Vec::new(), Vec::new());
        let mut opening = Self { disk, options, segments, spare, unknown, next_name };
        for name in numbers {
            opening.add(name)?;
        }
        Ok(opening)
    }

    fn add(&mut self, name: u64) -> Result<(), Error> {
        let file = self.disk.open(&segment::name(name), Open::Existing).map_err(unavailable)?;
        let mut bytes = [0; HEAD];
        let n = file.read(0, &mut bytes).map_err(unavailable)?;
        match Kind::of(bytes.get(..n).unwrap_or_default()) {
            Kind::Segment(head) => {
                let seed = self.seed().unwrap_or(head.seed);
                if seed != head.seed {
                    let what = format!("`{}` is of another store", segment::name(name));
                    return Err(Error::Foreign { what });
                }
                if head.segment == segment::SPARE {
                    self.spare.push(Candidate { name, file, head });
                    return Ok(());
                }
                if let Some(other) =
                    self.segments.insert(head.segment, Candidate { name, file, head })
                {
                    let what = format!("`{}` is the same segment", segment::name(other.name));
                    return Err(corrupt(name, 0, &what));
                }
            }
            Kind::Newer(version) => {
                let what = format!(
                    "`{}` has format version {version}, and this crore reads version {}",
                    segment::name(name),
                    segment::VERSION
                );
                return Err(Error::Foreign { what });
            }
            // A head is written when all of its file is there.
            Kind::Unknown if n < HEAD => return Err(corrupt(name, n as u64, CUT_OFF)),
            kind @ (Kind::Blank | Kind::Unknown) => self.unknown.push((name, kind, file)),
        }
        Ok(())
    }

    fn seed(&self) -> Option<u64> {
        self.segments.values().next().map(|candidate| candidate.head.seed)
    }

    /// A file without a readable head is harmless if nothing stands in it that counts: then its head
    /// was being written when the machine stopped, or wiped with commits that were not finished, of
    /// which `last` is the one before.
    pub(crate) fn check_unknown(&self, seed: u64, oldest: u64, last: u64) -> Result<(), Error> {
        for (name, kind, file) in &self.unknown {
            let bytes = scan::read_all(&**file).map_err(unavailable)?;
            let rest = bytes.get(HEAD..).unwrap_or_default();
            let counts = scan::newest_synced(rest, seed, oldest)
                .is_some_and(|synced| *kind == Kind::Unknown || synced > last);
            if counts {
                return Err(corrupt(*name, 0, "its head is damaged"));
            }
        }
        Ok(())
    }

    /// Without any segment there is no store, unless something stands in a file.
    fn check_new(&self) -> Result<(), Error> {
        if let Some(spare) = self.spare.first() {
            return Err(corrupt(spare.name, 0, "a spare file is there, and no segment"));
        }
        for (name, _, file) in &self.unknown {
            let bytes = scan::read_all(&**file).map_err(unavailable)?;
            if bytes.iter().skip(HEAD).any(|byte| *byte != 0) {
                return Err(corrupt(*name, 0, "its head is damaged"));
            }
        }
        Ok(())
    }

    /// A new store.
    fn create(mut self, seed: u64) -> Result<Recovered, Error> {
        self.check_new()?;
        self.clear_away()?;
        let size = segment::size(1, self.options.segment_bytes);
        let name = self.next_name;
        let head = Head { segment: 1, seed, size };
        let segment = make_segment(self.disk, name, head).map_err(unavailable)?;
        let mut log = Log::new(seed, Tail::new(1, 1, HEAD as u64));
        log.next_name = name + 1;
        log.segments.insert(1, segment);
        let found = Found { segments: 1, ..Found::default() };
        Ok(Recovered { local: Local::with(log), numbers: Meta::default(), last: Time::ZERO, found })
    }

    /// Removes what is left of files that were being made.
    pub(crate) fn clear_away(&mut self) -> Result<(), Error> {
        for (name, ..) in self.unknown.drain(..) {
            self.disk.remove(&segment::name(name)).map_err(unavailable)?;
        }
        Ok(())
    }
}

/// Makes a segment of zeros with a head, all of it on the disk.
pub(crate) fn make_segment(disk: &dyn Disk, name: u64, head: Head) -> io::Result<Segment> {
    const ZEROS: &[u8] = &[0; 2 << 20];
    let size = head.size;
    let file = disk.open(&segment::name(name), Open::Create)?;
    let mut at = 0;
    while at < size {
        let n = (size - at).min(ZEROS.len() as u64);
        file.write(at, ZEROS.get(..n as usize).unwrap_or_default())?;
        at += n;
        // Bit by bit: behind all of it at once, a commit would wait.
        file.sync()?;
    }
    file.write(0, &head.bytes())?;
    file.sync()?;
    Ok(Segment { name, file, size, end: HEAD as u64, live: 0, sides: 0, last: 0, hinted: false })
}

pub(crate) fn unavailable(error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::StorageFull {
        return Error::Full { what: error.to_string() };
    }
    Error::Unavailable(Box::new(error))
}

/// Damage in a file, by its place.
pub(crate) fn corrupt(name: u64, at: u64, what: &str) -> Error {
    Error::Corrupt { what: format!("`{}`, offset {at}: {what}", segment::name(name)) }
}

fn is_hint(name: &str) -> bool {
    name.starts_with(HINT)
}

const HINT: &str = "hint-";

/// The name of a segment's hint.
pub(crate) fn hint_name(segment: u32) -> String {
    format!("{HINT}{segment:08}")
}
