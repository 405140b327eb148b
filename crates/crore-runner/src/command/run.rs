//! One run of a program, step by step.

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
use super::limits::{GATE, Limits};
use super::mark::Mark;
use super::settings::{Give, Settings};
use super::streams::{Keep, feed, read};
use super::tree::is_reaper;
use super::{program, report};
use crate::context::Context;
use crate::mask::Masks;
use crate::options::Options;
use crate::output::{Lines, Stderr, Tail, TooMuch};
use crate::runner::{Failure, Output, Task};

/// How long the rest of the output is waited for when the program and all that it has started are
/// gone: only a process that got away could still hold it open.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Runs a program once.
pub(super) async fn run(
    settings: &Arc<Settings>,
    options: &Arc<Options>,
    task: &Task,
    context: &Context,
) -> Result<Output, Failure> {
    let starting = start(Arc::clone(settings), Arc::clone(options), task.clone());
    // What is started after all is dropped, and so ended.
    let started = tokio::select! {
        biased;
        () = context.stopped() => return Err(Failure::stopped()),
        started = starting => started?,
    };
    let Started { leader, pipes, masks } = started;
    let all = |most| Keep::All(Vec::new(), most);
    let mut stdout = all(settings.max_output.0);
    let mut stderr = match settings.stderr {
        Stderr::Log => Keep::End(Tail::new(&masks)),
        Stderr::Result => all(settings.max_output.0),
    };
    let streams = Streams { pipes, stdout: &mut stdout, stderr: &mut stderr, masks: &masks };
    let payload: &[u8] = if settings.payload == Give::Stdin { &task.payload.bytes } else { &[] };
    let end = follow(leader, streams, payload, context)
        .await
        .map_err(|error| Failure::again(format!("the program was lost sight of: {error}")))?;
    let told = told(&stderr, &masks);
    let status = match end {
        End::Stopped => return Err(Failure::stopped()),
        End::TooMuch => return Err(TooMuch.told(settings.max_output, &told)),
        End::Ended(status) => status,
    };
    report::check(status, settings, &told)?;
    output(settings, stdout, stderr).ok_or_else(|| TooMuch.told(settings.max_output, &told))
}

/// A program that runs.
struct Started {
    leader: Leader,
    pipes: Pipes,
    masks: Masks,
}

/// Looks everything up and starts the program, where it may block: a program may lie on a disk that
/// does not answer.
async fn start(
    settings: Arc<Settings>,
    options: Arc<Options>,
    task: Task,
) -> Result<Started, Failure> {
    let started = spawn_blocking(move || {
        let mark = Mark::new();
        let environment = Environment::look_up(&settings, &task, mark)?;
        let args = arguments(&settings, &task.payload)?;
        let (program, args) = program_and_args(&settings, &options, args)?;
        let not_started = |error| report::not_started(&error, &program, &settings);
        let gate = gate(settings.limits);
        let mut command = command(&program, args, gate).map_err(not_started)?;
        command.env_clear().envs(&environment.variables);
        let is_fed = settings.payload == Give::Stdin && !task.payload.bytes.is_empty();
        command.stdin(if is_fed { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(dir) = &settings.dir {
            command.current_dir(directory(dir)?);
        }
        let grace = Duration::from(settings.grace.0);
        let (leader, pipes) =
            Leader::start(&mut command, mark, gate, grace).map_err(not_started)?;
        Ok(Started { leader, pipes, masks: environment.masks })
    });
    started.await.unwrap_or_else(|error| Err(Failure::other(format!("the start failed: {error}"))))
}

fn program_and_args(
    settings: &Settings,
    options: &Options,
    args: Vec<String>,
) -> Result<(PathBuf, Vec<String>), Failure> {
    if !settings.shell {
        return Ok((program::find(&settings.program, &options.programs)?, args));
    }
    let script = ["-c".to_owned(), settings.program.clone(), "sh".to_owned()];
    Ok((PathBuf::from("/bin/sh"), script.into_iter().chain(args).collect()))
}

/// The limits that a program waits for at the [`GATE`], if it does. It also waits where the host is the parent of all
/// orphans: what it starts is marked then, all of it, and nobody else waits for those that end.
fn gate(limits: Limits) -> Option<Limits> {
    let marks_all = || is_reaper() && Path::new(GATE[0]).exists();
    (!limits.is_none() || marks_all()).then_some(limits)
}

/// The program itself, or the gate at which it is given its limits. What is wrong with a program
/// behind a gate the system would not tell.
fn command(
    program: &Path,
    args: Vec<String>,
    gate: Option<Limits>,
) -> io::Result<process::Command> {
    if gate.is_none() {
        let mut command = process::Command::new(program);
        command.args(args);
        return Ok(command);
    }
    program::probe(program)?;
    let [shell, rest @ ..] = GATE;
    let mut command = process::Command::new(shell);
    command.args(rest).arg(program).args(args);
    Ok(command)
}

fn directory(dir: &str) -> Result<&str, Failure> {
    if Path::new(dir).is_dir() {
        return Ok(dir);
    }
    let message = format!("settings.dir: `{dir}` is no directory of the host");
    Err(Failure::fatal(message).with("reason", "not-found"))
}

/// What goes in and comes out.
struct Streams<'a> {
    pipes: Pipes,
    stdout: &'a mut Keep,
    stderr: &'a mut Keep,
    masks: &'a Masks,
}

/// How a run came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Ended(ExitStatus),
    Stopped,
    TooMuch,
}

