//! The audit log file and its rotation.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// An append-only file that is rotated when it is full.
#[derive(Debug)]
pub(super) struct AuditFile {
    path: PathBuf,
    max_bytes: u64,
    keep: u32,
    /// `None` after an error: the next append opens the file again.
    open: Option<(fs::File, u64)>,
}

impl AuditFile {
    pub(super) fn open(path: PathBuf, max_bytes: u64, keep: u32) -> io::Result<Self> {
        let mut file = Self { path, max_bytes, keep, open: None };
        file.opened()?;
        Ok(file)
    }

    /// Appends a line; rotates first if the file is full.
    pub(super) fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let appended = self.try_append(line);
        if appended.is_err() {
            self.open = None;
        }
        appended
    }

    fn try_append(&mut self, line: &[u8]) -> io::Result<()> {
        let (_, bytes) = self.opened()?;
        if *bytes > 0 && *bytes + line.len() as u64 > self.max_bytes {
            self.rotate()?;
        }
        let (file, bytes) = self.opened()?;
        file.write_all(line)?;
        *bytes += line.len() as u64;
        Ok(())
    }

    pub(super) fn sync(&mut self) -> io::Result<()> {
        let synced = self.open.as_ref().map_or(Ok(()), |(file, _)| file.sync_data());
        if synced.is_err() {
            self.open = None;
        }
        synced
    }

    fn opened(&mut self) -> io::Result<&mut (fs::File, u64)> {
        let file = match self.open.take() {
            Some(file) => file,
            None => reopened(&self.path)?,
        };
        Ok(self.open.insert(file))
    }

    /// Renames every file to the next number, and removes the oldest.
    fn rotate(&mut self) -> io::Result<()> {
        if let Some((file, _)) = self.open.take() {
            file.sync_data()?;
        }
        if self.keep == 0 {
            return fs::remove_file(&self.path);
        }
        for age in (1..self.keep).rev() {
            match fs::rename(self.older(age), self.older(age + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.path, self.older(1))
    }

    fn older(&self, age: u32) -> PathBuf {
        rotated(&self.path, age)
    }
}

/// The name of a file that was rotated `age` times.
pub(super) fn rotated(path: &Path, age: u32) -> PathBuf {
    let mut name = path.to_path_buf().into_os_string();
    if age > 0 {
        name.push(format!(".{age}"));
    }
    name.into()
}

/// Opens the file and returns its length. A line that a crash has truncated is terminated.
fn reopened(path: &PathBuf) -> io::Result<(fs::File, u64)> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    let mut bytes = file.metadata()?.len();
    if bytes > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
            bytes += 1;
        }
    }
    Ok((file, bytes))
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "tests may panic")]
mod tests {
    use super::*;

    fn names(dir: &tempfile::TempDir) -> Vec<String> {
        let entries = fs::read_dir(dir.path()).expect("a directory");
        let name = |entry: io::Result<fs::DirEntry>| entry.map(|entry| entry.file_name());
        let mut names: Vec<_> = entries
            .map(|entry| name(entry).expect("an entry").to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn files_are_rotated_and_the_oldest_is_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("audit");
        let mut file = AuditFile::open(path.clone(), 12, 2).expect("opened");
        for n in 0..7 {
            file.append(format!("line{n}\n").as_bytes()).expect("written");
        }
        file.sync().expect("synced");
        assert_eq!(names(&dir), ["audit", "audit.1", "audit.2"]);
        let read = |path: PathBuf| fs::read_to_string(path).expect("a text");
        assert_eq!(read(path.clone()), "line6\n");
        assert_eq!(read(file.older(1)), "line4\nline5\n");
        assert_eq!(read(file.older(2)), "line2\nline3\n");
    }

    #[test]
    fn a_truncated_line_does_not_corrupt_the_next() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("audit");
        fs::write(&path, "whole\nto").expect("written");
        let mut file = AuditFile::open(path.clone(), 1000, 1).expect("opened");
        file.append(b"next\n").expect("written");
        assert_eq!(fs::read_to_string(path).expect("a text"), "whole\nto\nnext\n");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_tried_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("sub").join("audit");
        let _ = AuditFile::open(path.clone(), 1000, 1).expect_err("there is no such directory");
        fs::create_dir(dir.path().join("sub")).expect("created");
        let mut file = AuditFile::open(path.clone(), 1, 1).expect("opened");
        file.append(b"one\n").expect("written");
        fs::remove_dir_all(dir.path().join("sub")).expect("removed");
        let _ = file.append(b"two\n").expect_err("it cannot be rotated");
        fs::create_dir(dir.path().join("sub")).expect("created");
        file.append(b"three\n").expect("written");
        assert_eq!(fs::read_to_string(path).expect("a text"), "three\n");
    }
}
