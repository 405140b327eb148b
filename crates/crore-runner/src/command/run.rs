//! One run of a program.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{self, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::arguments::arguments;
use super::environment::Environment;
use super::leader::{Leader, Pipes};
use super::limits::{CommandLimits, LAUNCHER};
use super::mark::RunMark;
use super::settings::{CommandInput, CommandSettings};
use super::streams::{StreamCapture, feed, read};
use super::tree::is_reaper;
use super::{program, report};
use crate::context::RunContext;
use crate::mask::Masks;
use crate::options::Options;
use crate::output::{LogLines, OutputLimitExceeded, OutputTail, Stderr};
use crate::runner::{Output, RunFailure, Task};

/// Timeout for the rest of the output after all processes of the run are gone. Only an escaped process can
/// still hold a pipe open.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs a program once.
pub(super) async fn run(
    settings: &Arc<CommandSettings>,
    options: &Arc<Options>,
    task: &Task,
    context: &RunContext,
) -> Result<Output, RunFailure> {
    let starting = start(Arc::clone(settings), Arc::clone(options), task.clone());
    // A program that starts after the stop is dropped, which ends it.
    let started = tokio::select! {
        biased;
        () = context.stopped() => return Err(RunFailure::stopped()),
        started = starting => started?,
    };
    let Started { leader, pipes, masks } = started;
    let all = |most| StreamCapture::All(Vec::new(), most);
    let mut stdout = all(settings.max_output.0);
    let mut stderr = match settings.stderr {
        Stderr::Log => StreamCapture::End(OutputTail::new(&masks)),
        Stderr::Result => all(settings.max_output.0),
    };
    let streams = Streams { pipes, stdout: &mut stdout, stderr: &mut stderr, masks: &masks };
    let payload: &[u8] =
        if settings.payload == CommandInput::Stdin { &task.payload.bytes } else { &[] };
    let end = follow(leader, streams, payload, context)
        .await
        .map_err(|error| RunFailure::temporary(format!("running the program failed: {error}")))?;
    let stderr_text = stderr_tail(&stderr, &masks);
    let status = match end {
        ProgramEnd::Stopped => return Err(RunFailure::stopped()),
        ProgramEnd::OutputLimit => {
            return Err(OutputLimitExceeded.into_failure(settings.max_output, &stderr_text));
        }
        ProgramEnd::Ended(status) => status,
    };
    report::check(status, settings, &stderr_text)?;
    output(settings, stdout, stderr)
        .ok_or_else(|| OutputLimitExceeded.into_failure(settings.max_output, &stderr_text))
}

/// A running program.
struct Started {
    leader: Leader,
    pipes: Pipes,
    masks: Masks,
}

/// Resolves everything and starts the program on a blocking thread: files may be on a disk that hangs.
async fn start(
    settings: Arc<CommandSettings>,
    options: Arc<Options>,
    task: Task,
) -> Result<Started, RunFailure> {
    let started = spawn_blocking(move || {
        let mark = RunMark::new();
        let environment = Environment::resolve(&settings, &task, mark)?;
        let args = arguments(&settings, &task.payload)?;
        let (program, args) = program_and_args(&settings, &options, args)?;
        let not_started = |error| report::start_failure(&error, &program, &settings);
        let launcher = launcher_limits(settings.limits);
        let mut command = command(&program, args, launcher).map_err(not_started)?;
        command.env_clear().envs(&environment.variables);
        let is_fed = settings.payload == CommandInput::Stdin && !task.payload.bytes.is_empty();
        command.stdin(if is_fed { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(dir) = &settings.dir {
            command.current_dir(program::find_dir(dir, &options.dirs)?);
        }
        let grace = Duration::from(settings.grace.0);
        let (leader, pipes) =
            Leader::start(&mut command, mark, launcher, grace).map_err(not_started)?;
        Ok(Started { leader, pipes, masks: environment.masks })
    });
    started.await.unwrap_or_else(|error| {
        Err(RunFailure::other(format!("starting the program failed: {error}")))
    })
}

fn program_and_args(
    settings: &CommandSettings,
    options: &Options,
    args: Vec<String>,
) -> Result<(PathBuf, Vec<String>), RunFailure> {
    if !settings.shell {
        return Ok((program::find(&settings.program, &options.programs)?, args));
    }
    let script = ["-c".to_owned(), settings.program.clone(), "sh".to_owned()];
    Ok((PathBuf::from("/bin/sh"), script.into_iter().chain(args).collect()))
}

/// The limits to set through the launcher ([`LAUNCHER`]), if the program needs it. It also does if the host is
/// the parent of all orphans: then every process must be marked, because only the host can reap those that
/// end.
fn launcher_limits(limits: CommandLimits) -> Option<CommandLimits> {
    let marks_all = || is_reaper() && Path::new(LAUNCHER[0]).exists();
    (!limits.is_none() || marks_all()).then_some(limits)
}

/// The program itself, or the launcher with the program as its argument. The launcher would hide errors of
/// exec, so the program is checked here.
fn command(
    program: &Path,
    args: Vec<String>,
    launcher: Option<CommandLimits>,
) -> io::Result<process::Command> {
    if launcher.is_none() {
        let mut command = process::Command::new(program);
        command.args(args);
        return Ok(command);
    }
    program::probe(program)?;
    let [shell, rest @ ..] = LAUNCHER;
    let mut command = process::Command::new(shell);
    command.args(rest).arg(program).args(args);
    Ok(command)
}

/// The standard streams.
struct Streams<'a> {
    pipes: Pipes,
    stdout: &'a mut StreamCapture,
    stderr: &'a mut StreamCapture,
    masks: &'a Masks,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProgramEnd {
    Ended(ExitStatus),
    Stopped,
    OutputLimit,
}

/// Why the host stopped following a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FollowEnd {
    Ended,
    StopRequested,
    OutputLimit,
}

