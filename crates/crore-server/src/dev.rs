//! `crore dev`: a server in a temporary directory; threads of the same process push and run sample jobs.

mod samples;

use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::thread;

use crore::core::State;
use crore::events::{EventType, ListenerItem};
use crore::{Engine, block_on};

use crate::banner::{self, Startup};
use crate::config::SettingValue;
use crate::serve;
use crate::{logs, output};

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
    block_on(samples::create(&engine))?;
    let (stop, stopped) = channel();
    let engine = &engine;
    thread::scope(|scope| {
        let welcome = |startup: &Startup<'_>| {
            banner::dev(startup);
            scope.spawn(move || print_events(engine));
            scope.spawn(move || samples::push(engine, &stopped));
            scope.spawn(move || samples::work(engine));
        };
        let served = serve::runtime()
            .and_then(|runtime| runtime.block_on(serve::serve(engine, &config, welcome)));
        drop(stop);
        served.and(engine.stop().map_err(Into::into))
    })?;
    Ok(ExitCode::SUCCESS)
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
