//! Stores as bytes, to damage and inspect.

use std::collections::BTreeMap;
use std::sync::Arc;

use crore_conformance::sim_disk::SimDisk;
use crore_store::embedded::{VerifyReport, verify};

use super::rich::{SteppedStore, describe, make};

pub(crate) type Image = BTreeMap<String, Vec<u8>>;

/// The files of a store with every kind of record.
pub(crate) fn rich() -> Image {
    let disk = SimDisk::new(1);
    make(Arc::new(disk.clone()));
    disk.image()
}

pub(crate) fn disk(image: &Image) -> SimDisk {
    SimDisk::from_image(image.clone(), 3)
}

pub(crate) fn look(image: &Image) -> VerifyReport {
    verify(&disk(image)).expect("a store")
}

/// The content of a store after opening.
pub(crate) fn content(image: &Image) -> String {
    describe(&SteppedStore::open(Arc::new(disk(image))).expect("it opens"))
}

/// Numbers and file names of the segments, oldest first.
pub(crate) fn segments(image: &Image) -> Vec<(u64, String)> {
    let number = |bytes: &[u8]| bytes.get(16..24)?.try_into().ok().map(u64::from_le_bytes);
    let mut all: Vec<_> = image
        .iter()
        .filter(|(name, bytes)| name.starts_with("log-") && bytes.starts_with(b"crorelog"))
        .filter_map(|(name, bytes)| Some((number(bytes)?, name.clone())))
        .filter(|(number, _)| *number > 0)
        .collect();
    all.sort();
    all
}

/// Start, end and commit of each frame of a segment, from their headers.
pub(crate) fn frames(image: &Image, name: &str) -> Vec<(usize, usize, u64)> {
    let bytes = &image[name];
    let segment = &bytes[16..24];
    let (mut at, mut frames) = (64, Vec::new());
    while bytes.get(at + 8..at + 16) == Some(segment) {
        let len = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().expect("four")) as usize;
        let commit = u64::from_le_bytes(bytes[at + 16..at + 24].try_into().expect("eight"));
        let end = (at + 48 + len).next_multiple_of(8);
        frames.push((at, end, commit));
        at = end;
    }
    frames
}

/// Start and end of each record of a frame.
pub(crate) fn records(image: &Image, name: &str, (at, end): (usize, usize)) -> Vec<(usize, usize)> {
    let bytes = &image[name];
    let len = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().expect("four")) as usize;
    let (mut at, last) = (at + 48, at + 48 + len);
    assert!(last <= end, "records are inside");
    let mut records = Vec::new();
    while at < last {
        let len = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().expect("four")) as usize;
        records.push((at, at + 8 + len));
        at += 8 + len;
    }
    records
}

pub(crate) fn flip(image: &mut Image, name: &str, at: usize) {
    image.get_mut(name).expect("it exists")[at] ^= 0x10;
}

/// The hint of the newest segment that has one.
pub(crate) fn last_hint(image: &Image) -> String {
    image.keys().rfind(|name| name.starts_with("hint-")).expect("a hint").clone()
}