/// Why a program is not followed any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Ended,
    ToStop,
    TooMuch,
}

/// Feeds and reads a program until it has ended, prints too much, or is to stop. Whatever it is, all
/// that it has started is gone then.
async fn follow(
    leader: Leader,
    streams: Streams<'_>,
    payload: &[u8],
    context: &Context,
) -> io::Result<End> {
    let Streams { pipes, stdout, stderr, masks } = streams;
    let mut feeding = pin!(feed(pipes.stdin.map(OwnedFd::from), payload));
    let out = read(pipes.stdout.map(OwnedFd::from), stdout, Lines::new(context, masks));
    let err = read(pipes.stderr.map(OwnedFd::from), stderr, Lines::new(context, masks));
    let mut reading = pin!(async { tokio::try_join!(out, err).map(drop) });
    let (mut is_fed, mut is_read, mut is_too_much) = (false, false, false);
    let why = {
        let mut ended = pin!(leader.ended());
        loop {
            tokio::select! {
                biased;
                () = context.stopped() => break Why::ToStop,
                read = &mut reading, if !is_read => {
                    is_read = true;
                    if read.is_err() {
                        break Why::TooMuch;
                    }
                }
                () = &mut feeding, if !is_fed => is_fed = true,
                ended = &mut ended => {
                    ended?;
                    break Why::Ended;
                }
            }
        }
    };
    // It is read on meanwhile, so that no full pipe keeps it from ending.
    let mut ending =
        pin!(async { if why == Why::Ended { leader.finish().await } else { leader.stop().await } });
    let status = loop {
        tokio::select! {
            status = &mut ending => break status?,
            read = &mut reading, if !is_read => {
                is_read = true;
                is_too_much = read.is_err();
            }
        }
    };
    if !is_read && let Ok(read) = timeout(LAST_WORDS, reading).await {
        is_too_much = read.is_err();
    }
    Ok(match why {
        Why::ToStop => End::Stopped,
        Why::TooMuch => End::TooMuch,
        Why::Ended if is_too_much => End::TooMuch,
        Why::Ended => End::Ended(status),
    })
}

/// The end of the standard error, without secrets.
fn told(stderr: &Keep, masks: &Masks) -> String {
    match stderr {
        Keep::End(tail) => tail.text(masks),
        Keep::All(bytes, _) => {
            let mut tail = Tail::new(masks);
            tail.take(bytes);
            tail.text(masks)
        }
    }
}

/// What is the result, unless both streams together are too much.
fn output(settings: &Settings, stdout: Keep, stderr: Keep) -> Option<Output> {
    let mut bytes = Vec::new();
    for kept in [stdout, stderr] {
        match kept {
            Keep::All(kept, _) if bytes.is_empty() => bytes = kept,
            Keep::All(kept, _) => bytes.extend(kept),
            Keep::End(_) => {}
        }
    }
    (bytes.len() as u64 <= settings.max_output.0).then(|| Output::bytes(bytes))
}
