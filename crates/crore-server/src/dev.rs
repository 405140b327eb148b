//! `crore dev`: a server in a temporary directory; threads of the same process push and run sample jobs.

use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crore::core::limit::Limit;
use crore::core::schedule::{Missed, Timing};
use crore::core::{Name, Payload, Spec, State};
use crore::events::{EventType, ListenerItem};
use crore::{Engine, Push, Work, block_on};

use crate::banner::{self, Startup};
use crate::config::SettingValue;
use crate::serve;
use crate::{logs, output};

/// Interval between sample jobs.
const PUSH_INTERVAL: Duration = Duration::from_millis(400);

/// Runs until a stop signal.
pub(crate) fn run(listen: &str) -> anyhow::Result<ExitCode> {
    let dir = tempfile::tempdir()?;
    let flags = vec![
        ("listen.address".to_owned(), SettingValue::One(listen.to_owned()), "--listen"),
        ("listen.drain-for".to_owned(), SettingValue::One("2s".to_owned()), "dev"),
        ("store.data".to_owned(), SettingValue::One(dir.path().display().to_string()), "dev"),
        ("store.segment".to_owned(), SettingValue::One("4MiB".to_owned()), "dev"),
        ("log.level".to_owned(), SettingValue::One("warn".to_owned()), "dev"),
        // A developer's own machine, so commands are safe to allow.
        ("runners.allow".to_owned(), SettingValue::One("command".to_owned()), "dev"),
    ];
    let config = serve::load_config(None, flags)?;
    let _logs = logs::start(&config)?;
    let engine = serve::open(&config)?;
    block_on(create_samples(&engine))?;
    let (stop, stopped) = channel();
    let engine = &engine;
    thread::scope(|scope| {
        let welcome = |startup: &Startup<'_>| {
            banner::dev(startup);
            scope.spawn(move || print_events(engine));
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

/// Creates a sample limit and a sample schedule.
async fn create_samples(engine: &Engine) -> Result<(), crore::Error> {
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

/// Pushes sample jobs until `stopped` is closed.
fn push(engine: &Engine, stopped: &Receiver<()>) {
    for n in 0_u64.. {
        let pushed = match n % 4 {
            0 => sample(engine, "mail", "mail", &format!(r#"{{"to":"user-{n}@example.com"}}"#)),
            1 | 2 => {
                sample(engine, "images", "thumbnail", &format!(r#"{{"image":"cat-{n}.png"}}"#))
            }
            _ => sample(engine, "mail", "mail", &format!(r#"{{"to":"nobody-{n}"}}"#)).attempts(2),
        };
        if pushed.retain().wait().is_err() {
            return;
        }
        match stopped.recv_timeout(PUSH_INTERVAL) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn sample<'a>(engine: &'a Engine, queue: &str, kind: &str, json: &str) -> Push<'a> {
    engine.push_payload(queue, Payload::json(json)).kind(kind)
}

/// Runs the sample jobs: each takes up to 600 ms, and mail to `nobody` fails.
fn work(engine: &Engine) {
    let worker = engine.worker(["mail", "images", "reports"]).parallel(3);
    let ran = worker.run_blocking(|work: &Work<'_>| {
        let takes = Duration::from_millis(100 + work.id.0 * 37 % 500);
        thread::park_timeout(takes);
        match String::from_utf8_lossy(work.payload()).contains("nobody") {
            true => Err("no such address"),
            false => Ok(()),
        }
    });
    if let Err(error) = ran {
        tracing::debug!(%error, "sample worker stopped");
    }
}

/// Prints a line for each event, until the engine stops.
fn print_events(engine: &Engine) {
    let mut listener = engine.listen();
    let mut out = output::CommandOutput::new(output::OutputFormat::Table);
    while let Some(item) = block_on(listener.next()) {
        let ListenerItem::Event(event) = item else { continue };
        let what = match event.what {
            EventType::Pushed => "pushed",
            EventType::Became(State::Done) => "done",
            EventType::Became(State::Scheduled) => "failed, will be retried",
            EventType::Became(State::Dead) => "dead",
            _ => continue,
        };
        let line = format!("#{:<5} {:<10} {what}", event.id.0, event.kind.as_str());
        if out.line(&line).is_err() {
            return;
        }
    }
}
