//! The child process of a plugin, and calls of it.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use crore_plugin_host::frame::{self, FrameError, HostReply, HostRequest, PluginFailureClass};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::process::Command;
use tokio::time::{Instant, timeout, timeout_at};

use super::PluginSetup;
use super::group::ProcessGroup;
use crate::context::RunContext;
use crate::mask::Masks;
use crate::output::LogLines;
use crate::runner::RunFailure;

/// Read size: small replies arrive in one read.
const READ_AHEAD: usize = 8 << 10;
/// Maximum output of a library while it loads; it is logged with the first job.
const MAX_EARLY_OUTPUT: usize = 16 << 10;
/// Timeout for the clean-up of a child that is no longer needed.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// A child that has loaded its library.
#[derive(Debug)]
pub(super) struct Child {
    name: String,
    group: ProcessGroup,
    requests: Sender,
    stream: UnixStream,
    /// Unparsed bytes of replies.
    unparsed: BytesMut,
    printed: PrintedOutput,
    runs: u64,
}

/// One job for the child.
#[derive(Debug)]
pub(super) struct PluginCall {
    pub(super) argument: Bytes,
    pub(super) max_output: u64,
    pub(super) grace: Duration,
}

/// The outcome of a call.
#[derive(Debug)]
pub(super) enum PluginOutcome {
    /// The output items.
    Done(Vec<Bytes>),
    /// It failed; the child can be reused.
    Failed(RunFailure),
    /// It failed, and the child cannot be reused.
    ChildLost(RunFailure),
}

/// The log output of a run.
struct RunLog<'a> {
    /// Lines that the plugin logs through its interface.
    logged: LogLines<'a>,
    printed: LogLines<'a>,
}

/// The standard error of the child.
#[derive(Debug)]
struct PrintedOutput {
    from: Receiver,
    buffer: BytesMut,
    is_closed: bool,
}

impl PrintedOutput {
    /// Waits for more output; forever after its end.
    async fn more(&mut self) {
        if self.is_closed {
            std::future::pending::<()>().await;
        }
        self.buffer.reserve(READ_AHEAD);
        let read = self.from.read_buf(&mut self.buffer).await;
        self.is_closed = !matches!(read, Ok(1..));
    }

    fn log(&mut self, lines: &mut LogLines<'_>) {
        lines.take(&self.buffer);
        self.buffer.clear();
    }

    /// Logs everything that was printed until now.
    fn log_rest(&mut self, lines: &mut LogLines<'_>) {
        self.log(lines);
        while let Ok(1..) = self.from.try_read_buf(&mut self.buffer) {
            self.log(lines);
        }
    }
}