/// Feeds and reads a program until it ends, exceeds its output limit or must stop. In every case all of its
/// processes are gone on return.
async fn follow(
    leader: Leader,
    streams: Streams<'_>,
    payload: &[u8],
    context: &RunContext,
) -> io::Result<ProgramEnd> {
    let Streams { pipes, stdout, stderr, masks } = streams;
    let mut feeding = pin!(feed(pipes.stdin.map(OwnedFd::from), payload));
    let out = read(pipes.stdout.map(OwnedFd::from), stdout, LogLines::new(context, masks));
    let err = read(pipes.stderr.map(OwnedFd::from), stderr, LogLines::new(context, masks));
    let mut reading = pin!(async { tokio::try_join!(out, err).map(drop) });
    let (mut is_fed, mut is_read, mut is_too_much) = (false, false, false);
    let why = {
        let mut ended = pin!(leader.ended());
        loop {
            tokio::select! {
                biased;
                () = context.stopped() => break FollowEnd::StopRequested,
                read = &mut reading, if !is_read => {
                    is_read = true;
                    if read.is_err() {
                        break FollowEnd::OutputLimit;
                    }
                }
                () = &mut feeding, if !is_fed => is_fed = true,
                ended = &mut ended => {
                    ended?;
                    break FollowEnd::Ended;
                }
            }
        }
    };
    // Keep reading, so that a full pipe cannot keep the program from ending.
    let mut ending = pin!(async {
        if why == FollowEnd::Ended { leader.finish().await } else { leader.stop().await }
    });
    let status = loop {
        tokio::select! {
            status = &mut ending => break status?,
            read = &mut reading, if !is_read => {
                is_read = true;
                is_too_much = read.is_err();
            }
        }
    };
    if !is_read && let Ok(read) = timeout(DRAIN_TIMEOUT, reading).await {
        is_too_much = read.is_err();
    }
    Ok(match why {
        FollowEnd::StopRequested => ProgramEnd::Stopped,
        FollowEnd::OutputLimit => ProgramEnd::OutputLimit,
        FollowEnd::Ended if is_too_much => ProgramEnd::OutputLimit,
        FollowEnd::Ended => ProgramEnd::Ended(status),
    })
}

/// The end of standard error with secrets masked.
fn stderr_tail(stderr: &StreamCapture, masks: &Masks) -> String {
    match stderr {
        StreamCapture::End(tail) => tail.text(masks),
        StreamCapture::All(bytes, _) => {
            let mut tail = OutputTail::new(masks);
            tail.take(bytes);
            tail.text(masks)
        }
    }
}

/// The result; none if both streams together exceed the limit.
fn output(
    settings: &CommandSettings,
    stdout: StreamCapture,
    stderr: StreamCapture,
) -> Option<Output> {
    let mut bytes = Vec::new();
    for kept in [stdout, stderr] {
        match kept {
            StreamCapture::All(kept, _) if bytes.is_empty() => bytes = kept,
            StreamCapture::All(kept, _) => bytes.extend(kept),
            StreamCapture::End(_) => {}
        }
    }
    (bytes.len() as u64 <= settings.max_output.0).then(|| Output::bytes(bytes))
}
