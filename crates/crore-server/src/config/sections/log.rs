use std::path::PathBuf;

use crore_core::settings::{Given, Setting, Shape, one_of, section};
use tracing_subscriber::filter::Targets;

/// How much is written: a level, and perhaps others for some targets.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Level(pub(crate) Targets);

impl Setting for Level {
    const SHAPE: Shape = Shape::Text;

    fn read(given: &Given) -> Result<Self, String> {
        let text = given.shown();
        let wrong = || {
            "say `error`, `warn`, `info`, `debug`, `trace` or `off`, as in `info` or \
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
    /// How a line looks.
    pub(crate) enum Format {
        /// For people.
        Text = "text",
        /// For programs: an object a line.
        Json = "json",
    }
}

one_of! {
    /// When a new file is begun.
    pub(crate) enum Rotate {
        /// At midnight, UTC.
        Daily = "daily",
        /// Every hour.
        Hourly = "hourly",
        /// Not at all.
        Never = "never",
    }
}

section! {
    /// What crore writes about itself.
    pub(crate) struct Log = "log" {
        /// How much: `error`, `warn`, `info`, `debug`, `trace` or `off`, and others for parts of crore, as in
        /// `info,crore_doors=debug`.
        level: Level = "info",
        /// `text` for people, `json` for programs.
        format: Format = "text",
        /// A directory for the log's files, instead of the standard error. Each is named after the address of
        /// this host and the time: `crore.192.0.2.7.2026-11-15.log`.
        dir: Option<PathBuf> = none,
        /// When a new file is begun: `daily`, `hourly` or `never`.
        rotate: Rotate = "daily",
        /// How many files are kept; older ones are removed.
        keep: u64 = "14",
    }
}
