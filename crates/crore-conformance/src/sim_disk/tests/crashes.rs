use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use crore_store::embedded::disk::{Disk, OpenMode};

use super::super::crash::PowerCutStyle;
use super::super::random::Random;
use super::super::{DiskCall, SimDisk};
use super::{content, disk_with, file};

#[derive(Debug, Clone)]
enum DiskStep {
    Write { file: usize, at: usize, n: usize },
    Sync { file: usize },
    Kill,
}

const NAMES: [&str; 3] = ["a", "b", "c"];

fn steps() -> impl Strategy<Value = Vec<DiskStep>> {
    let step = prop_oneof![
        6 => (0..3_usize, 0..3000_usize, 0..2000_usize)
            .prop_map(|(file, at, n)| DiskStep::Write { file, at, n }),
        2 => (0..3_usize).prop_map(|file| DiskStep::Sync { file }),
        1 => Just(DiskStep::Kill),
    ];
    vec(step, 1..25)
}

/// Possible values of each byte of a file after a power cut: the durable one first, then each newer one.
#[derive(Debug, Default)]
struct PossibleBytes(Vec<Vec<u8>>);

impl PossibleBytes {
    /// The minimum length of the file.
    fn durable(&self) -> usize {
        self.0.iter().rposition(|byte| byte[0] != 0).map_or(0, |last| last + 1)
    }

    fn write(&mut self, at: usize, n: usize, byte: u8) {
        if n > 0 && self.0.len() < at + n {
            self.0.resize(at + n, vec![0]);
        }
        self.0[at..].iter_mut().take(n).for_each(|may| may.push(byte));
    }

    fn sync(&mut self) {
        self.0.iter_mut().for_each(|may| *may = may.split_off(may.len() - 1));
    }
}

/// Runs the steps; every write has its own byte value, never zero.
fn run(steps: &[DiskStep]) -> (SimDisk, [PossibleBytes; 3]) {
    let mut disk = SimDisk::new(1);
    NAMES.iter().for_each(|name| drop(file(&disk, name)));
    let mut may: [PossibleBytes; 3] = Default::default();
    for (turn, step) in (1..).zip(steps) {
        match *step {
            DiskStep::Write { file: i, at, n } => {
                let at = at.min(may[i].0.len());
                file(&disk, NAMES[i]).write(at as u64, &vec![turn; n]).expect("written");
                may[i].write(at, n, turn);
            }
            DiskStep::Sync { file: i } => {
                file(&disk, NAMES[i]).sync().expect("synced");
                may[i].sync();
            }
            DiskStep::Kill => disk = disk.kill(),
        }
    }
    (disk, may)
}

proptest! {
    #[test]
    fn synced_bytes_survive_and_every_other_is_the_old_or_a_new_one(
        steps in steps(),
        seeds in vec(any::<u64>(), 8),
    ) {
        let (disk, may) = run(&steps);
        for seed in seeds {
            let after = disk.crash(seed).image();
            for (name, may) in NAMES.iter().zip(&may) {
                let left = &after[*name];
                prop_assert!(left.len() >= may.durable(), "{name} lost its durable end");
                prop_assert!(left.len() <= may.0.len(), "{name} is longer than it was");
                let wrong = left.iter().zip(&may.0).position(|(byte, may)| !may.contains(byte));
                prop_assert_eq!(wrong, None, "{} at that offset", name);
            }
        }
    }

    #[test]
    fn the_same_seed_leaves_the_same_disk(steps in steps(), seed: u64) {
        let after = run(&steps).0.crash(seed).image();
        prop_assert_eq!(&run(&steps).0.crash(seed).image(), &after);
        let (disk, _) = run(&steps);
        disk.crash(!seed);
        prop_assert_eq!(disk.crash(seed).image(), after, "whatever was asked before");
    }

    #[test]
    fn data_that_survived_a_power_cut_is_durable(steps in steps(), seed: u64, next: u64) {
        let once = run(&steps).0.crash(seed);
        prop_assert_eq!(once.crash(next).image(), once.image());
    }

    #[test]
    fn the_pure_styles_lose_all_or_nothing(steps in steps(), seed: u64) {
        let (disk, may) = run(&steps);
        let image = disk.image();
        let cut = |style| disk.cut(style, Random::new(seed)).image();
        prop_assert_eq!(cut(PowerCutStyle::Kept), image);
        let lost = cut(PowerCutStyle::Lost);
        for (name, may) in NAMES.iter().zip(&may) {
            let durable: Vec<u8> = may.0[..may.durable()].iter().map(|may| may[0]).collect();
            prop_assert_eq!(&lost[*name], &durable);
        }
    }

    #[test]
    fn a_killed_process_loses_no_written_data(steps in steps()) {
        let (disk, _) = run(&steps);
        let image = disk.image();
        prop_assert_eq!(disk.kill().image(), image);
    }
}

