//! `crore dev`: a first look. A server in a temporary directory, with jobs that are pushed and run by
//! threads of the same process.

use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crore::core::limit::Limit;
use crore::core::schedule::{Missed, Timing};
use crore::core::{Name, Payload, Spec, State};
use crore::events::{Happened, Heard};
use crore::{Engine, Work, block_on};

use crate::bind::Bound;
use crate::config::{Config, Given};
use crate::serve;
use crate::{logs, out, welcome};

/// A sample job is pushed this often.
const EVERY: Duration = Duration::from_millis(400);

/// Runs until told to stop.
pub(crate) fn run(listen: &str) -> anyhow::Result<ExitCode> {
    let dir = tempfile::tempdir()?;
    let flags = vec![
        ("listen.address".to_owned(), Given::One(listen.to_owned()), "--listen"),
        ("listen.drain-for".to_owned(), Given::One("2s".to_owned()), "dev"),
        ("store.data".to_owned(), Given::One(dir.path().display().to_string()), "dev"),
        ("store.segment".to_owned(), Given::One("4MiB".to_owned()), "dev"),
        ("log.level".to_owned(), Given::One("warn".to_owned()), "dev"),
        // It is the machine of whoever looks around.
        ("runners.allow".to_owned(), Given::One("command".to_owned()), "dev"),
    ];
    let config = serve::understood(None, flags)?;
    let _logs = logs::start(&config)?;
    let engine = serve::open(&config)?;
    block_on(set_up(&engine))?;
    let (stop, stopped) = channel();
    let engine = &engine;
    thread::scope(|scope| {
        let welcome = |_: &Engine, config: &Config, bound: &[Bound]| {
            welcome::dev(engine, config, bound);
            scope.spawn(move || tell(engine));
            scope.spawn(move || push(engine, &stopped));
            scope.spawn(move || work(engine));
        };
        let served = serve::runtime()
            .and_then(|runtime| runtime.block_on(serve::serve(engine, &config, welcome)));
        drop(stop);
        served.and(engine.stop().map_err(Into::into))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A limit and a schedule, so that there is something to see of each.
async fn set_up(engine: &Engine) -> Result<(), crore::Error> {
    let limit = Limit::parse(r#"where kind = "thumbnail" concurrency 2"#)?;
    engine.limits().set(Name::new("limit", "two-thumbnails")?, limit).await?;
    let timing = Timing::parse("timing", "every 10s")?;
    let (queue, kind) = (Name::new("queue", "reports")?, Name::new("kind", "report")?);
    let job = Spec::new(queue, kind, Payload::json(r#"{"about":"everything"}"#));
    engine
        .schedules()
        .set(Name::new("schedule", "reports")?, timing, Missed::Skip, job.into())
        .await
}

/// Pushes a sample job now and then, until told to stop.
fn push(engine: &Engine, stopped: &Receiver<()>) {
    for n in 0_u64.. {
        let pushed = match n % 4 {
            0 => engine.push("mail", format!(r#"{{"to":"user-{n}@example.com"}}"#)).kind("mail"),
            1 | 2 => {
                engine.push("images", format!(r#"{{"image":"cat-{n}.png"}}"#)).kind("thumbnail")
            }
            _ => engine.push("mail", format!(r#"{{"to":"nobody-{n}"}}"#)).kind("mail").attempts(2),
        };
        if pushed.retain().wait().is_err() {
            return;
        }
        match stopped.recv_timeout(EVERY) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Runs the sample jobs: each takes a moment, and mail to nobody fails.
fn work(engine: &Engine) {
    let worker = engine.worker(["mail", "images", "reports"]).parallel(3);
    let ran = worker.run_blocking(|work: &Work<'_>| {
        // As long as real work would take.
        let takes = Duration::from_millis(100 + work.id.0 * 37 % 500);
        thread::park_timeout(takes);
        match String::from_utf8_lossy(work.payload()).contains("nobody") {
            true => Err("there is no such address"),
            false => Ok(()),
        }
    });
    if let Err(error) = ran {
        tracing::debug!(%error, "the sample worker has ended");
    }
}

/// Says what happens, a line each, until the engine stops.
fn tell(engine: &Engine) {
    let mut listener = engine.listen();
    let mut out = out::Out::new(out::Format::Table);
    while let Some(heard) = block_on(listener.next()) {
        let Heard::Event(event) = heard else { continue };
        let what = match event.what {
            Happened::Pushed => "pushed",
            Happened::Became(State::Done) => "done",
            Happened::Became(State::Scheduled) => "failed, to be tried again",
            Happened::Became(State::Dead) => "failed for good",
            _ => continue,
        };
        let line = format!("#{:<5} {:<10} {what}", event.id.0, event.kind.as_str());
        if out.line(&line).is_err() {
            return;
        }
    }
}
