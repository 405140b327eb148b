//! Every bit of every file is flipped, and every file is cut at every byte: what was answered is there
//! afterwards, or what is not is named.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crore_conformance::sim_disk::SimDisk;
use crore_core::job::Why;
use crore_core::{JobId, State};
use crore_store::embedded::Embedded;
use crore_store::embedded::disk::{Disk, File, Open};
use crore_store::jobs::Which;
use crore_store::{Error, Jobs};
use crore_testkit::FakeClock;

use super::driven::run;
use super::script::{Chapter, View, claim, keep_all, open, options, tell, view};

/// The files of a store, and what there is to be seen of it.
struct Image {
    files: BTreeMap<String, Arc<[u8]>>,
    clock: FakeClock,
    /// Whether it was not closed.
    was_left: bool,
    /// What there is, and what there was before the last commit that changed anything.
    is: View,
    was: View,
    most: u64,
}

/// What is done to a file.
#[derive(Debug, Clone, Copy)]
enum Harm {
    Flip { at: usize, bit: u8 },
    Cut(usize),
}

fn images() -> &'static [Image; 2] {
    static IMAGES: OnceLock<[Image; 2]> = OnceLock::new();
    IMAGES.get_or_init(|| {
        let (chapters, most) = tell(12, 40, 64);
        let image = |nth: usize| {
            let before: &Chapter = &chapters[nth - 1];
            let files = chapters[nth].disk.image().into_iter();
            let files: BTreeMap<_, _> = files.map(|(name, bytes)| (name, bytes.into())).collect();
            let is = before.views.last().expect("one").clone();
            let was = before.views.iter().rev().find(|view| **view != is).expect("one").clone();
            let all: usize = files.values().map(|bytes: &Arc<[u8]>| bytes.len()).sum();
            assert!(all >= 64 << 10, "{all} bytes are too few");
            assert!(files.keys().filter(|name| name.starts_with("hint")).count() > 3);
            Image {
                files,
                clock: chapters[nth].time(),
                was_left: nth.is_multiple_of(2),
                is,
                was,
                most,
            }
        };
        [image(11), image(10)]
    })
}

/// A closed store, and one that was not closed.
fn closed() -> &'static Image {
    &images()[0]
}

fn left() -> &'static Image {
    &images()[1]
}

/// An image with one file harmed. What is written is kept apart, so that nothing is copied before.
#[derive(Debug)]
struct Harmed {
    files: Mutex<BTreeMap<String, Arc<Content>>>,
}

#[derive(Debug)]
struct Content {
    base: Arc<[u8]>,
    harm: Option<Harm>,
    own: Mutex<Option<Vec<u8>>>,
}

impl Harmed {
    fn new(image: &Image, name: &str, harm: Harm) -> Self {
        let content = |(of, base): (&String, &Arc<[u8]>)| {
            let harm = (of == name).then_some(harm);
            let content = Content { base: Arc::clone(base), harm, own: Mutex::new(None) };
            (of.clone(), Arc::new(content))
        };
        Self { files: Mutex::new(image.files.iter().map(content).collect()) }
    }
}

impl Disk for Harmed {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(lock(&self.files).keys().cloned().collect())
    }

    fn open(&self, name: &str, how: Open) -> io::Result<Arc<dyn File>> {
        let mut files = lock(&self.files);
        if how == Open::Create {
            let new = || Content { base: [].into(), harm: None, own: Mutex::new(Some(Vec::new())) };
            files.entry(name.to_owned()).or_insert_with(|| Arc::new(new()));
        }
        match files.get(name) {
            Some(content) => Ok(Arc::clone(content) as Arc<dyn File>),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        lock(&self.files).remove(name);
        Ok(())
    }
}

impl Content {
    fn harmed(&self) -> Vec<u8> {
        let mut bytes = self.base.to_vec();
        match self.harm {
            Some(Harm::Flip { at, bit }) => bytes[at] ^= 1 << bit,
            Some(Harm::Cut(at)) => bytes.truncate(at),
            None => {}
        }
        bytes
    }
}

impl File for Content {
    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let own = lock(&self.own);
        let all: &[u8] = match (&*own, self.harm) {
            (Some(own), _) => own,
            (None, Some(Harm::Cut(end))) => &self.base[..end],
            (None, _) => &self.base,
        };
        let at = at as usize;
        let rest = all.get(at..).unwrap_or_default();
        let n = rest.len().min(buffer.len());
        buffer[..n].copy_from_slice(&rest[..n]);
        if let (None, Some(Harm::Flip { at: flipped, bit })) = (&*own, self.harm)
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

/// What became of a harm.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Tally {
    refused: usize,
    harmless: usize,
    /// One job or more is damaged, and says so.
    damaged: usize,
    /// The last commit is gone, and that is said.
    unfinished: usize,
}

/// Harms a file, and looks what the store says.
fn harm(image: &Image, name: &str, harm: Harm, tally: &mut Tally) {
    let disk = Arc::new(Harmed::new(image, name, harm));
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
        Ok(seen) if seen == image.is => tally.harmless += 1,
        Ok(seen) if seen == image.was && store.found().unfinished.is_some() && !is_hint => {
            tally.unfinished += 1;
        }
        Ok(seen) => panic!("{name}, {harm:?}: unnoticed; {}", image.is.differs(&seen)),
        Err(Error::Corrupt { .. }) if !is_hint => {
            assert_damaged(&store, image, &format!("{name}, {harm:?}"));
            tally.damaged += 1;
        }
        Err(error) => panic!("{name}, {harm:?}: {error}"),
    }
}

