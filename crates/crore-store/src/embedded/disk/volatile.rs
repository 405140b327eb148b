//! Detects file systems in memory: a sync succeeds there, but a power failure loses every file.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// File systems in memory, as the kernel names them. `rootfs` is the initial RAM file system.
const IN_MEMORY: [&str; 3] = ["tmpfs", "ramfs", "rootfs"];

/// Maximum nesting of overlays that is followed.
const MAX_OVERLAYS: usize = 4;

/// The file system of a directory, if it is in memory: `tmpfs`, or `overlay on tmpfs`. `None`: it is not, or that is
/// unknown, as outside Linux and for an overlay whose upper directory is hidden by a container.
pub fn in_memory_file_system(dir: &Path) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    in_memory(&mounts, &device_of, dir, 0)
}

/// The device of a file as mountinfo writes it, `MAJOR:MINOR`.
fn device_of(path: &Path) -> Option<String> {
    let device = fs::metadata(path).ok()?.dev();
    let major = ((device >> 8) & 0xfff) | ((device >> 32) & !0xfff);
    let minor = (device & 0xff) | ((device >> 12) & !0xff);
    Some(format!("{}:{}", major & 0xffff_ffff, minor & 0xffff_ffff))
}

fn in_memory(
    mounts: &str,
    device_of: &dyn Fn(&Path) -> Option<String>,
    dir: &Path,
    depth: usize,
) -> Option<String> {
    let device = device_of(dir)?;
    let (kind, options) = mounts.lines().find_map(|line| mount_of_device(line, &device))?;
    if IN_MEMORY.contains(&kind) {
        return Some(kind.to_owned());
    }
    if kind != "overlay" || depth >= MAX_OVERLAYS {
        return None;
    }
    let upper = options.split(',').find_map(|option| option.strip_prefix("upperdir="))?;
    let below = in_memory(mounts, device_of, Path::new(&unescaped(upper)), depth + 1)?;
    Some(format!("overlay on {below}"))
}

/// The file system type and the options of a mount, if the line of mountinfo is about this device.
fn mount_of_device<'a>(line: &'a str, device: &str) -> Option<(&'a str, &'a str)> {
    let (mount, system) = line.split_once(" - ")?;
    if mount.split(' ').nth(2) != Some(device) {
        return None;
    }
    let mut system = system.split(' ');
    let kind = system.next()?;
    Some((kind, system.nth(1).unwrap_or_default()))
}

/// Mountinfo writes a space as `\040`.
fn unescaped(path: &str) -> String {
    path.replace("\\040", " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
        22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
        30 22 0:27 / /dev/shm rw,nosuid shared:4 - tmpfs tmpfs rw,size=10240k\n\
        31 22 0:28 / /ram rw - ramfs ramfs rw\n\
        32 22 0:40 / /merged rw - overlay overlay rw,lowerdir=/low,upperdir=/dev/shm/up\\040per,workdir=/dev/shm/w\n\
        33 22 0:41 / /kept rw - overlay overlay rw,lowerdir=/low,upperdir=/var/upper,workdir=/var/w\n\
        34 22 0:42 / /hidden rw - overlay overlay rw,lowerdir=/low,upperdir=/host/upper,workdir=/host/w\n\
        35 22 0:43 / /loop rw - overlay overlay rw,upperdir=/loop\n";

    fn device(path: &Path) -> Option<String> {
        let devices = [
            ("/host", None),
            ("/dev/shm", Some("0:27")),
            ("/ram", Some("0:28")),
            ("/merged", Some("0:40")),
            ("/kept", Some("0:41")),
            ("/hidden", Some("0:42")),
            ("/loop", Some("0:43")),
            ("/unknown", Some("9:9")),
            ("/", Some("254:0")),
        ];
        devices.iter().find(|(mount, _)| path.starts_with(mount))?.1.map(str::to_owned)
    }

    #[test]
    fn file_systems_in_memory_are_found_below_overlays() {
        let found = |path: &str| in_memory(MOUNTS, &device, Path::new(path), 0);
        assert_eq!(found("/dev/shm/crore"), Some("tmpfs".to_owned()));
        assert_eq!(found("/ram/crore"), Some("ramfs".to_owned()));
        assert_eq!(found("/merged/crore"), Some("overlay on tmpfs".to_owned()));
        for path in ["/var/lib/crore", "/kept/x", "/hidden/x", "/loop/x", "/unknown/x", "/host/x"] {
            assert_eq!(found(path), None, "{path}");
        }
    }

    #[test]
    fn a_line_that_is_not_a_mount_is_skipped() {
        for line in ["", " - ", "1 2 0:27", "1 2 0:27 / / rw - ", "x - tmpfs"] {
            let kind = mount_of_device(line, "0:27").map(|(kind, _)| kind);
            assert!(kind.is_none_or(str::is_empty), "{line}");
        }
    }

    #[test]
    fn the_device_of_a_directory_is_the_one_that_mountinfo_lists() {
        let device = device_of(Path::new("/proc")).unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let kind = mounts.lines().find_map(|line| mount_of_device(line, &device));
        assert_eq!(kind.map(|(kind, _)| kind), Some("proc"));
    }
}
