//! A clock that jumps, for the server alone.
//!
//! Linux cannot set the time of day for one process: time namespaces cover only the monotonic clocks, and setting the
//! machine's clock would affect every process on it. The server is therefore started with Debian's libfaketime
//! preloaded, which adds an offset to every reading of the time of day; it reads the offset from a file each time. The
//! monotonic clock is left alone, as when an administrator sets the time. The server binary is unchanged.

use std::fs;
use std::path::{Path, PathBuf};

use crore_testkit::{DebianPackage, Error};

/// The clock of one server.
#[derive(Debug)]
pub(crate) struct JumpingClock {
    library: PathBuf,
    /// Contains the offset to the time of day.
    file: PathBuf,
    offset: i64,
    furthest: i64,
}

impl JumpingClock {
    /// A clock without an offset.
    pub(crate) fn new(dir: &Path) -> Result<Self, Error> {
        let (library, file) = (DebianPackage::faketime()?, dir.join("clock"));
        let clock = Self { library, file, offset: 0, furthest: 0 };
        clock.write()?;
        Ok(clock)
    }

    /// Jumps by this many milliseconds; backwards if negative.
    pub(crate) fn jump(&mut self, by: i64) -> Result<(), Error> {
        self.offset += by;
        self.furthest = self.furthest.max(self.offset);
        self.write()
    }

    /// Milliseconds behind the latest time that it has shown.
    pub(crate) const fn behind(&self) -> i64 {
        self.furthest - self.offset
    }

    /// The environment variables that make a server use this clock.
    pub(crate) fn environment(&self) -> [(&'static str, String); 4] {
        [
            ("LD_PRELOAD", self.library.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
    }

    /// Replaces the file atomically: a reader sees the old offset or the new one.
    fn write(&self) -> Result<(), Error> {
        let (whole, part) = (self.offset.abs() / 1000, self.offset.abs() % 1000);
        let sign = if self.offset < 0 { '-' } else { '+' };
        let next = self.file.with_extension("next");
        fs::write(&next, format!("{sign}{whole}.{part:03}\n"))
            .and_then(|()| fs::rename(&next, &self.file))
            .map_err(|error| Error::Failed(format!("{}: {error}", self.file.display())))
    }
}
