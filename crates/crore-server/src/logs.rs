//! What crore writes about itself: structured lines, to the standard error or to files.

use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use anyhow::Context;
use tracing_appender::non_blocking::WorkerGuard;
use tracing_appender::rolling::{RollingFileAppender, Rotation};
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

use crate::config::{Config, Format, Rotate};
use crate::environment;

/// As long as this is there, what is written reaches its file.
#[derive(Debug)]
#[must_use = "what was not written yet is written when this is dropped"]
pub(crate) struct Logs {
    _guard: Option<WorkerGuard>,
}

/// Starts writing, as the configuration says.
pub(crate) fn start(config: &Config) -> anyhow::Result<Logs> {
    let log = &config.log;
    let Some(dir) = &log.dir else {
        let has_colours = environment::has_colours(&io::stderr());
        write_to(config, io::stderr, has_colours);
        return Ok(Logs { _guard: None });
    };
    let rotation = match log.rotate {
        Rotate::Daily => Rotation::DAILY,
        Rotate::Hourly => Rotation::HOURLY,
        Rotate::Never => Rotation::NEVER,
    };
    let files = RollingFileAppender::builder()
        .rotation(rotation)
        .filename_prefix(format!("crore.{}", host_address()))
        .filename_suffix("log")
        .max_log_files(usize::try_from(log.keep).unwrap_or(usize::MAX))
        .build(dir)
        .with_context(|| format!("cannot write a log in `{}`", dir.display()))?;
    let (writer, guard) = tracing_appender::non_blocking(files);
    write_to(config, writer, false);
    Ok(Logs { _guard: Some(guard) })
}

fn write_to<W>(config: &Config, writer: W, has_colours: bool)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    // What cannot be written cannot be told either: its own errors would go to the standard error, which
    // is perhaps what is closed, and to write there then is a panic.
    let lines = fmt::layer().with_writer(writer).with_ansi(has_colours).log_internal_errors(false);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match config.log.format {
        Format::Text => lines.boxed(),
        Format::Json => lines.json().flatten_event(true).boxed(),
    };
    let filter = config.log.level.0.clone();
    tracing_subscriber::registry().with(lines.with_filter(filter)).init();
}

/// The address by which this host reaches others: what tells the logs of several hosts apart. Nothing is
/// sent: a datagram socket that is connected only knows which way it would go.
fn host_address() -> IpAddr {
    let anywhere = (Ipv4Addr::UNSPECIFIED, 0);
    // An address that documentation is written with; it belongs to nobody.
    let somewhere = (Ipv4Addr::new(192, 0, 2, 1), 9);
    let socket = UdpSocket::bind(anywhere).and_then(|socket| {
        socket.connect(somewhere)?;
        socket.local_addr()
    });
    socket.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip())
}
