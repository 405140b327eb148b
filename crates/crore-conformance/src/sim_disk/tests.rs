mod crashes;
mod faults;

use std::sync::Arc;

use crore_store::embedded::disk::{Disk, DiskFile, OpenMode};

use super::SimDisk;

fn file(disk: &SimDisk, name: &str) -> Arc<dyn DiskFile> {
    disk.open(name, OpenMode::Create).expect("a file")
}

/// A disk with one durable file, and the open file.
fn disk_with(durable: &[u8]) -> (SimDisk, Arc<dyn DiskFile>) {
    let disk = SimDisk::from_image([("f".to_owned(), durable.to_vec())].into(), 1);
    let file = file(&disk, "f");
    (disk, file)
}

fn content(disk: &SimDisk, name: &str) -> Vec<u8> {
    disk.image()[name].clone()
}

#[test]
fn an_image_equals_the_read_content_and_restores_the_disk() {
    let (disk, f) = disk_with(b"durable");
    f.write(0, b"DUR").expect("written");
    let image = disk.image();
    assert_eq!(image["f"], b"DURable");
    let again = SimDisk::from_image(image.clone(), 9);
    assert_eq!(again.crash(3).image(), image, "an image is durable");
}

#[test]
fn calls_are_counted_by_kind_and_inspection_is_not_counted() {
    use super::DiskCall::{Any, List, Open as Opened, Read, Remove, Sync, Write};
    let disk = SimDisk::new(1);
    let f = file(&disk, "f");
    f.write(0, b"x").expect("written");
    f.write(1, b"y").expect("written");
    f.sync().expect("synced");
    f.read(0, &mut [0; 4]).expect("read");
    disk.list().expect("names");
    disk.remove("f").expect("removed");
    disk.image();
    let counts = [List, Opened, Remove, Read, Write, Sync, Any].map(|call| disk.count(call));
    assert_eq!(counts, [1, 1, 1, 1, 2, 1, 7]);
    assert_eq!(disk.calls(), 7);
}

#[test]
fn list_order_is_random_but_fixed_by_the_seed() {
    let orders = |seed| {
        let disk = SimDisk::new(seed);
        ["a", "b", "c", "d"].iter().for_each(|name| drop(file(&disk, name)));
        [(); 4].map(|()| disk.list().expect("names"))
    };
    assert_eq!(orders(5), orders(5));
    let all = orders(5);
    assert!(all.iter().any(|order| *order != all[0]));
}
