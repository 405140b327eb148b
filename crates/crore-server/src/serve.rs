//! `crore serve`: open the store, listen, and stay until told to stop.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use crore::{Engine, Options};
use crore_api::access::{self, Protection};
use crore_api::audit::Audit;
use crore_doors::listen::Listener;
use crore_doors::tls::Tls;
use crore_doors::{Doors, listen};
use crore_store::{Memory, SystemClock};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::task::JoinSet;

use crate::bind::{Bound, bind};
use crate::cli::Settings;
use crate::config::{self, Config, Flags};
use crate::drain::{self, Closing, Signals, Told};
use crate::exit::{Failure, Why};
use crate::{jobworkerp, logs, runners, telemetry, welcome};

/// How long what nobody waits for may take to end.
const LEAVE_WITHIN: Duration = Duration::from_millis(100);

/// Runs a server until it is told to stop.
pub(crate) fn run(settings: &Settings) -> anyhow::Result<ExitCode> {
    let said = if settings.jobworkerp_env {
        jobworkerp::load()?;
        jobworkerp::said()
    } else {
        Vec::new()
    };
    let flags = [jobworkerp::flags(&said), settings.flags()].concat();
    let config = understood(settings.config.as_deref(), flags)?;
    let _logs = logs::start(&config)?;
    jobworkerp::tell(&said);
    let engine = open(&config)?;
    let runtime = runtime()?;
    let served = runtime.block_on(serve(&engine, &config, welcome::serve));
    // A backup that is being made is no reason to stay, and says by itself that it is not finished.
    runtime.shutdown_timeout(LEAVE_WITHIN);
    served?;
    Ok(ExitCode::SUCCESS)
}

/// The configuration, from every side.
pub(crate) fn understood(file: Option<&Path>, flags: Flags) -> anyhow::Result<Config> {
    let mut raw = config::gather(file, flags)?;
    let understood = config::understand(&mut raw);
    Ok(understood.map_err(|faults| Failure::new(Why::Usage, faults.to_string()))?)
}

pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.enable_all().build().context("cannot start threads")
}

/// Opens the engine on the store that the configuration names, if that promises enough.
pub(crate) fn open(config: &Config) -> anyhow::Result<Engine> {
    let engine = open_any(config)?;
    let (has, needs) = (engine.status().durability(), config.store.required());
    if has < needs {
        let message = format!(
            "answers of this store survive {has}, and `store.require` wants {needs}: see \
             `store.durability` and `store.memory`"
        );
        return Err(Failure::new(Why::Usage, message).into());
    }
    Ok(engine)
}

fn open_any(config: &Config) -> anyhow::Result<Engine> {
    let mut options = Options::default();
    options.caps = config.caps.clone();
    options.store = config.store.embedded;
    options.queues = config.retention;
    if config.store.memory {
        let clock = Arc::new(SystemClock);
        let store = Memory::new(clock.clone()).with_queues(options.queues);
        return Ok(Engine::on(Arc::new(store), clock, options)?);
    }
    let dir = &config.store.data;
    Engine::open_with(dir, options).map_err(|error| not_opened(error, &dir.display().to_string()))
}

/// Why a store could not be opened, and what to do about it.
pub(crate) fn not_opened(error: crore::Error, dir: &str) -> anyhow::Error {
    if let crore::Error::Store(crore_store::Error::Unavailable(source)) = &error
        && let Some(io) = source.downcast_ref::<io::Error>()
        && io.kind() == io::ErrorKind::WouldBlock
    {
        let message = format!("{io}; stop it, or choose another directory with `--data`");
        return Failure::new(Why::Conflict, message).into();
    }
    let is_damaged = matches!(error, crore::Error::Store(crore_store::Error::Corrupt { .. }));
    let error = anyhow!(error).context(format!("cannot open the store in `{dir}`"));
    match is_damaged {
        true => anyhow!("{error:#}; `crore verify {dir}` says more"),
        false => error,
    }
}

