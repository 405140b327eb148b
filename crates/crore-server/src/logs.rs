//! Logging: structured lines to standard error or to files.

mod files;

use std::io;

use anyhow::Context;
use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

use crate::config::{Config, LogFormat};
use crate::environment;
use files::LogFiles;

/// Keeps the log writer alive; dropping it flushes buffered lines.
#[derive(Debug)]
#[must_use = "dropping it flushes and stops the log writer"]
pub(crate) struct LogGuard {
    _guard: Option<WorkerGuard>,
}

/// Starts logging as configured.
pub(crate) fn start(config: &Config) -> anyhow::Result<LogGuard> {
    let log = &config.log;
    let Some(dir) = &log.dir else {
        let has_colours = environment::has_colours(&io::stderr());
        write_to(config, io::stderr, has_colours);
        return Ok(LogGuard { _guard: None });
    };
    let files = LogFiles::open(log, dir)
        .with_context(|| format!("cannot write log files in `{}`", dir.display()))?;
    let (writer, guard) = tracing_appender::non_blocking(files);
    write_to(config, writer, false);
    Ok(LogGuard { _guard: Some(guard) })
}

fn write_to<W>(config: &Config, writer: W, has_colours: bool)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    // Errors of the log writer itself are ignored: it would print them to standard error, and panic if that is
    // closed.
    let lines = fmt::layer().with_writer(writer).with_ansi(has_colours).log_internal_errors(false);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match config.log.format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let filter = config.log.level.0.clone();
    tracing_subscriber::registry().with(lines.with_filter(filter)).init();
}
