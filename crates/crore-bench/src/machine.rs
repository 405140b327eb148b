//! Facts about the machine and about this process, from `/proc`.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;

fn proc(file: &str) -> String {
    fs::read_to_string(Path::new("/proc").join(file)).unwrap_or_default()
}

/// Processor time of this process so far, in seconds; its resolution is a hundredth.
pub fn cpu_seconds() -> f64 {
    let stat = proc("self/stat");
    // After the process name, which may contain spaces, user and system time are the 12th and 13th fields.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
    ticks as f64 / 100.0
}

/// Resident memory of this process, in bytes.
pub fn resident() -> u64 {
    proc("self/statm").split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Disk space of the files of a directory, in bytes.
pub fn disk_use(dir: &Path) -> u64 {
    // A file may be removed after it was listed.
    let blocks = |entry: fs::DirEntry| entry.metadata().map_or(0, |meta| meta.blocks() * 512);
    fs::read_dir(dir).unwrap().flatten().map(blocks).sum()
}

/// Bytes written to the files of a directory: trailing zeros, which preallocation left there, do not count.
pub fn written(dir: &Path) -> u64 {
    fs::read_dir(dir).unwrap().flatten().map(|entry| written_to(&entry.path())).sum()
}

fn written_to(path: &Path) -> u64 {
    const CHUNK: u64 = 1 << 20;
    let file = File::open(path).unwrap();
    let mut end = file.metadata().unwrap().len();
    let mut chunk = vec![0; CHUNK as usize];
    while end > 0 {
        let start = end.saturating_sub(CHUNK);
        let chunk = &mut chunk[..(end - start) as usize];
        file.read_exact_at(chunk, start).unwrap();
        if let Some(last) = chunk.iter().rposition(|byte| *byte != 0) {
            return start + last as u64 + 1;
        }
        end = start;
    }
    0
}

/// Syncs all file systems.
pub fn sync() {
    first_line("sync", &[]);
}

/// Drops the page cache; `false` if this process lacks the permission.
pub fn drop_caches() -> bool {
    sync();
    fs::write("/proc/sys/vm/drop_caches", "1\n").is_ok()
}

/// The first line of a command's output; empty if it cannot be run.
fn first_line(command: &str, args: &[&str]) -> String {
    let output = Command::new(command).args(args).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default().lines().next().unwrap_or_default().trim().to_owned()
}

/// The machine, the file system of a directory, the date and the commit, one line each.
pub fn facts(dir: &Path) -> Vec<String> {
    let value = |file: &str, key: &str| {
        let text = proc(file);
        let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_default();
        line.split_once(':').map_or("", |(_, value)| value).trim().to_owned()
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kib = value("meminfo", "MemTotal").split(' ').next().and_then(|n| n.parse::<u64>().ok());
    let changes =
        if first_line("git", &["status", "--porcelain"]).is_empty() { "" } else { " + changes" };
    vec![
        format!(
            "machine: {}, {cores} cores, {} GiB",
            value("cpuinfo", "model name"),
            kib.unwrap_or(0) >> 20
        ),
        format!("kernel: Linux {}", proc("sys/kernel/osrelease").trim()),
        format!("file system: {}", file_system(dir)),
        format!("date: {}", first_line("date", &["-u", "+%F"])),
        format!("commit: {}{changes}", first_line("git", &["rev-parse", "--short", "HEAD"])),
    ]
}

/// Type, device and options of the file system of a directory.
fn file_system(dir: &Path) -> String {
    let mounts = proc("self/mounts");
    let field = |line: &'_ str, n: usize| line.split(' ').nth(n).unwrap_or_default().to_owned();
    let holds = mounts.lines().filter(|line| dir.starts_with(field(line, 1)));
    let mount = holds.max_by_key(|line| field(line, 1).len()).unwrap_or_default();
    format!("{} on {} ({})", field(mount, 2), field(mount, 0), field(mount, 3))
}
