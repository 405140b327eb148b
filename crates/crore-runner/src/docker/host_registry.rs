//! Registration of hosts, to find containers of dead hosts.
//!
//! A killed host (`kill -9`, a power cut) cannot remove its containers, and the engine keeps running them.
//! Each container therefore has the label `crore.host` with the random name of its host process. While a host
//! lives it holds the lock on a file of that name, in a directory that hosts share; the kernel releases the
//! lock however the process ends. A host that can take the lock of another knows that the other is dead, and
//! that its containers are orphans.
//!
//! Nothing else proves that a host is dead: process ids are reused and differ between containers, machine
//! names and whole directories get copied, and clocks prove nothing. A container whose host has no file in
//! this directory belongs elsewhere, perhaps to another machine, and stays.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The label with the name of a container's host.
pub(super) const HOST_LABEL: &str = "crore.host";

/// A user that may write to the directory could declare any host dead.
const OTHERS_MAY_WRITE: u32 = 0o022;

/// Maximum size of a host file that is read.
const MAX_FILE_BYTES: u64 = 4096;

/// Attempts to create a file: a starting host may mistake a new file for that of a dead host.
const MAX_ATTEMPTS: usize = 10;

/// The registration of this host. Dropping it releases the lock.
#[derive(Debug)]
pub(super) struct HostRegistration {
    dir: PathBuf,
    name: String,
    /// The engine of its containers; containers of other engines are ignored.
    engine: String,
    _lock: File,
}

/// A dead host. While this is held, no other host cleans up after it.
#[derive(Debug)]
pub(super) struct DeadHost {
    path: PathBuf,
    pub(super) name: String,
    _lock: File,
}

impl HostRegistration {
    /// Registers a host of an engine. Creates the directory if necessary; no other user may write to it.
    pub(super) fn new(dir: &Path, engine: &str) -> io::Result<Self> {
        create_private_dir(dir)?;
        for _ in 0..MAX_ATTEMPTS {
            let name = name();
            if let Some(lock) = create_locked(&dir.join(&name), engine)? {
                File::open(dir)?.sync_all()?;
                let (dir, engine) = (dir.to_owned(), engine.to_owned());
                return Ok(Self { dir, name, engine, _lock: lock });
            }
        }
        Err(io::Error::other("every new host file was locked by another process"))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The dead hosts of the same engine.
    pub(super) fn dead_hosts(&self) -> io::Result<Vec<DeadHost>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let is_file = entry.file_type().is_ok_and(|sort| sort.is_file());
            let name = entry.file_name().into_string().ok();
            let name = name.filter(|name| is_file && is_name(name));
            all.extend(name.and_then(|name| self.lock_if_dead(entry.path(), name)));
        }
        Ok(all)
    }

    /// The host of a file if it is dead. `None` also if another host is cleaning up after it.
    fn lock_if_dead(&self, path: PathBuf, name: String) -> Option<DeadHost> {
        let lock = OpenOptions::new().read(true).write(true).open(&path).ok()?;
        lock.try_lock().ok()?;
        let mut content = Vec::new();
        (&lock).take(MAX_FILE_BYTES).read_to_end(&mut content).ok()?;
        let file = lock.metadata().ok()?;
        let is_ours = content == file_content(&file, &self.engine).as_bytes();
        (is_ours && file.nlink() > 0).then_some(DeadHost { path, name, _lock: lock })
    }
}

impl DeadHost {
    /// Removes its file, after all of its containers are gone.
    pub(super) fn forget(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

/// Creates a private directory, unless it exists; checks that no other user may write to it.
fn create_private_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let found = fs::metadata(dir)?;
    let is_ours = found.uid() == rustix::process::geteuid().as_raw();
    if is_ours && found.mode() & OTHERS_MAY_WRITE == 0 {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "other users may write to it"))
}

/// Creates a file and locks it. `None` if another process locked it first.
fn create_locked(path: &Path, engine: &str) -> io::Result<Option<File>> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    match file.try_lock() {
        Ok(()) if file.metadata()?.nlink() > 0 => {}
        Ok(()) | Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let content = file_content(&file.metadata()?, engine);
    file.write_all(content.as_bytes())?;
    file.sync_all()?;
    Ok(Some(file))
}

