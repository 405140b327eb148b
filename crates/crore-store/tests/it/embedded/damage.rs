//! Flips every bit of every file, and truncates every file at every byte: acknowledged changes are
//! there afterwards, or the damage is reported.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crore_conformance::sim_disk::SimDisk;
use crore_core::job::EndReason;
use crore_core::{JobId, State};
use crore_store::embedded::Embedded;
use crore_store::embedded::disk::{Disk, DiskFile, OpenMode};
use crore_store::jobs::JobSelector;
use crore_store::{Error, Jobs};
use crore_testkit::FakeClock;

use super::driven::run;
use super::script::{
    Chapter, StoreView, claim, open, options, record_script, run_keeper_to_end, view,
};

/// The files of a store, and its content.
struct StoreImage {
    files: BTreeMap<String, Arc<[u8]>>,
    clock: FakeClock,
    /// Whether the store was not closed.
    is_unclosed: bool,
    /// The content, and the content before the last commit that changed anything.
    content: StoreView,
    previous_content: StoreView,
    most: u64,
}

/// Damage to a file.
#[derive(Debug, Clone, Copy)]
enum FileDamage {
    Flip { at: usize, bit: u8 },
    Cut(usize),
}

fn images() -> &'static [StoreImage; 2] {
    static IMAGES: OnceLock<[StoreImage; 2]> = OnceLock::new();
    IMAGES.get_or_init(|| {
        let (chapters, most) = record_script(12, 40, 64);
        let image = |nth: usize| {
            let before: &Chapter = &chapters[nth - 1];
            let files = chapters[nth].disk.image().into_iter();
            let files: BTreeMap<_, _> = files.map(|(name, bytes)| (name, bytes.into())).collect();
            let is = before.views.last().expect("one").clone();
            let was = before.views.iter().rev().find(|view| **view != is).expect("one").clone();
            let all: usize = files.values().map(|bytes: &Arc<[u8]>| bytes.len()).sum();
            assert!(all >= 64 << 10, "{all} bytes are too few");
            assert!(files.keys().filter(|name| name.starts_with("hint")).count() > 3);
            StoreImage {
                files,
                clock: chapters[nth].time(),
                is_unclosed: nth.is_multiple_of(2),
                content: is,
                previous_content: was,
                most,
            }
        };
        [image(11), image(10)]
    })
}

/// A closed store; [`unclosed`] was not closed.
fn closed() -> &'static StoreImage {
    &images()[0]
}

fn unclosed() -> &'static StoreImage {
    &images()[1]
}

/// An image with one damaged file. Writes go to an overlay, so that nothing is copied in advance.
#[derive(Debug)]
struct DamagedDisk {
    files: Mutex<BTreeMap<String, Arc<DamagedFile>>>,
}

#[derive(Debug)]
struct DamagedFile {
    base: Arc<[u8]>,
    harm: Option<FileDamage>,
    own: Mutex<Option<Vec<u8>>>,
}

impl DamagedDisk {
    fn new(image: &StoreImage, name: &str, harm: FileDamage) -> Self {
        let content = |(of, base): (&String, &Arc<[u8]>)| {
            let harm = (of == name).then_some(harm);
            let content = DamagedFile { base: Arc::clone(base), harm, own: Mutex::new(None) };
            (of.clone(), Arc::new(content))
        };
        Self { files: Mutex::new(image.files.iter().map(content).collect()) }
    }
}

impl Disk for DamagedDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(lock(&self.files).keys().cloned().collect())
    }

    fn open(&self, name: &str, how: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut files = lock(&self.files);
        if how == OpenMode::Create {
            let new =
                || DamagedFile { base: [].into(), harm: None, own: Mutex::new(Some(Vec::new())) };
            files.entry(name.to_owned()).or_insert_with(|| Arc::new(new()));
        }
        match files.get(name) {
            Some(content) => Ok(Arc::clone(content) as Arc<dyn DiskFile>),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        lock(&self.files).remove(name);
        Ok(())
    }
}

impl DamagedFile {
    fn harmed(&self) -> Vec<u8> {
        let mut bytes = self.base.to_vec();
        match self.harm {
            Some(FileDamage::Flip { at, bit }) => bytes[at] ^= 1 << bit,
            Some(FileDamage::Cut(at)) => bytes.truncate(at),
            None => {}
        }
        bytes
    }
}

