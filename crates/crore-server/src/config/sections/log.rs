use std::path::PathBuf;

use crore_core::settings::{Setting, SettingValue, Shape, one_of, section};
use tracing_subscriber::filter::Targets;

/// Log level, with overrides per module.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LogLevel(pub(crate) Targets);

impl Setting for LogLevel {
    const SHAPE: Shape = Shape::Text;

    fn read(given: &SettingValue) -> Result<Self, String> {
        let text = given.shown();
        let wrong = || {
            "expected `error`, `warn`, `info`, `debug`, `trace` or `off`, such as `info` or \
                        `info,crore_doors=debug`"
                .to_owned()
        };
        let levels = ["error", "warn", "info", "debug", "trace", "off"];
        let is_level = |part: &str| {
            let level = part.rsplit('=').next().unwrap_or(part);
            levels.contains(&level.trim())
        };
        if !text.split(',').all(is_level) {
            return Err(wrong());
        }
        text.parse().map(Self).map_err(|_| wrong())
    }
}

one_of! {
    /// Log format.
    pub(crate) enum LogFormat {
        /// Plain text.
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
}

one_of! {
    /// Rotation of log files.
    pub(crate) enum LogRotation {
        /// At midnight, UTC.
        Daily = "daily",
        /// Every hour.
        Hourly = "hourly",
        /// One file, never rotated.
        Never = "never",
    }
}

section! {
    /// Logging.
    pub(crate) struct LogConfig = "log" {
        /// Log level: `error`, `warn`, `info`, `debug`, `trace` or `off`, with overrides per module, such as
        /// `info,crore_doors=debug`.
        level: LogLevel = "info",
        /// Whether one line is logged for each run of a job that ends, at INFO with the target `crore::jobs`.
        jobs: bool = "false",
        /// Log format: `text` or `json`.
        format: LogFormat = "text",
        /// Directory for log files, instead of standard error. File names contain the address of this machine and the
        /// date: `crore.192.0.2.7.2026-11-15.log`.
        dir: Option<PathBuf> = none,
        /// Rotation of log files: `daily` (at midnight UTC), `hourly` or `never`.
        rotate: LogRotation = "daily",
        /// Number of log files to keep; older ones are deleted.
        keep: u64 = "14",
    }
}
