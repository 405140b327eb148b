//! Rotated log files, which only their owner and its group may read.
//!
//! The appender creates files that every user may read. So each file is created here first, with its mode, and the
//! appender continues it.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use tracing_appender::rolling::{RollingFileAppender, Rotation};

use crate::config::{LogConfig, LogRotation};

const MODE: u32 = 0o640;
const SUFFIX: &str = "log";

/// The current log file.
pub(super) struct LogFiles {
    appender: RollingFileAppender,
    dir: PathBuf,
    prefix: String,
    rotation: LogRotation,
    /// Number of the hour since 1970 in which the file was last checked.
    hour: i64,
}

impl LogFiles {
    pub(super) fn open(options: &LogConfig, dir: &Path) -> anyhow::Result<Self> {
        let prefix = format!("crore.{}", host_address());
        let rotation = match options.rotate {
            LogRotation::Daily => Rotation::DAILY,
            LogRotation::Hourly => Rotation::HOURLY,
            LogRotation::Never => Rotation::NEVER,
        };
        let appender = RollingFileAppender::builder()
            .rotation(rotation)
            .filename_prefix(&prefix)
            .filename_suffix(SUFFIX)
            .max_log_files(usize::try_from(options.keep).unwrap_or(usize::MAX));
        let now = Timestamp::now();
        fs::create_dir_all(dir)?;
        make_private(&dir.join(file_name(&prefix, options.rotate, now)))?;
        let appender = appender.build(dir)?;
        Ok(Self {
            appender,
            dir: dir.to_owned(),
            prefix,
            rotation: options.rotate,
            hour: hour(now),
        })
    }

    /// Creates the file of this hour, if the hour is a new one.
    fn prepare(&mut self) {
        let now = Timestamp::now();
        if self.hour != hour(now) {
            self.hour = hour(now);
            // The appender reports a directory that cannot be written.
            let _ = make_private(&self.dir.join(file_name(&self.prefix, self.rotation, now)));
        }
    }
}

impl Write for LogFiles {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.prepare();
        self.appender.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.appender.flush()
    }
}

fn hour(time: Timestamp) -> i64 {
    time.as_second().div_euclid(3600)
}

/// The file to which the appender writes at a time.
fn file_name(prefix: &str, rotation: LogRotation, time: Timestamp) -> String {
    let date = match rotation {
        LogRotation::Daily => time.strftime("%Y-%m-%d."),
        LogRotation::Hourly => time.strftime("%Y-%m-%d-%H."),
        LogRotation::Never => return format!("{prefix}.{SUFFIX}"),
    };
    format!("{prefix}.{date}{SUFFIX}")
}

/// Creates a file with its mode. One of an earlier version gets the mode, too.
fn make_private(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().append(true).create(true).mode(MODE).open(path)?;
    // The file may belong to another user who lets this one write.
    let _ = file.set_permissions(Permissions::from_mode(MODE));
    Ok(())
}

/// The source address of this host's default route, which tells the logs of several hosts apart. Connecting a UDP
/// socket only selects a route; no packet is sent.
fn host_address() -> IpAddr {
    let anywhere = (Ipv4Addr::UNSPECIFIED, 0);
    // An address reserved for documentation (RFC 5737).
    let somewhere = (Ipv4Addr::new(192, 0, 2, 1), 9);
    let socket = UdpSocket::bind(anywhere).and_then(|socket| {
        socket.connect(somewhere)?;
        socket.local_addr()
    });
    socket.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip())
}