impl DiskFile for DamagedFile {
    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let own = lock(&self.own);
        let all: &[u8] = match (&*own, self.harm) {
            (Some(own), _) => own,
            (None, Some(FileDamage::Cut(end))) => &self.base[..end],
            (None, _) => &self.base,
        };
        let at = at as usize;
        let rest = all.get(at..).unwrap_or_default();
        let n = rest.len().min(buffer.len());
        buffer[..n].copy_from_slice(&rest[..n]);
        if let (None, Some(FileDamage::Flip { at: flipped, bit })) = (&*own, self.harm)
            && (at..at + n).contains(&flipped)
        {
            buffer[flipped - at] ^= 1 << bit;
        }
        Ok(n)
    }

    fn write(&self, at: u64, new: &[u8]) -> io::Result<()> {
        let mut own = lock(&self.own);
        let own = own.get_or_insert_with(|| self.harmed());
        let end = at as usize + new.len();
        own.resize(own.len().max(end), 0);
        own[at as usize..end].copy_from_slice(new);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of damaged images by result.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct DamageTally {
    refused: usize,
    harmless: usize,
    /// At least one job is damaged, and reported as such.
    damaged: usize,
    /// The last commit is discarded, and reported as unfinished.
    unfinished: usize,
}

/// Damages a file, and checks the store's reaction.
fn check_damage(image: &StoreImage, name: &str, harm: FileDamage, tally: &mut DamageTally) {
    let disk = Arc::new(DamagedDisk::new(image, name, harm));
    let is_hint = name.starts_with("hint");
    let store = match Embedded::open_on(disk, Arc::new(image.clock.clone()), options()) {
        Ok(store) => store,
        Err(error) => {
            assert!(!is_hint, "{name}, {harm:?}: a hint matters: {error}");
            assert_named(&error, &format!("{name}, {harm:?}"));
            tally.refused += 1;
            return;
        }
    };
    let seen = view(&store, image.most);
    match seen {
        Ok(seen) if seen == image.content => tally.harmless += 1,
        Ok(seen)
            if seen == image.previous_content
                && store.open_report().unfinished.is_some()
                && !is_hint =>
        {
            tally.unfinished += 1;
        }
        Ok(seen) => panic!("{name}, {harm:?}: unnoticed; {}", image.content.differs(&seen)),
        Err(Error::Corrupt { .. }) if !is_hint => {
            assert_damaged(&store, image, &format!("{name}, {harm:?}"));
            tally.damaged += 1;
        }
        Err(error) => panic!("{name}, {harm:?}: {error}"),
    }
}

/// The error names the file and the offset.
fn assert_named(error: &Error, case: &str) {
    match error {
        Error::Corrupt { what } => {
            assert!(what.contains("`log-") && what.contains("offset"), "{case}: {what}");
        }
        Error::Foreign { what } => assert!(what.contains("`log-"), "{case}: {what}"),
        other => panic!("{case}: {other}"),
    }
}

/// Every job is unchanged or reported as damaged, and a claim finds a damaged one dead.
fn assert_damaged(store: &Embedded, image: &StoreImage, case: &str) {
    let mut damaged: Vec<JobId> = Vec::new();
    for (id, job) in &image.content.jobs {
        match run(store, store.get(vec![JobSelector::Id(*id)])) {
            Ok(found) => assert_eq!(found[0].as_ref(), Some(&**job), "{case}"),
            Err(Error::Corrupt { what }) => {
                assert!(what.contains("segment") && what.contains("offset"), "{case}: {what}");
                damaged.push(*id);
            }
            Err(other) => panic!("{case}: {other}"),
        }
    }
    assert!(!damaged.is_empty(), "{case}: no job is damaged");
    let claimed = run(store, store.claim(claim(1000))).expect("readable jobs are delivered").jobs;
    for job in claimed {
        assert_eq!(job.spec, image.content.jobs[&job.id].spec, "{case}");
    }
    for id in damaged.iter().filter(|id| image.content.jobs[id].live.state == State::Ready) {
        if let Ok(found) = run(store, store.get(vec![JobSelector::Id(*id)])) {
            let found = found[0].as_ref().expect("it exists");
            assert_eq!(
                (found.live.state, found.live.why),
                (State::Dead, Some(EndReason::Damaged)),
                "{case}"
            );
        }
    }
}

/// Which damage is applied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DamageCoverage {
    /// A bit in every [`STRIDE`]th byte, and as many truncations.
    Some,
    /// Everything, in every [`PARTS`]th byte from the n-th on.
    All(usize),
}

