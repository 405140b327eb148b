//! A plugin's process, and one call of it.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as Line;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use crore_plugin_host::frame::{self, Answer, Bad, Class, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::process::Command;
use tokio::time::{Instant, timeout, timeout_at};

use super::Setup;
use super::group::Group;
use crate::context::Context;
use crate::mask::Masks;
use crate::output::Lines;
use crate::runner::Failure;

/// Answers that are small are read with one call.
const READ_AHEAD: usize = 8 << 10;
/// What a library may print while it is loaded, to be told with its first job.
const MOST_EARLY: usize = 16 << 10;
/// How long a child that is not needed any more may take to free what it has.
const LET_GO: Duration = Duration::from_secs(1);

/// A child that has loaded its library.
#[derive(Debug)]
pub(super) struct Child {
    name: String,
    group: Group,
    requests: Sender,
    line: UnixStream,
    /// What has come of answers.
    read: BytesMut,
    prints: Prints,
    runs: u64,
}

/// One job for it.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) argument: Bytes,
    pub(super) max_output: u64,
    pub(super) grace: Duration,
}

/// How a call ended.
#[derive(Debug)]
pub(super) enum Called {
    /// It gave these items.
    Done(Vec<Bytes>),
    /// It failed; the child can be used again.
    Failed(Failure),
    /// It failed, and the child is not to be used again.
    Gone(Failure),
}

/// What is heard of a run.
struct Heard<'a> {
    /// By the plugin's own log.
    said: Lines<'a>,
    printed: Lines<'a>,
}

/// What the plugin prints.
#[derive(Debug)]
struct Prints {
    from: Receiver,
    read: BytesMut,
    are_over: bool,
}

impl Prints {
    /// Waits for more of it, and for ever when it is over.
    async fn more(&mut self) {
        if self.are_over {
            std::future::pending::<()>().await;
        }
        self.read.reserve(READ_AHEAD);
        let read = self.from.read_buf(&mut self.read).await;
        self.are_over = !matches!(read, Ok(1..));
    }

    fn tell(&mut self, lines: &mut Lines<'_>) {
        lines.take(&self.read);
        self.read.clear();
    }

    /// Tells what was printed until now.
    fn tell_rest(&mut self, lines: &mut Lines<'_>) {
        self.tell(lines);
        while let Ok(1..) = self.from.try_read_buf(&mut self.read) {
            self.tell(lines);
        }
    }
}