/// Serves until told to stop, and drains. `welcome` is told where it listens.
pub(crate) async fn serve(
    engine: &Engine,
    config: &Config,
    welcome: impl FnOnce(&Engine, &Config, &[Bound]),
) -> anyhow::Result<()> {
    // Before anything is said: whoever sees where we listen may tell us to stop.
    let mut signals = Signals::new().context("cannot listen to signals")?;
    let tls = Tls::load(&config.tls)
        .map_err(|error| Failure::new(Why::Usage, anyhow!(error).to_string()))?;
    let bound = bind(config).await?;
    may_listen(engine, config, tls.as_ref(), &bound).await?;
    welcome(engine, config, &bound);
    for one in &bound {
        tracing::info!(address = %one.address, door = one.door.unwrap_or("all"), "listening");
    }
    let listens = bound.iter().map(|one| one.address).collect();
    let mut options = config.doors(listens);
    options.outbound.roots = trusted(config.outbound.ca.as_deref())?;
    let audit = Audit::open(&config.audit).context("cannot write the audit log")?;
    let doors = Doors::audited(engine.clone(), options, audit);
    let exporter = telemetry::start(&config.telemetry, &doors)?;
    let (pushing, until) = (doors.push_workers(), doors.clone());
    tokio::spawn(async move { pushing.run(until.closing()).await });
    let data = (!config.store.memory).then_some(config.store.data.as_path());
    let runners = runners::all(config, doors.options().outbound.clone(), data)?;
    let knows = match config.runners.run {
        true => Arc::clone(&runners),
        false => runners::elsewhere(doors.options().outbound.clone()),
    };
    doors.api().check_handlers(move |handler| knows.check(handler));
    let prepared = crore_doors::jobworkerp::prepare(&doors).await;
    prepared.map_err(|fault| {
        let problem = fault.problem();
        let what = problem.field.as_deref().unwrap_or_default();
        Failure::new(
            Why::Usage,
            format!("the Slack worker of jobworkerp: {what}: {}", problem.detail),
        )
    })?;
    for kind in engine.handlers().unreadable().await? {
        tracing::warn!(%kind, "its handler cannot be read, so nobody runs its jobs: set it anew, or remove it");
    }
    if config.runners.run {
        let (doors, config) = (doors.clone(), config.clone());
        tokio::spawn(async move { runners::within(doors, runners, &config).await });
    }
    let closing = Closing::new();
    let mut listeners = JoinSet::new();
    for one in bound {
        let options = config.listen.connections.clone();
        let listener = match &tls {
            Some(tls) => Listener::secure(one.listener, tls.clone()),
            None => one.listener.into(),
        };
        listeners.spawn(listen::serve(listener, doors.served(), options, closing.closed()));
    }
    let mut ended = async || {
        while let Some(ended) = listeners.join_next().await {
            report(ended);
        }
    };
    let mut fate = JoinSet::new();
    let living = engine.clone();
    fate.spawn(async move { living.status().gave_up().await });
    let signal = loop {
        tokio::select! {
            told = signals.told() => match told {
                Told::Stop(signal) => break signal,
                Told::LookAgain => look_again(tls.as_ref()).await,
            },
            Some(Ok(why)) = fate.join_next() => return Err(drain::give_up(&why, &mut signals).await),
            () = ended() => anyhow::bail!("every listener has ended"),
        }
    };
    tracing::info!(signal, drain_for = %config.listen.drain_for, "told to stop: letting workers finish");
    tokio::select! {
        drained = drain::drain(&doors, &closing, config.listen.drain_for, ended()) => drained?,
        Some(Ok(why)) = fate.join_next() => return Err(drain::give_up(&why, &mut signals).await),
        signal = signals.next() => drain::leave(signal, engine.clone()).await,
    }
    if let Some(exporter) = exporter {
        exporter.finish().await;
    }
    tracing::info!("stopped");
    Ok(())
}

/// Reads again what may have changed.
async fn look_again(tls: Option<&Tls>) {
    tracing::info!("told by HUP to look again at the files of the certificate");
    if let Some(tls) = tls {
        tls.look_again().await;
    }
}

/// The certificates of the authorities in a file.
pub(crate) fn trusted(path: Option<&Path>) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let Some(path) = path else { return Ok(Vec::new()) };
    let wrong = |why: String| {
        Failure::new(Why::Usage, format!("`outbound.ca`: `{}` {why}", path.display()))
    };
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| wrong(format!("cannot be read: {error}")))?;
    if found.is_empty() {
        return Err(wrong("holds no certificate in PEM".to_owned()).into());
    }
    Ok(found)
}

fn report(ended: Result<Result<(), listen::Error>, tokio::task::JoinError>) {
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%error, "a listener failed"),
        Err(error) => tracing::error!(%error, "a listener was lost"),
    }
}

/// Refuses to listen where callers are not known, and warns of what whoever starts it should know.
async fn may_listen(
    engine: &Engine,
    config: &Config,
    tls: Option<&Tls>,
    bound: &[Bound],
) -> anyhow::Result<()> {
    let has_token = access::exist(engine).await?;
    let protection = tls.map_or(Protection::Plain, Tls::protection);
    for one in bound {
        let may = access::may_listen(one.address, has_token, protection, config.listen.insecure);
        let warnings = may.map_err(|refusal| Failure::new(Why::Usage, refusal.to_string()))?;
        for warning in warnings {
            tracing::warn!("{warning}");
        }
    }
    Ok(())
}