/// An error says which file, and where.
fn assert_named(error: &Error, case: &str) {
    match error {
        Error::Corrupt { what } => {
            assert!(what.contains("`log-") && what.contains("offset"), "{case}: {what}");
        }
        Error::Foreign { what } => assert!(what.contains("`log-"), "{case}: {what}"),
        other => panic!("{case}: {other}"),
    }
}

/// Every job is as it was or says that it is damaged, and who would run such a one finds it dead.
fn assert_damaged(store: &Embedded, image: &Image, case: &str) {
    let mut damaged: Vec<JobId> = Vec::new();
    for (id, job) in &image.is.jobs {
        match run(store, store.get(vec![Which::Id(*id)])) {
            Ok(found) => assert_eq!(found[0].as_ref(), Some(&**job), "{case}"),
            Err(Error::Corrupt { what }) => {
                assert!(what.contains("segment") && what.contains("offset"), "{case}: {what}");
                damaged.push(*id);
            }
            Err(other) => panic!("{case}: {other}"),
        }
    }
    assert!(!damaged.is_empty(), "{case}: no job is damaged");
    let claimed =
        run(store, store.claim(claim(1000))).expect("what can be read is handed out").jobs;
    for job in claimed {
        assert_eq!(job.spec, image.is.jobs[&job.id].spec, "{case}");
    }
    for id in damaged.iter().filter(|id| image.is.jobs[id].live.state == State::Ready) {
        if let Ok(found) = run(store, store.get(vec![Which::Id(*id)])) {
            let found = found[0].as_ref().expect("it is there");
            assert_eq!(
                (found.live.state, found.live.why),
                (State::Dead, Some(Why::Damaged)),
                "{case}"
            );
        }
    }
}

/// Which harms are done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Harms {
    /// One bit of every so many-th byte, and as many cuts.
    Some,
    /// All of them, in every so many-th byte from the n-th on.
    All(usize),
}

/// How many parts all harms are done in.
const PARTS: usize = 12;

/// Far from a power of two, so that every part of every record is met somewhere.
const STRIDE: usize = 29;

impl Harms {
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

fn flip(image: &Image, which: Harms) {
    let mut tally = Tally::default();
    for (name, bytes) in &image.files {
        for at in which.places(bytes.len()) {
            for bit in which.bits(at) {
                harm(image, name, Harm::Flip { at, bit }, &mut tally);
            }
        }
    }
    assert!(
        image.was_left || tally.unfinished == 0,
        "all was committed before the close: {tally:?}"
    );
    assert!(tally.refused > 100 && tally.harmless > 100 && tally.damaged > 100, "{tally:?}");
}

fn cut(image: &Image, which: Harms) {
    let mut tally = Tally::default();
    for (name, bytes) in &image.files {
        which.places(bytes.len()).for_each(|at| harm(image, name, Harm::Cut(at), &mut tally));
    }
    assert!(tally.refused > 100 && tally.harmless > 100, "{tally:?}");
}

#[test]
fn no_flipped_bit_of_a_closed_store_is_unnoticed() {
    flip(closed(), Harms::Some);
}

#[test]
fn no_flipped_bit_of_a_store_that_was_not_closed_is_unnoticed() {
    flip(left(), Harms::Some);
}

#[test]
fn no_cut_of_a_closed_store_is_unnoticed() {
    cut(closed(), Harms::Some);
}

#[test]
fn no_cut_of_a_store_that_was_not_closed_is_unnoticed() {
    cut(left(), Harms::Some);
}

#[test]
fn a_hint_that_is_not_as_it_should_be_is_made_again() {
    let mut made = 0;
    for (name, bytes) in closed().files.iter().filter(|(name, _)| name.starts_with("hint")) {
        let files = closed().files.iter().map(|(name, bytes)| (name.clone(), bytes.to_vec()));
        let mut files: BTreeMap<_, _> = files.collect();
        let kept = |files| {
            let disk = SimDisk::from_image(files, 1);
            keep_all(&open(&disk, &closed().clock).expect("opened"));
            disk.image().remove(name)
        };
        files.remove(name);
        // Its segment may be one that counts no more.
        if kept(files.clone()).is_some() {
            files.insert(name.clone(), [bytes, [7; 100].as_slice()].concat());
            assert_eq!(kept(files).as_deref(), Some(&**bytes), "{name}");
            made += 1;
        }
    }
    assert!(made > 3, "only {made} hints count");
}

mod all {
    //! Every bit and every byte, in parts that run side by side.
    use super::*;

    macro_rules! parts {
        ($($name:ident = $nth:literal),*) => {$(
            mod $name {
                use super::*;

                #[test]
                fn no_flipped_bit_of_a_closed_store_is_unnoticed() {
                    flip(closed(), Harms::All($nth));
                }

                #[test]
                fn no_flipped_bit_of_a_store_that_was_not_closed_is_unnoticed() {
                    flip(left(), Harms::All($nth));
                }

                #[test]
                fn no_cut_is_unnoticed() {
                    cut(closed(), Harms::All($nth));
                    cut(left(), Harms::All($nth));
                }
            }
        )*};
    }

    parts!(part_1 = 0, part_2 = 1, part_3 = 2, part_4 = 3, part_5 = 4, part_6 = 5);
    parts!(part_7 = 6, part_8 = 7, part_9 = 8, part_10 = 9, part_11 = 10, part_12 = 11);
}
