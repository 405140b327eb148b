//! Whose a container is, and how it is known that its host is gone.
//!
//! A host that is killed (`kill -9`, a power cut) cannot remove its containers: the engine runs on
//! without it. So each container bears the name of its host in the label `crore.host`, a random name
//! for each process. As long as a host lives it holds the lock of a file of that name, in a directory
//! that hosts share; the system takes the lock away however a process ends. Whoever can have a lock
//! that another had knows that the other is gone, and that what bears his name is nobody's.
//!
//! Nothing else is believed. Numbers of processes are used again, and say nothing from one container
//! to the next; names of machines and whole directories are copied; and no time says who lives. A
//! container whose host has no file here belongs to another place, perhaps to another machine, and
//! stays.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The label of a container that names its host.
pub(super) const HOST: &str = "crore.host";

/// Whoever may write to the directory may say that a host is gone.
const OTHERS_MAY_WRITE: u32 = 0o022;

/// The most that a file says.
const MAX_SAID: u64 = 4096;

/// How often another name is tried, if a host that begins takes a new file for an old one.
const TRIES: usize = 10;

/// A host of containers, for as long as it lives.
#[derive(Debug)]
pub(super) struct Owner {
    dir: PathBuf,
    name: String,
    /// The engine that its containers are on: others are asked about nothing of it.
    engine: String,
    _lock: File,
}

/// A host that is gone. Nobody else takes it for gone as long as this is there.
#[derive(Debug)]
pub(super) struct Gone {
    path: PathBuf,
    pub(super) name: String,
    _lock: File,
}

impl Owner {
    /// One more host of an engine. The directory is made if it is not there; it has to be ours alone.
    pub(super) fn new(dir: &Path, engine: &str) -> io::Result<Self> {
        make(dir)?;
        for _ in 0..TRIES {
            let name = name();
            if let Some(lock) = note(&dir.join(&name), engine)? {
                File::open(dir)?.sync_all()?;
                let (dir, engine) = (dir.to_owned(), engine.to_owned());
                return Ok(Self { dir, name, engine, _lock: lock });
            }
        }
        Err(io::Error::other("others take every file that is made there"))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The hosts of the same engine that are gone.
    pub(super) fn gone(&self) -> io::Result<Vec<Gone>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let is_file = entry.file_type().is_ok_and(|sort| sort.is_file());
            let name = entry.file_name().into_string().ok();
            let name = name.filter(|name| is_file && is_name(name));
            all.extend(name.and_then(|name| self.if_gone(entry.path(), name)));
        }
        Ok(all)
    }

    /// The host of a file, if it is gone; `None` also if another looks after it.
    fn if_gone(&self, path: PathBuf, name: String) -> Option<Gone> {
        let lock = OpenOptions::new().read(true).write(true).open(&path).ok()?;
        lock.try_lock().ok()?;
        let mut said = Vec::new();
        (&lock).take(MAX_SAID).read_to_end(&mut said).ok()?;
        let file = lock.metadata().ok()?;
        let is_ours = said == says(&file, &self.engine).as_bytes();
        (is_ours && file.nlink() > 0).then_some(Gone { path, name, _lock: lock })
    }
}

impl Gone {
    /// It has left nothing any more: it is not remembered.
    pub(super) fn forget(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

/// Makes a directory that only its owner may use, unless it is there.
fn make(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let found = fs::metadata(dir)?;
    let is_ours = found.uid() == rustix::process::geteuid().as_raw();
    if is_ours && found.mode() & OTHERS_MAY_WRITE == 0 {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "others may write to it"))
}

/// Makes a file and takes its lock, which is ours alone unless somebody took it in between.
fn note(path: &Path, engine: &str) -> io::Result<Option<File>> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    match file.try_lock() {
        Ok(()) if file.metadata()?.nlink() > 0 => {}
        Ok(()) | Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let said = says(&file.metadata()?, engine);
    file.write_all(said.as_bytes())?;
    file.sync_all()?;
    Ok(Some(file))
}

/// What a file says: the engine, and which file it is. A copy of the directory says the same, and is
/// another file: whose lock nobody holds, while the host lives.
fn says(file: &Metadata, engine: &str) -> String {
    let made = file.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    let made = made.map_or(0, |made| made.as_nanos());
    format!("{} {made} {engine}\n", file.ino())
}

/// A name that no other process ever has.
fn name() -> String {
    let random = || getrandom::u64().expect("the system gives randomness");
    format!("{:016x}{:016x}", random(), random())
}

/// Whether a file can be one of ours: a path from elsewhere is never removed.
fn is_name(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(owner: &Owner) -> Vec<String> {
        let mut names: Vec<_> =
            owner.gone().expect("it can be read").into_iter().map(|gone| gone.name).collect();
        names.sort();
        names
    }

    #[test]
    fn who_holds_his_lock_lives_and_who_does_not_is_gone() {
        let dir = tempfile::tempdir().expect("a directory");
        let hosts = dir.path().join("a/hosts");
        let new = || Owner::new(&hosts, "one").expect("a host");
        let (first, second, third) = (new(), new(), new());
        assert_eq!(names(&first), <[&str; 0]>::default());
        let dead = second.name().to_owned();
        drop(second);
        assert_eq!(names(&first), [&*dead]);
        let taken = first.gone().expect("read");
        assert_eq!(names(&third), <[&str; 0]>::default(), "one looks after it");
        drop(taken);
        assert_eq!(names(&third), [&*dead], "it is there until it is forgotten");
        for gone in third.gone().expect("read") {
            gone.forget().expect("removed");
        }
        assert_eq!(names(&first), <[&str; 0]>::default());
        drop(third);
        assert_eq!(names(&first).len(), 1);
    }

    #[test]
    fn hosts_of_another_engine_and_what_is_no_host_are_let_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let dead = Owner::new(dir.path(), "another").expect("a host").name().to_owned();
        for strange in ["notes.txt", &"x".repeat(32), &"A".repeat(32)] {
            fs::write(dir.path().join(strange), "one").expect("written");
        }
        fs::write(dir.path().join("1".repeat(32)), "").expect("written");
        fs::create_dir(dir.path().join("0".repeat(32))).expect("made");
        let owner = Owner::new(dir.path(), "one").expect("a host");
        assert_eq!(names(&owner), <[&str; 0]>::default());
        let same = Owner::new(dir.path(), "another").expect("a host");
        assert_eq!(names(&same), [dead]);
    }

    #[test]
    fn in_a_copy_of_the_directory_nobody_is_gone() {
        let (dir, copy) = (tempfile::tempdir().expect("a"), tempfile::tempdir().expect("b"));
        let lives = Owner::new(dir.path(), "one").expect("a host");
        for to in [dir.path().join("0".repeat(32)), copy.path().join(lives.name())] {
            fs::copy(dir.path().join(lives.name()), to).expect("copied");
        }
        let there = Owner::new(copy.path(), "one").expect("a host");
        assert_eq!(names(&there), <[&str; 0]>::default());
        assert_eq!(names(&lives), <[&str; 0]>::default());
        let name = lives.name().to_owned();
        drop(lives);
        let next = Owner::new(dir.path(), "one").expect("a host");
        assert_eq!(names(&next), [name]);
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_not_used() {
        let dir = tempfile::tempdir().expect("a directory");
        for mode in [0o777, 0o770, 0o702] {
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).expect("changed");
            let refused = Owner::new(dir.path(), "one").expect_err("others may write");
            assert_eq!(refused.to_string(), "others may write to it");
        }
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("changed");
        Owner::new(dir.path(), "one").expect("others may read");
    }
}
