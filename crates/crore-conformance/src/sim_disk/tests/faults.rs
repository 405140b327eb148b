use std::error::Error;
use std::io::{self, ErrorKind};

use crore_store::embedded::disk::{Disk, OpenMode};

use super::super::{DiskCall, DiskError, DiskFault, Recurrence, SimDisk};
use super::{content, disk_with, file};

fn fault(n: u64, kind: DiskCall, error: DiskError, then: Recurrence) -> DiskFault {
    DiskFault::AfterCalls { n, kind, error, then }
}

#[test]
fn a_fault_hits_the_call_it_was_set_for_once_or_from_then_on() {
    for (then, expected) in [
        (Recurrence::Once, [true, true, false, true, true]),
        (Recurrence::FromThenOn, [true, true, false, false, false]),
    ] {
        let (disk, f) = disk_with(b"");
        disk.fail(fault(2, DiskCall::Write, DiskError::Eio, then));
        let went = [0, 1, 2, 3, 4].map(|at| {
            f.sync().expect("another kind of call");
            f.write(at, b"x").is_ok()
        });
        assert_eq!(went, expected, "{then:?}");
        disk.heal();
        f.write(0, b"x").expect("it succeeds");
    }
}

#[test]
fn every_kind_of_call_can_fail() {
    let kinds = [
        DiskCall::List,
        DiskCall::Open,
        DiskCall::Remove,
        DiskCall::Read,
        DiskCall::Write,
        DiskCall::Sync,
    ];
    for kind in kinds.into_iter().chain([DiskCall::Any]) {
        let (disk, f) = disk_with(b"durable");
        disk.fail(fault(0, kind, DiskError::Eio, Recurrence::FromThenOn));
        let failed = [
            disk.list().is_err(),
            disk.open("f", OpenMode::Create).is_err(),
            disk.remove("g").is_err(),
            f.read(0, &mut [0]).is_err(),
            f.write(0, b"d").is_err(),
            f.sync().is_err(),
        ];
        assert_eq!(failed, kinds.map(|each| kind == DiskCall::Any || kind == each), "{kind:?}");
        assert_eq!(disk.calls(), 7, "failures are counted, too");
    }
}

#[test]
fn a_creation_or_removal_that_failed_did_not_happen() {
    let (disk, _) = disk_with(b"durable");
    disk.fail(fault(0, DiskCall::Any, DiskError::Eio, Recurrence::FromThenOn));
    assert!(disk.open("new", OpenMode::Create).is_err());
    assert!(disk.remove("f").is_err());
    assert_eq!(disk.image().into_keys().collect::<Vec<_>>(), ["f"]);
}

#[test]
fn errors_have_the_kinds_of_a_real_disk() {
    let (disk, f) = disk_with(b"");
    disk.fail(fault(0, DiskCall::Write, DiskError::Enospc, Recurrence::Once));
    let error = f.write(8, b"xyz").expect_err("no space");
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert_eq!(error.to_string(), "cannot write 3 bytes at 8 of `f`");
    disk.fail(fault(0, DiskCall::Sync, DiskError::Eio, Recurrence::Once));
    let error = f.sync().expect_err("an error of the device");
    let own = error.source().and_then(|own| own.downcast_ref::<io::Error>());
    assert_eq!(own.and_then(io::Error::raw_os_error), Some(5));
}

#[test]
fn a_failed_write_leaves_some_first_bytes() {
    let mut lengths = Vec::new();
    for seed in 0..50 {
        let disk = SimDisk::new(seed);
        let f = file(&disk, "f");
        disk.fail(fault(0, DiskCall::Write, DiskError::Eio, Recurrence::Once));
        assert!(f.write(0, b"0123456789").is_err());
        let left = content(&disk, "f");
        assert!(b"0123456789".starts_with(&left));
        lengths.push(left.len());
    }
    assert!(lengths.contains(&0) && lengths.contains(&10) && lengths.contains(&5));
}

