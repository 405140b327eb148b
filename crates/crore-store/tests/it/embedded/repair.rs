//! Repair: any damaged store can be opened again, and the report names what is lost.

use std::sync::Arc;

use crore_conformance::sim_disk::SimDisk;
use crore_core::{JobId, NewJob};
use crore_store::Error;
use crore_store::embedded::{RepairReport, repair, verify};

use super::image::{Image, content, disk, flip, frames, last_hint, look, records, rich, segments};
use super::rich::{SteppedStore, spec};

/// Repairs an image, and checks that it opens.
fn repair_and_open(image: &Image) -> (Image, RepairReport) {
    let disk = disk(image);
    let repairs = repair(&disk).unwrap_or_else(|error| panic!("{error}\n{}", look(image)));
    let mended = disk.image();
    let report = look(&mended);
    assert!(report.is_good(), "{repairs}\n{report}");
    content(&mended);
    (mended, repairs)
}

/// A store of plain jobs with distinct payloads, one commit each, and their ids.
fn plain(n: usize) -> (Image, Vec<JobId>) {
    let disk = SimDisk::new(1);
    let stepped = SteppedStore::open(Arc::new(disk.clone())).expect("opened");
    let push = |n: usize| {
        let job =
            NewJob::from(spec("viele", &format!(r#"{{"n": {n}, "{}": 0}}"#, "p".repeat(200))));
        let id = stepped.push(job)[0];
        stepped.settle();
        id
    };
    let ids = (0..n).map(push).collect();
    drop(stepped);
    (disk.image(), ids)
}

/// The jobs that exist in an image.
fn alive(image: &Image, ids: &[JobId]) -> Vec<JobId> {
    let stepped = SteppedStore::open(Arc::new(disk(image))).expect("it opens");
    ids.iter().copied().filter(|id| stepped.job(*id).is_some()).collect()
}

fn without(ids: &[JobId], lost: &[JobId]) -> Vec<JobId> {
    ids.iter().copied().filter(|id| !lost.contains(id)).collect()
}

#[test]
fn a_store_without_damage_is_not_changed() {
    let image = rich();
    let disk = disk(&image);
    let repairs = repair(&disk).expect("good");
    assert!(repairs.is_empty() && disk.image() == image, "{repairs}");
    assert_eq!(repairs.to_string(), "nothing to repair: no damage found");
}

#[test]
fn repair_leaves_an_unfinished_commit_unchanged() {
    let mut image = plain(5).0;
    let (_, name) = segments(&image)[0].clone();
    let (start, ..) = *frames(&image, &name).last().expect("frames");
    flip(&mut image, &name, start + 70);
    let disk = disk(&image);
    assert!(repair(&disk).expect("good").is_empty() && disk.image() == image);
}

#[test]
fn a_damaged_record_loses_itself_only() {
    let image = rich();
    for (_, name) in segments(&image) {
        for (start, end, commit) in frames(&image, &name) {
            let all = records(&image, &name, (start, end));
            for (nth, (from, to)) in all.iter().enumerate() {
                let mut damaged = image.clone();
                flip(&mut damaged, &name, from + 9.min(to - from - 1));
                if look(&damaged).is_good() {
                    continue; // The newest commit: nothing proves that it was finished.
                }
                let (mended, repairs) = repair_and_open(&damaged);
                let step = &repairs.steps[0];
                let others = all.len() - 1;
                let what = format!("{name}, commit {commit}, record {nth}: {repairs}");
                assert_eq!(
                    (step.kept, step.lost.min(1)),
                    (others, usize::from(others > 0)),
                    "{what}"
                );
                let saved = &mended[step.saved.as_ref().expect("kept")];
                assert!(damaged[&name][start..].starts_with(saved) && saved.len() > 48, "{what}");
                if repairs.removed > 0 {
                    continue; // It was a put, and its job's live records are removed with it.
                }
                for (nth, (from, to)) in all.iter().enumerate().filter(|(other, _)| *other != nth) {
                    assert_eq!(
                        mended[&name][*from..*to],
                        image[&name][*from..*to],
                        "{what}, {nth}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_damaged_header_loses_nothing() {
    let (image, ids) = plain(30);
    for (_, name) in segments(&image) {
        for (start, ..) in frames(&image, &name) {
            for at in [0, 5, 9, 17, 25, 33, 41] {
                let mut damaged = image.clone();
                flip(&mut damaged, &name, start + at);
                if look(&damaged).is_good() {
                    continue;
                }
                let (mended, repairs) = repair_and_open(&damaged);
                assert_eq!(alive(&mended, &ids), ids, "{name}, {start} + {at}: {repairs}");
            }
        }
    }
}

#[test]
fn a_lost_job_is_named_if_its_record_is_readable() {
    let (mut image, ids) = plain(30);
    let (_, name) = segments(&image)[1].clone();
    let (start, end, commit) = frames(&image, &name)[2];
    flip(&mut image, &name, end - 30);
    let (mended, repairs) = repair_and_open(&image);
    assert_eq!(repairs.steps[0].jobs.len(), 1, "{repairs}");
    assert_eq!(repairs.steps[0].commits, Some((commit, commit)), "{repairs}");
    assert_eq!(alive(&mended, &ids), without(&ids, &repairs.steps[0].jobs));
    assert_eq!(
        mended[&format!("damaged-{}-{start}", segments(&image)[1].0)],
        image[&name][start..end]
    );
}

#[test]
fn a_store_without_its_newest_file_works_after_a_repair() {
    let (image, ids) = plain(40);
    let all = segments(&image);
    // The newest files are gone, and the newest remaining segment has a hint.
    let mut left = image.clone();
    for (_, name) in &all[2..] {
        left.remove(name);
    }
    assert!(left.contains_key(&format!("hint-{:08}", all[1].0)));
    let on = disk(&left);
    let refused = SteppedStore::open(Arc::new(on.clone())).expect_err("its newest file is missing");
    assert!(refused.to_string().contains("is missing"), "{refused}");
    assert!(!look(&left).is_good());
    repair(&on).expect("repaired");
    for _ in 0..3 {
        let stepped = SteppedStore::open(Arc::new(on.clone())).expect("it opens");
        let id = stepped.push(NewJob::from(spec("neu", "{}")))[0];
        drop(stepped);
        let stepped = SteppedStore::open(Arc::new(on.clone())).expect("it opens again");
        assert!(stepped.job(id).is_some() && stepped.job(ids[0]).is_some());
    }
    assert!(look(&on.image()).is_good());
}

#[test]
fn a_range_of_garbage_loses_only_its_records() {
    let (image, ids) = plain(30);
    let (_, name) = segments(&image)[1].clone();
    let all = frames(&image, &name);
    let (from, to) = (all[2].0, all[5].1);
    let mut damaged = image.clone();
    damaged.get_mut(&name).expect("it exists")[from + 3..to - 5].fill(0xA5);
    let (mended, repairs) = repair_and_open(&damaged);
    assert_eq!(repairs.steps.len(), 1, "{repairs}");
    assert_eq!(repairs.steps[0].commits, Some((all[2].2, all[5].2)));
    let lost = ids.len() - alive(&mended, &ids).len();
    assert!((1..=4).contains(&lost), "{lost} jobs are lost: {repairs}");
    assert_eq!(look(&mended).holes[0].commits, Some((all[2].2, all[5].2)));
    // No number is allocated twice, and the store works.
    let stepped = SteppedStore::open(Arc::new(disk(&mended))).expect("it opens");
    assert!(stepped.push(NewJob::from(spec("neu", "{}")))[0] > *ids.last().expect("jobs"));
}

#[test]
fn a_damaged_head_is_rebuilt() {
    let (image, ids) = plain(30);
    let before = content(&image);
    for (_, name) in segments(&image) {
        for at in [0, 3, 9, 13, 17, 25, 40] {
            let mut damaged = image.clone();
            flip(&mut damaged, &name, at);
            let Ok(report) = verify(&disk(&damaged)) else { panic!("{name}, offset {at}") };
            if report.is_good() {
                assert!(frames(&image, &name).is_empty(), "{name}, offset {at}: {report}");
                continue;
            }
            let (mended, repairs) = repair_and_open(&damaged);
            assert_eq!(content(&mended), before, "{name}, offset {at}: {repairs}");
            assert_eq!(alive(&mended, &ids), ids);
        }
    }
}

#[test]
fn the_head_of_the_only_segment_is_rebuilt() {
    let (image, ids) = plain(3);
    let (_, name) = segments(&image)[0].clone();
    let only = Image::from([(name.clone(), image[&name].clone())]);
    for bit in 0..64 * 8 {
        let mut damaged = only.clone();
        damaged.get_mut(&name).expect("it exists")[bit / 8] ^= 1 << (bit % 8);
        // This may be a later version, which cannot be read.
        if (64..74).contains(&bit) {
            let error = repair(&disk(&damaged)).expect_err("a later version");
            assert!(matches!(error, Error::Foreign { .. }), "bit {bit}: {error}");
            continue;
        }
        let (mended, _) = repair_and_open(&damaged);
        assert_eq!(alive(&mended, &ids), ids, "bit {bit}");
    }
}

#[test]
fn a_missing_file_becomes_a_hole() {
    let (image, ids) = plain(60);
    let all = segments(&image);
    assert!(all.len() >= 5, "{all:?}");
    for range in [0..1, 1..2, 1..3, 2..4] {
        let mut damaged = image.clone();
        for (_, name) in &all[range.clone()] {
            damaged.remove(name);
        }
        let error = SteppedStore::open(Arc::new(disk(&damaged))).expect_err("damaged");
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
        let (mended, repairs) = repair_and_open(&damaged);
        let there = alive(&mended, &ids);
        assert!(!there.is_empty() && there.len() < ids.len(), "{range:?}: {repairs}");
    }
}

#[test]
fn a_truncated_segment_keeps_its_remaining_records() {
    let (image, ids) = plain(60);
    let (_, name) = segments(&image)[1].clone();
    let all = frames(&image, &name);
    for len in [0, 10, 64, 100, all[1].1, all[3].0 + 20, all[3].0 + 60, all[5].1 - 9] {
        let mut damaged = image.clone();
        damaged.get_mut(&name).expect("it exists").truncate(len);
        let (mended, repairs) = repair_and_open(&damaged);
        let there = alive(&mended, &ids);
        let cut = all.iter().filter(|(_, end, _)| *end > len).count();
        assert!(there.len() >= ids.len() - cut, "at {len}: {} there, {repairs}", there.len());
        assert!(there.len() < ids.len(), "at {len}");
    }
}

#[test]
fn a_second_file_of_a_segment_is_set_aside() {
    let image = rich();
    let before = content(&image);
    let (_, name) = segments(&image)[1].clone();
    let mut damaged = image.clone();
    damaged.insert("log-00000777".to_owned(), image[&name].clone());
    let (mended, _) = repair_and_open(&damaged);
    assert_eq!(content(&mended), before);
    assert_eq!(mended["aside-log-00000777"], image[&name]);
}

#[test]
fn a_file_of_another_store_is_set_aside() {
    let (image, other) = (rich(), plain(3).0);
    let before = content(&image);
    let mut damaged = image.clone();
    let (_, name) = segments(&other)[0].clone();
    damaged.insert("log-00000777".to_owned(), other[&name].clone());
    let (mended, repairs) = repair_and_open(&damaged);
    assert_eq!(content(&mended), before);
    assert_eq!(mended["aside-log-00000777"], other[&name]);
    assert_eq!(repairs.steps[0].saved.as_deref(), Some("aside-log-00000777"));
}

#[test]
fn a_false_hint_is_removed() {
    let image = rich();
    let before = content(&image);
    let hint = last_hint(&image);
    let mut damaged = image.clone();
    let bytes = damaged.get_mut(&hint).expect("it exists");
    *bytes.last_mut().expect("bytes") ^= 1;
    let sum = crc32c::crc32c(&bytes[16..]);
    bytes[12..16].copy_from_slice(&sum.to_le_bytes());
    let (mended, _) = repair_and_open(&damaged);
    assert!(!mended.contains_key(&hint));
    assert_eq!(content(&mended), before);
}

#[test]
fn a_job_whose_push_is_lost_is_removed_and_named() {
    let (image, ids) = plain(30);
    let on = disk(&image);
    let stepped = SteppedStore::open(Arc::new(on.clone())).expect("opened");
    let running = stepped.claim("viele");
    assert_eq!(running.id, ids[0]);
    stepped.push(NewJob::from(spec("viele", "{}")));
    drop(stepped);
    let mut damaged = on.image();
    let (_, name) = segments(&damaged)[0].clone();
    // The first frame has the meta record, the second the first push.
    let (start, end, _) = frames(&damaged, &name)[1];
    damaged.get_mut(&name).expect("it exists")[start..end].fill(0);
    let (mended, repairs) = repair_and_open(&damaged);
    assert_eq!((repairs.removed, &repairs.removed_ids[..]), (1, &ids[..1]), "{repairs}");
    assert_eq!(alive(&mended, &ids), without(&ids, &ids[..1]));
    assert!(repairs.to_string().contains("removed    1 job"), "{repairs}");
}

#[test]
fn many_kinds_of_damage_are_repaired_together() {
    let image = rich();
    let all = segments(&image);
    let mut damaged = image.clone();
    flip(&mut damaged, &all[0].1, 18);
    let (start, ..) = frames(&image, &all[0].1)[1];
    flip(&mut damaged, &all[0].1, start + 8);
    let (start, end, _) = frames(&image, &all[1].1)[1];
    damaged.get_mut(&all[1].1).expect("it exists")[start..end].fill(7);
    damaged.insert("log-00000777".to_owned(), image[&all[1].1].clone());
    let (mended, repairs) = repair_and_open(&damaged);
    assert!(repairs.steps.len() >= 3, "{repairs}");
    let disk = disk(&mended);
    assert!(repair(&disk).expect("good").is_empty(), "a second repair finds nothing to do");
}

#[test]
fn an_interrupted_repair_is_run_again() {
    let (image, ids) = plain(40);
    let all = segments(&image);
    let mut damaged = image.clone();
    flip(&mut damaged, &all[0].1, 18);
    let (start, end, _) = frames(&image, &all[1].1)[1];
    let old = image[&all[1].1][start..end].to_vec();
    flip(&mut damaged, &all[1].1, start + 60);
    damaged.remove(&all[2].1);
    let (whole, _) = repair_and_open(&damaged);
    let expected = alive(&whole, &ids);
    let calls = {
        let disk = disk(&damaged);
        repair(&disk).expect("repaired");
        disk.calls()
    };
    for n in 0..calls {
        let disk = disk(&damaged);
        disk.crash_at(n);
        repair(&disk).expect_err("the power is cut");
        let left = disk.crash(n * 31);
        repair(&left).unwrap_or_else(|error| panic!("call {n}: {error}"));
        let mended = left.image();
        assert_eq!(alive(&mended, &ids), expected, "call {n}");
        let is_kept = |(name, bytes): (&String, &Vec<u8>)| {
            name.starts_with("damaged-") && bytes.get(64..) == old.get(64..)
        };
        assert!(mended.iter().any(is_kept), "call {n}: the damaged bytes are kept");
    }
}