/// The content of a host file: the engine, and the identity of the file itself. A file in a copied directory
/// has the same content but another identity: its lock is free although the host lives, so it must not count.
fn file_content(file: &Metadata, engine: &str) -> String {
    let made = file.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    let made = made.map_or(0, |made| made.as_nanos());
    format!("{} {made} {engine}\n", file.ino())
}

/// A name that is unique to this process.
fn name() -> String {
    let random = || getrandom::u64().expect("the system provides randomness");
    format!("{:016x}{:016x}", random(), random())
}

/// Whether a file name is that of a host; no other file is ever removed.
fn is_name(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(owner: &HostRegistration) -> Vec<String> {
        let mut names: Vec<_> =
            owner.dead_hosts().expect("it can be read").into_iter().map(|gone| gone.name).collect();
        names.sort();
        names
    }

    #[test]
    fn host_without_its_lock_is_dead() {
        let dir = tempfile::tempdir().expect("a directory");
        let hosts = dir.path().join("a/hosts");
        let new = || HostRegistration::new(&hosts, "one").expect("a host");
        let (first, second, third) = (new(), new(), new());
        assert_eq!(names(&first), <[&str; 0]>::default());
        let dead = second.name().to_owned();
        drop(second);
        assert_eq!(names(&first), [&*dead]);
        let taken = first.dead_hosts().expect("read");
        assert_eq!(names(&third), <[&str; 0]>::default(), "another host cleans up after it");
        drop(taken);
        assert_eq!(names(&third), [&*dead], "its file stays until `forget`");
        for gone in third.dead_hosts().expect("read") {
            gone.forget().expect("removed");
        }
        assert_eq!(names(&first), <[&str; 0]>::default());
        drop(third);
        assert_eq!(names(&first).len(), 1);
    }

    #[test]
    fn hosts_of_other_engines_and_foreign_files_are_ignored() {
        let dir = tempfile::tempdir().expect("a directory");
        let dead = HostRegistration::new(dir.path(), "another").expect("a host").name().to_owned();
        for foreign in ["notes.txt", &"x".repeat(32), &"A".repeat(32)] {
            fs::write(dir.path().join(foreign), "one").expect("written");
        }
        fs::write(dir.path().join("1".repeat(32)), "").expect("written");
        fs::create_dir(dir.path().join("0".repeat(32))).expect("created");
        let owner = HostRegistration::new(dir.path(), "one").expect("a host");
        assert_eq!(names(&owner), <[&str; 0]>::default());
        let same = HostRegistration::new(dir.path(), "another").expect("a host");
        assert_eq!(names(&same), [dead]);
    }

    #[test]
    fn copied_directory_has_no_dead_hosts() {
        let (dir, copy) = (tempfile::tempdir().expect("a"), tempfile::tempdir().expect("b"));
        let lives = HostRegistration::new(dir.path(), "one").expect("a host");
        for to in [dir.path().join("0".repeat(32)), copy.path().join(lives.name())] {
            fs::copy(dir.path().join(lives.name()), to).expect("copied");
        }
        let there = HostRegistration::new(copy.path(), "one").expect("a host");
        assert_eq!(names(&there), <[&str; 0]>::default());
        assert_eq!(names(&lives), <[&str; 0]>::default());
        let name = lives.name().to_owned();
        drop(lives);
        let next = HostRegistration::new(dir.path(), "one").expect("a host");
        assert_eq!(names(&next), [name]);
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_not_used() {
        let dir = tempfile::tempdir().expect("a directory");
        for mode in [0o777, 0o770, 0o702] {
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).expect("changed");
            let refused = HostRegistration::new(dir.path(), "one").expect_err("writable by others");
            assert_eq!(refused.to_string(), "other users may write to it");
        }
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("changed");
        HostRegistration::new(dir.path(), "one").expect("readable by others");
    }
}
