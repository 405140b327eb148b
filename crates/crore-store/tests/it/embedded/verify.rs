//! Verify: a good store passes, all damage is found, and nothing is changed.

use std::sync::Arc;

use crore_conformance::sim_disk::{DiskCall, SimDisk};
use crore_store::Error;
use crore_store::embedded::verify;
use proptest::prelude::*;

use super::image::{Image, content, disk, flip, frames, last_hint, look, records, rich, segments};
use super::rich::SteppedStore;

#[test]
fn an_undamaged_store_passes_and_is_counted() {
    let image = rich();
    let report = look(&image);
    assert!(report.is_good(), "{report}");
    assert!(report.segments >= 3, "{report}");
    assert_eq!(report.jobs.len(), 7, "there is a job in every state: {report}");
    assert!(report.live > 0 && report.waste > 0 && report.commits.0 > 1, "{report}");
    assert_eq!((report.unfinished, report.holes), (None, vec![]));
}

#[test]
fn verify_writes_nothing() {
    let disk = disk(&rich());
    let before = disk.image();
    verify(&disk).expect("a store");
    assert_eq!(disk.image(), before);
    assert_eq!(
        disk.count(DiskCall::Write) + disk.count(DiskCall::Sync) + disk.count(DiskCall::Remove),
        0
    );
}

#[test]
fn a_directory_without_a_store_is_refused() {
    let empty = verify(&SimDisk::new(1)).expect_err("nothing");
    assert!(matches!(&empty, Error::Foreign { what } if what == "no log files of a store"));
    let foreign = Image::from([("notes.txt".to_owned(), b"hello".to_vec())]);
    let foreign = verify(&disk(&foreign)).expect_err("not a store");
    assert!(foreign.to_string().contains("notes.txt"), "{foreign}");
}

#[test]
fn every_flipped_byte_except_padding_is_found() {
    let image = rich();
    let all = segments(&image);
    let (number, name) = &all[1];
    let last = frames(&image, name).last().expect("frames").1;
    for at in (0..last).step_by(3) {
        let mut damaged = image.clone();
        flip(&mut damaged, name, at);
        let Ok(report) = verify(&disk(&damaged)) else { continue };
        let is_padding = is_padding(&image, name, at);
        assert_eq!(report.is_good(), is_padding, "segment {number}, offset {at}: {report}");
    }
}

/// Whether a byte is padding of a frame.
fn is_padding(image: &Image, name: &str, at: usize) -> bool {
    let frame =
        frames(image, name).into_iter().find(|(start, end, _)| (*start..*end).contains(&at));
    frame.is_some_and(|(start, end, _)| {
        records(image, name, (start, end)).last().is_some_and(|(_, last)| at >= *last)
    })
}

#[test]
fn damage_is_reported_with_file_and_offset() {
    let mut image = rich();
    let (_, name) = segments(&image)[1].clone();
    let (start, end, commit) = frames(&image, &name)[1];
    flip(&mut image, &name, start + 60);
    let report = look(&image);
    let damage = &report.damage[0];
    assert_eq!(
        (&damage.file, damage.offset, damage.len),
        (&name, start as u64, (end - start) as u64)
    );
    assert_eq!(damage.commits, Some((commit, commit)));
    let text = report.to_string();
    assert!(text.contains(&format!("{name}, offset {start}")), "{text}");
    assert!(text.contains("DAMAGED"), "{text}");
}

#[test]
fn an_unfinished_commit_is_not_damage() {
    let mut image = rich();
    let all = segments(&image);
    let (_, name) =
        all.iter().rev().find(|(_, name)| !frames(&image, name).is_empty()).expect("one");
    let (start, _, commit) = *frames(&image, name).last().expect("frames");
    flip(&mut image, name, start + 50);
    let report = look(&image);
    assert!(report.is_good(), "{report}");
    assert_eq!(report.unfinished, Some(format!("`{name}`, offset {start}: commit {commit}")));
}

#[test]
fn a_false_hint_is_detected_and_a_torn_one_ignored() {
    let image = rich();
    let hint = last_hint(&image);
    let mut torn = image.clone();
    torn.get_mut(&hint).expect("it exists").truncate(90);
    assert!(look(&torn).is_good());
    let mut damaged = image.clone();
    let bytes = damaged.get_mut(&hint).expect("it exists");
    *bytes.last_mut().expect("bytes") ^= 1;
    let sum = crc32c::crc32c(&bytes[16..]);
    bytes[12..16].copy_from_slice(&sum.to_le_bytes());
    let report = look(&damaged);
    assert_eq!(report.damage.len(), 1, "{report}");
    assert_eq!(report.damage[0].file, hint);
}

#[test]
fn a_spare_with_a_torn_head_is_not_damage() {
    let mut image = rich();
    let before = content(&image);
    // A released file with old frames and a half-written head.
    let (_, name) = segments(&image)[0].clone();
    let old = image.keys().find(|name| name.starts_with("hint-")).expect("a hint");
    let number: u64 = old["hint-".len()..].parse().expect("a number");
    let mut spare = vec![0; 4096];
    spare[..20].copy_from_slice(&image[&name][..20]);
    spare[64..72].copy_from_slice(&[7; 8]);
    spare[72..80].copy_from_slice(&number.to_le_bytes());
    image.insert("log-00000777".to_owned(), spare);
    let report = look(&image);
    assert!(report.is_good(), "{report}");
    assert_eq!(content(&image), before);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_bytes_make_verify_panic(
        hits in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<[u8; 9]>()), 1..20),
        cut in any::<Option<(prop::sample::Index, prop::sample::Index)>>(),
    ) {
        let mut image = FIXED.with(Clone::clone);
        let names: Vec<String> = image.keys().cloned().collect();
        for (file, at, bytes) in hits {
            let file = image.get_mut(file.get(&names)).expect("it exists");
            if !file.is_empty() {
                let at = at.index(file.len());
                let end = (at + bytes.len()).min(file.len());
                file[at..end].copy_from_slice(&bytes[..end - at]);
            }
        }
        if let Some((file, at)) = cut {
            let file = image.get_mut(file.get(&names)).expect("it exists");
            file.truncate(at.index(file.len() + 1));
        }
        // Any result is allowed, as long as it can be printed.
        if let Ok(report) = verify(&disk(&image)) {
            prop_assert!(!report.to_string().is_empty());
        }
        let disk = disk(&image);
        if crore_store::embedded::repair(&disk).is_ok() {
            let report = verify(&disk).expect("a store");
            prop_assert!(report.is_good(), "{report}");
            let opened = SteppedStore::open(Arc::new(disk));
            prop_assert!(opened.is_ok(), "{:?}", opened.err());
        }
    }
}

thread_local! {
    static FIXED: Image = rich();
}