#[test]
fn a_disk_that_crashed_or_was_killed_is_off() {
    let ends: [fn(&SimDisk) -> SimDisk; 2] = [|disk| disk.crash(1), SimDisk::kill];
    for end in ends {
        let (disk, f) = disk_with(b"x");
        let calls = disk.calls();
        let after = end(&disk);
        assert!(f.read(0, &mut [0]).is_err());
        assert!(f.write(0, b"y").is_err());
        assert!(f.sync().is_err());
        assert!(disk.list().is_err());
        assert!(disk.open("f", OpenMode::Existing).is_err());
        assert!(disk.remove("f").is_err());
        assert_eq!(disk.calls(), calls, "a machine that is off counts nothing");
        assert_eq!(after.count(DiskCall::Any), 0);
        assert_eq!(content(&after, "f"), b"x");
    }
}

#[test]
fn a_write_after_a_crash_does_not_change_the_crashed_state() {
    let (disk, f) = disk_with(b"durable");
    f.write(0, b"D").expect("written");
    let first = disk.cut(PowerCutStyle::Kept, Random::new(1));
    file(&first, "f").write(0, b"another").expect("written");
    assert_eq!(content(&disk.cut(PowerCutStyle::Kept, Random::new(1)), "f"), b"Durable");
    assert_eq!(content(&disk.cut(PowerCutStyle::Lost, Random::new(1)), "f"), b"durable");
}

#[test]
fn a_prefix_keeps_no_write_without_all_before_it_in_any_file() {
    let mut kept = BTreeMap::new();
    for seed in 0..200 {
        let (mut disk, _) = disk_with(b"");
        for turn in 0..4 {
            file(&disk, "f").write(turn, b"f").expect("written");
            file(&disk, "g").write(turn, b"g").expect("written");
            disk = disk.kill();
        }
        let after = disk.cut(PowerCutStyle::Prefix, Random::new(seed));
        let (f, g) = (content(&after, "f").len(), content(&after, "g").len());
        assert!(f == g || f == g + 1, "{f} in the first, {g} in the second");
        *kept.entry(f + g).or_insert(0) += 1;
    }
    assert!(kept.len() >= 8, "every prefix is drawn: {kept:?}");
}

#[test]
fn a_prefix_can_end_inside_a_write() {
    let inside = |seed| {
        let (disk, f) = disk_with(b"");
        f.write(0, &[1; 1000]).expect("written");
        content(&disk.cut(PowerCutStyle::Prefix, Random::new(seed)), "f").len() % 512
    };
    assert!((0..10).map(inside).any(|inside| inside > 0));
}

#[test]
fn files_can_stop_at_different_moments() {
    let stops = |seed| {
        let (disk, f) = disk_with(b"");
        f.write(0, &[1; 1000]).expect("written");
        file(&disk, "g").write(0, &[2; 1000]).expect("written");
        let after = disk.cut(PowerCutStyle::Reordered, Random::new(seed));
        ["f", "g"].map(|name| content(&after, name).len())
    };
    let stops: Vec<_> = (0..100).map(stops).collect();
    assert!(stops.iter().any(|[first, second]| *first < 1000 && *second == 1000));
    assert!(stops.iter().filter(|[_, second]| *second == 1000).count() > 20);
}