impl Child {
    /// Starts a child and has it load a library.
    pub(super) async fn start(library: &Path, setup: &Setup) -> Result<Self, Failure> {
        let host = setup.host.display();
        let mut child = Self::spawn(library, setup).map_err(|error| {
            let message = format!("`{host}`, which runs plugins, cannot be started: {error}");
            match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => {
                    Failure::fatal(message)
                }
                // The machine may have more to give later.
                _ => Failure::again(message),
            }
        })?;
        let limit = Duration::from_millis(setup.options.plugin_start.as_millis());
        let library = library.display();
        let loaded =
            timeout(limit, child.load(setup.options.plugin_memory.map_or(0, |memory| memory.0)))
                .await;
        match loaded {
            Ok(Ok(Answer::Loaded(name))) => {
                child.name = name;
                Ok(child)
            }
            Ok(Ok(Answer::Unusable(why))) => Err(Failure::fatal(why)),
            Ok(Ok(_)) => Err(Failure::fatal(not_understood("an answer that was not asked for"))),
            Ok(Err(why)) => Err(Failure::fatal(format!("`{library}` was not loaded: {why}"))),
            Err(_) => Err(Failure::again(format!("`{library}` was not loaded within {limit:?}"))),
        }
    }

    fn spawn(library: &Path, setup: &Setup) -> io::Result<Self> {
        let (their_requests, requests) = io::pipe()?;
        let (prints, their_prints) = io::pipe()?;
        let (line, their_line) = Line::pair()?;
        line.set_nonblocking(true)?;
        let process = Command::new(&setup.host)
            .args(&setup.host_args)
            .arg(library)
            .env_clear()
            .envs(&setup.env)
            .stdin(Stdio::from(their_requests))
            .stdout(Stdio::from(OwnedFd::from(their_line)))
            .stderr(Stdio::from(their_prints))
            .process_group(0)
            .spawn()?;
        let prints = Receiver::from_owned_fd(prints.into())?;
        let read = BytesMut::new();
        Ok(Self {
            name: String::new(),
            group: Group::of(process),
            requests: Sender::from_owned_fd(requests.into())?,
            line: UnixStream::from_std(line)?,
            read: read.clone(),
            prints: Prints { from: prints, read, are_over: false },
            runs: 0,
        })
    }

    /// What the library says that it is called.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Itself, if its process still runs.
    pub(super) fn if_there(mut self) -> Option<Self> {
        self.group.is_there().then_some(self)
    }

    /// Lets it free what it has, for a moment.
    pub(super) async fn let_go(self) {
        let Self { mut group, requests, line: _line, prints: _prints, .. } = self;
        drop(requests);
        // It is killed after that, or already gone.
        _ = timeout(LET_GO, group.wait()).await;
    }

    async fn load(&mut self, memory: u64) -> Result<Answer, String> {
        let request = Request::Load { memory }.encode();
        // What cannot be asked is not answered either: its end tells why.
        _ = self.requests.write_all(&request).await;
        loop {
            if let Some(answer) = self.answer(0).map_err(not_understood)? {
                return Ok(answer);
            }
            tokio::select! {
                biased;
                read = self.line.read_buf(&mut self.read) => if !matches!(read, Ok(1..)) {
                    return Err(self.group.end().await.error);
                },
                () = self.prints.more() => self.prints.read.truncate(MOST_EARLY),
            }
        }
    }

    /// Runs a job. If the run is to stop, the plugin is told, and killed after the grace.
    pub(super) async fn call(&mut self, call: Call, context: &Context) -> Called {
        let masks = Masks::default();
        let mut heard =
            Heard { said: Lines::new(context, &masks), printed: Lines::new(context, &masks) };
        let called = self.converse(call, context, &mut heard).await;
        self.prints.tell_rest(&mut heard.printed);
        heard.said.end();
        heard.printed.end();
        called
    }

    async fn converse(&mut self, call: Call, context: &Context, heard: &mut Heard<'_>) -> Called {
        self.runs += 1;
        let (max_output, argument) = (call.max_output, call.argument);
        let request = Request::Run { run: self.runs, max_output, argument }.encode();
        let mut unsent = &request[..];
        // The moment from which on nothing is waited for any more.
        let mut deadline = None;
        loop {
            match self.answer(max_output) {
                Ok(None) => {}
                Ok(Some(Answer::Line(line))) => {
                    heard.said.take(line.as_bytes());
                    heard.said.take(b"\n");
                    continue;
                }
                Ok(Some(answer)) => return called(answer, deadline.is_some()),
                Err(bad) => return Called::Gone(Failure::other(not_understood(bad))),
            }
            tokio::select! {
                biased;
                sent = self.requests.write(unsent), if !unsent.is_empty() => {
                    unsent = sent.map_or(&[][..], |sent| &unsent[sent..]);
                }
                read = self.line.read_buf(&mut self.read) => if !matches!(read, Ok(1..)) {
                    return self.gone(deadline.is_some()).await;
                },
                () = self.prints.more() => self.prints.tell(&mut heard.printed),
                () = self.group.wait() => return self.gone(deadline.is_some()).await,
                () = context.stopped(), if deadline.is_none() => {
                    deadline = Some(Instant::now() + call.grace);
                    // If it cannot hear it, it is gone, or will be killed.
                    _ = self.line.write_all(&self.runs.to_le_bytes()).await;
                }
                () = until(deadline) => return Called::Gone(Failure::stopped()),
            }
        }
    }

    /// The next answer, if all of it has come.
    fn answer(&mut self, max_output: u64) -> Result<Option<Answer>, Bad> {
        let Some(head) = self.read.first_chunk::<4>() else {
            self.read.reserve(READ_AHEAD);
            return Ok(None);
        };
        let length = frame::length(*head, Answer::max(max_output))?;
        if self.read.len() < 4 + length {
            self.read.reserve(READ_AHEAD.max(4 + length - self.read.len()));
            return Ok(None);
        }
        self.read.advance(4);
        Answer::decode(self.read.split_to(length).freeze()).map(Some)
    }

    async fn gone(&mut self, was_stopped: bool) -> Called {
        let failure = self.group.end().await;
        Called::Gone(if was_stopped { Failure::stopped() } else { failure })
    }
}

fn called(answer: Answer, was_stopped: bool) -> Called {
    match answer {
        _ if was_stopped => Called::Failed(Failure::stopped()),
        Answer::Done(items) => Called::Done(items),
        Answer::Failed(Class::Again, why) => Called::Failed(Failure::again(why)),
        Answer::Failed(Class::Other, why) => Called::Failed(Failure::other(why)),
        Answer::Failed(Class::Fatal, why) => Called::Failed(Failure::fatal(why)),
        Answer::Loaded(_) | Answer::Unusable(_) | Answer::Line(_) => {
            Called::Gone(Failure::other(not_understood("an answer that was not asked for")))
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => _ = timeout_at(deadline, std::future::pending::<()>()).await,
        None => std::future::pending().await,
    }
}

fn not_understood(what: impl std::fmt::Display) -> String {
    format!("the plugin's process says what is not understood: {what}")
}