impl Child {
    /// Starts a child and loads a library in it.
    pub(super) async fn start(library: &Path, setup: &PluginSetup) -> Result<Self, RunFailure> {
        let host = setup.host.display();
        let mut child = Self::spawn(library, setup).map_err(|error| {
            let message = format!("could not start plugin host `{host}`: {error}");
            match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => {
                    RunFailure::fatal(message)
                }
                // For example out of processes or memory, which may be temporary.
                _ => RunFailure::temporary(message),
            }
        })?;
        let limit = Duration::from_millis(setup.options.plugin_start.as_millis());
        let library = library.display();
        let loaded =
            timeout(limit, child.load(setup.options.plugin_memory.map_or(0, |memory| memory.0)))
                .await;
        match loaded {
            Ok(Ok(HostReply::Loaded(name))) => {
                child.name = name;
                Ok(child)
            }
            Ok(Ok(HostReply::Unusable(why))) => Err(RunFailure::fatal(why)),
            Ok(Ok(_)) => Err(RunFailure::fatal(protocol_error("an unexpected reply"))),
            Ok(Err(why)) => Err(RunFailure::fatal(format!("could not load `{library}`: {why}"))),
            Err(_) => {
                Err(RunFailure::temporary(format!("`{library}` did not load within {limit:?}")))
            }
        }
    }

    fn spawn(library: &Path, setup: &PluginSetup) -> io::Result<Self> {
        let (child_stdin, requests) = io::pipe()?;
        let (printed, child_stderr) = io::pipe()?;
        let (stream, child_stream) = StdUnixStream::pair()?;
        stream.set_nonblocking(true)?;
        let process = Command::new(&setup.host)
            .args(&setup.host_args)
            .arg(library)
            .env_clear()
            .envs(&setup.env)
            .stdin(Stdio::from(child_stdin))
            .stdout(Stdio::from(OwnedFd::from(child_stream)))
            .stderr(Stdio::from(child_stderr))
            .process_group(0)
            .spawn()?;
        let printed = Receiver::from_owned_fd(printed.into())?;
        let read = BytesMut::new();
        Ok(Self {
            name: String::new(),
            group: ProcessGroup::of(process),
            requests: Sender::from_owned_fd(requests.into())?,
            stream: UnixStream::from_std(stream)?,
            unparsed: read.clone(),
            printed: PrintedOutput { from: printed, buffer: read, is_closed: false },
            runs: 0,
        })
    }

    /// The name that the library reports.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The child, if its process still runs.
    pub(super) fn if_alive(mut self) -> Option<Self> {
        self.group.is_alive().then_some(self)
    }

    /// Lets the child clean up for a moment.
    pub(super) async fn release(self) {
        let Self { mut group, requests, stream: _stream, printed: _printed, .. } = self;
        drop(requests);
        // Dropping the group kills it after the timeout.
        _ = timeout(RELEASE_TIMEOUT, group.wait()).await;
    }

    async fn load(&mut self, memory: u64) -> Result<HostReply, String> {
        let request = HostRequest::Load { memory }.encode();
        // If the write fails, the child has ended and the read below reports why.
        _ = self.requests.write_all(&request).await;
        loop {
            if let Some(reply) = self.next_reply(0).map_err(protocol_error)? {
                return Ok(reply);
            }
            tokio::select! {
                biased;
                read = self.stream.read_buf(&mut self.unparsed) => if !matches!(read, Ok(1..)) {
                    return Err(self.group.end().await.error);
                },
                () = self.printed.more() => self.printed.buffer.truncate(MAX_EARLY_OUTPUT),
            }
        }
    }

    /// Runs a job. If the run must stop, the plugin is notified, and killed after the grace period.
    pub(super) async fn call(&mut self, call: PluginCall, context: &RunContext) -> PluginOutcome {
        let masks = Masks::default();
        let mut log = RunLog {
            logged: LogLines::new(context, &masks),
            printed: LogLines::new(context, &masks),
        };
        let called = self.exchange(call, context, &mut log).await;
        self.printed.log_rest(&mut log.printed);
        log.logged.end();
        log.printed.end();
        called
    }

    async fn exchange(
        &mut self,
        call: PluginCall,
        context: &RunContext,
        log: &mut RunLog<'_>,
    ) -> PluginOutcome {
        self.runs += 1;
        let (max_output, argument) = (call.max_output, call.argument);
        let request = HostRequest::Run { run: self.runs, max_output, argument }.encode();
        let mut unsent = &request[..];
        // End of the grace period, once the run must stop.
        let mut deadline = None;
        loop {
            match self.next_reply(max_output) {
                Ok(None) => {}
                Ok(Some(HostReply::Line(line))) => {
                    log.logged.take(line.as_bytes());
                    log.logged.take(b"\n");
                    continue;
                }
                Ok(Some(reply)) => return outcome(reply, deadline.is_some()),
                Err(bad) => {
                    return PluginOutcome::ChildLost(RunFailure::other(protocol_error(bad)));
                }
            }
            tokio::select! {
                biased;
                sent = self.requests.write(unsent), if !unsent.is_empty() => {
                    unsent = sent.map_or(&[][..], |sent| &unsent[sent..]);
                }
                read = self.stream.read_buf(&mut self.unparsed) => if !matches!(read, Ok(1..)) {
                    return self.lost(deadline.is_some()).await;
                },
                () = self.printed.more() => self.printed.log(&mut log.printed),
                () = self.group.wait() => return self.lost(deadline.is_some()).await,
                () = context.stopped(), if deadline.is_none() => {
                    deadline = Some(Instant::now() + call.grace);
                    // If the write fails, the child has ended or will be killed.
                    _ = self.stream.write_all(&self.runs.to_le_bytes()).await;
                }
                () = until(deadline) => return PluginOutcome::ChildLost(RunFailure::stopped()),
            }
        }
    }

    /// The next reply, if it is complete.
    fn next_reply(&mut self, max_output: u64) -> Result<Option<HostReply>, FrameError> {
        let Some(head) = self.unparsed.first_chunk::<4>() else {
            self.unparsed.reserve(READ_AHEAD);
            return Ok(None);
        };
        let length = frame::length(*head, HostReply::max(max_output))?;
        if self.unparsed.len() < 4 + length {
            self.unparsed.reserve(READ_AHEAD.max(4 + length - self.unparsed.len()));
            return Ok(None);
        }
        self.unparsed.advance(4);
        HostReply::decode(self.unparsed.split_to(length).freeze()).map(Some)
    }

    async fn lost(&mut self, was_stopped: bool) -> PluginOutcome {
        let failure = self.group.end().await;
        PluginOutcome::ChildLost(if was_stopped { RunFailure::stopped() } else { failure })
    }
}

fn outcome(reply: HostReply, was_stopped: bool) -> PluginOutcome {
    match reply {
        _ if was_stopped => PluginOutcome::Failed(RunFailure::stopped()),
        HostReply::Done(items) => PluginOutcome::Done(items),
        HostReply::Failed(PluginFailureClass::Again, why) => {
            PluginOutcome::Failed(RunFailure::temporary(why))
        }
        HostReply::Failed(PluginFailureClass::Other, why) => {
            PluginOutcome::Failed(RunFailure::other(why))
        }
        HostReply::Failed(PluginFailureClass::Fatal, why) => {
            PluginOutcome::Failed(RunFailure::fatal(why))
        }
        HostReply::Loaded(_) | HostReply::Unusable(_) | HostReply::Line(_) => {
            PluginOutcome::ChildLost(RunFailure::other(protocol_error("an unexpected reply")))
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => _ = timeout_at(deadline, std::future::pending::<()>()).await,
        None => std::future::pending().await,
    }
}

fn protocol_error(what: impl std::fmt::Display) -> String {
    format!("protocol error of the plugin process: {what}")
}
