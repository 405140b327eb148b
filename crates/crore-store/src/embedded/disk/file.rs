//! A directory of real files.

use std::fs::{self, DirBuilder, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{self, failed};
use super::{Disk, File, Open, name};

/// A directory that only this process has open.
///
/// The lock is held until this and every file that was opened through it are gone, so that nobody
/// else can write between the last words of one process and its end. Files can be read and written
/// by the owner alone.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    lock: Arc<fs::File>,
}

impl Directory {
    /// Opens the directory and makes it first, with those above it, if it is not there; that it is
    /// there survives a power cut. `WouldBlock` means that somebody has it open.
    pub fn open(path: &Path) -> io::Result<Self> {
        make(path)?;
        let lock = Arc::new(lock(path)?);
        Ok(Self { path: path.to_owned(), lock })
    }
}

impl Disk for Directory {
    /// Shows plain files with plain names; whatever else lies in the directory is not ours.
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

    fn open(&self, name: &str, how: Open) -> io::Result<Arc<dyn File>> {
        name::check(name)?;
        let create = how == Open::Create;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(create).mode(0o600);
        let file =
            options.open(self.path.join(name)).map_err(|error| failed("open", name, error))?;
        if create {
            // Also if the file was there: whoever made it may have died before this.
            sync_directory(&self.path)?;
        }
        Ok(Arc::new(OnDisk { name: name.to_owned(), file, _lock: Arc::clone(&self.lock) }))
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
struct OnDisk {
    name: String,
    file: fs::File,
    _lock: Arc<fs::File>,
}

impl File for OnDisk {
    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len();
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, at.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error::read(at, wanted, &self.name, error)),
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

/// Makes a directory and those above it, each durable in the one above.
fn make(path: &Path) -> io::Result<()> {
    let shown = path.to_string_lossy();
    let above = match path.parent() {
        None if path.is_dir() => return Ok(()),
        None => return Err(failed("open the directory", &shown, io::ErrorKind::NotFound.into())),
        Some(above) if above.as_os_str().is_empty() => Path::new("."),
        Some(above) => above,
    };
    let made = match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make(above)?;
            DirBuilder::new().mode(0o700).create(path)
        }
        made => made,
    };
    match made {
        Ok(()) => sync_directory(above),
        // Whoever made it may have died before it was durable; but a directory that others made for
        // us may lie in one that we must not read.
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

/// Takes the lock, and leaves our process id in it for others to read.
fn lock(path: &Path) -> io::Result<fs::File> {
    let in_lock = |error| failed("lock", &path.join(name::LOCK).to_string_lossy(), error);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(path.join(name::LOCK)).map_err(in_lock)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(held(path, &file)),
        Err(TryLockError::Error(error)) => return Err(in_lock(error)),
    }
    file.set_len(0).map_err(in_lock)?;
    writeln!(file, "{}", std::process::id()).map_err(in_lock)?;
    Ok(file)
}

/// Says who has the directory open, if he has already left his process id.
fn held(path: &Path, file: &fs::File) -> io::Error {
    let mut left = String::new();
    let read = file.take(32).read_to_string(&mut left);
    let id = read.ok().and_then(|_| left.trim().parse::<u32>().ok());
    let who = match id {
        Some(id) if id == std::process::id() => format!("this same process (process {id})"),
        Some(id) => format!("another process (process {id})"),
        None => "another process".to_owned(),
    };
    let why = format!("{who} has the store in `{}` open", path.display());
    io::Error::new(io::ErrorKind::WouldBlock, why)
}

#[cfg(test)]
mod tests;