/// Number of parts of the complete run.
const PARTS: usize = 12;

/// Far from a power of two, so that every part of every record is hit somewhere.
const STRIDE: usize = 29;

impl DamageCoverage {
    fn places(self, len: usize) -> Box<dyn Iterator<Item = usize>> {
        match self {
            Self::Some => Box::new((0..len).step_by(STRIDE)),
            Self::All(nth) => Box::new((nth..len).step_by(PARTS)),
        }
    }

    fn bits(self, at: usize) -> std::ops::RangeInclusive<u8> {
        let one = (at / STRIDE % 8) as u8;
        if self == Self::Some { one..=one } else { 0..=7 }
    }
}

fn flip(image: &StoreImage, which: DamageCoverage) {
    let mut tally = DamageTally::default();
    for (name, bytes) in &image.files {
        for at in which.places(bytes.len()) {
            for bit in which.bits(at) {
                check_damage(image, name, FileDamage::Flip { at, bit }, &mut tally);
            }
        }
    }
    assert!(
        image.is_unclosed || tally.unfinished == 0,
        "all was committed before the close: {tally:?}"
    );
    assert!(tally.refused > 100 && tally.harmless > 100 && tally.damaged > 100, "{tally:?}");
}

fn cut(image: &StoreImage, which: DamageCoverage) {
    let mut tally = DamageTally::default();
    for (name, bytes) in &image.files {
        which
            .places(bytes.len())
            .for_each(|at| check_damage(image, name, FileDamage::Cut(at), &mut tally));
    }
    assert!(tally.refused > 100 && tally.harmless > 100, "{tally:?}");
}

#[test]
fn every_flipped_bit_of_a_closed_store_is_detected() {
    flip(closed(), DamageCoverage::Some);
}

#[test]
fn every_flipped_bit_of_an_unclosed_store_is_detected() {
    flip(unclosed(), DamageCoverage::Some);
}

#[test]
fn every_truncation_of_a_closed_store_is_detected() {
    cut(closed(), DamageCoverage::Some);
}

#[test]
fn every_truncation_of_an_unclosed_store_is_detected() {
    cut(unclosed(), DamageCoverage::Some);
}

#[test]
fn an_invalid_hint_is_rebuilt() {
    let mut made = 0;
    for (name, bytes) in closed().files.iter().filter(|(name, _)| name.starts_with("hint")) {
        let files = closed().files.iter().map(|(name, bytes)| (name.clone(), bytes.to_vec()));
        let mut files: BTreeMap<_, _> = files.collect();
        let kept = |files| {
            let disk = SimDisk::from_image(files, 1);
            run_keeper_to_end(&open(&disk, &closed().clock).expect("opened"));
            disk.image().remove(name)
        };
        files.remove(name);
        // Its segment may have been released.
        if kept(files.clone()).is_some() {
            files.insert(name.clone(), [bytes, [7; 100].as_slice()].concat());
            assert_eq!(kept(files).as_deref(), Some(&**bytes), "{name}");
            made += 1;
        }
    }
    assert!(made > 3, "only {made} hints count");
}

mod all {
    //! Every bit and every byte, in parts that run in parallel.
    use super::*;

    macro_rules! parts {
        ($($name:ident = $nth:literal),*) => {$(
            mod $name {
                use super::*;

                #[test]
                fn every_flipped_bit_of_a_closed_store_is_detected() {
                    flip(closed(), DamageCoverage::All($nth));
                }

                #[test]
                fn every_flipped_bit_of_an_unclosed_store_is_detected() {
                    flip(unclosed(), DamageCoverage::All($nth));
                }

                #[test]
                fn every_truncation_is_detected() {
                    cut(closed(), DamageCoverage::All($nth));
                    cut(unclosed(), DamageCoverage::All($nth));
                }
            }
        )*};
    }

    parts!(part_1 = 0, part_2 = 1, part_3 = 2, part_4 = 3, part_5 = 4, part_6 = 5);
    parts!(part_7 = 6, part_8 = 7, part_9 = 8, part_10 = 9, part_11 = 10, part_12 = 11);
}
