//! A directory of real files.

use std::fs::{self, DirBuilder, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{self, failed};
use super::{Disk, DiskFile, OpenMode, name};

/// A directory that only this process has open.
///
/// The lock is held until this value and every file opened through it are dropped, so no other
/// process can write before this one has finished. Only the owner can read and write the files.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    lock: Arc<fs::File>,
}

impl Directory {
    /// Opens the directory, creating it and its parents durably if needed. `WouldBlock` means that
    /// it is already open.
    pub fn open(path: &Path) -> io::Result<Self> {
        create_durably(path)?;
        let lock = Arc::new(lock(path)?);
        Ok(Self { path: path.to_owned(), lock })
    }
}

impl Disk for Directory {
    /// Lists regular files with valid names; other entries of the directory are ignored.
    fn list(&self) -> io::Result<Vec<String>> {
        let listed = |error| failed("list", &self.path.to_string_lossy(), error);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(listed)? {
            let entry = entry.map_err(listed)?;
            let is_file = entry.file_type().map_err(listed)?.is_file();
            let name = entry.file_name().into_string();
            names.extend(name.ok().filter(|name| is_file && name::is_plain(name)));
        }
        Ok(names)
    }

    fn open(&self, name: &str, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        name::check(name)?;
        let create = mode == OpenMode::Create;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(create).mode(0o600);
        let file =
            options.open(self.path.join(name)).map_err(|error| failed("open", name, error))?;
        if create {
            // Also for an existing file: its creator may have crashed before this sync.
            sync_directory(&self.path)?;
        }
        Ok(Arc::new(DirectoryFile { name: name.to_owned(), file, _lock: Arc::clone(&self.lock) }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        name::check(name)?;
        match fs::remove_file(self.path.join(name)) {
            Ok(()) => sync_directory(&self.path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(failed("remove", name, error)),
        }
    }
}

#[derive(Debug)]
struct DirectoryFile {
    name: String,
    file: fs::File,
    _lock: Arc<fs::File>,
}

impl DiskFile for DirectoryFile {
    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let len = buffer.len();
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, at.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error::read(at, len, &self.name, error)),
            }
        }
        Ok(done)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let written = self.file.write_all_at(bytes, at);
        written.map_err(|error| error::write(at, bytes.len(), &self.name, error))
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data().map_err(|error| failed("sync", &self.name, error))
    }
}

/// Creates a directory and its parents, each synced in its parent.
fn create_durably(path: &Path) -> io::Result<()> {
    let shown = path.to_string_lossy();
    let above = match path.parent() {
        None if path.is_dir() => return Ok(()),
        None => return Err(failed("open the directory", &shown, io::ErrorKind::NotFound.into())),
        Some(above) if above.as_os_str().is_empty() => Path::new("."),
        Some(above) => above,
    };
    let created = match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_durably(above)?;
            DirBuilder::new().mode(0o700).create(path)
        }
        created => created,
    };
    match created {
        Ok(()) => sync_directory(above),
        // Its creator may have crashed before it was durable. A directory that others made for this
        // process may have a parent that it must not read.
        Err(_) if path.is_dir() => match sync_directory(above) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            synced => synced,
        },
        Err(error) => Err(failed("make the directory", &shown, error)),
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let synced = fs::File::open(path).and_then(|directory| directory.sync_all());
    synced.map_err(|error| failed("sync the directory", &path.to_string_lossy(), error))
}

/// Takes the lock and writes the process id into it.
fn lock(path: &Path) -> io::Result<fs::File> {
    let in_lock = |error| failed("lock", &path.join(name::LOCK).to_string_lossy(), error);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(path.join(name::LOCK)).map_err(in_lock)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(already_open(path, &file)),
        Err(TryLockError::Error(error)) => return Err(in_lock(error)),
    }
    file.set_len(0).map_err(in_lock)?;
    writeln!(file, "{}", std::process::id()).map_err(in_lock)?;
    Ok(file)
}

/// The error for a directory that is open, with the process id from the lock if it is there.
fn already_open(path: &Path, file: &fs::File) -> io::Error {
    let mut left = String::new();
    let read = file.take(32).read_to_string(&mut left);
    let id = read.ok().and_then(|_| left.trim().parse::<u32>().ok());
    let owner = match id {
        Some(id) if id == std::process::id() => format!("this same process (process {id})"),
        Some(id) => format!("another process (process {id})"),
        None => "another process".to_owned(),
    };
    let why = format!("{owner} has the store in `{}` open", path.display());
    io::Error::new(io::ErrorKind::WouldBlock, why)
}

#[cfg(test)]
mod tests;