#[test]
fn a_disk_is_as_large_after_a_crash_as_before() {
    let (disk, _) = disk_with(b"durable");
    disk.capacity(7);
    for after in [disk.kill(), disk.crash(1)] {
        assert!(file(&after, "f").write(7, b"!").is_err());
    }
}

#[test]
fn a_subset_has_lost_sectors_between_kept_ones_and_a_torn_one() {
    let (mut holes, mut torn) = (0, 0);
    for seed in 0..200 {
        let (disk, f) = disk_with(&[1; 4096]);
        f.write(100, &[2; 3900]).expect("written");
        let left = content(&disk.cut(PowerCutStyle::Subset, Random::new(seed)), "f");
        assert_eq!(left.len(), 4096);
        assert!(left[..100] == [1; 100] && left[4000..] == [1; 96], "not being written");
        let mut edges = Vec::new();
        for at in 100..3999 {
            if left[at] != left[at + 1] {
                edges.push((at + 1, left[at]));
            }
        }
        let inside: Vec<_> = edges.iter().filter(|(at, _)| at % 512 != 0).collect();
        assert!(inside.len() <= 1, "one sector is torn, no more: {inside:?}");
        assert!(inside.iter().all(|(_, before)| *before == 2), "its first bytes are the new ones");
        holes += usize::from(edges.len() > 2);
        torn += inside.len();
    }
    assert!(holes > 100 && torn > 100, "{holes} with holes, {torn} torn");
}

#[test]
fn every_style_is_drawn() {
    let drawn = |style| (0..100).any(|seed| PowerCutStyle::draw(&mut Random::new(seed)) == style);
    let styles = [
        PowerCutStyle::Lost,
        PowerCutStyle::Kept,
        PowerCutStyle::Prefix,
        PowerCutStyle::Subset,
        PowerCutStyle::Reordered,
    ];
    assert!(styles.into_iter().all(drawn));
}

#[test]
fn a_created_file_survives_any_crash() {
    for seed in 0..50 {
        let disk = SimDisk::new(seed);
        file(&disk, "f").write(0, b"x").expect("written");
        assert!(disk.crash(seed).image().contains_key("f"));
    }
}

#[test]
fn a_removed_file_may_reappear_with_its_durable_content() {
    let ends: [fn(SimDisk) -> SimDisk; 2] = [|disk| disk, |disk| disk.kill()];
    for end in ends {
        let after = |seed| {
            let (disk, f) = disk_with(b"durable");
            f.write(0, b"NOT").expect("written");
            disk.remove("f").expect("removed");
            assert!(!disk.image().contains_key("f"));
            end(disk).crash(seed).image().remove("f")
        };
        let (back, gone): (Vec<_>, Vec<_>) = (0..50).map(after).partition(Option::is_some);
        assert!(back.len() > 5 && gone.len() > 5, "{} back, {} gone", back.len(), gone.len());
        assert!(back.into_iter().flatten().all(|content| content == b"durable"));
    }
}

#[test]
fn a_later_disk_call_makes_a_removal_durable() {
    let laters: [fn(&SimDisk); 3] = [
        |disk| file(disk, "g").sync().expect("synced"),
        |disk| drop(file(disk, "new")),
        |disk| disk.remove("g").expect("removed"),
    ];
    for later in laters {
        for seed in 0..50 {
            let image = ["f", "g"].map(|name| (name.to_owned(), b"durable".to_vec()));
            let disk = SimDisk::from_image(image.into(), seed);
            disk.remove("f").expect("removed");
            later(&disk);
            assert!(!disk.crash(seed).image().contains_key("f"));
        }
    }
}
