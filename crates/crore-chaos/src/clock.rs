//! A clock that jumps, for the server alone.
//!
//! The time of day cannot be set for one process: time namespaces cover the monotonic clocks only, and
//! to set the machine's would harm everybody on it. So Debian's libfaketime is loaded into the server
//! and adds to every reading of the time of day what stands in a file, which is looked at every time.
//! The monotonic clock is left alone, as it is when an administrator sets the time. The server is the
//! same binary as ever, with no switch of its own for this.

use std::fs;
use std::path::{Path, PathBuf};

use crore_testkit::{Error, Package};

/// The clock of one server.
#[derive(Debug)]
pub(crate) struct Clock {
    library: PathBuf,
    /// What stands here is added to the time of day.
    file: PathBuf,
    offset: i64,
    furthest: i64,
}

impl Clock {
    /// A clock that is right, until it jumps.
    pub(crate) fn new(dir: &Path) -> Result<Self, Error> {
        let (library, file) = (Package::faketime()?, dir.join("clock"));
        let clock = Self { library, file, offset: 0, furthest: 0 };
        clock.write()?;
        Ok(clock)
    }

    /// Jumps by so many milliseconds, back if negative.
    pub(crate) fn jump(&mut self, by: i64) -> Result<(), Error> {
        self.offset += by;
        self.furthest = self.furthest.max(self.offset);
        self.write()
    }

    /// How far it lies behind the latest time that it ever showed.
    pub(crate) const fn behind(&self) -> i64 {
        self.furthest - self.offset
    }

    /// What a server needs to see this clock.
    pub(crate) fn environment(&self) -> [(&'static str, String); 4] {
        [
            ("LD_PRELOAD", self.library.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
    }

    /// In one step: a reader sees the old offset or the new one.
    fn write(&self) -> Result<(), Error> {
        let (whole, part) = (self.offset.abs() / 1000, self.offset.abs() % 1000);
        let sign = if self.offset < 0 { '-' } else { '+' };
        let next = self.file.with_extension("next");
        fs::write(&next, format!("{sign}{whole}.{part:03}\n"))
            .and_then(|()| fs::rename(&next, &self.file))
            .map_err(|error| Error::Failed(format!("{}: {error}", self.file.display())))
    }
}