#[test]
fn a_full_disk_accepts_a_prefix_and_overwrites() {
    let mut lengths = Vec::new();
    for seed in 0..50 {
        let image = [("f", 60), ("g", 30)].map(|(name, n)| (name.to_owned(), vec![1; n]));
        let disk = SimDisk::from_image(image.into(), seed);
        let (f, g) = (file(&disk, "f"), file(&disk, "g"));
        disk.capacity(100);
        g.write(30, &[2; 4]).expect("it fits");
        let error = f.write(58, &[3; 20]).expect_err("it does not fit");
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        let length = content(&disk, "f").len();
        assert!((60..=66).contains(&length), "at most what fits: {length}");
        lengths.push(length);
        f.write(0, &[4; 60]).expect("no growth");
        assert_eq!(f.write(200, b"x").map_err(|error| error.kind()), Err(ErrorKind::StorageFull));
        disk.remove("g").expect("removed");
        f.write(66, &[5; 34]).expect("room again");
        assert!(f.write(100, b"x").is_err());
        disk.capacity(u64::MAX);
        f.write(100, b"x").expect("no bound");
    }
    assert!(lengths.contains(&60) && lengths.contains(&66));
}

#[test]
fn data_dropped_by_a_failed_sync_is_readable_but_never_becomes_durable() {
    let (mut lost, mut partly) = (0, 0);
    for seed in 0..100 {
        let disk = SimDisk::new(seed);
        let f = file(&disk, "f");
        f.write(0, &[1; 2048]).expect("written");
        f.sync().expect("synced");
        f.write(0, &[2; 2048]).expect("written");
        disk.fail(fault(0, DiskCall::Sync, DiskError::Eio, Recurrence::Once));
        assert!(f.sync().is_err());
        f.write(2048, &[3; 10]).expect("written");
        f.sync().expect("no failure");
        assert_eq!(content(&disk, "f")[..2048], [2; 2048], "still in the cache");
        let disk = disk.kill();
        assert_eq!(content(&disk, "f")[..2048], [2; 2048], "it outlives the process");
        let after = content(&disk.crash(seed), "f");
        assert_eq!(after[2048..], [3; 10], "written after the failure, and synced");
        for sector in after[..2048].chunks(512) {
            assert!(sector == [1; 512] || sector == [2; 512]);
        }
        lost += usize::from(after[..2048] == [1; 2048]);
        partly += usize::from(after[..2048] != [1; 2048]);
    }
    assert!(lost > 20 && partly > 10, "{lost} lost, {partly} not or in part");
}

#[test]
fn the_power_is_cut_at_the_configured_call() {
    for n in 1..=6 {
        let disk = SimDisk::new(n);
        disk.crash_at(n);
        let f = disk.open("f", OpenMode::Create);
        let went = f.as_ref().map_or([false; 5], |f| {
            let wrote = f.write(0, b"x").is_ok();
            let read = f.read(0, &mut [0]).is_ok();
            let synced = f.sync().is_ok();
            [wrote, read, synced, disk.list().is_ok(), disk.remove("f").is_ok()]
        });
        assert_eq!(f.is_ok(), n > 1);
        assert_eq!(went, [2, 3, 4, 5, 6].map(|call| call < n), "off at {n}");
        assert_eq!(disk.calls(), n);
    }
}

#[test]
fn a_write_in_flight_during_a_power_cut_may_have_happened() {
    let (mut there, mut gone) = (0, 0);
    for seed in 0..100 {
        let (disk, f) = disk_with(b"old");
        disk.crash_at(2);
        assert!(f.write(0, b"new").is_err());
        assert_eq!(content(&disk.kill(), "f"), b"new");
        match &*content(&disk.crash(seed), "f") {
            b"new" => there += 1,
            b"old" => gone += 1,
            torn => assert!(torn == b"nld" || torn == b"ned", "{torn:?}"),
        }
    }
    assert!(there > 10 && gone > 10, "{there} there, {gone} gone");
}

#[test]
fn a_creation_in_flight_during_a_power_cut_may_have_happened() {
    let made = |seed| {
        let disk = SimDisk::new(seed);
        disk.crash_at(1);
        assert!(disk.open("f", OpenMode::Create).is_err());
        disk.crash(0).image().contains_key("f")
    };
    let made: Vec<bool> = (0..20).map(made).collect();
    assert!(made.contains(&true) && made.contains(&false));
}
